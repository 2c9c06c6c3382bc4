"""Immutable releases of target `local`: built once, identified by content, never edited.

releases/r12/app/           the application's folder as it was copied and built
releases/r12/manifest.json  path → [executable, SHA-256] of the source and of the built copy
releases/r12/release.json   written last: a folder without it is half-built and does not exist
releases/last               highest number ever used
models/<digest>/            model artefacts, shared by releases
"""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from opsctl.config.settings import Project
from opsctl.content import Manifest, copy_entries, differing, freeze, manifest_digest
from opsctl.errors import BuildFailed, ConfigError, OpsctlError, PreflightRefused
from opsctl.files import sync_folder, write_atomically
from opsctl.model import Json
from opsctl.release import ModelArtefact, Release
from opsctl.release_build import run_build
from opsctl.release_changes import config_changes, is_name, model_change, number_of
from opsctl.release_sources import Sources, launch_of, read_sources
from opsctl.release_store import Interrupt, Tell, never
from opsctl.secrets import SecretStore
from opsctl.storage_folder import ABSENT, FolderStorage, unreadable

MEGABYTE = 1 << 20

OWNER_ONLY = 0o700
"""Copies lose the modes of their sources, which may have been for their owner alone."""


class LocalReleaseStore:
    """The releases of one service. Whoever builds, removes or reserves holds the service's lock."""

    def __init__(self, service_dir: Path) -> None:
        self._service_dir = service_dir
        self._releases = service_dir / "releases"
        self._models = service_dir / "models"

    def build(
        self, project: Project, name: str, *, actor: str, tell: Tell, interrupt: Interrupt
    ) -> Release:
        """Make the release `name` of what the project is now; a complete one is given as it is.

        Raises `PreflightRefused` (sources missing or unfit, no space) or `BuildFailed`.
        """
        directory = self._directory(name)
        if (directory / "release.json").exists():
            return self.get(name)
        self._clear_unfinished()
        sources = read_sources(project, interrupt)
        self._require_space(project, sources)
        self._raise_last(number_of(name))
        try:
            release = self._make(project, name, sources, tell=tell, interrupt=interrupt)
            release = replace(release, created_by=actor)
            _write_json(directory / "release.json", release.to_dict())
        except BaseException as error:
            shutil.rmtree(directory, ignore_errors=True)
            if isinstance(error, OSError):
                raise _store_failed(directory, error) from error
            raise
        tell(f"{name} is built: {sources.files} files, {sources.bytes / MEGABYTE:.1f} MB")
        return release

    def content_digest(self, project: Project, interrupt: Interrupt = never) -> str:
        """The digest that `build` would give now, without copying anything."""
        return read_sources(project, interrupt).digest

    def get(self, name: str) -> Release:
        """The release `name`. Raises `ConfigError` when there is none, `OpsctlError` if damaged."""
        path = self._directory(name) / "release.json"
        try:
            return Release.from_dict(json.loads(path.read_text(encoding="utf-8")))
        except PermissionError as error:
            raise unreadable(path, error) from error
        except FileNotFoundError:
            known = ", ".join(release.name for release in self.list()) or "none"
            raise ConfigError(
                f"there is no release {name}",
                why=f"releases here: {known}",
                next_step="Run: opsctl releases list",
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise OpsctlError(
                f"release {name} is damaged",
                why=f"{path} does not hold what was written ({error})",
                next_step=f"Remove the folder {path.parent} if nothing serves from it",
            ) from error

    def list(self) -> tuple[Release, ...]:
        """All complete releases, oldest first."""
        return tuple(self.get(name) for name in self._complete())

    def remove(self, name: str) -> None:
        """Forget a release: folder, secrets, logs, and models that no other release needs."""
        directory = self._directory(name)
        # First this file: from here on the release does not exist, even if we are killed.
        (directory / "release.json").unlink(missing_ok=True)
        shutil.rmtree(directory, ignore_errors=True)
        SecretStore(FolderStorage(self._service_dir)).remove(name)
        for log in (self._service_dir / "logs").glob(f"{name}-*.log*"):
            log.unlink(missing_ok=True)
        needed = {release.model.digest for release in self.list() if release.model}
        for model in _folders(self._models):
            if model.name not in needed:
                shutil.rmtree(model, ignore_errors=True)

    def next_name(self) -> str:
        """The name of the next release. It stays the same until `reserve` or `build` take it."""
        return f"r{self._last() + 1}"

    def reserve(self, name: str) -> None:
        """Take a number for good: no later release gets it, even if this one is never built."""
        self._raise_last(number_of(name))

    def altered(self, name: str) -> Mapping[str, Sequence[str]]:
        """Paths of the release's copy that differ from what was built; empty when untouched."""
        built = self._manifests(name)["built"]
        now = differing(built, freeze(self._directory(name) / "app"))
        # What a running application caches beside its files is no edit of the release.
        now["added"] = [path for path in now["added"] if "__pycache__" not in path]
        return {kind: paths for kind, paths in now.items() if paths}

    def difference(self, base: str | None, name: str) -> Json:
        """What `name` changes against `base`: files of the application, model, launch settings."""
        new = self.get(name)
        old = self.get(base) if base else None
        files = differing(
            self._manifests(base)["source"] if base else {}, self._manifests(name)["source"]
        )
        return {
            "base": base,
            "release": name,
            "digest": {"from": old.digest if old else None, "to": new.digest},
            "app": files,
            "model": model_change(old, new),
            "config": config_changes(old, new),
        }  # fmt: skip

    def _make(
        self, project: Project, name: str, sources: Sources, *, tell: Tell, interrupt: Interrupt
    ) -> Release:
        directory = self._directory(name)
        app = directory / "app"
        tell(f"copying {sources.files} files of {project.service.app.directory}")
        source = copy_entries(sources.app, sources.app_rules, app, interrupt)
        if manifest_digest(source) != sources.app_digest:
            raise BuildFailed(
                f"{sources.app} changed while {name} was built",
                next_step="Wait until whatever writes there is done, then run the same again",
            )
        model = self._keep_model(sources, tell, interrupt)
        launch = launch_of(project, app, model)
        built = source
        if project.service.app.build:
            log = self._service_dir / "logs" / f"{name}-build.log"
            run_build(project.service.app, launch, name, log, interrupt)
            built = freeze(app)
        _write_json(directory / "manifest.json", {"source": source, "built": built})
        return Release(
            name=name,
            digest=sources.digest,
            created=time.time(),
            app_digest=sources.app_digest,
            model=model,
            config_digest=sources.config_digest,
            launch=launch,
            built_digest=manifest_digest(built),
        )

    def _keep_model(
        self, sources: Sources, tell: Tell, interrupt: Interrupt
    ) -> ModelArtefact | None:
        if sources.model is None:
            return None
        found = sources.model
        folder = self._models / found.digest
        if not folder.exists():
            tell(f"copying model {found.name} ({found.bytes / MEGABYTE:.1f} MB)")
            incoming = self._models / f".incoming-{found.digest}"
            shutil.rmtree(incoming, ignore_errors=True)
            target = incoming / found.leaf if found.directory else incoming
            copied = copy_entries(found.source, found.rules, target, interrupt)
            if not found.directory:
                (incoming / found.source.name).rename(incoming / found.leaf)
            if manifest_digest(copied) != found.manifest_digest:
                shutil.rmtree(incoming, ignore_errors=True)
                raise BuildFailed(
                    f"model {found.source} changed while it was copied",
                    next_step="Wait until the model is written, then run the same again",
                )
            incoming.rename(folder)
            sync_folder(self._models)
        return ModelArtefact(found.name, found.digest, str(folder / found.leaf), str(found.source))

    def _require_space(self, project: Project, sources: Sources) -> None:
        needed = sources.app_bytes
        if sources.model and not (self._models / sources.model.digest).exists():
            needed += sources.model.bytes
        try:
            for folder in (self._releases, self._models):
                folder.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
            free = shutil.disk_usage(self._releases).free
        except OSError as error:
            raise _store_failed(self._releases, error) from error
        least_mb = project.service.retention.min_free_mb
        if free < needed + least_mb * MEGABYTE:
            raise PreflightRefused(
                f"not enough disk space for a release at {self._releases}",
                why=f"it needs {needed / MEGABYTE:.0f} MB and must leave {least_mb} MB"
                f" (retention.min_free_mb), {free / MEGABYTE:.0f} MB are free",
                next_step="Run: opsctl releases prune (or free space otherwise)",
            )

    def _clear_unfinished(self) -> None:
        """Remove what killed builds left."""
        complete = set(self._complete())
        for folder in _folders(self._releases):
            if folder.name not in complete:
                shutil.rmtree(folder, ignore_errors=True)
        for folder in _folders(self._models):
            if folder.name.startswith("."):
                shutil.rmtree(folder, ignore_errors=True)

    def _complete(self) -> tuple[str, ...]:
        try:
            names = [
                folder.name
                for folder in _folders(self._releases)
                if is_name(folder.name) and (folder / "release.json").exists()
            ]
        except PermissionError as error:
            raise unreadable(self._releases, error) from error
        return tuple(sorted(names, key=number_of))

    def _last(self) -> int:
        numbers = [number_of(name) for name in self._complete()]
        with contextlib.suppress(*ABSENT, ValueError):
            numbers.append(int((self._releases / "last").read_text()))
        return max(numbers, default=0)

    def _raise_last(self, number: int) -> None:
        if number <= self._last() and (self._releases / "last").exists():
            return
        try:
            self._releases.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
            write_atomically(
                self._releases / "last", f"{max(number, self._last())}\n", durable=True
            )
        except OSError as error:
            raise _store_failed(self._releases, error) from error

    def _manifests(self, name: str) -> dict[str, Manifest]:
        path = self._directory(name) / "manifest.json"
        manifests: dict[str, Manifest] = json.loads(path.read_text(encoding="utf-8"))
        return manifests

    def _directory(self, name: str) -> Path:
        number_of(name)
        return self._releases / name


def _folders(directory: Path) -> list[Path]:
    return sorted(p for p in directory.iterdir() if p.is_dir()) if directory.exists() else []


def _write_json(path: Path, value: Json) -> None:
    write_atomically(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n", durable=True)


def _store_failed(path: Path, error: OSError) -> BuildFailed:
    return BuildFailed(
        f"cannot write {path}",
        why=error.strerror or str(error),
        next_step="Make the state folder writable with space left, then run the same again",
    )
