"""Model artefacts in their volume on the Docker host: by content, sent once."""

from __future__ import annotations

import os
import tarfile
import threading
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from opsctl.content import READ_ONLY, READ_ONLY_EXECUTABLE, scan
from opsctl.errors import BuildFailed
from opsctl.release import ModelArtefact
from opsctl.release_sources import ModelSource
from opsctl.targets.docker.names import MODELS_DIR

if TYPE_CHECKING:
    from opsctl.targets.docker.target import DockerTarget

MEGABYTE = 1 << 20
OWNER = 10001
VERIFY_TIMEOUT_S = 600.0
"""The agent reads the whole model once."""


def keep(
    target: DockerTarget,
    source: ModelSource,
    tell: Callable[[str], None],
    interrupt: Callable[[], None],
) -> ModelArtefact:
    """The model's copy on the host, sent when it isn't there. Raises BuildFailed."""
    path = f"{MODELS_DIR}/{source.digest}/{source.leaf}"
    if source.digest not in target.call({"call": "models", "verb": "list"})["digests"]:
        tell(f"sending model {source.name} ({source.bytes / MEGABYTE:.1f} MB)")
        folder = target.call({"call": "models", "verb": "begin", "digest": source.digest})["folder"]
        _send(target, source, folder, interrupt)
        _finish(target, source)
    return ModelArtefact(source.name, source.digest, path, str(source.source))


def prune(target: DockerTarget, needed: Collection[str]) -> None:
    """Remove the models that no release needs."""
    target.call({"call": "models", "verb": "prune", "keep": sorted(needed)})


def _send(
    target: DockerTarget, source: ModelSource, folder: str, interrupt: Callable[[], None]
) -> None:
    """Send it as one tar stream, which nobody keeps on a disk in between."""
    reading, writing = os.pipe()
    failed: list[BaseException] = []

    def pack() -> None:
        try:
            with os.fdopen(writing, "wb") as pipe, tarfile.open(fileobj=pipe, mode="w|") as archive:
                _pack(source, archive, interrupt)
        except BaseException as error:  # noqa: BLE001  (raised again where it can be seen)
            failed.append(error)

    packer = threading.Thread(target=pack, daemon=True)
    packer.start()
    try:
        with os.fdopen(reading, "rb") as stream, target.engine.lasting("cannot send it") as api:
            api.put_archive(target.names.agent, folder, stream)
    except Exception:
        packer.join()
        if failed and not isinstance(failed[0], BrokenPipeError):
            raise failed[0] from None
        raise
    packer.join()
    if failed:
        raise failed[0]


def _pack(source: ModelSource, archive: tarfile.TarFile, interrupt: Callable[[], None]) -> None:
    if source.directory:
        archive.addfile(_folder(source.leaf))
    for entry in scan(source.source, source.rules):
        interrupt()
        name = f"{source.leaf}/{entry.path}" if source.directory else entry.path
        if entry.directory:
            archive.addfile(_folder(name))
            continue
        info = _owned(tarfile.TarInfo(name))
        info.size = entry.size
        info.mode = READ_ONLY_EXECUTABLE if entry.executable else READ_ONLY
        with entry.source.open("rb") as file:
            archive.addfile(info, file)


def _folder(name: str) -> tarfile.TarInfo:
    info = _owned(tarfile.TarInfo(name))
    info.type, info.mode = tarfile.DIRTYPE, 0o755
    return info


def _owned(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = OWNER
    return info


def _finish(target: DockerTarget, source: ModelSource) -> None:
    """Have the agent compare what came with what was hashed, and put it in its place."""
    answer = target.call(
        {
            "call": "models", "verb": "finish", "digest": source.digest,
            "name": source.leaf if source.directory else source.source.name,
            "leaf": source.leaf, "manifest": source.manifest_digest,
        },
        VERIFY_TIMEOUT_S,
    )  # fmt: skip
    if not answer["same"]:
        raise BuildFailed(
            f"model {source.source} changed while it was sent",
            next_step="Wait until the model is written, then run the same again",
        )
