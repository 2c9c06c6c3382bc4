"""Signatures and attestations of images by cosign, with a key (no public service is asked)."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from opsctl.config.building import Signing
from opsctl.errors import BuildFailed, PreflightRefused
from opsctl.images.provenance import PREDICATE_TYPE
from opsctl.images.reference import parse
from opsctl.model import Json
from opsctl.secrets import resolve_one
from opsctl.shell import Completed, run

TIMEOUT_S = 120.0
SBOM_TYPE = "cyclonedx"
ATTESTATIONS = (SBOM_TYPE, PREDICATE_TYPE)
"""Kinds of statements that `build` attaches and the policy asks for."""


def sign(
    signing: Signing, root: Path, reference: str, statements: Mapping[str, Json]
) -> tuple[str, ...]:
    """Sign the pinned `reference` and attach each statement by its type; what was attached.

    Without a private key nothing is done. Raises BuildFailed.
    """
    if signing.private_key is None:
        return ()
    environment = {"COSIGN_PASSWORD": _password(signing, root)}
    key = ["--key", str(_require_key(root / signing.private_key, "private_key"))]
    common = [*key, "--tlog-upload=false", "--yes", *_transport(reference)]
    _must(_cosign(signing, ["sign", *common, reference], environment), "signed", reference)
    for kind, predicate in statements.items():
        with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump(predicate, file, sort_keys=True)
            file.flush()
            words = ["attest", *common, "--replace", "--type", kind, "--predicate", file.name]
            _must(_cosign(signing, [*words, reference], environment), f"attested ({kind})",
                  reference)  # fmt: skip
    return ("signature", *statements)


def require_means(signing: Signing, root: Path) -> None:
    """See that `sign` has all it needs, before anything is built. Raises PreflightRefused."""
    if signing.private_key is not None:
        _require_key(root / signing.private_key, "private_key")
        _password(signing, root)
        _cosign(signing, ["version"], {})


def require_signed(signing: Signing, root: Path, reference: str) -> tuple[str, ...]:
    """See that signature and attestations are those of the public key; what was checked.

    Without a public key nothing is asked for. Raises PreflightRefused.
    """
    if signing.public_key is None:
        return ()
    key = ["--key", str(_require_key(root / signing.public_key, "public_key"))]
    common = [*key, "--insecure-ignore-tlog=true", *_transport(reference)]
    checks = [("signature", ["verify", *common, reference])]
    checks += [
        (kind, ["verify-attestation", *common, "--type", kind, reference]) for kind in ATTESTATIONS
    ]
    for name, words in checks:
        done = _cosign(signing, words, {})
        if not done.ok:
            raise PreflightRefused(
                f"{reference} has no valid {name} of {signing.public_key}",
                why=done.why,
                next_step="Build and sign it with the key's other half: opsctl build",
            )
    return tuple(name for name, _ in checks)


def _password(signing: Signing, root: Path) -> str:
    return resolve_one("signing.password", signing.password, root) if signing.password else ""


def _require_key(path: Path, key: str) -> Path:
    if not path.is_file():
        raise PreflightRefused(
            f"build.signing.{key}: {path} is missing",
            next_step="Make a pair: cosign generate-key-pair",
        )
    return path


def _transport(reference: str) -> list[str]:
    return ["--allow-http-registry"] if parse(reference).url.startswith("http://") else []


def _cosign(signing: Signing, words: list[str], environment: Mapping[str, str]) -> Completed:
    done = run([signing.cosign, *words], timeout_s=TIMEOUT_S, env={**os.environ, **environment})
    if done.exit_code == 127:
        raise PreflightRefused(
            f"{signing.cosign} is missing",
            why="signatures are made and checked with cosign",
            next_step="Install cosign 2 or newer, or set build.signing.cosign",
        )
    return done


def _must(done: Completed, what: str, reference: str) -> None:
    if not done.ok:
        raise BuildFailed(
            f"{reference} is built and pushed, but could not be {what}",
            why=done.why,
            next_step="See to the key, its password and the registry, then run: opsctl build",
        )
