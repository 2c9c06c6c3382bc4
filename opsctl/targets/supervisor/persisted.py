"""What the supervisor remembers across its own death, in run/supervisor.json."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opsctl import __version__
from opsctl.errors import TargetUnreachable
from opsctl.files import write_atomically
from opsctl.model import DesiredState, Guard, Stamp
from opsctl.targets.supervisor.run_settings import RunSettings

FORMAT = 1
"""Of supervisor.json. A newer supervisor reads the two formats before its own."""


@dataclass
class Persisted:
    """The supervisor's memory. `percents` is the traffic that is in force."""

    boot: str = ""
    epoch: int = 0
    stamp: Stamp = field(default_factory=lambda: Stamp(0, 0))
    desired: DesiredState = field(default_factory=DesiredState)
    guard: Guard = field(default_factory=lambda: Guard(DesiredState()))
    settings: RunSettings | None = None
    guarded: bool = False
    guard_reason: str = ""
    percents: dict[str, int] = field(default_factory=dict)
    complete: list[str] = field(default_factory=list)
    """Releases that once had all their replicas ready."""
    retired: list[str] = field(default_factory=list)
    """Releases whose retire_at has come; kept as clocks can be set back."""
    front_port: int = 0
    front_opened: bool = False
    """Whether users can know the port: from then on it is kept."""
    trial: dict[str, int] = field(default_factory=dict)
    """Counters of the release on trial when it was left unattended."""
    replicas: list[dict[str, Any]] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "format": FORMAT,
            "opsctl": __version__,
            "stamp": self.stamp.to_dict(),
            "desired": self.desired.to_dict(),
            "guard": self.guard.to_dict(),
            "settings": self.settings.to_dict() if self.settings else None,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Persisted:
        """Raises TargetUnreachable for a newer format, ValueError for what makes no sense."""
        if data["format"] > FORMAT:
            raise TargetUnreachable(
                f"the service's state has format {data['format']}",
                why=f"this opsctl {__version__} reads up to {FORMAT}",
                next_step=f"Use opsctl {data['opsctl']} or newer.",
            )
        values = {name: data[name] for name in cls.__dataclass_fields__ if name in data}
        values["stamp"] = Stamp.from_dict(data["stamp"])
        values["desired"] = DesiredState.from_dict(data["desired"])
        values["guard"] = Guard.from_dict(data["guard"])
        settings = data["settings"]
        values["settings"] = RunSettings.from_dict(settings) if settings else None
        return cls(**values)


def save(path: Path, state: Persisted) -> None:
    """Write the state so that it survives a power cut. Raises OSError."""
    write_atomically(path, json.dumps(state.to_dict()), durable=True)


def load(path: Path) -> tuple[Persisted | None, str]:
    """The state, or None with the reason when there is none to be used ("" when no file is there).

    A file that can't be understood is set aside, never deleted. Raises TargetUnreachable for a
    state of a newer opsctl, which must stay as it is.
    """
    try:
        return Persisted.from_dict(json.loads(path.read_text())), ""
    except FileNotFoundError:
        return None, ""
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        aside = path.with_name(f"{path.name}.broken-{time.time_ns()}")
        path.rename(aside)
        return None, f"state file was unreadable ({error}) and is set aside as {aside.name}"
