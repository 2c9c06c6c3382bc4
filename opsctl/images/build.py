"""THE MAIN PATH of `opsctl build`: recipe → is it built already? → build → check → papers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from opsctl.config.settings import Project
from opsctl.errors import BuildFailed, PreflightRefused
from opsctl.files import write_atomically
from opsctl.images.context import KEY_CHARS, content_key
from opsctl.images.engine import find_builder, image_id, own_platform, require_engine
from opsctl.images.recipe import Recipe, read_recipe
from opsctl.images.reference import Reference, parse
from opsctl.images.registry import Registry
from opsctl.images.signing import require_means
from opsctl.images.solve import Job, Tell, run_job
from opsctl.images.supply import images_folder, is_signed, make_papers
from opsctl.model import Json

Interrupt = Callable[[], None]


@dataclass(frozen=True)
class Built:
    """An image. `digest` is the manifest's in the registry, or the engine's ID when not pushed."""

    name: str
    digest: str
    key: str
    pushed: bool
    fresh: bool
    seconds: float = 0.0
    papers: Json | None = None
    """Of a fresh image: paths of bill of materials and provenance, bytes unpacked, signatures."""

    @property
    def reference(self) -> str:
        """How to run it: pinned, so that a moved tag changes nothing."""
        return f"{self.name}@{self.digest}" if self.pushed else self.digest

    def to_dict(self) -> Json:
        return {**self.__dict__, "reference": self.reference}


def build(
    project: Project, tell: Tell, interrupt: Interrupt, *, rebuild: bool = False,
    network: bool = True,
) -> Built:  # fmt: skip
    """Build the service's image, unless the same content is built already.

    Raises ConfigError (2), PreflightRefused (4) before anything is touched, BuildFailed (5).
    """
    recipe = read_recipe(project)
    _require_platform(recipe)
    key = content_key(recipe, interrupt)
    target = parse(recipe.name).tagged(key[:KEY_CHARS])
    if not rebuild and (digest := _existing(recipe, target)):
        return _found(project, recipe, key, digest)
    require_means(recipe.build.signing, project.root)
    builder = find_builder(recipe.build.builder)
    for lack in builder.lacks:
        tell(f"warning: builder {builder.name} is the engine's own BuildKit: without {lack}")
    if recipe.build.push:
        Registry(target).require()
    began = time.monotonic()
    digest = run_job(Job(project, recipe, builder, target, key, tell, interrupt, rebuild, network))
    if recipe.build.push:
        _require_whole(target, digest)
    made = Built(recipe.name, digest, key, recipe.build.push, fresh=True)
    papers = make_papers(project, recipe, key, made.reference, f"buildx/{builder.driver}")
    seconds = round(time.monotonic() - began, 1)
    return _recorded(project, replace(made, seconds=seconds, papers=papers.to_dict()))


def ensure_built(project: Project, tell: Tell, interrupt: Interrupt) -> str:
    """The image of what the project is now, pinned; built when there is none yet."""
    return build(project, tell, interrupt).reference


def planned(project: Project, interrupt: Interrupt) -> str:
    """The image that a build would find, pinned; empty when it would have to build."""
    recipe = read_recipe(project)
    key = content_key(recipe, interrupt)
    digest = _existing(recipe, parse(recipe.name).tagged(key[:KEY_CHARS]))
    if digest is None:
        return ""
    return Built(recipe.name, digest, key, recipe.build.push, fresh=False).reference


def last_built(project: Project) -> Built | None:
    """What `opsctl build` made or found last for this service, None when nothing."""
    try:
        data = json.loads((images_folder(project) / "last.json").read_text(encoding="utf-8"))
        data.pop("reference")
        return Built(**data)
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _require_platform(recipe: Recipe) -> None:
    if recipe.platform != own_platform() and recipe.build.builder == "auto":
        raise PreflightRefused(
            f"an image for {recipe.platform} can't be built on {own_platform()}",
            why="its steps run programs of that processor",
            next_step="Set build.builder to a builder on such a machine, or build it there",
        )


def _existing(recipe: Recipe, tagged: Reference) -> str | None:
    if recipe.build.push:
        return Registry(tagged).digest_of(tagged.tag)
    require_engine()
    return image_id(str(tagged))


def _found(project: Project, recipe: Recipe, key: str, digest: str) -> Built:
    """An image of the same content. One whose build ended before it was signed is signed now."""
    found = Built(recipe.name, digest, key, recipe.build.push, fresh=False)
    if found.pushed:
        _require_whole(parse(recipe.name), digest)
    if not is_signed(project, recipe, found.reference):
        make_papers(project, recipe, key, found.reference, "found in the registry")
    return _recorded(project, found)


def _require_whole(target: Reference, digest: str) -> None:
    registry = Registry(target)
    registry.require_blobs(registry.manifest(digest))


def _recorded(project: Project, built: Built) -> Built:
    folder = images_folder(project)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "last.json", json.dumps(built.to_dict(), indent=2) + "\n")
    except OSError as error:
        raise BuildFailed(
            f"cannot write {folder / 'last.json'}",
            why=error.strerror or "",
            next_step=f"Free some space; the image itself is there: {built.reference}",
        ) from error
    return built
