"""Images with one small file, for a machine of any architecture."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile

from tests.docker.bench_yard import Host


def loaded(host: Host, architecture: str, note: str) -> str:
    """The name of an image with one small file, for a machine of some architecture."""
    name = f"opsctl-test-{architecture}:{note}"
    host.engine.api.load_image(_archive(name, architecture, note))
    return name


def parts(architecture: str, note: str) -> tuple[bytes, bytes]:
    """Configuration and only layer (uncompressed) of such an image."""
    layer = _tar({"note": note.encode()})
    config = {
        "architecture": architecture, "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }  # fmt: skip
    return json.dumps(config).encode(), layer


def _archive(name: str, architecture: str, note: str) -> bytes:
    """As `docker save` writes it."""
    config, layer = parts(architecture, note)
    manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
    return _tar(
        {
            "config.json": config,
            "layer.tar": layer,
            "manifest.json": json.dumps(manifest).encode(),
        }
    )


def _tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()
