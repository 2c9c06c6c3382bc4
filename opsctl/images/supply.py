"""The papers of an image: bill of materials, provenance, signature. Written beside its log."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from opsctl.config.settings import Project
from opsctl.errors import BuildFailed, PreflightRefused
from opsctl.files import write_atomically
from opsctl.images.contents import read_contents
from opsctl.images.context import KEY_CHARS
from opsctl.images.layers import open_image
from opsctl.images.provenance import PREDICATE_TYPE, make_provenance
from opsctl.images.recipe import Recipe
from opsctl.images.sbom import canonical, make_sbom
from opsctl.images.signing import SBOM_TYPE, require_signed, sign
from opsctl.model import Json


@dataclass(frozen=True)
class Papers:
    """What was written about an image: paths, its size unpacked, and what was signed."""

    sbom: str
    provenance: str
    unpacked_bytes: int
    signed: tuple[str, ...]

    def to_dict(self) -> Json:
        return dict(self.__dict__)


def images_folder(project: Project) -> Path:
    """Where logs and papers of this service's images are."""
    return project.service_dir / "images"


def make_papers(project: Project, recipe: Recipe, key: str, reference: str, builder: str) -> Papers:
    """Describe the image and, with a private key, sign it and what is said of it."""
    with open_image(reference) as image:
        contents = read_contents(image, images_folder(project) / "layers")
        digest = image.digest
    sbom = make_sbom(recipe.name, digest, contents)
    provenance = make_provenance(recipe, project.root, key, builder)
    written = _write(project, key, sbom, provenance)
    statements = {SBOM_TYPE: sbom, PREDICATE_TYPE: provenance}
    signed = sign(recipe.build.signing, project.root, reference, statements)
    return Papers(*written, contents.bytes, signed)


def is_signed(project: Project, recipe: Recipe, reference: str) -> bool:
    """Whether an image that was found needs no signature any more."""
    signing = recipe.build.signing
    if signing.private_key is None:
        return True
    if signing.public_key is None:
        return False
    try:
        require_signed(signing, project.root, reference)
    except PreflightRefused:
        return False
    return True


def _write(project: Project, key: str, sbom: Json, provenance: Json) -> tuple[str, str]:
    folder = images_folder(project)
    paths = folder / f"{key[:KEY_CHARS]}.cdx.json", folder / f"{key[:KEY_CHARS]}.provenance.json"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(paths[0], canonical(sbom))
        write_atomically(paths[1], json.dumps(provenance, indent=1, sort_keys=True) + "\n")
    except OSError as error:
        raise BuildFailed(
            f"cannot write {error.filename or folder}",
            why=error.strerror or "",
            next_step="Free some space, then run the same again; the image itself is built",
        ) from error
    return str(paths[0]), str(paths[1])
