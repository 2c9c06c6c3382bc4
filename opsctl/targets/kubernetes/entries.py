"""How an entry of a service's state lies in ConfigMaps: in parts that fit, packed when closed."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from opsctl.model import Json
from opsctl.targets.kubernetes.names import FOLDER, PATH, STATE_PART, Names

PART_MAX_BYTES = 700_000
"""A ConfigMap may have 1 MiB; what base64 and the object's own fields add must fit in as well."""

KEY = "entry"
PART_NUMBER = "opsctl/part-number"
SEALED = "opsctl/sealed"
"""A part that the next one has followed: nothing is appended to it any more."""


@dataclass(frozen=True)
class Entry:
    """The parts of one entry, in order."""

    parts: tuple[Json, ...]

    @property
    def identity(self) -> str:
        """Another one: it is not the entry that was read before."""
        return str(self.parts[0]["metadata"]["uid"])

    @property
    def data(self) -> bytes:
        """The content."""
        return b"".join(content(part) for part in self.parts)


def content(part: Json) -> bytes:
    """What a part holds."""
    packed = part.get("binaryData", {}).get(KEY)
    if packed is not None:
        data = base64.b64decode(packed)
        return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return str(part.get("data", {}).get(KEY, "")).encode()


def path_of(part: Json) -> str:
    """The entry that an object is a part of; empty for another object."""
    return str(part["metadata"].get("annotations", {}).get(PATH, ""))


def number_of(part: Json) -> int:
    """Which part of it."""
    return int(part["metadata"]["annotations"].get(PART_NUMBER, "0"))


def sealed(part: Json) -> bool:
    """Whether another part follows it."""
    return SEALED in part["metadata"]["annotations"]


def by_path(objects: Iterable[Json]) -> dict[str, Entry]:
    """The entries that objects make, by path."""
    found: dict[str, list[Json]] = {}
    for one in objects:
        if path := path_of(one):
            found.setdefault(path, []).append(one)
    return {path: Entry(tuple(sorted(parts, key=number_of))) for path, parts in found.items()}


def part_of(names: Names, path: str, number: int, data: bytes) -> Json:
    """A new part as an object."""
    folder = path.rpartition("/")[0].replace("/", ".")[:63].strip("-._")
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": names.entry(path, number),
            "namespace": names.namespace,
            "labels": {**names.labels(STATE_PART), FOLDER: folder},
            "annotations": {PATH: path, PART_NUMBER: str(number)},
        },
        **holding(data),
    }


def holding(data: bytes) -> Json:
    """The fields of an object that holds `data`: readable when it is text."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return packed(data)
    return {"data": {KEY: text}}


def packed(data: bytes) -> Json:
    """The fields of an object that holds `data` in less room; equal data, equal fields."""
    return {"binaryData": {KEY: base64.b64encode(gzip.compress(data, mtime=0)).decode()}}


def slices(data: bytes) -> Sequence[bytes]:
    """`data` in pieces that fit a part each; one at least."""
    steps = range(0, max(1, len(data)), PART_MAX_BYTES)
    return [data[start : start + PART_MAX_BYTES] for start in steps]
