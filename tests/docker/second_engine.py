"""A Docker engine of a test's own, which may be restarted: the machine's one is everybody's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from opsctl import shell
from opsctl.config import settings
from opsctl.errors import OpsctlError
from opsctl.targets.docker.engine import Engine
from tests.docker.bench_yard import Host

START_MAX_S = 300.0
"""On a machine that is very busy."""


class FarEngine(Engine):
    """An engine whose containers' addresses can't be reached from here."""

    is_here = False

    @property
    def socket_path(self) -> str:
        """It mounts the socket of this machine all the same."""
        return self.address.removeprefix("unix://")


def far_engine(address: str) -> FarEngine:
    """A client of the engine at an address, whatever DOCKER_HOST says."""
    made = FarEngine(settings.Docker())
    made.__dict__["_parameters"] = {"base_url": address}
    return made


class SecondEngine:
    """dockerd with its own folder, socket and network. Its front doors are reached from inside it
    (`enter`), or through the Docker API, as those of an engine on another machine."""

    def __init__(
        self, *, live_restore: bool, disk_mb: int = 0, program: str = "/usr/sbin/dockerd"
    ) -> None:
        """`disk_mb`: of a disk of its own for all that the engine keeps; 0: this machine's."""
        if os.geteuid() != 0 or shutil.which(program) is None:
            pytest.skip(f"a second engine needs root and {program}")
        self.program = program
        # Not in pytest's folder: a mount that a killed test leaves would hold up all later tests.
        self.folder = Path(tempfile.mkdtemp(prefix="opsctl-engine-"))
        # An engine that starts takes another one's bridge away, so each has its own network.
        self.network = self.folder.name
        self.enter = ("nsenter", f"--net=/run/netns/{self.network}")
        self.live_restore = live_restore
        self.address = f"unix://{self.folder}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        self.registry: subprocess.Popen[bytes] | None = None
        if disk_mb:
            (self.folder / "data").mkdir()
            _run("mount", "-t", "tmpfs", "-o", f"size={disk_mb}m", "none", f"{self.folder}/data")
        _run("ip", "netns", "add", self.network)
        _run(*self.enter, "ip", "link", "set", "lo", "up")

    def __enter__(self) -> SecondEngine:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Leave nothing, whatever became of the test."""
        try:
            self._remove_containers()
        finally:
            self._clear()

    def start(self) -> None:
        """Start it and wait until it answers."""
        argv = [
            *self.enter, self.program, "--data-root", f"{self.folder}/data", "--exec-root",
            f"{self.folder}/exec", "-H", self.address, "--pidfile", f"{self.folder}/pid",
            "--add-runtime", "ascend=runc", f"--live-restore={str(self.live_restore).lower()}",
        ]  # fmt: skip
        log = self.folder / "dockerd.log"
        # Its own helpers (docker-proxy, docker-init) lie beside it.
        path = f"{Path(self.program).parent}:{os.environ['PATH']}"
        env = {**os.environ, "PATH": path}
        self.process = shell.spawn(argv, cwd=self.folder, env=env, log=log)
        deadline = time.monotonic() + START_MAX_S
        while True:
            engine = self.engine()
            try:
                engine.api.ping()
                return
            except OpsctlError:
                assert time.monotonic() < deadline, log.read_text()[-2000:]
                time.sleep(0.1)
            finally:
                engine.close()

    def serve_registry(self) -> None:
        """This machine's registry in the engine's network too, at the same address."""
        argv = [*self.enter, "docker-registry", "serve", "/run/opsctl-docker/registry.yml"]
        log = self.folder / "registry.log"
        self.registry = shell.spawn(argv, cwd=self.folder, env=dict(os.environ), log=log)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it and wait."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(START_MAX_S)
            self.process = None

    def _remove_containers(self) -> None:
        if self.process is None:
            self.start()
        engine = self.engine()
        for one in engine.api.containers(all=True):
            engine.api.remove_container(one["Id"], force=True, v=True)
        engine.close()

    def _clear(self) -> None:
        """Processes, network and mounts."""
        self.stop()
        if self.registry is not None:
            self.registry.terminate()
            self.registry.wait(START_MAX_S)
        _run("ip", "netns", "del", self.network)
        for line in Path("/proc/mounts").read_text().splitlines():
            if line.split()[1].startswith(str(self.folder)):
                _run("umount", "-l", line.split()[1])
        shutil.rmtree(self.folder, ignore_errors=True)

    def engine(self) -> Engine:
        """A client of it, whatever DOCKER_HOST says."""
        return far_engine(self.address)

    def host(self, images: Host, names: list[str]) -> Host:
        """It as tests use an engine, with images of the machine's own one."""
        saved = subprocess.Popen(
            ["docker", "-H", images.engine.address, "image", "save", *names], stdout=subprocess.PIPE
        )
        loads = ["docker", "-H", self.address, "image", "load", "--quiet"]
        subprocess.run(loads, stdin=saved.stdout, check=True, capture_output=True)
        assert saved.stdout is not None
        saved.stdout.close()
        assert saved.wait() == 0
        engine = self.engine()
        return Host(engine, images.base, images.registry)


def _run(*argv: str) -> None:
    shell.run(list(argv), timeout_s=20)
