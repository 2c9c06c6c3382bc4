"""What a build is given: a folder with the Dockerfile and each input, and a key of its content."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from opsctl.content import copy_entries, manifest_digest, manifest_of, scan
from opsctl.errors import BuildFailed, PreflightRefused
from opsctl.images.dockerfile import render
from opsctl.images.files import image_file
from opsctl.images.recipe import Folder, Recipe
from opsctl.model import digest

Interrupt = Callable[[], None]

STEPS = ("add-user", "compile-operators", "install-cann", "install-packages", "install-wheels")
"""Scripts of images/steps that the Dockerfile runs."""

FOUNDATION_STEPS = ("add-user", "install-cann", "install-packages", "install-wheels")

FOUNDATION_STAGES = ("system", "cann", "tools", "slim", "foundation")

NO_NETWORK = " --network=none"
"""Of one step: older frontends have it for the whole build only."""

CONTENT_LABEL = "opsctl.content"
KEY_CHARS = 24
"""Of the content's digest in a tag: 96 bits."""


def content_key(recipe: Recipe, interrupt: Interrupt) -> str:
    """A digest of all that decides what is in the image: equal keys, equal images.

    Mirrors, proxies, certificates, the builder, signatures and secrets are no part of it.
    """
    labels = labels_of(recipe)
    steps = {name: _sha256(image_file(f"steps/{name}")) for name in STEPS}
    return digest(
        {
            "dockerfile": render(recipe, labels),
            "steps": steps,
            "platform": recipe.platform,
            "app": _folder_digest(recipe.app, interrupt),
            "requirements": _sha256(recipe.requirements),
            "operators": [[at, _folder_digest(f, interrupt)] for at, f in recipe.operators],
            "extra": [_folder_digest(folder, interrupt) for folder in recipe.extra_operators],
            "operator_requirements": _sha256(recipe.operator_requirements),
            "cann": dict(recipe.cann_files),
        }
    )


def foundation_key(recipe: Recipe) -> str:
    """A digest of what the foundation is made of: system, user, CANN, Python and its packages."""
    stages = re.split(r"^(?=FROM )", render(recipe), flags=re.MULTILINE)
    own = [stage for stage in stages if _stage_name(stage) in FOUNDATION_STAGES]
    return digest(
        {
            "stages": own,
            "steps": {name: _sha256(image_file(f"steps/{name}")) for name in FOUNDATION_STEPS},
            "platform": recipe.platform,
            "requirements": _sha256(recipe.requirements),
            "cann": dict(recipe.cann_files),
        }
    )


def _stage_name(stage: str) -> str:
    return stage.partition("\n")[0].rpartition(" AS ")[2]


def write_dockerfile(
    recipe: Recipe, folder: Path, key: str, foundation: str = "", *, old: bool = False
) -> Path:
    """The Dockerfile in the staged folder: with `foundation`, only what stands upon it is built.

    `old`: for a frontend that knows no network of a single step.
    """
    path = folder / ("Dockerfile.service" if foundation else "Dockerfile")
    labels = {**labels_of(recipe), CONTENT_LABEL: key}
    try:
        text = render(recipe, labels, foundation)
        path.write_text(text.replace(NO_NETWORK, "") if old else text, encoding="utf-8")
    except OSError as error:
        raise _write_failed(error) from error
    return path


def labels_of(recipe: Recipe) -> dict[str, str]:
    """Labels that say what the image is. The source's commit stands in the provenance instead: a
    commit that changes nothing must not change the image."""
    wanted = recipe.combination
    labels = {
        "org.opencontainers.image.title": recipe.service,
        "org.opencontainers.image.base.name": recipe.build.base.split("@")[0],
        "org.opencontainers.image.base.digest": recipe.build.base.split("@")[1],
        "opsctl.flavour": recipe.build.flavour,
        "opsctl.system": wanted.system,
        "opsctl.python": wanted.python,
        "opsctl.tensorflow": wanted.tensorflow,
        "opsctl.operators": "yes" if wanted.operators else "no",
    }
    if wanted.cann:
        labels |= {"opsctl.cann": wanted.cann, "opsctl.chip": wanted.chip, "opsctl.soc": wanted.soc}
    return labels


@contextlib.contextmanager
def staged(recipe: Recipe, root: Path, interrupt: Interrupt) -> Iterator[Path]:
    """The folder of inputs, gone afterwards. Raises BuildFailed when it can't be written."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="opsctl-build-"))
    except OSError as error:
        raise _write_failed(error) from error
    try:
        _stage(recipe, root, folder, interrupt)
        yield folder
    finally:
        _remove(folder)


def _stage(recipe: Recipe, root: Path, folder: Path, interrupt: Interrupt) -> None:
    try:
        (folder / "steps").mkdir()
        for name in STEPS:
            _copy_file(image_file(f"steps/{name}"), folder / "steps" / name, 0o755)
        _copy_file(recipe.requirements, folder / "requirements.txt", 0o644)
        if recipe.operator_requirements:
            _copy_file(recipe.operator_requirements, folder / "operator-requirements.txt", 0o644)
        _stage_cann(recipe, root, folder)
        if recipe.build.sources.wheelhouse:
            _link_files(root / recipe.build.sources.wheelhouse, folder / "wheelhouse")
    except OSError as error:
        raise _write_failed(error) from error
    _copy_folder(recipe.app, folder / "app", interrupt)
    for at, source in recipe.operators:
        _copy_folder(source, folder / "operators" / at, interrupt)
    for source in recipe.extra_operators:
        _copy_folder(source, folder / "extra" / source.path.name, interrupt)


def _stage_cann(recipe: Recipe, root: Path, folder: Path) -> None:
    if not recipe.cann_files or recipe.cann is None or recipe.cann.packages is None:
        return
    (folder / "cann").mkdir()
    for name in recipe.cann_files:
        _link_file(root / recipe.cann.packages / name, folder / "cann" / name)
    sums = "".join(f"{value}  {name}\n" for name, value in recipe.cann_files.items())
    (folder / "cann" / "SHA256SUMS").write_text(sums, encoding="ascii")


def _copy_folder(source: Folder, target: Path, interrupt: Interrupt) -> None:
    copy_entries(source.path, source.rules, target, interrupt)
    _writable_folders(target)


def _writable_folders(folder: Path) -> None:
    """The same mode whatever umask this user has: it would be in the image."""
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)


def _folder_digest(folder: Folder, interrupt: Interrupt) -> str:
    return manifest_digest(manifest_of(scan(folder.path, folder.rules), interrupt))


def _sha256(path: Path | None) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path else ""


def _copy_file(source: Path, target: Path, mode: int) -> None:
    shutil.copyfile(source, target)
    target.chmod(mode)


def _link_files(source: Path, target: Path) -> None:
    if not source.is_dir():
        raise PreflightRefused(
            f"build.sources.wheelhouse: {source} is no folder",
            next_step="Fill one: pip download --require-hashes -r REQUIREMENTS -d FOLDER",
        )
    target.mkdir()
    for path in sorted(source.iterdir()):
        if path.is_file():
            _link_file(path, target / path.name)


def _link_file(source: Path, target: Path) -> None:
    """A hard link, as these files are large; a copy from another file system."""
    try:
        os.link(source.resolve(), target)
    except OSError:
        shutil.copyfile(source, target)


def _remove(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(folder, ignore_errors=True)


def _write_failed(error: OSError) -> BuildFailed:
    return BuildFailed(
        f"cannot write the build's folder in {tempfile.gettempdir()}",
        why=error.strerror or str(error),
        next_step="Free some space there (or set TMPDIR), then run the same again",
    )
