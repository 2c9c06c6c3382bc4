"""The supervisor's memory made anew from what runs, when its file was lost."""

from __future__ import annotations

import json
import re
from collections import Counter

from opsctl.model import DesiredState, Guard, Role, Share, Stamp
from opsctl.targets.supervisor import haproxy_config, procfs
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.persisted import Persisted
from opsctl.targets.supervisor.run_settings import RunSettings


def from_what_runs(layout: Layout) -> Persisted:
    """Replicas from their environment, stamp and shares from the balancer's file."""
    percents, stamp = _note(layout)
    counts: Counter[tuple[str, Role]] = Counter()
    found = procfs.marked(layout.service_dir)
    for name, pid in procfs.leaders(found).items():
        role: Role = "baseline" if name.partition("-")[2].startswith("b") else "serving"
        counts[found[pid]["OPSCTL_RELEASE"], role] += 1
    state = DesiredState(
        tuple(
            Share(release, count, percents.get(release, 0) if role == "serving" else 0, role)
            for (release, role), count in sorted(counts.items())
        )
    )
    settings = _settings(layout)
    return Persisted(
        boot=procfs.boot_id(),
        epoch=stamp.epoch,
        stamp=stamp,
        desired=state,
        guard=Guard(state),
        settings=settings,
        percents={r: p for r, p in percents.items() if state.weight(r) == p},
        complete=sorted(percents),
        front_port=_port(layout),
    )


def _note(layout: Layout) -> tuple[dict[str, int], Stamp]:
    try:
        note = haproxy_config.read_note(layout.haproxy_config)
        return note["percents"], Stamp.from_dict(note["stamp"])
    except (KeyError, TypeError):
        return {}, Stamp(0, 0)


def _settings(layout: Layout) -> RunSettings | None:
    try:
        return RunSettings.from_dict(json.loads(layout.settings_file.read_text()))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _port(layout: Layout) -> int:
    try:
        found = re.search(r"^ +bind \S*:(\d+)", layout.haproxy_config.read_text(), re.MULTILINE)
    except OSError:
        return 0
    return int(found[1]) if found else 0
