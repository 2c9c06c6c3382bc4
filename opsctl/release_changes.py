"""What one release changes against another, and the numbers in their names; pure."""

from __future__ import annotations

import re
from typing import Any

from opsctl.errors import ConfigError
from opsctl.model import Json
from opsctl.release import Release

_NAME = re.compile(r"r[1-9][0-9]{0,8}")


def is_name(text: str) -> bool:
    """Whether `text` can be the name of a release."""
    return _NAME.fullmatch(text) is not None


def number_of(name: str) -> int:
    """12 of r12. Raises ConfigError for what is no name of a release."""
    if not is_name(name):
        raise ConfigError(
            f"{name!r} is no name of a release",
            why="releases are called r1, r2, …",
            next_step="Run: opsctl releases list",
        )
    return int(name[1:])


def change(old: Any, new: Any) -> Any:
    """`from` and `to`, None when both are the same."""
    return None if old == new else {"from": old, "to": new}


def model_change(old: Release | None, new: Release) -> Any:
    """What changed of the model."""
    return change(
        old.model.to_dict() if old and old.model else None,
        new.model.to_dict() if new.model else None,
    )


def config_changes(old: Release | None, new: Release) -> dict[str, Json]:
    """Launch settings that differ, by key."""
    before = old.launch.to_dict() if old else {}
    after = new.launch.to_dict()
    # Paths of the release's own copy differ between any two releases, which says nothing.
    keys = sorted({*before, *after} - {"directory", "model_path"})
    changes = {key: change(*_differing(before.get(key), after.get(key))) for key in keys}
    return {key: found for key, found in changes.items() if found is not None}


def _differing(old: Any, new: Any) -> tuple[Any, Any]:
    """Both values; of two maps only the entries that differ."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return old, new
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return (
        {name: old[name] for name in names if name in old},
        {name: new[name] for name in names if name in new},
    )
