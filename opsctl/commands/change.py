"""What a deploy has to change, asked by `deploy` and by `plan` alike."""

from __future__ import annotations

from dataclasses import dataclass, replace

from opsctl.model import DesiredState
from opsctl.reader import Reader
from opsctl.secrets import SecretStore, resolve_secrets


@dataclass(frozen=True)
class Change:
    """From what is in force to what opsctl.yaml asks for."""

    op: str
    """`deploy` (another content), `scale`, `restore` (it does not run as it should), or empty."""
    state: DesiredState
    """For `deploy` what is in force, else what should be."""
    title: str = ""

    @property
    def serving(self) -> str | None:
        """The release that serves now."""
        return self.state.serving_release


def change_to(look: Reader, digest: str) -> Change:
    """What a deploy of the content `digest` has to change."""
    state = look.last_state().without_baselines()
    serving = state.serving_release
    share = state.share(serving) if serving else None
    if not serving or not share or not _is_same(look, serving, digest):
        return Change("deploy", state)
    wanted = look.project.service.replicas
    if share.replicas != wanted:
        title = f"run {wanted} replicas of {serving}"
        return Change("scale", state.put(replace(share, replicas=wanted)), title)
    observed = look.observed()
    if observed is None or not observed.converged or observed.guarded:
        return Change("restore", state, f"bring back {serving}")
    return Change("", state)


def _is_same(look: Reader, serving: str, digest: str) -> bool:
    """Whether `serving` has that content, and the secrets that would be resolved now."""
    kept = {release.name: release for release in look.store.list()}
    # Its files may be lost though it serves: then whatever is deployed is another content.
    if serving not in kept or kept[serving].digest != digest:
        return False
    project = look.project
    values = resolve_secrets(project.service.app.secrets, project.root)
    return not SecretStore(look.storage).changed(serving, values)
