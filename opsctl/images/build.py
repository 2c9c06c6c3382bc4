"""THE MAIN PATH of `opsctl build`: recipe → is it built already? → build → check → record."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from opsctl.config.settings import Project
from opsctl.console import Console
from opsctl.errors import BuildFailed
from opsctl.files import write_atomically
from opsctl.images.context import (
    KEY_CHARS,
    content_key,
    foundation_key,
    staged,
    write_dockerfile,
)
from opsctl.images.engine import Builder, find_builder, image_id, own_platform, require_engine
from opsctl.images.given import Given, given_to
from opsctl.images.recipe import Recipe, read_recipe
from opsctl.images.reference import Reference, parse
from opsctl.images.registry import Registry
from opsctl.images.stopping import stop_on_signals
from opsctl.images.supply import images_folder, is_signed, make_papers
from opsctl.model import Json
from opsctl.redact import Redactor
from opsctl.secrets import resolve_secrets
from opsctl.shell import Completed, run

LOG_LINES = 25
"""Last lines of the builder's output that the error shows."""

EPOCH = "0"
"""SOURCE_DATE_EPOCH unless the environment has one: the start of 1970, the same everywhere."""

STEP = re.compile(r"#\d+ (?:\[[^]]+\] \S.*|pushing layers.*|ERROR.*)")
"""Lines of the builder's plain progress that people want to see: a step begins, or fails."""

LINE_CHARS = 100


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


def build(project: Project, console: Console, *, rebuild: bool, network: bool = True) -> Built:
    """Build the service's image, unless the same content is built already.

    Raises ConfigError (2), PreflightRefused (4) before anything is touched, BuildFailed (5).
    """
    with stop_on_signals() as interrupt:
        return _build(project, console, interrupt, rebuild=rebuild, network=network)


def _build(
    project: Project, console: Console, interrupt: Callable[[], None], *, rebuild: bool,
    network: bool,
) -> Built:  # fmt: skip
    recipe = read_recipe(project)
    place = parse(recipe.name)
    _require_own_platform(recipe)
    key = content_key(recipe, interrupt)
    tag = key[:KEY_CHARS]
    if not rebuild and (digest := _existing(recipe, place.tagged(tag))):
        found = Built(recipe.name, digest, key, recipe.build.push, fresh=False)
        if not is_signed(project, recipe, found.reference):
            make_papers(project, recipe, key, found.reference, "")
        return _recorded(project, found)
    builder = find_builder(recipe.build.builder)
    for lack in builder.lacks:
        console.warn(f"builder {builder.name} is the engine's own BuildKit: without {lack}")
    if recipe.build.push:
        Registry(place).require()
    began = time.monotonic()
    job = _Job(
        project, recipe, builder, place.tagged(tag), key, rebuild, network, console, interrupt
    )
    digest = _run(job)
    if recipe.build.push:
        registry = Registry(place)
        registry.require_blobs(registry.manifest(digest))
    made = Built(recipe.name, digest, key, recipe.build.push, fresh=True)
    papers = make_papers(project, recipe, key, made.reference, f"buildx/{builder.driver}")
    seconds = round(time.monotonic() - began, 1)
    return _recorded(project, replace(made, seconds=seconds, papers=papers.to_dict()))


def last_built(project: Project) -> Built | None:
    """What `opsctl build` made or found last for this service, None when nothing."""
    try:
        data = json.loads((images_folder(project) / "last.json").read_text(encoding="utf-8"))
        data.pop("reference")
        return Built(**data)
    except (OSError, ValueError, TypeError, KeyError):
        return None


@dataclass(frozen=True)
class _Job:
    project: Project
    recipe: Recipe
    builder: Builder
    target: Reference
    key: str
    rebuild: bool
    network: bool
    console: Console
    interrupt: Callable[[], None]

    @property
    def log(self) -> Path:
        return images_folder(self.project) / f"{self.target.tag}.log"


@dataclass(frozen=True)
class Solve:
    """One target of a staged Dockerfile, and the name that its image gets."""

    target: str
    name: Reference
    file: Path


def _require_own_platform(recipe: Recipe) -> None:
    if recipe.platform != own_platform():
        raise BuildFailed(
            f"an image for {recipe.platform} can't be built on {own_platform()}",
            why="its steps run programs of that processor",
            next_step="Build it on such a machine, or set build.builder to a builder there "
            "(opsctl render dockerfile shows the file)",
        )


def _existing(recipe: Recipe, tagged: Reference) -> str | None:
    if recipe.build.push:
        return Registry(tagged).digest_of(tagged.tag)
    require_engine()
    return image_id(str(tagged))


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


