"""One build as BuildKit sees it: the inputs staged, targets solved, images pushed or loaded."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from opsctl.config.settings import Project
from opsctl.errors import BuildFailed
from opsctl.images.context import KEY_CHARS, foundation_key, staged, write_dockerfile
from opsctl.images.engine import Builder, image_id, own_platform
from opsctl.images.given import Given, given_to
from opsctl.images.recipe import Recipe
from opsctl.images.reference import Reference, parse
from opsctl.images.registry import Registry
from opsctl.images.supply import images_folder
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

UPON_IT = "compiler,operators,runtime"
"""Stages that a build with a foundation runs besides those that made it."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Job:
    """What is to be built, by whom, and how. `target` is the image's name with its tag."""

    project: Project
    recipe: Recipe
    builder: Builder
    target: Reference
    key: str
    tell: Tell
    interrupt: Callable[[], None]
    rebuild: bool = False
    network: bool = True

    @property
    def log(self) -> Path:
        """Where the builder's output goes."""
        return images_folder(self.project) / f"{self.target.tag}.log"


@dataclass(frozen=True)
class _Solve:
    """One target of a staged Dockerfile, and the name that its image gets."""

    target: str
    name: Reference
    file: Path
    upon_foundation: bool = False


def run_job(job: Job) -> str:
    """Have BuildKit make the image: its digest, or the engine's ID when it is not pushed.

    Raises BuildFailed, PreflightRefused for a secret without a value, and Interrupted.
    """
    recipe, root = job.recipe, job.project.root
    with (
        staged(recipe, root, job.interrupt) as context,
        given_to(recipe, root, lambda: _secrets(job.project)) as given,
    ):
        file = write_dockerfile(recipe, context, job.key, old=not job.builder.modern)
        if job.builder.modern and recipe.build.push:
            foundation = _foundation(job, given, file)
            file = write_dockerfile(recipe, context, job.key, foundation)
            return _solve(job, given, _Solve("runtime", job.target, file, upon_foundation=True))
        return _solve(job, given, _Solve("runtime", job.target, file))


def _foundation(job: Job, given: Given, file: Path) -> str:
    """The foundation as a pinned image, built unless the registry has it.

    Setting the times of files rewrites each layer above the base, whenever an image is made. With
    the foundation as the base, that is a few megabytes instead of all of TensorFlow.
    """
    place = parse(job.recipe.name)
    tagged = place.tagged(f"foundation-{foundation_key(job.recipe)[:KEY_CHARS]}")
    digest = None if job.rebuild else Registry(place).digest_of(tagged.tag)
    if digest is None:
        digest = _solve(job, given, _Solve("foundation", tagged, file))
    return str(place.pinned(digest))


def _solve(job: Job, given: Given, solve: _Solve) -> str:
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
            progress=lambda line: _tell(job.tell, redactor.text(line)),
        )
        _keep_log(job, redactor.text(done.stdout + done.stderr))
        if not done.ok:
            raise _failed(job, done, redactor)
        if not job.recipe.build.push:
            return _loaded(solve.name)
        return str(json.loads(metadata.read_text(encoding="utf-8"))["containerimage.digest"])


def _tell(tell: Tell, line: str) -> None:
    if STEP.fullmatch(line):
        tell(line[:LINE_CHARS])


def _secrets(project: Project) -> Mapping[str, str]:
    build = project.service.build
    return resolve_secrets(build.secrets, project.root) if build else {}


def _epoch() -> str:
    return os.environ.get("SOURCE_DATE_EPOCH", EPOCH)


def _arguments(job: Job, given: Given, solve: _Solve, metadata: Path) -> list[str]:
    words = ["docker", "buildx", "build", "--builder", job.builder.name, "--target", solve.target]
    words += ["--progress", "plain", "--metadata-file", str(metadata)]
    words += ["--file", str(solve.file), "--output", _output(job, solve.name)]
    if job.recipe.platform != own_platform():
        words += ["--platform", job.recipe.platform]
    if job.builder.modern:
        words += ["--provenance=false", "--sbom=false", *_cache(job.recipe.build.cache)]
    if job.rebuild:
        # What the foundation was made of just now is fresh already.
        words += ["--no-cache-filter", UPON_IT] if solve.upon_foundation else ["--no-cache"]
    if not (job.network and job.recipe.build.sources.network):
        words += ["--network", "none"]
    return [*words, *given.arguments, str(solve.file.parent)]


def _output(job: Job, name: Reference) -> str:
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


def _keep_log(job: Job, text: str) -> None:
    try:
        job.log.parent.mkdir(parents=True, exist_ok=True)
        job.log.write_text(text, encoding="utf-8")
    except OSError as error:
        raise BuildFailed(
            f"cannot write {job.log}", why=error.strerror or "", next_step="Free some space"
        ) from error


def _failed(job: Job, done: Completed, redactor: Redactor) -> BuildFailed:
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
