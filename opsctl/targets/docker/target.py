"""Target `docker`: a service as containers of one Docker host behind HAProxy.

Everything is asked of the service's agent, a container of the host that outlives the command; the
Docker API is the only way to it, so that any machine that may use the host can take over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager

from opsctl.config.settings import Project
from opsctl.errors import ConfigError
from opsctl.model import DesiredState, Endpoint, Finding, Guard, Json, Observed, Role, Stamp
from opsctl.targets.docker.bring_up import AgentSetup
from opsctl.targets.docker.channel import Channel
from opsctl.targets.docker.engine import Engine
from opsctl.targets.docker.names import STATE_DIR, Names
from opsctl.targets.docker.volume_storage import VolumeStorage
from opsctl.targets.supervisor.run_settings import RunSettings, reachable
from opsctl.targets.supervisor.wire import NobodyListens
from opsctl.targets.target import CommandResult, Tap

TLS_CERTIFICATE = "tls/certificate.pem"
TLS_PRIVATE_KEY = "tls/private_key.pem"
"""In the state volume, where the balancer's settings name them."""

DOWN_MARGIN_S = 60.0
"""On top of drain and stop limits, for a host under load."""

NOTHING = Observed(stamp=Stamp(0, 0), desired=DesiredState(), converged=True)
"""A service that was never applied."""


