"""No spelling of a secret gets past the redactor."""

from __future__ import annotations

import base64
import json
import urllib.parse
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from opsctl.redact import Redactor, hide_by_name

SECRET = 'pä$$ "w0rd"/\\+ é'

SPELLINGS: dict[str, Callable[[str], str]] = {
    "as it is": str,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for URLs": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 without padding": lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
    "URL path": urllib.parse.quote,
    "URL parameter": lambda text: urllib.parse.quote(text, safe=""),
    "form": urllib.parse.quote_plus,
    "JSON": json.dumps,
    "JSON in UTF-8": lambda text: json.dumps(text, ensure_ascii=False),
    "JSON in JSON": lambda text: json.dumps(json.dumps(text)),
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_secret_is_replaced_in_every_spelling(spelling: str) -> None:
    spelled = SPELLINGS[spelling](SECRET)
    clean = Redactor({"PASSWORD": SECRET}).text(f"before {spelled} after")
    assert clean.startswith("before ")
    assert clean.endswith(" after")
    assert clean.strip("beforat \"'\\=") in ("***", "b'***")


@given(
    secret=st.text(min_size=8, max_size=40).filter(lambda text: "\n" not in text),
    before=st.text(max_size=9),
    after=st.text(max_size=9),
)
def test_a_secret_is_found_inside_longer_base64(secret: str, before: str, after: str) -> None:
    encoded = base64.b64encode(f"{before}{secret}{after}".encode()).decode()
    clean = Redactor({"S": secret}).text(encoded)
    assert "***" in clean
    for shift in range(4):
        kept = clean.split("***")[0][shift:]
        kept = kept[: len(kept) // 4 * 4]
        assert secret.encode() not in base64.b64decode(kept)


def test_a_basic_authorization_header_does_not_show_the_password() -> None:
    # RFC 7617, section 2: the user-id "Aladdin" and the password "open sesame".
    clean = Redactor({"PASSWORD": "open sesame"}).text("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    # The last character shares 4 of its 6 bits with what could stand behind the password.
    assert clean == "Basic QWxhZGRpbjp***Q=="


def test_nested_json_is_clean_in_values_keys_and_numbers() -> None:
    redactor = Redactor({"PIN": "73519", "KEY": "swordfish"})
    found = redactor.json({"a": ["x swordfish", 73519, 73.519], "swordfish": {"ok": None}})
    assert found == {"a": ["x ***", "***", 73.519], "***": {"ok": None}}


def test_each_line_of_a_long_secret_is_replaced_but_not_its_frame() -> None:
    key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQ\n-----END PRIVATE KEY-----"
    redactor = Redactor({"KEY": key})
    assert redactor.text("log: kqhkiG9w0BAQ") == "log: ***"
    assert redactor.text("-----BEGIN PRIVATE KEY-----") == "-----BEGIN PRIVATE KEY-----"


def test_a_longer_secret_wins_over_a_shorter_one_inside_it() -> None:
    assert Redactor({"A": "abcd", "B": "xxabcdyy"}).text("xxabcdyy abcd") == "*** ***"


def test_a_short_secret_is_not_replaced_but_told() -> None:
    redactor = Redactor({"PIN": "123", "EMPTY": "", "KEY": "long enough"})
    assert redactor.text("123") == "123"
    assert redactor.warnings == ("secret PIN is shorter than 4 characters and is not redacted",)


def test_without_secrets_nothing_changes() -> None:
    assert Redactor({}).text("*** stays") == "*** stays"


def test_config_show_hides_what_is_called_like_a_credential() -> None:
    shown = hide_by_name(
        {
            "env": {"API_TOKEN": "t0p", "DB_PASSWORD": "hush", "LOG_LEVEL": "info", "apiKey": 7},
            "secrets": {"DB_PASSWORD": {"env": "DB_PASSWORD_SOURCE"}},
            "tls": {"certificate": "tls/cert.pem", "private_key": "tls/key.pem"},
            "headers": {"Authorization": "Bearer t0p", "Accept": "application/json"},
            "url": "https://user:hush@chat.example/hooks",
            "tokens": ["t0p", "t1p"],
            "token_check": True,
        }
    )
    assert shown == {
        "env": {"API_TOKEN": "***", "DB_PASSWORD": "***", "LOG_LEVEL": "info", "apiKey": "***"},
        "secrets": {"DB_PASSWORD": {"env": "DB_PASSWORD_SOURCE"}},
        "tls": {"certificate": "tls/cert.pem", "private_key": "tls/key.pem"},
        "headers": {"Authorization": "***", "Accept": "application/json"},
        "url": "https://user:***@chat.example/hooks",
        "tokens": ["***", "***"],
        "token_check": True,
    }
