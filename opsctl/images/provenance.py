"""Where an image comes from: the predicate of an in-toto statement, SLSA provenance v1.

The statement itself (subject: the image's digest) is made and signed by cosign.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from opsctl import __version__
from opsctl.images.recipe import Recipe
from opsctl.model import Json
from opsctl.shell import run

BUILD_TYPE = "opsctl/image/v1"
GIT_TIMEOUT_S = 30.0
PREDICATE_TYPE = "slsaprovenance1"
"""cosign's word for https://slsa.dev/provenance/v1."""


def make_provenance(recipe: Recipe, root: Path, key: str, builder: str) -> Json:
    """Source, builder, parameters and materials of an image with content `key`."""
    commit, dirty = source_commit(root)
    wanted = recipe.combination
    materials = [
        _material(recipe.build.base, recipe.build.base.split("@sha256:")[1]),
        *_locked(recipe),
        *(_material(name, value) for name, value in recipe.cann_files.items()),
    ]
    if commit:
        materials.append({"uri": "git+file:.", "digest": {"gitCommit": commit}})
    return {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {
                "service": recipe.service,
                "flavour": recipe.build.flavour,
                "combination": {k: v for k, v in wanted.__dict__.items() if v != ""},
                "platform": recipe.platform,
            },
            "internalParameters": {"content": key, "uncommitted_changes": dirty},
            "resolvedDependencies": materials,
        },
        "runDetails": {
            "builder": {"id": f"opsctl/{__version__}", "version": {"builder": builder}},
            "metadata": {"invocationId": key},
        },
    }


def _locked(recipe: Recipe) -> Iterator[Json]:
    """The files that lock every package by its hash."""
    named = (
        (recipe.build.requirements, recipe.requirements),
        (recipe.build.operator_requirements, recipe.operator_requirements),
    )
    for name, path in named:
        if path is not None:
            yield _material(f"file:{name}", hashlib.sha256(path.read_bytes()).hexdigest())


def source_commit(root: Path) -> tuple[str, bool]:
    """The commit that `root` stands at (empty: no git), and whether files differ from it."""
    asked = run(["git", "-C", str(root), "rev-parse", "HEAD"], timeout_s=GIT_TIMEOUT_S)
    if not asked.ok:
        return "", False
    changed = run(
        ["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no", "."],
        timeout_s=GIT_TIMEOUT_S,
    )
    return asked.stdout.strip(), bool(changed.stdout.strip())


def _material(uri: str, sha256: str) -> Json:
    return {"uri": uri, "digest": {"sha256": sha256}}
