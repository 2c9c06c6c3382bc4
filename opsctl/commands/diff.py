"""`opsctl diff`: what a deploy would change, and what differs from what was deployed."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl.commands.outcome import Outcome, simple
from opsctl.commands.project import DIFFERENCES
from opsctl.config.load import load
from opsctl.config.settings import Project
from opsctl.config.yaml_text import plain
from opsctl.errors import ConfigError, TargetUnreachable
from opsctl.model import DesiredState, Json
from opsctl.reader import Reader, reader
from opsctl.redact import hide_by_name
from opsctl.secrets import SecretStore, resolve_secrets
from opsctl.session import BUNDLES
from opsctl.targets.target import Drift


@dataclass(frozen=True)
class Change:
    """One setting, secret or part of the content that a deploy would change; secrets are masked."""

    what: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        """On one line."""
        if self.before is None and self.after is None:
            return f"{self.what} differs"
        return f"{self.what}: {self.before} → {self.after}"

    def to_dict(self) -> Json:
        """For programs."""
        return dict(self.__dict__)


def diff(project: Project) -> Outcome:
    """0 when a deploy would change nothing and all is as it was deployed, else 3."""
    look = reader(project)
    state = look.last_state().without_baselines()
    serving = state.serving_release
    if serving is None:
        text = "nothing serves: a deploy would make the first release"
        return simple("differences", text, DIFFERENCES, deploy=[], live=[], serving_release=None)
    changes = [*_changes(look, serving)]
    live = [*_live(look, state)]
    lines = [f"deploy  {change}" for change in changes] + [f"live    {one}" for one in live]
    data: Json = {
        "serving_release": serving,
        "deploy": [change.to_dict() for change in changes],
        "live": [one.to_dict() for one in live],
    }
    if not lines:
        return simple("same", f"{serving} runs as it was deployed, and is up to date", **data)
    return simple("differences", "\n".join(lines), DIFFERENCES, **data)


def _changes(look: Reader, serving: str) -> Iterator[Change]:
    """What a deploy would change against the release that serves."""
    project, store = look.project, look.store
    if store.get(serving).digest != store.content_digest(project):
        yield Change(f"content of {serving} (application, model or launch settings)")
    values = resolve_secrets(project.service.app.secrets, project.root)
    for name in SecretStore(look.storage).changed(serving, values):
        yield Change(f"value of secret {name}")
    then = _settings_then(look, serving)
    if then is not None:
        yield from changed(then, plain(project.service))


def _settings_then(look: Reader, serving: str) -> Json | None:
    """The service's settings when `serving` was deployed; None when they are not kept any more."""
    made = (one for one in look.newest_first() if one.op == "deploy" and one.candidate == serving)
    rollout = next(made, None)
    kept = look.storage.read(f"{BUNDLES}/{rollout.rollout:06d}/opsctl.yaml") if rollout else None
    if kept is None:
        return None
    project = look.project
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "opsctl.yaml"
        path.write_bytes(kept.data)
        try:
            then = load(path, environment=project.environment, service=project.service_name)
        except ConfigError:
            return None  # written for an opsctl that took other keys
        settings: Json = plain(then.service)
    return settings


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    """Settings that differ, by their dotted path."""
    old, new = dict(_leaves(before)), dict(_leaves(after))
    for path in [*old, *(path for path in new if path not in old)]:
        if old.get(path) != new.get(path):
            key = path.rpartition(".")[2]
            yield Change(path, *(hide_by_name(side.get(path), key) for side in (old, new)))


def _leaves(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        here = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, here)
        else:
            yield here, value


def _live(look: Reader, state: DesiredState) -> Iterator[Drift]:
    """What runs against what should, and what the target itself knows to differ."""
    now = look.clock.now()
    try:
        observed = look.target.observe()
    except TargetUnreachable:
        if look.project.target == "local":
            # Nobody answers when the supervisor was stopped; elsewhere that is an error.
            yield Drift("supervisor", "", "runs", None)
            return
        raise
    for share in state.shares:
        ready = sum(one.phase == "ready" for one in observed.of(share.release, share.role))
        is_warm = share.retire_at is None or share.retire_at > now
        if is_warm and ready != share.replicas:
            yield Drift(f"release {share.release}", "ready replicas", share.replicas, ready)
    wanted = {share.release: share.weight for share in state.shares if share.weight}
    if wanted != dict(observed.weights):
        yield Drift("traffic", "weights", wanted, dict(observed.weights), observed.guard_reason)
    for kind, paths in look.store.altered(state.serving_release or "").items():
        yield Drift(f"files of {state.serving_release}", kind, None, ", ".join(paths))
    yield from look.place.drift()
