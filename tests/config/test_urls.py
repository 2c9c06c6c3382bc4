"""A URL that opsctl.yaml may name is one that the HTTP client sends a request to."""

from __future__ import annotations

from urllib.parse import urlsplit

import hypothesis
import pytest
import requests
from hypothesis import example, given
from hypothesis import strategies as st

from opsctl.config.urls import url_problem

GOOD = [
    "http://x",
    "https://chat.example/hooks/1?a=b#c",
    "http://127.0.0.1:1/",
    "http://[::1]:65535/hook",
    "http://my_chat:8080",
    "https://me:p%40ss@chat.example./x",
    "http://xn--bcher-kva.example/",
]
BAD = {
    "http://[::1": "allowed: http://HOST or http://HOST:PORT, and a path",
    "http://[::g]/": "[::g] is no IPv6 address",
    "http://[fe80::1%eth0]/": "[fe80::1%eth0] is no IPv6 address",
    "http://[127.0.0.1]/": "[127.0.0.1] is no IPv6 address",
    "http://127.0.0.1:99999/": "port 99999 is none: 1 to 65535",
    "http://127.0.0.1:0/": "port 0 is none: 1 to 65535",
    "http://x:/": "port (empty) is none: 1 to 65535",
    "http://x:8o/": "allowed: http://HOST or http://HOST:PORT, and a path",
    "http://": '"" is no host',
    "http:///path": '"" is no host',
    "http://.x/": '".x" is no host',
    "http://a..b/": '"a..b" is no host',
    "http://*.x/": '"*.x" is no host',
    "http://a\\b/": '"a\\b" is no host',
    f"http://{'a' * 64}/": f'"{"a" * 64}" is no host',
    "http://1.2.3.400/": '"1.2.3.400" is no IPv4 address',
    "http://a b/": "allowed: printable ASCII without spaces (other characters as %XX,"
    " hosts as xn--…)",
    "http://bücher.example/": "allowed: printable ASCII without spaces (other characters as %XX,"
    " hosts as xn--…)",
    "ftp://x": "allowed: http://… or https://…",
    "x": "allowed: http://… or https://…",
    "": "allowed: http://… or https://…",
}


@pytest.mark.parametrize("url", GOOD)
def test_what_a_request_can_be_sent_to_is_taken(url: str) -> None:
    assert url_problem(url) == ""
    assert requests.Request("POST", url).prepare().url


@pytest.mark.parametrize("url", BAD)
def test_what_names_no_host_or_port_is_refused_with_the_reason(url: str) -> None:
    assert url_problem(url) == BAD[url]


def test_files_and_credentials_are_taken_where_they_belong() -> None:
    assert url_problem("file:///srv/wheels", schemes=("http", "file")) == ""
    assert url_problem("file://srv", schemes=("http", "file")) == "allowed: file:///PATH"
    assert url_problem("http://me@x") == ""
    assert url_problem("http://me@x", credentials_in="token") == (
        "allowed: no name and password in it; they belong in `token`"
    )


PARTS = st.sampled_from([*"[]:@/?#.%-_~\\*!$&'()+,;=|^`{}<>\" 019afz", "::1", "xn--", "127.0.0.1"])


@hypothesis.settings(deadline=None)
@given(st.sampled_from(["http://", "https://"]), st.lists(PARTS, max_size=12).map("".join))
@example("http://", "[::1")
@example("http://", "@[::1]")
@example("https://", "a:b:c@d:1")
def test_no_url_that_is_taken_surprises_the_client(scheme: str, rest: str) -> None:
    url = scheme + rest
    if url_problem(url):
        return
    split = urlsplit(url)
    assert split.hostname
    assert split.port is None or 0 < split.port < 65536
    prepared = requests.Request("POST", url).prepare()
    adapter = requests.Session().get_adapter(prepared.url or "")
    assert isinstance(adapter, requests.adapters.HTTPAdapter)
    adapter.get_connection_with_tls_context(prepared, verify=True)
