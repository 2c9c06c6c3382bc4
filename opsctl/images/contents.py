"""What stands in an image's files: its packages, and programs that only a builder needs.

A layer never changes, so what was found in one is kept by its digest, and only new ones are read.
"""

from __future__ import annotations

import json
import posixpath
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsctl.errors import BuildFailed
from opsctl.files import write_atomically
from opsctl.images.layers import Image
from opsctl.model import Json

FORMAT = 1
KEPT_MAX_BYTES = 16 << 20
"""A file of package data that is longer is none."""

PROGRAM_FOLDERS = ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin", "usr/local/sbin",
                   "opt/venv/bin")  # fmt: skip
BUILD_TOOLS = frozenset(
    ("as", "bazel", "c++", "cc", "ccache", "clang", "clang++", "cmake", "g++", "gcc", "git", "go",
     "ld", "make", "ninja", "pip", "pip3", "rustc")
)  # fmt: skip
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"


@dataclass
class Layer:
    """One layer's part: files of package data by path, programs, and what it takes away."""

    kept: dict[str, str] = field(default_factory=dict)
    programs: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    bytes: int = 0


@dataclass(frozen=True)
class Contents:
    """The whole image: package data, programs, and the bytes of its files, unpacked."""

    kept: dict[str, str]
    programs: frozenset[str]
    bytes: int

    @property
    def build_tools(self) -> list[str]:
        """Paths of compilers and their like."""
        return sorted(p for p in self.programs if posixpath.basename(p) in BUILD_TOOLS)


def read_contents(image: Image, cache: Path) -> Contents:
    """What the image holds, layer upon layer. Raises BuildFailed for an archive that is broken."""
    kept: dict[str, str] = {}
    programs: set[str] = set()
    total = 0
    for index in range(len(image.layers)):
        layer = _layer(image, index, cache)
        for path in layer.removed:
            kept = {name: text for name, text in kept.items() if not _below(name, path)}
            programs = {name for name in programs if not _below(name, path)}
        kept |= layer.kept
        programs |= set(layer.programs)
        total += layer.bytes
    return Contents(kept, frozenset(programs), total)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/") or not folder


def _layer(image: Image, index: int, cache: Path) -> Layer:
    path = cache / f"{image.layers[index].removeprefix('sha256:')}.json"
    try:
        data: Json = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("format") == FORMAT:
            return Layer(**data)
    except (OSError, ValueError, TypeError, KeyError):
        pass  # not read yet, or by an older opsctl
    layer = _read_layer(image, index)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps({"format": FORMAT, **layer.__dict__}))
    except OSError:
        pass  # it only saves time
    return layer


def _read_layer(image: Image, index: int) -> Layer:
    layer = Layer()
    try:
        with image.open_layer(index) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
            for member in archive:
                _take(layer, archive, member)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise BuildFailed(
            f"layer {image.layers[index][:19]} can't be read",
            why=str(error),
            next_step="Build the image again: opsctl build --rebuild",
        ) from error
    return layer


def _take(layer: Layer, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    path = member.name.removeprefix("./").strip("/")
    folder, name = posixpath.split(path)
    if name == OPAQUE:
        layer.removed.append(folder)
    elif name.startswith(WHITEOUT):
        layer.removed.append(posixpath.join(folder, name.removeprefix(WHITEOUT)))
    elif folder in PROGRAM_FOLDERS and not member.isdir():
        layer.programs.append(path)
    if member.isfile():
        layer.bytes += member.size
        if _is_package_data(path) and member.size <= KEPT_MAX_BYTES:
            layer.kept[path] = _text(archive, member, path)


def _is_package_data(path: str) -> bool:
    return (
        path in ("var/lib/dpkg/status", "etc/os-release", "usr/lib/os-release")
        or path.startswith("var/lib/dpkg/status.d/")
        or path.endswith((".dist-info/METADATA", "/ascend_ops/build_record.json"))
    )


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> str:
    file: Any = archive.extractfile(member)
    text: str = file.read().decode(errors="replace")
    # A package's long description is no part of what anybody asks.
    return text.split("\n\n", 1)[0] if path.endswith("/METADATA") else text
