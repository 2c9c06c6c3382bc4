"""The supervisor's memory in use: taken over at the start, changed by orders, then saved."""

from __future__ import annotations

from typing import Any

from opsctl.model import DesiredState, Guard, Stamp
from opsctl.targets.supervisor import persisted, procfs, rebuild
from opsctl.targets.supervisor.events import Tell
from opsctl.targets.supervisor.layout import Layout
from opsctl.targets.supervisor.persisted import Persisted
from opsctl.targets.supervisor.run_settings import RunSettings


class Store:
    """The memory in use, and when it must be written."""

    def __init__(self, layout: Layout, tell: Tell) -> None:
        self._path = layout.state_file
        self._tell = tell
        self._unsaved = False
        self._failed = False
        loaded, problem = persisted.load(self._path)
        if problem:
            tell("", problem)
            loaded = rebuild.from_what_runs(layout)
        self.memory = loaded or Persisted()
        boot = procfs.boot_id()
        self.same_boot = self.memory.boot in ("", boot)
        """Whether processes of the earlier supervisor may still run."""
        self.memory.boot = boot
        if not self.same_boot:
            self.memory.percents, self.memory.complete, self.memory.replicas = {}, [], []

    def order(self, state: DesiredState, stamp: Stamp, guard: Guard, settings: RunSettings) -> None:
        """Take on a state."""
        memory = self.memory
        memory.desired, memory.stamp, memory.guard, memory.settings = state, stamp, guard, settings
        memory.guarded, memory.guard_reason = False, ""
        warm = {s.release for s in (*state.shares, *guard.safe.shares) if s.retire_at is not None}
        memory.retired = [release for release in memory.retired if release in warm]
        self.touch()

    def forget(self) -> None:
        """Want nothing any more."""
        memory = self.memory
        memory.desired, memory.guard, memory.guarded = DesiredState(), Guard(DesiredState()), False
        memory.percents = {}
        self.touch()

    def touch(self) -> None:
        """Note that something changed."""
        self._unsaved = True

    def save(self, replicas: list[dict[str, Any]]) -> None:
        """Write what changed. A full disk is told, and tried again at the next call."""
        if not self._unsaved:
            return
        self.memory.replicas = replicas
        try:
            persisted.save(self._path, self.memory)
        except OSError as error:
            if not self._failed:
                self._tell("", f"cannot write the state: {error.strerror}; acting anyway")
            self._failed = True
            return
        if self._failed:
            self._tell("", "the state can be written again")
        self._unsaved = self._failed = False
