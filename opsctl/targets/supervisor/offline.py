"""What can be told of a service while no supervisor runs."""

from __future__ import annotations

import json

from opsctl.model import DesiredState, Observed, Replica, Role, Stamp
from opsctl.targets.supervisor import procfs
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.persisted import Persisted

NOTHING = Observed(stamp=Stamp(0, 0), desired=DesiredState(), converged=True)
"""A service that was never applied."""


def remembered(layout: Layout) -> Persisted | None:
    """The supervisor's memory; None when there is none or it can't be read (nothing is changed).

    Raises TargetUnreachable for the state of a newer opsctl.
    """
    try:
        return Persisted.from_dict(json.loads(layout.state_file.read_text()))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def refuse_newer(layout: Layout) -> None:
    """Raises TargetUnreachable when the state belongs to a newer opsctl than this one."""
    remembered(layout)


def same_boot(memory: Persisted) -> bool:
    """Whether the machine has not restarted since."""
    return memory.boot in ("", procfs.boot_id())


def after_reboot(memory: Persisted) -> Observed:
    """Nothing runs any more of what was desired."""
    reason = "not running since the machine restarted"
    return Observed(
        stamp=memory.stamp,
        desired=memory.desired,
        converged=not memory.desired.shares,
        replicas=tuple(_exited(record, reason) for record in memory.replicas),
        guarded=memory.guarded,
        guard_reason=memory.guard_reason,
    )


def _exited(record: dict[str, object], reason: str) -> Replica:
    role: Role = "baseline" if record["role"] == "baseline" else "serving"
    return Replica(str(record["name"]), str(record["release"]), role, "exited", reason=reason)
