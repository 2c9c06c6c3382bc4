"""Images made of given files, as a registry or an engine has them, without building one."""

from __future__ import annotations

import contextlib
import hashlib
import io
import tarfile
from collections.abc import Iterator
from typing import IO, Any

from opsctl.images.layers import Image


def archive(files: dict[str, bytes], *, compressed: bool = False) -> bytes:
    """A layer's archive. Names that start with `.wh.` in their last part take files away."""
    made = io.BytesIO()
    mode = "w:gz" if compressed else "w"
    with tarfile.open(fileobj=made, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return made.getvalue()


def sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class MadeImage(Image):
    """An image of layers, each a dictionary of files."""

    def __init__(self, *layers: dict[str, bytes], **config: Any) -> None:
        self._archives = [archive(files, compressed=True) for files in layers]
        self.layers = tuple(sha256(data) for data in self._archives)
        self.sizes = tuple(map(len, self._archives))
        self.config = {"architecture": "amd64", "os": "linux", "config": config}
        self.digest = sha256(b"".join(self._archives))
        self.opened: list[int] = []

    @contextlib.contextmanager
    def open_layer(self, index: int) -> Iterator[IO[bytes]]:
        self.opened.append(index)
        yield io.BytesIO(self._archives[index])
