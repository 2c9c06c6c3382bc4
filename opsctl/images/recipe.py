"""Everything an image is made from, read from opsctl.yaml and the disk, and checked."""

from __future__ import annotations

import importlib.util
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from opsctl.config.building import Build, Cann
from opsctl.config.settings import Project
from opsctl.content import ScanRules
from opsctl.errors import ConfigError, PreflightRefused
from opsctl.images.matrix import Combination, Matrix, check, read_matrix
from opsctl.release_sources import app_directory, app_rules

INSTALLED = "installed"
"""Value of `build.operators` that means the sources inside the installed package ascend_ops."""

SOURCE_RULES = ScanRules(
    ("build", "__pycache__", "*.egg-info", "*.so", ".*", "tests", "build_record.json")
)
"""What of a folder of operators counts: sources, never what a build left beside them."""

STEP_SECRETS = ("apt.conf", "pip.conf", "sources.list")
"""Secrets of `build.secrets` that steps look for, by name."""

_TENSORFLOW = re.compile(r"^tensorflow(?:-cpu)?==([0-9.]+)", re.MULTILINE)
_PINNED = re.compile(r"[^@\s]+@sha256:[0-9a-f]{64}")
_USER = ("service", 10001)
_CANN_USER = ("HwHiAiUser", 1000)
"""The driver gives its device nodes to this user of 1000:1000."""


@dataclass(frozen=True)
class Folder:
    """A folder that goes into the build, by what counts of it."""

    path: Path
    rules: ScanRules


@dataclass(frozen=True)
class Recipe:
    """The inputs of one image. Paths are absolute; `operators` is empty for an image without."""

    service: str
    build: Build
    combination: Combination
    app: Folder
    requirements: Path
    command: tuple[str, ...]
    environment: Mapping[str, str]
    port: int
    health_port: int
    operators: tuple[tuple[str, Folder], ...] = ()
    extra_operators: tuple[Folder, ...] = ()
    operator_requirements: Path | None = None
    cann_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def cann(self) -> Cann | None:
        return self.build.cann if self.build.flavour == "cann" else None

    @property
    def user(self) -> tuple[str, int]:
        """Name and number of the user that the service runs as."""
        return _CANN_USER if self.cann else _USER

    @property
    def platform(self) -> str:
        """The platform as images name it."""
        return {"x86_64": "linux/amd64", "aarch64": "linux/arm64"}[self.combination.architecture]

    @property
    def name(self) -> str:
        return self.build.image


def read_recipe(project: Project) -> Recipe:
    """The recipe of a service's image.

    Raises ConfigError when there is no `build` or it contradicts itself, and PreflightRefused when
    the combination is impossible or something it names is missing.
    """
    build = _require_build(project)
    matrix = read_matrix()
    _require_pinned(build.base)
    _require_cann(build)
    _require_known_secrets(build)
    combination = _combination(project, build, matrix)
    check(combination)
    return Recipe(
        service=project.service_name,
        build=build,
        combination=combination,
        app=Folder(app_directory(project), _app_rules(project, build)),
        requirements=_require_locked(project, "requirements", build.requirements),
        command=_command(project),
        environment=project.service.app.env,
        port=project.service.docker.replica_port,
        health_port=project.service.docker.health_port,
        operators=_operators(project, build),
        extra_operators=tuple(_folder(project, name) for name in build.extra_operators),
        operator_requirements=_operator_requirements(project, build),
        cann_files=_cann_files(project, build, matrix, combination),
    )


def _app_rules(project: Project, build: Build) -> ScanRules:
    """What of the application's folder counts: no file that holds a secret of the build either."""
    rules = app_rules(project)
    names = [source.file for source in build.secrets.values()]
    names += [build.signing.private_key]
    names += [build.signing.password.file] if build.signing.password else []
    hidden = frozenset((project.root / name).resolve() for name in names if name)
    return ScanRules(rules.exclude, rules.leave_out | hidden)


def _require_build(project: Project) -> Build:
    if project.service.build is None:
        raise ConfigError(
            f"service {project.service_name} has no `build` in {project.path.name}",
            next_step="Say what its image is made of: opsctl config docs services.*.build",
        )
    return project.service.build


def _require_pinned(base: str) -> None:
    if not _PINNED.fullmatch(base):
        raise PreflightRefused(
            f"build.base {base} is not pinned",
            why="a tag can be moved, and the same sources would then give another image",
            next_step="Write it as NAME@sha256:DIGEST; `docker buildx imagetools inspect "
            f"{base.split('@')[0]}` shows the digest",
        )


def _require_cann(build: Build) -> None:
    if (build.flavour == "cann") != (build.cann is not None):
        raise ConfigError(
            "build.cann and build.flavour contradict each other",
            why=f"the flavour is {build.flavour}",
            next_step="Set build.flavour: cann together with build.cann, or neither",
        )
    if build.cann and build.cann.packages and not build.cann.accept_eula:
        raise PreflightRefused(
            "CANN's packages are not installed without your consent to its licence",
            next_step="Read it, then set build.cann.accept_eula: true",
        )


def _require_known_secrets(build: Build) -> None:
    unknown = sorted(set(build.secrets) - set(STEP_SECRETS))
    if unknown:
        raise ConfigError(
            f"build.secrets: no step of the build uses {', '.join(unknown)}",
            why=f"steps use {', '.join(STEP_SECRETS)}",
            next_step="Remove it; what a replica needs stands under app.secrets",
        )


