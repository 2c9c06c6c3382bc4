"""Secrets out of everything that people or files get to see.

By value (`Redactor`): each secret's value, in every spelling in which it usually leaks. By name
(`hide_by_name`): values of keys that look like credentials, for `config show`, where opsctl does
not know the values.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

MASK = "***"

SHORTEST = 4
"""Characters; a shorter value stands in too many innocent words to be replaced."""

SHORTEST_LINE = 8
"""Characters of one line of a multi-line secret that is replaced on its own, as logs show it."""

SHORTEST_INSIDE = 6
"""Base64 characters that must be certain before a value inside longer base64 counts as found."""

_CREDENTIAL = re.compile(
    r"passw|passphrase|secret|token|credential|api[-_]?key|access[-_]?key|private[-_]?key"
    r"|authorization|cookie",
    re.IGNORECASE,
)
_FILE_KEYS = ("private_key",)
"""Keys of opsctl.yaml that look like credentials but name a file."""

_URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^/\s@]+(@)")


class Redactor:
    """Replaces the values of `secrets` (by name) with `***` in text and JSON.

    Found as they are, line by line, and in base64 (also inside longer base64, as in a basic
    authorization header), URL, JSON (also twice) and Python `repr` spelling.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.secrets = dict(secrets)
        self._short = tuple(sorted(n for n, v in secrets.items() if 0 < len(v) < SHORTEST))
        spellings: set[str] = set()
        for value in secrets.values():
            if len(value) >= SHORTEST:
                spellings.update(spellings_of(value))
        # Longest first: a spelling that holds a shorter one must win.
        ordered = sorted(spellings, key=lambda text: (-len(text), text))
        self._pattern = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._values = {value for value in secrets.values() if len(value) >= SHORTEST}

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each secret that is too short to be replaced."""
        return tuple(
            f"secret {name} is shorter than {SHORTEST} characters and is not redacted"
            for name in self._short
        )

    def text(self, text: str) -> str:
        """`text` without secrets."""
        return self._pattern.sub(MASK, text) if self._pattern else text

    def json(self, value: Any) -> Any:
        """A JSON value without secrets: in strings, keys, and numbers that are a secret."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.json(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.json(item) for item in value]
        if isinstance(value, (int, float)) and str(value) in self._values:
            return MASK
        return value


def hide_by_name(value: Any, key: str = "") -> Any:
    """A JSON value in which scalars under credential-like keys, and passwords in URLs, are `***`.

    Maps under such keys stay readable: in opsctl.yaml they say where a secret comes from.
    """
    if isinstance(value, Mapping):
        return {name: hide_by_name(item, str(name)) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide_by_name(item, key) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if key not in _FILE_KEYS and _CREDENTIAL.search(key):
        return MASK
    return _URL_PASSWORD.sub(rf"\1{MASK}\2", value) if isinstance(value, str) else value


def spellings_of(value: str) -> Iterator[str]:
    """Every spelling of a secret's value in which it usually leaks."""
    for text in _pieces(value):
        yield text
        yield quote(text, safe="")
        yield quote(text)
        yield quote_plus(text)
        for ascii_only in (True, False):
            once = json.dumps(text, ensure_ascii=ascii_only)[1:-1]
            yield once
            yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
        yield repr(text)[1:-1]
        yield repr(text.encode())[2:-1]
    yield from _base64_spellings(value.encode())


def _pieces(value: str) -> Iterator[str]:
    yield value
    if "\n" in value:
        for line in value.splitlines():
            # Frames of PEM files are the same everywhere: no secret, and useful in a message.
            if len(line) >= SHORTEST_LINE and not line.startswith("-----"):
                yield line


def _base64_spellings(value: bytes) -> Iterator[str]:
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        whole = encode(value).decode()
        yield whole
        yield whole.rstrip("=")
        for before in range(3):
            # Characters that share bits with unknown neighbours on either side are left out.
            encoded = encode(b"\0" * before + value).decode()
            first = (0, 2, 3)[before]
            unsure = (0, 3, 2)[(before + len(value)) % 3]
            inside = encoded[first : len(encoded) - unsure]
            if len(inside) >= SHORTEST_INSIDE:
                yield inside
