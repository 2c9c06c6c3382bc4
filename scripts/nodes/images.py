"""Container images without dockerd: a folder becomes an image in the cluster's registry."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import platform
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIGURATION = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Image:
    """A repository and tag, with what it holds and runs."""

    name: str
    tag: str
    folder: Path
    entrypoint: Sequence[str]
    user: str = "65532:65532"
    environment: Sequence[str] = ()


def push(image: Image, registry: str) -> str:
    """Put it into the registry (`host:port`, plain HTTP) and return its digest. The same folder
    gives the same digest. Raises OSError, or RuntimeError with the registry's answer."""
    layer = pack(image.folder)
    configuration = json.dumps(
        {
            "architecture": ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {
                "Entrypoint": list(image.entrypoint),
                "User": image.user,
                "Env": list(image.environment),
            },
            "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
        }
    ).encode()
    compressed = gzip.compress(layer, compresslevel=1, mtime=0)
    parts = {CONFIGURATION: configuration, LAYER: compressed}
    connection = http.client.HTTPConnection(registry, timeout=60)
    for blob in parts.values():
        upload(connection, image.name, blob)
    described = {kind: describe(kind, blob) for kind, blob in parts.items()}
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": described[CONFIGURATION],
        "layers": [described[LAYER]],
    }
    body = json.dumps(manifest).encode()
    path = f"/v2/{image.name}/manifests/{image.tag}"
    ask(connection, "PUT", path, body, {"Content-Type": MANIFEST})
    connection.close()
    return digest(body)


def describe(kind: str, blob: bytes) -> dict[str, Any]:
    """A blob as a manifest names it."""
    return {"mediaType": kind, "size": len(blob), "digest": digest(blob)}


def pack(folder: Path) -> bytes:
    """A tar of the folder, the same for the same content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=anonymous)
    return buffer.getvalue()


def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without what differs from machine to machine."""
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


def upload(connection: http.client.HTTPConnection, name: str, blob: bytes) -> None:
    """Put a blob there unless it is there."""
    connection.request("HEAD", f"/v2/{name}/blobs/{digest(blob)}")
    answer = connection.getresponse()
    answer.read()
    if answer.status == 200:
        return
    location = ask(connection, "POST", f"/v2/{name}/blobs/uploads/", b"", {})
    separator = "&" if "?" in location else "?"
    headers = {"Content-Type": "application/octet-stream"}
    ask(connection, "PUT", f"{location}{separator}digest={digest(blob)}", blob, headers)


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes,
    headers: dict[str, str],
) -> str:
    """Returns the answer's Location. Raises RuntimeError unless something was made."""
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    text = answer.read().decode(errors="replace")
    if answer.status not in (201, 202):
        raise RuntimeError(f"the registry answers {answer.status} to {method} {path}: {text}")
    return answer.headers.get("Location", "")


def digest(blob: bytes) -> str:
    """As registries write it."""
    return f"sha256:{hashlib.sha256(blob).hexdigest()}"
