"""A Docker engine of a test's own, which may be restarted: the machine's one is everybody's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from opsctl import shell
from opsctl.config import settings
from opsctl.errors import OpsctlError
from opsctl.targets.docker.engine import Engine
from tests.docker.bench_yard import Host

START_MAX_S = 60.0
BRIDGE = "opsctl-t2"
SUBNET = "10.213.7.1/24"
POOL = "base=10.214.0.0/16,size=24"


class SecondEngine:
    """dockerd with its own folder, socket and bridge."""

    def __init__(self, folder: Path, *, live_restore: bool) -> None:
        if os.geteuid() != 0 or shutil.which("dockerd", path="/usr/sbin:/usr/bin") is None:
            pytest.skip("a second engine needs root and dockerd")
        self.folder = folder
        self.live_restore = live_restore
        self.address = f"unix://{folder}/docker.sock"
        self.process: subprocess.Popen[bytes] | None = None
        _ip("link", "add", "name", BRIDGE, "type", "bridge")
        _ip("addr", "add", SUBNET, "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")

    def start(self) -> None:
        """Start it and wait until it answers."""
        argv = [
            "/usr/sbin/dockerd", "--data-root", f"{self.folder}/data", "--exec-root",
            f"{self.folder}/exec", "-H", self.address, "--pidfile", f"{self.folder}/pid",
            "--add-runtime", "ascend=runc", "--bridge", BRIDGE, "--default-address-pool", POOL,
            f"--live-restore={str(self.live_restore).lower()}",
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
        bridges = [
            f"br-{one['Id'][:12]}" for one in engine.api.networks(filters={"type": "custom"})
        ]
        engine.close()
        self.stop()
        for bridge in (BRIDGE, *bridges):
            _ip("link", "del", bridge)
        shutil.rmtree(self.folder / "data", ignore_errors=True)

    def engine(self) -> Engine:
        """A client of it, whatever DOCKER_HOST says."""
        made = Engine(settings.Docker())
        made.__dict__["_parameters"] = {"base_url": self.address}
        return made

    def host(self, images: Host, names: list[str]) -> Host:
        """It as tests use an engine, with images of the machine's own one."""
        engine = self.engine()
        for name in names:
            archive = b"".join(images.engine.api.get_image(name))
            engine.api.load_image(archive)
        return Host(engine, images.base, images.registry)


def _ip(*arguments: str) -> None:
    shell.run(["ip", *arguments], timeout_s=20)
