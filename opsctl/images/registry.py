"""A registry through its HTTP API (OCI distribution specification 1.1), as far as images need it.

Bodies are checked against their digests, so that a truncated or altered blob is never used.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import requests

from opsctl.errors import BuildFailed
from opsctl.images.reference import Reference
from opsctl.model import Json

TIMEOUT_S = (5.0, 30.0)
"""To connect, and between two bytes: a registry that is slower than that is as good as down."""

TRIES = 3
PAUSE_S = 0.5
CHUNK_BYTES = 1 << 20

IMAGE_TYPES = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
INDEX_TYPES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


class RegistryFailed(BuildFailed):
    """The registry did not answer, or answered with an error or a broken body."""

    retryable = True


class NotInRegistry(RegistryFailed):
    """The registry answers, and has no such image or blob."""

    retryable = False


class Registry:
    """The repository of one image. Raises RegistryFailed from each method."""

    def __init__(self, reference: Reference, *, timeout_s: tuple[float, float] = TIMEOUT_S) -> None:
        self._reference = reference
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._session.headers["Accept"] = ", ".join((*IMAGE_TYPES, *INDEX_TYPES))
        if reference.url.startswith("http://"):
            self._session.trust_env = False  # no proxy reaches this machine's loopback

    def require(self) -> None:
        """See that the registry answers at all."""
        self._get("/v2/", what="answer")

    def digest_of(self, tag: str) -> str | None:
        """The digest that a tag has now, None when there is no such tag."""
        try:
            body, _ = self._manifest(tag)
        except NotInRegistry:
            return None
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def manifest(self, digest: str) -> Json:
        """The manifest of a digest (of this platform's image, where it is an index of several)."""
        body, kind = self._manifest(digest)
        _require_digest(body, digest, self._reference)
        data = _json(body, self._reference)
        if kind in INDEX_TYPES or "manifests" in data:
            return self.manifest(_own_platform(data, self._reference))
        return data

    def json_blob(self, digest: str) -> Json:
        """A small blob, as an image's configuration is."""
        response = self._get(self._path("blobs", digest), what=f"blob {digest[:19]}")
        _require_digest(response.content, digest, self._reference)
        return _json(response.content, self._reference)

    def save_blob(self, digest: str, target: Path) -> None:
        """Write a blob to a file; it is checked before anybody sees it there."""
        response = self._get(self._path("blobs", digest), what=f"blob {digest[:19]}", stream=True)
        found = hashlib.sha256()
        try:
            with target.open("xb") as file:
                for chunk in response.iter_content(CHUNK_BYTES):
                    found.update(chunk)
                    file.write(chunk)
        except requests.RequestException as error:
            target.unlink()
            raise self._failed(f"blob {digest[:19]} broke off", str(error)) from error
        if f"sha256:{found.hexdigest()}" != digest:
            target.unlink()
            raise self._failed(
                f"blob {digest[:19]} is not what its digest says", "it is truncated or altered"
            )

    def require_blobs(self, manifest: Mapping[str, Any]) -> int:
        """See that each blob is there in full length; the bytes of all of them."""
        total = 0
        for blob in [manifest["config"], *manifest["layers"]]:
            response = self._request("HEAD", self._path("blobs", blob["digest"]))
            length = int(response.headers.get("Content-Length", -1))
            if response.status_code != requests.codes.ok or length != blob["size"]:
                raise self._failed(
                    f"blob {blob['digest'][:19]} is not whole",
                    f"status {response.status_code}, {length} of {blob['size']} bytes",
                )
            total += length
        return total

    def _manifest(self, reference: str) -> tuple[bytes, str]:
        response = self._get(self._path("manifests", reference), what=f"manifest {reference[:27]}")
        return response.content, response.headers.get("Content-Type", "").split(";")[0]

    def _path(self, kind: str, reference: str) -> str:
        return f"/v2/{self._reference.path}/{kind}/{reference}"

    def _get(self, path: str, *, what: str, stream: bool = False) -> requests.Response:
        response = self._request("GET", path, stream=stream)
        if response.status_code == requests.codes.not_found:
            raise NotInRegistry(
                f"{self._reference.name} has no {what}",
                next_step="Build it again: opsctl build --rebuild",
            )
        if response.status_code != requests.codes.ok:
            raise self._failed(f"no {what} from it", f"it answered {response.status_code}")
        return response

    def _request(self, method: str, path: str, *, stream: bool = False) -> requests.Response:
        """One request, with a token when the registry wants one; errors of a moment are retried."""
        for attempt in range(1, TRIES + 1):
            try:
                response = self._session.request(
                    method, self._reference.url + path, timeout=self._timeout_s, stream=stream
                )
                if response.status_code == requests.codes.unauthorized and attempt == 1:
                    self._authorise(response)
                    continue
            except requests.RequestException as error:
                if attempt == TRIES:
                    raise self._failed("it does not answer", _reason(error)) from error
            else:
                if response.status_code < requests.codes.server_error or attempt == TRIES:
                    return response
            time.sleep(PAUSE_S * attempt)
        raise self._failed("it does not answer", "it wants to be logged in to again and again")

    def _authorise(self, refused: requests.Response) -> None:
        """Follow the registry's challenge (Basic, or a token of its own service)."""
        challenge = refused.headers.get("WWW-Authenticate", "")
        login = _login(self._reference.registry or "https://index.docker.io/v1/")
        if challenge.lower().startswith("basic") and login:
            self._session.headers["Authorization"] = f"Basic {login}"
            return
        fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
        if "realm" not in fields:
            raise self._failed("it wants a login", "docker login has none for it")
        asked = {name: fields[name] for name in ("service", "scope") if name in fields}
        headers = {"Authorization": f"Basic {login}"} if login else {}
        answer = self._session.get(
            fields["realm"], params=asked, headers=headers, timeout=self._timeout_s
        )
        if answer.status_code != requests.codes.ok:
            raise self._failed(
                "it refuses the login", f"its token service says {answer.status_code}"
            )
        data = answer.json()
        self._session.headers["Authorization"] = (
            f"Bearer {data.get('token') or data.get('access_token')}"
        )

    def _failed(self, what: str, why: str) -> RegistryFailed:
        return RegistryFailed(
            f"registry {self._reference.registry or 'docker.io'}: {what}",
            why=why,
            next_step="See to the registry, then run the same again; nothing was changed",
        )


def _login(registry: str) -> str:
    """User and password that `docker login` stored in its file, as base64; empty: none.

    Credential helpers are not asked: the engine and BuildKit, which move the blobs, do that.
    """
    from opsctl.images.engine import docker_config

    entry = docker_config().get("auths", {}).get(registry, {})
    text = entry.get("auth", "")
    try:
        base64.b64decode(text, validate=True)
    except ValueError:
        return ""
    return str(text)


def _reason(error: requests.RequestException) -> str:
    if isinstance(error, requests.Timeout):
        return "no answer within the time limit"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return type(error).__name__


def _require_digest(body: bytes, digest: str, reference: Reference) -> None:
    if f"sha256:{hashlib.sha256(body).hexdigest()}" != digest:
        raise RegistryFailed(
            f"registry {reference.registry}: {digest[:19]} is not what its digest says",
            why="it is truncated or altered",
            next_step="See to the registry, then run the same again; nothing was changed",
        )


def _json(body: bytes, reference: Reference) -> Json:
    try:
        data: Json = json.loads(body)
    except ValueError as error:
        raise RegistryFailed(
            f"registry {reference.registry}: what it gives for {reference.path} is no JSON",
            next_step="See to the registry, then run the same again",
        ) from error
    return data


def _own_platform(index: Json, reference: Reference) -> str:
    from opsctl.images.engine import own_platform

    wanted = own_platform()
    for entry in _images(index):
        place = entry.get("platform", {})
        if f"{place.get('os')}/{place.get('architecture')}" == wanted:
            return str(entry["digest"])
    raise NotInRegistry(
        f"{reference} has no image for {wanted}",
        why="it has " + ", ".join(str(e.get("platform", {}).get("architecture"))
                                 for e in _images(index)),
        next_step="Build it for this processor (build.architecture)",
    )  # fmt: skip


def _images(index: Json) -> Iterator[Json]:
    for entry in index["manifests"]:
        if entry.get("platform", {}).get("os") != "unknown":  # attestations stand there too
            yield entry
