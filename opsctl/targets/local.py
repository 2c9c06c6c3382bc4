"""Target `local`: a service as supervised processes of this machine behind HAProxy.

Everything is asked of the service's supervisor (`opsctl.targets.supervisor`), which outlives
the command. `opsctl status` only observes, so what else is needed is imported where it is.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence

from opsctl.config.settings import Project
from opsctl.errors import TargetUnreachable
from opsctl.model import DesiredState, Endpoint, Finding, Guard, Json, Observed, Role, Stamp
from opsctl.targets.supervisor import wire
from opsctl.targets.supervisor.layout import HELD_FOLDERS, Layout
from opsctl.targets.supervisor.run_settings import RunSettings, reachable
from opsctl.targets.target import CommandResult

DOWN_MARGIN_S = 30.0
"""On top of drain and stop limits, for a machine under load."""


class LocalTarget:
    """One service on this machine. Making one touches nothing."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._settings = RunSettings.of(project)
        self._layout = Layout(project.service_dir)

    def preflight(self, state: DesiredState) -> Sequence[Finding]:
        """What stands against `state` on this machine."""
        from opsctl.targets.supervisor import local_checks

        return local_checks.preflight(self._project, self._settings, self._layout, state)

    def apply(self, state: DesiredState, stamp: Stamp, guard: Guard) -> None:
        """Hand `state` to the supervisor, which is started when it does not run.

        Raises Superseded for an older epoch, TargetUnreachable when the front door's port is
        taken, a release's files are missing or nobody answers.
        """
        from opsctl.targets import boot

        self._ensure_running()
        request = {
            "call": "apply",
            "state": state.to_dict(),
            "stamp": stamp.to_dict(),
            "guard": guard.to_dict(),
            "settings": self._settings.to_dict(),
        }
        self._call(request)
        boot.keep(self._project, self._project.service.local.start_at_boot)

    def observe(self) -> Observed:
        """What runs now. After a reboot nothing is started by looking at it."""
        with contextlib.suppress(wire.NobodyListens):
            return self._asked()
        from opsctl.targets.supervisor import offline

        remembered = offline.remembered(self._layout)
        if remembered is None and not self._layout.lock_file.exists():
            return offline.NOTHING
        if remembered is not None and not offline.same_boot(remembered):
            return offline.after_reboot(remembered)
        # Its keeper was killed too: replicas may run, and somebody must be in charge.
        self._ensure_running()
        return self._asked()

    def _asked(self) -> Observed:
        return Observed.from_dict(self._call({"call": "observe"})["observed"])

    def renew(self, epoch: int) -> None:
        """Renew the holder's lease. Raises Superseded."""
        try:
            self._call({"call": "renew", "epoch": epoch})
        except wire.NobodyListens:
            self._ensure_running()
            self._call({"call": "renew", "epoch": epoch})

    def endpoints(self, release: str, role: Role = "serving") -> Sequence[Endpoint]:
        """Private endpoints of the running replicas of a release, by name."""
        return [
            Endpoint(r.host, r.port, r.health_port, name=r.name)
            for r in sorted(self.observe().of(release, role), key=lambda r: _order(r.name))
            if r.pid
        ]

    def front_door(self) -> Endpoint:
        """Where users call; before the first apply with `auto` the port is a forecast."""
        from opsctl.targets.supervisor import offline, ports

        settings = self._settings
        port = settings.port
        if not port:
            remembered = offline.remembered(self._layout)
            port = remembered.front_port if remembered else 0
        return Endpoint(
            reachable(settings.host),
            port or ports.choose_front(settings.host, settings.section),
            tls=settings.tls,
            name=self._project.service_name,
        )

    def logs(self, release: str, *, lines: int = 100, follow: bool = False) -> Iterator[str]:
        """The last `lines` lines of each replica, led by its name; then new ones as they come."""
        from opsctl.targets.supervisor import logs

        return logs.read(self._layout, release, lines=lines, follow=follow)

    def run_in(
        self,
        release: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        interrupt: Callable[[], None] | None = None,
    ) -> CommandResult:
        """Run a command as a replica of `release` would run: folder, variables, CPUs.

        Placeholders are filled with the first running replica's values.
        """
        from opsctl import shell
        from opsctl.targets.supervisor import launch

        known = launch.load(self._layout, release)
        replicas = [r for r in self.observe().replicas if r.release == release and r.pid]
        seat = launch.Seat(f"{release}-1", 0, 0)
        if replicas:
            seat = launch.Seat(replicas[0].name, replicas[0].port, replicas[0].health_port)
        service, environment = self._settings.service, self._settings.environment
        household = launch.Household(service, environment, self._layout, os.environ)
        variables = launch.command_environment(known, seat, household)
        with _pinned(known.cpus):
            done = shell.run(
                launch.fill(argv, known, seat),
                timeout_s=timeout_s,
                cwd=known.directory,
                env={**variables, **env},
                interrupt=interrupt,
            )
        timed_out = f"stopped after {timeout_s:g} s\n" if done.timed_out else ""
        code = 124 if done.timed_out else done.exit_code
        return CommandResult(
            code, known.redacted(done.stdout), known.redacted(done.stderr + timed_out)
        )

    def events(self, release: str) -> Sequence[str]:
        """Starts, exits, kills, traffic shifts and guard actions, oldest first."""
        from opsctl.targets.supervisor import events

        return events.read(self._layout.events_file, release)

    def down(self, epoch: int) -> None:
        """Stop everything, and remove what this target holds; journal and reports stay.

        Raises Superseded, and TargetUnreachable when something would not stop.
        """
        import shutil

        from opsctl.targets import boot
        from opsctl.targets.supervisor import end

        if self._layout.run.exists():
            self._ensure_running()
            answer = self._call({"call": "down", "epoch": epoch})
            limit = self._settings.drain_timeout_s + self._longest_stop_s() + DOWN_MARGIN_S
            end.wait_gone(answer["pid"], limit)
        end.kill_marked(self._layout)
        boot.keep(self._project, False)
        for folder in HELD_FOLDERS:
            shutil.rmtree(self._layout.service_dir / folder, ignore_errors=True)

    def _longest_stop_s(self) -> float:
        """The longest time that a replica of any release may take to stop."""
        from opsctl.targets.supervisor import launch

        stops = [self._project.service.app.stop_timeout_s]
        for path in self._layout.releases.glob("*/release.json"):
            with contextlib.suppress(TargetUnreachable):  # a broken one has no replicas
                stops.append(launch.load(self._layout, path.parent.name).stop_timeout_s)
        return max(stops)

    def _ensure_running(self) -> None:
        from opsctl.targets.supervisor import start

        start.ensure_running(self._layout)

    def _call(self, request: Json) -> Json:
        return wire.call(self._layout, request)


@contextlib.contextmanager
def _pinned(cpus: Sequence[int]) -> Iterator[None]:
    """Children started inside inherit the affinity of this thread (sched_setaffinity(2))."""
    if not cpus:
        yield
        return
    own = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(cpus))
    try:
        yield
    finally:
        os.sched_setaffinity(0, own)


def _order(name: str) -> tuple[str, int]:
    release, _, number = name.partition("-")
    return release, int(number.lstrip("b") or 0)