class DockerTarget:
    """One service on a Docker host. Making one touches nothing."""

    def __init__(self, project: Project, engine: Engine, tell: Callable[[str], None]) -> None:
        self.project = project
        self.engine = engine
        self.settings = project.service.docker
        self.names = names_of(project)
        self.channel = Channel(engine, self.names.agent)
        self.setup = AgentSetup(engine, self.names, self.settings, self.channel, tell)
        self._npus: Json = {}
        label = f"volume {self.names.state_volume} of the Docker host"
        self.storage = VolumeStorage(self.channel, self.setup, label)

    def preflight(self, state: DesiredState) -> Sequence[Finding]:
        """What stands against `state` on this host."""
        from opsctl.targets.docker import docker_checks

        return docker_checks.preflight(self, state)

    def apply(self, state: DesiredState, stamp: Stamp, guard: Guard) -> None:
        """Hand `state` to the agent, which is brought up when there is none.

        Raises Superseded for an older epoch, TargetUnreachable when the front door's port is
        taken, a release's files are missing or nobody answers.
        """
        request = {
            "call": "apply",
            "state": state.to_dict(),
            "stamp": stamp.to_dict(),
            "guard": guard.to_dict(),
            "settings": self._run_settings().to_dict(),
        }
        self._push_certificate()
        self.call(request)

    def observe(self) -> Observed:
        """What runs now. Nothing is created by looking at it."""
        try:
            return Observed.from_dict(self.channel.call({"call": "observe"})["observed"])
        except NobodyListens:
            if not self.setup.exists():
                return NOTHING
        return Observed.from_dict(self.call({"call": "observe"})["observed"])

    def renew(self, epoch: int) -> None:
        """Renew the holder's lease. Raises Superseded."""
        self.call({"call": "renew", "epoch": epoch})

    def endpoints(self, release: str, role: Role = "serving") -> Sequence[Endpoint]:
        """Private endpoints of the running replicas of a release, by name.

        On another machine they are reached through a relay in the agent's container.
        """
        replicas = sorted(self.observe().of(release, role), key=lambda r: _order(r.name))
        found = [Endpoint(r.host, r.port, r.health_port, name=r.name) for r in replicas if r.pid]
        return [self.reached(endpoint) for endpoint in found]

    def front_door(self) -> Endpoint:
        """Where users call; before the first apply with `auto` the port is a forecast."""
        settings = self._run_settings()
        port = settings.port or self.call({"call": "front"})["port"]
        host = reachable(settings.host)
        name = self.project.service_name
        if self.engine.is_here:
            return Endpoint(host, port, tls=settings.tls, name=name)
        if host.startswith("127.") or host == "::1":
            return self.reached(Endpoint(host, port, tls=settings.tls, name=name))
        return Endpoint(self.engine.hostname, port, tls=settings.tls, name=name)

    def logs(self, release: str, *, lines: int = 100, follow: bool = False) -> Iterator[str]:
        """The last `lines` lines of each replica, led by its name; then new ones as they come."""
        from opsctl.targets.docker import container_logs

        return container_logs.read(self.engine, self.names, release, lines=lines, follow=follow)

    def run_in(
        self,
        release: str,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout_s: float,
        interrupt: Callable[[], None] | None = None,
    ) -> CommandResult:
        """Run a command in a container of its own, made as a replica's and in its network."""
        from opsctl.targets.docker import errand

        return errand.run(self, release, argv, errand.Bounds(env, timeout_s, interrupt))

    def tap(self, share: float) -> AbstractContextManager[Tap]:
        """What HAProxy tells of a share of the requests: heard in the agent's container."""
        from opsctl.targets.docker import container_tap

        return container_tap.tap(self.engine, self.names.agent, share)

    def events(self, release: str) -> Sequence[str]:
        """Starts, exits, kills, traffic shifts and guard actions, oldest first."""
        return list(self.call({"call": "events", "release": release})["events"])

    def down(self, epoch: int) -> None:
        """Stop everything and remove what the host holds; journal and inbox stay.

        Raises Superseded, and TargetUnreachable when something would not stop.
        """
        from opsctl.targets.docker import take_down

        take_down.run(self, epoch)

    def npus(self) -> Json:
        """How replicas get NPUs on this host; empty when they need none."""
        wanted = self.settings.npus
        if not wanted.count:
            return {}
        if not self._npus:
            from opsctl.targets.docker import agent_image, npu_host

            image = agent_image.require_image(self.engine, self.settings, lambda text: None)
            self._npus = npu_host.settings_of(self.engine, wanted, image)
        return self._npus

    def close(self) -> None:
        """Hang up."""
        self.channel.close()
        self.engine.close()

    def call(self, request: Json, timeout_s: float = 30.0) -> Json:
        """Ask the agent, which is brought up when there is none. Raises its error."""
        try:
            return self.channel.call(request, timeout_s)
        except NobodyListens:
            self.setup.ensure_running(newest=False)
            return self.channel.call(request, timeout_s)

    def reached(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as this machine reaches it."""
        if self.engine.is_here:
            return endpoint
        from opsctl.targets.docker import tunnel

        return tunnel.through(self.engine, self.names.agent, endpoint)

    def _push_certificate(self) -> None:
        tls = self.settings.tls
        if tls is None:
            return
        for name, path in ((TLS_CERTIFICATE, tls.certificate), (TLS_PRIVATE_KEY, tls.private_key)):
            kept = self.storage.read(name)
            try:
                data = (self.project.root / path).read_bytes()
            except OSError as error:
                if kept is not None:
                    continue  # preflight refuses it; a way back must not need the files
                raise ConfigError(
                    f"cannot read {error.filename}",
                    why=error.strerror or "",
                    next_step="See docker.tls.",
                ) from error
            if kept is None or kept.data != data:
                self.storage.write(name, data, secret=True)

    def _run_settings(self) -> RunSettings:
        docker, project = self.settings, self.project
        return RunSettings(
            service=project.service_name,
            environment=project.environment,
            host=docker.host,
            port=0 if docker.port == "auto" else int(docker.port),
            tls_certificate=f"{STATE_DIR}/{TLS_CERTIFICATE}" if docker.tls else "",
            tls_private_key=f"{STATE_DIR}/{TLS_PRIVATE_KEY}" if docker.tls else "",
            request_timeout_s=docker.request_timeout_s,
            retry_requests=docker.retry_requests,
            drain_timeout_s=project.service.strategy.drain_timeout_s,
            log_max_mb=docker.log_max_mb,
            log_files=docker.log_files,
            section="docker",
        )


def names_of(project: Project) -> Names:
    """What the service is called on its Docker host."""
    own = project.service.docker.name
    return Names(own or f"{project.environment}-{project.service_name}")


def _order(name: str) -> tuple[str, int]:
    release, _, number = name.partition("-")
    return release, int(number.lstrip("b") or 0)