def _combination(project: Project, build: Build, matrix: Matrix) -> Combination:
    cann = build.cann
    architecture = platform.machine() if build.architecture == "auto" else build.architecture
    return Combination(
        system=build.system,
        python=build.python,
        tensorflow=_tensorflow(project, build),
        architecture=architecture,
        chip=cann.chip if cann else "",
        cann=cann.version if cann else "",
        driver=(cann.driver or "") if cann else "",
        soc=(cann.soc or matrix.soc(cann.chip)) if cann else "",
        adapter=cann.adapter if cann else False,
        operators=build.operators is not None,
    )


def _tensorflow(project: Project, build: Build) -> str:
    """The version that the requirements lock, which `build.tensorflow` must not contradict."""
    path = project.root / build.requirements
    text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    locked = sorted(set(_TENSORFLOW.findall(text)))
    if build.tensorflow is None and len(locked) != 1:
        raise PreflightRefused(
            f"{build.requirements} locks {' and '.join(locked) or 'no'} TensorFlow",
            next_step="Lock exactly one (tensorflow-cpu==VERSION, with hashes)",
        )
    if build.tensorflow is not None and locked and locked != [build.tensorflow]:
        raise PreflightRefused(
            f"{build.requirements} locks TensorFlow {' and '.join(locked)}, "
            f"and build.tensorflow says {build.tensorflow}",
            next_step="Lock the other one, or leave build.tensorflow out",
        )
    return build.tensorflow or locked[0]


def _require_locked(project: Project, key: str, name: str) -> Path:
    """A requirements file in which each line has its hashes."""
    path = project.root / name
    if not path.is_file():
        raise PreflightRefused(
            f"build.{key}: {path} is missing",
            next_step="Lock it: uv pip compile --generate-hashes (or pip-compile)",
        )
    text = re.sub(r"\\\s*\n", " ", path.read_text(encoding="utf-8"))
    for line in text.splitlines():
        wanted = line.split("#")[0].strip()
        if wanted and not wanted.startswith("--") and "--hash=sha256:" not in wanted:
            raise PreflightRefused(
                f"build.{key}: {path.name} has no hash for {wanted.split()[0]}",
                why="what is not locked by its hash may be something else tomorrow",
                next_step="Lock it: uv pip compile --generate-hashes (or pip-compile)",
            )
    return path


def _operators(project: Project, build: Build) -> tuple[tuple[str, Folder], ...]:
    """The op library's sources as (path below the context's operators/, folder)."""
    if build.operators is None:
        if build.extra_operators:
            raise ConfigError(
                "build.extra_operators needs build.operators",
                next_step=f"Set build.operators: {INSTALLED}",
            )
        return ()
    if build.operators != INSTALLED:
        folder = _folder(project, build.operators)
        _require_file(folder.path / "pyproject.toml", "build.operators")
        return ((".", folder),)
    found = importlib.util.find_spec("ascend_ops")
    if found is None or found.origin is None:
        raise PreflightRefused(
            "build.operators is `installed`, and the package ascend_ops is not installed",
            next_step="Install it (pip install ascend-ops), or name a folder of its sources",
        )
    package = Path(found.origin).parent
    _require_file(package / "source" / "pyproject.toml", "build.operators")
    # The wheel has the sources less its Python, which the package itself is.
    python = ScanRules((*SOURCE_RULES.exclude, "source", "cases"))
    return ((".", Folder(package / "source", SOURCE_RULES)),
            ("python/ascend_ops", Folder(package, python)))  # fmt: skip


def _operator_requirements(project: Project, build: Build) -> Path | None:
    if build.operators is None:
        return None
    if build.operator_requirements is None:
        raise ConfigError(
            "build.operators needs build.operator_requirements",
            why="the tools that compile them are locked by their hashes too",
            next_step="Lock scikit-build-core, cmake and ninja into a file and name it there",
        )
    return _require_locked(project, "operator_requirements", build.operator_requirements)


def _folder(project: Project, name: str) -> Folder:
    path = project.root / name
    if not path.is_dir():
        raise PreflightRefused(
            f"the folder {path} is missing",
            next_step="Set services.*.build in opsctl.yaml, then run the same again",
        )
    return Folder(path, SOURCE_RULES)


def _require_file(path: Path, key: str) -> None:
    if not path.is_file():
        raise PreflightRefused(
            f"{key}: {path.parent} is no folder of an op library",
            why=f"it has no {path.name}",
            next_step="Name the folder that has its pyproject.toml and CMakeLists.txt",
        )


def _cann_files(
    project: Project, build: Build, matrix: Matrix, combination: Combination
) -> dict[str, str]:
    """CANN's .run files as name → SHA-256, in order of installation."""
    cann = build.cann
    if cann is None or cann.packages is None:
        return {}
    by_role = matrix.cann_files(cann.version, cann.chip, combination.architecture)
    if not cann.adapter:
        by_role.pop("tfplugin", None)
    folder = project.root / cann.packages
    needed = ", ".join(by_role.values())
    for name in by_role.values():
        if not (folder / name).is_file():
            raise PreflightRefused(
                f"CANN {cann.version}: {folder / name} is missing",
                why=f"{cann.chip} on {combination.architecture} needs {needed}",
                next_step="Download it from the vendor into that folder",
            )
        if name not in cann.checksums:
            raise PreflightRefused(
                f"build.cann.checksums has no SHA-256 of {name}",
                next_step=f"Add the vendor's (`sha256sum {name}` shows the file's own)",
            )
    return {name: cann.checksums[name] for name in by_role.values()}


def _command(project: Project) -> tuple[str, ...]:
    """What the image runs on its own; targets give a command with their own ports and model."""
    from opsctl.config.placeholders import fill

    docker = project.service.docker
    values = {
        "python": "python3",
        "host": "0.0.0.0",
        "port": str(docker.replica_port),
        "health_port": str(docker.health_port),
        "model": "/models",
        "release": "image",
        "replica": "0",
    }
    return tuple(fill(word, values) for word in project.service.app.command)
