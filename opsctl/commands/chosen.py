"""Which release a command is about."""

from __future__ import annotations

from opsctl.errors import ConfigError
from opsctl.reader import Reader


def chosen_release(look: Reader, name: str | None) -> str:
    """The release `name`, by default the one that serves. Raises ConfigError: there is none."""
    if name is not None:
        check_kept(look, name)
        return name
    serving = look.last_state().serving_release
    if serving is None:
        raise ConfigError("nothing serves", next_step="Name a release: opsctl releases list")
    return serving


def check_kept(look: Reader, name: str) -> None:
    """Raises ConfigError when there is no release `name`, or no longer."""
    kept = [release.name for release in look.store.list()]
    if name not in kept:
        raise ConfigError(
            f'there is no release "{name}"',
            why=f"kept are {', '.join(kept) or 'none'}",
            next_step="See: opsctl releases list",
        )
