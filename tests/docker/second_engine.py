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

START_MAX_S = 60.0
NETWORK = "opsctl-test-engine"
"""A network namespace of its own: an engine that starts takes another one's bridge away."""

ENTER = ("nsenter", f"--net=/run/netns/{NETWORK}")


class FarEngine(Engine):
    """An engine whose containers' addresses can't be reached from here."""

    is_here = False

    @property
    def socket_path(self) -> str:
        """It mounts the socket of this machine all the same."""
        return self.address.removeprefix("unix://")


class SecondEngine:
    """dockerd with its own folder, socket and network. Its front doors are reached from inside it
    (ENTER), or through the Docker API, as those of an engine on another machine."""

    def __init__(self, *, live_restore: bool) -> None:
        if os.geteuid() != 0 or shutil.which("dockerd", path="/usr/sbin:/usr/bin") is None:
            pytest.skip("a second engine needs root and dockerd")
        # Not in pytest's folder: a mount that a killed test leaves would hold up all later tests.
        self.folder = Path(tempfile.mkdtemp(prefix="opsctl-engine-"))
        self.live_restore = live_restore
        self.address = f"unix://{self.folder}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        _run("ip", "netns", "add", NETWORK)
        _run(*ENTER, "ip", "link", "set", "lo", "up")

    def start(self) -> None:
        """Start it and wait until it answers."""
        argv = [
            *ENTER, "/usr/sbin/dockerd", "--data-root", f"{self.folder}/data", "--exec-root",
            f"{self.folder}/exec", "-H", self.address, "--pidfile", f"{self.folder}/pid",
            "--add-runtime", "ascend=runc", f"--live-restore={str(self.live_restore).lower()}",
        ]  # fmt: skip
        log = self.folder / "dockerd.log"
        self.process = shell.spawn(argv, cwd=self.folder, env=dict(os.environ), log=log)
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

    def stop(self, number: int = signal.SIGTERM) -> None:
        """End it and wait."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(60)
            self.process = None

    def clear(self) -> None:
        """Leave nothing: containers, processes, mounts, bridge."""
        if self.process is None:
            self.start()
        engine = self.engine()
        for one in engine.api.containers(all=True):
            engine.api.remove_container(one["Id"], force=True, v=True)
        engine.close()
        self.stop()
        _run("ip", "netns", "del", NETWORK)
        for line in Path("/proc/mounts").read_text().splitlines():
            if line.split()[1].startswith(str(self.folder)):
                _run("umount", "-l", line.split()[1])
        shutil.rmtree(self.folder, ignore_errors=True)

    def engine(self) -> Engine:
        """A client of it, whatever DOCKER_HOST says."""
        made = FarEngine(settings.Docker())
        made.__dict__["_parameters"] = {"base_url": self.address}
        return made

    def host(self, images: Host, names: list[str]) -> Host:
        """It as tests use an engine, with images of the machine's own one."""
        engine = self.engine()
        for name in names:
            archive = b"".join(images.engine.api.get_image(name))
            engine.api.load_image(archive)
        return Host(engine, images.base, images.registry)


def _run(*argv: str) -> None:
    shell.run(list(argv), timeout_s=20)
