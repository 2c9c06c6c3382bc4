"""Secrets are found wherever they hide in an image, and never shown."""

from __future__ import annotations

import base64

import pytest

from opsctl.images.secret_scan import CHUNK_BYTES, find_secrets
from tests.images.layouts import MadeImage

VALUE = "hunter2-is-no-password"
SECRETS = {"TOKEN": VALUE}
KEY = b"-----BEGIN PRIVATE KEY-----\n" + b"MIIEvgIBADANBgkqhkiG9w0BAQEFAASCBKgwggSkAgEAAoIBAQC" * 2


def short(image: MadeImage, index: int) -> str:
    return image.layers[index][7:19]


@pytest.mark.parametrize(
    "text",
    [VALUE, f"x={VALUE};", base64.b64encode(f"user:{VALUE}".encode()).decode()],
    ids=["as it is", "inside", "in a login"],
)
def test_a_value_in_a_file_is_found(text: str) -> None:
    image = MadeImage({"etc/app.conf": text.encode()})
    assert find_secrets(image, SECRETS) == [
        f"layer {short(image, 0)}: etc/app.conf: the value of secret TOKEN"
    ]


def test_a_file_that_a_later_layer_removed_is_still_found() -> None:
    image = MadeImage({"root/pip.conf": VALUE.encode()}, {"root/.wh.pip.conf": b""})
    assert find_secrets(image, SECRETS) == [
        f"layer {short(image, 0)}: root/pip.conf: the value of secret TOKEN"
    ]


def test_a_value_in_a_variable_a_label_or_the_history_is_found() -> None:
    for config in ({"Env": [f"TOKEN={VALUE}"]}, {"Labels": {"a": VALUE}}):
        assert find_secrets(MadeImage(**config), SECRETS) == [
            "configuration of the image: the value of secret TOKEN"
        ]
    image = MadeImage()
    image.config["history"] = [{"created_by": f"RUN login {VALUE}"}]
    assert len(find_secrets(image, SECRETS)) == 1


def test_a_value_across_the_edge_of_two_chunks_is_found() -> None:
    data = b"a" * (CHUNK_BYTES - 5) + VALUE.encode() + b"b" * 10
    assert len(find_secrets(MadeImage({"big": data}), SECRETS)) == 1


def test_private_keys_and_files_of_credentials_are_found_without_knowing_them() -> None:
    image = MadeImage({"srv/tls.pem": KEY, "root/.netrc": b"", "root/.docker/config.json": b"{}"})
    assert find_secrets(image, {}) == [
        f"layer {short(image, 0)}: srv/tls.pem: a private key",
        f"layer {short(image, 0)}: root/.netrc: a file of credentials",
        f"layer {short(image, 0)}: root/.docker/config.json: a file of credentials",
    ]


def test_a_program_that_knows_the_words_of_a_key_is_no_key() -> None:
    image = MadeImage({"usr/lib/libssl.so": b"-----BEGIN PRIVATE KEY-----\0-----END PRIVATE KEY"})
    assert find_secrets(image, SECRETS) == []


def test_a_key_for_the_tests_of_a_library_is_no_finding() -> None:
    image = MadeImage({"usr/lib/libgnutls.so": b"\x7fELF\0" + KEY})
    assert find_secrets(image, {}) == []


def test_no_finding_shows_the_value() -> None:
    found = find_secrets(MadeImage({VALUE[:3]: VALUE.encode()}, Env=[VALUE]), SECRETS)
    assert found and not any(VALUE in line for line in found)