def _run(job: _Job) -> str:
    """Run BuildKit; the digest of what it made."""
    recipe, root = job.recipe, job.project.root
    with (
        staged(recipe, root, job.interrupt) as context,
        given_to(recipe, root, lambda: _secrets(job.project)) as given,
    ):
        file = write_dockerfile(recipe, context, job.key)
        if job.builder.modern and recipe.build.push:
            foundation = _foundation(job, given, file)
            file = write_dockerfile(recipe, context, job.key, foundation)
        return _solve(job, given, Solve("runtime", job.target, file))


def _foundation(job: _Job, given: Given, file: Path) -> str:
    """The foundation as a pinned image, built unless the registry has it.

    Setting the times of files rewrites each layer above the base, whenever an image is made. With
    the foundation as the base, that is a few megabytes instead of all of TensorFlow.
    """
    place = parse(job.recipe.name)
    tagged = place.tagged(f"foundation-{foundation_key(job.recipe)[:KEY_CHARS]}")
    digest = None if job.rebuild else Registry(place).digest_of(tagged.tag)
    if digest is None:
        digest = _solve(job, given, Solve("foundation", tagged, file))
    return str(place.pinned(digest))


def _solve(job: _Job, given: Given, solve: Solve) -> str:
    """Have BuildKit make one target; its digest."""
    with tempfile.TemporaryDirectory(prefix="opsctl-metadata-") as folder:
        metadata = Path(folder) / "metadata.json"
        redactor = Redactor(given.values)
        done = run(
            _arguments(job, given, solve, metadata),
            timeout_s=job.recipe.build.timeout_s,
            env={
                **os.environ,
                "SOURCE_DATE_EPOCH": _epoch(),
                "BUILDX_NO_DEFAULT_ATTESTATIONS": "1",
            },
            interrupt=job.interrupt,
            progress=lambda line: _tell(job.console, redactor.text(line)),
        )
        _keep_log(job, redactor.text(done.stdout + done.stderr))
        if not done.ok:
            raise _failed(job, done, redactor)
        if not job.recipe.build.push:
            return _loaded(solve.name)
        return str(json.loads(metadata.read_text(encoding="utf-8"))["containerimage.digest"])


def _tell(console: Console, line: str) -> None:
    if STEP.fullmatch(line):
        console.tell(line[:LINE_CHARS])


def _secrets(project: Project) -> Mapping[str, str]:
    build = project.service.build
    return resolve_secrets(build.secrets, project.root) if build else {}


def _epoch() -> str:
    return os.environ.get("SOURCE_DATE_EPOCH", EPOCH)


def _arguments(job: _Job, given: Given, solve: Solve, metadata: Path) -> list[str]:
    words = ["docker", "buildx", "build", "--builder", job.builder.name, "--target", solve.target]
    words += ["--progress", "plain", "--metadata-file", str(metadata)]
    words += ["--file", str(solve.file), "--output", _output(job, solve.name)]
    if job.builder.modern:
        words += ["--provenance=false", "--sbom=false"]
        words += _cache(job.recipe.build.cache)
    if job.rebuild:
        words += ["--no-cache"]
    if not job.network:
        words += ["--network", "none"]
    return [*words, *given.arguments, str(solve.file.parent)]


def _output(job: _Job, name: Reference) -> str:
    rewrite = ",rewrite-timestamp=true" if job.builder.modern else ""
    if not job.recipe.build.push:
        return f"type=docker,name={name}{rewrite}"
    oci = ",oci-mediatypes=true" if job.builder.modern else ""
    return f"type=image,name={name},push=true{oci}{rewrite}"


def _cache(place: str | None) -> list[str]:
    if place is None:
        return []
    return [
        "--cache-from", f"type=registry,ref={place}",
        "--cache-to", f"type=registry,ref={place},mode=max,ignore-error=true",
    ]  # fmt: skip


def _loaded(target: Reference) -> str:
    found = image_id(str(target))
    if found is None:
        raise BuildFailed(
            f"the engine has no {target} though it was built",
            next_step="Run the same again; docker image ls shows what it has",
        )
    return found


def _keep_log(job: _Job, text: str) -> None:
    try:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BuildFailed(
            f"cannot write {job.log}", why=error.strerror or "", next_step="Free some space"
        ) from error


def _failed(job: _Job, done: Completed, redactor: Redactor) -> BuildFailed:
    lines = redactor.text(done.stdout + done.stderr).strip().splitlines()[-LOG_LINES:]
    why = (
        f"it ran longer than {job.recipe.build.timeout_s:g} s (build.timeout_s)"
        if done.timed_out
        else "\n  ".join([f"exit code {done.exit_code}", *lines])
    )
    return BuildFailed(
        f"the image of {job.project.service_name} could not be built",
        why=why,
        next_step=f"Repair it (its whole output: {job.log}), then run the same again",
    )
