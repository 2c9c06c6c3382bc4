"""Looking for secrets in an image: its history, variables, labels, and each file of each layer.

A file that a later layer removed still stands in its own.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator, Mapping
from typing import IO

from opsctl.errors import BuildFailed
from opsctl.images.layers import Image
from opsctl.redact import SHORTEST_LINE, spellings_of

CHUNK_BYTES = 4 << 20
PRIVATE_KEY = re.compile(rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----\r?\n[A-Za-z0-9+/=\r\n]{64}")
"""With a body: the words alone stand in many programs and manuals."""

ACCOUNT_FILES = re.compile(
    r"(?:^|/)(?:\.netrc|\.pypirc|\.git-credentials|\.docker/config\.json|id_(?:rsa|ed25519|ecdsa)|"
    r"\.aws/credentials|cosign\.key)$"
)
KEY_OVERLAP = 256
"""Bytes that two chunks share, at least: nothing hides across their edge."""


def find_secrets(image: Image, secrets: Mapping[str, str]) -> list[str]:
    """Where a secret stands, by name and never by value. Raises BuildFailed for a broken layer."""
    needles = {
        spelling.encode(): name
        for name, value in secrets.items()
        if len(value) >= SHORTEST_LINE
        for spelling in spellings_of(value)
    }
    found = [
        f"configuration of the image: {what}"
        for what in _in_bytes(json.dumps(image.config).encode(), needles)
    ]
    for index, digest in enumerate(image.layers):
        try:
            with image.open_layer(index) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
                found += [f"layer {digest[7:19]}: {where}" for where in _in_layer(archive, needles)]
        except (tarfile.TarError, EOFError, OSError) as error:
            raise BuildFailed(
                f"layer {digest[:19]} can't be read",
                why=str(error),
                next_step="Build the image again: opsctl build --rebuild",
            ) from error
    return found


def _in_layer(archive: tarfile.TarFile, needles: Mapping[bytes, str]) -> Iterator[str]:
    for member in archive:
        if ACCOUNT_FILES.search(member.name):
            yield f"{member.name}: a file of credentials"
        if not member.isfile():
            continue
        file = archive.extractfile(member)
        assert file is not None
        for what in _in_file(file, needles):
            yield f"{member.name}: {what}"


def _in_file(file: IO[bytes], needles: Mapping[bytes, str]) -> Iterator[str]:
    overlap = max([KEY_OVERLAP, *map(len, needles)])
    before = b""
    said: set[str] = set()
    binary = False
    while chunk := file.read(CHUNK_BYTES):
        # Libraries of TLS hold keys for their own tests, which open nothing.
        binary = binary or b"\0" in chunk
        found = [*_in_bytes(before + chunk, needles), *([] if binary else _keys(before + chunk))]
        for what in found:
            if what not in said:
                said.add(what)
                yield what
        before = chunk[-overlap:]


def _in_bytes(data: bytes, needles: Mapping[bytes, str]) -> Iterator[str]:
    names = {name for needle, name in needles.items() if needle in data}
    yield from (f"the value of secret {name}" for name in sorted(names))


def _keys(data: bytes) -> Iterator[str]:
    if PRIVATE_KEY.search(data):
        yield "a private key"
