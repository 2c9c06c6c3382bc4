"""An image's configuration and layers, from its registry or, when it is there only, the engine."""

from __future__ import annotations

import contextlib
import json
import tarfile
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from opsctl.errors import BuildFailed
from opsctl.images.engine import docker, image_id
from opsctl.images.reference import parse
from opsctl.images.registry import Registry
from opsctl.model import Json

SAVE_TIMEOUT_S = 600.0


class Image(ABC):
    """One image. `digest` names it, `layers` are digests from the base up."""

    digest: str
    config: Json
    layers: tuple[str, ...]
    sizes: tuple[int, ...]
    """Bytes of each layer as it is stored: compressed in a registry, plain in an engine."""

    @abstractmethod
    def open_layer(self, index: int) -> contextlib.AbstractContextManager[IO[bytes]]:
        """The layer's archive, as it is stored."""

    @property
    def labels(self) -> dict[str, str]:
        return self.config.get("config", {}).get("Labels") or {}

    @property
    def environment(self) -> dict[str, str]:
        entries = self.config.get("config", {}).get("Env") or []
        return dict(entry.partition("=")[::2] for entry in entries)


@contextlib.contextmanager
def open_image(name: str) -> Iterator[Image]:
    """The image of a name, tag, digest or engine's ID. Raises BuildFailed when nobody has it."""
    with tempfile.TemporaryDirectory(prefix="opsctl-layers-") as folder:
        if name.startswith("sha256:") or "/" not in name:
            yield _SavedImage(name, Path(folder))
            return
        try:
            yield _RegistryImage(name, Path(folder))
            return
        except BuildFailed:
            if image_id(name) is None:
                raise
        yield _SavedImage(name, Path(folder))


class _RegistryImage(Image):
    def __init__(self, name: str, folder: Path) -> None:
        reference = parse(name)
        self._registry = Registry(reference)
        self._folder = folder
        digest = reference.digest or self._registry.digest_of(reference.tag or "latest")
        if digest is None:
            raise BuildFailed(f"{name} is not in its registry", next_step="Build it: opsctl build")
        manifest = self._registry.manifest(digest)
        self.digest = digest
        self.config = self._registry.json_blob(manifest["config"]["digest"])
        self.layers = tuple(layer["digest"] for layer in manifest["layers"])
        self.sizes = tuple(layer["size"] for layer in manifest["layers"])

    @contextlib.contextmanager
    def open_layer(self, index: int) -> Iterator[IO[bytes]]:
        path = self._folder / f"layer-{index}"
        self._registry.save_blob(self.layers[index], path)
        try:
            with path.open("rb") as file:
                yield file
        finally:
            path.unlink()


class _SavedImage(Image):
    """What `docker save` writes: manifest.json names the configuration and each layer's archive."""

    def __init__(self, name: str, folder: Path) -> None:
        path = folder / "image.tar"
        saved = docker("image", "save", "--output", str(path), name, timeout_s=SAVE_TIMEOUT_S)
        if not saved.ok:
            raise BuildFailed(
                f"the engine does not give image {name}",
                why=saved.why,
                next_step="Build it (opsctl build), or pull it, then run the same again",
            )
        self.digest = image_id(name) or ""
        self._archive = tarfile.open(path)  # noqa: SIM115  # closed with its folder
        manifest = json.loads(self._read("manifest.json"))[0]
        self.config = json.loads(self._read(manifest["Config"]))
        self._members: list[str] = manifest["Layers"]
        self.layers = tuple(self.config["rootfs"]["diff_ids"])
        self.sizes = tuple(self._archive.getmember(name).size for name in self._members)

    @contextlib.contextmanager
    def open_layer(self, index: int) -> Iterator[IO[bytes]]:
        file = self._archive.extractfile(self._members[index])
        assert file is not None
        with file:
            yield file

    def _read(self, name: str) -> bytes:
        file = self._archive.extractfile(name)
        assert file is not None
        return file.read()
