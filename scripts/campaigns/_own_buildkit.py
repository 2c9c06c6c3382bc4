"""A BuildKit of one's own: with an empty cache, a clock that is ahead, or a disk that is small."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from opsctl import shell

ROOT = Path(__file__).parents[2]
START_MAX_S = 60.0
COMMAND_MAX_S = 120.0
IN_STEP = "/dev/clock.so"
"""Where a step of the build finds the clock: /dev is a file system of the container's own, so that
no layer holds a trace of it."""

WRAPPER = """\
#!{python} -SE
# What BuildKit calls instead of runc: each step of the build gets another clock.
import json, os, sys
words = sys.argv[1:]
bundle = next((b for a, b in zip(words, words[1:]) if a in ("--bundle", "-b")), "")
if bundle and {{"run", "create"}} & set(words):
    path = os.path.join(bundle, "config.json")
    with open(path) as file:
        config = json.load(file)
    config["process"]["env"] += {environment}
    config["mounts"].append({{"destination": "{in_step}", "type": "bind", "source": "{library}",
                             "options": ["bind", "ro", "nosuid", "nodev"]}})
    with open(path, "w") as file:
        json.dump(config, file)
os.execv("{runc}", ["{runc}", *words])
"""


def require_faketime(folder: Path) -> Path:
    """The library of Debian's package libfaketime; unpacked into `folder` where it is missing."""
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        _must("apt-get", "-q", "download", "libfaketime", cwd=folder)
        (package,) = folder.glob("libfaketime_*.deb")
        unpacked = folder / "faketime"
        _must("dpkg-deb", "-x", str(package), str(unpacked))
        found = sorted(unpacked.glob("usr/lib/*/faketime/libfaketime.so.1"))
    return found[0]


@dataclass(frozen=True)
class Clock:
    """A clock that is `ahead_s` seconds ahead, by the library of `require_faketime`."""

    library: Path
    ahead_s: int

    def environment(self, library: str = "") -> dict[str, str]:
        """Variables of a program that shall live by it; times of files stay as they are."""
        return {
            "LD_PRELOAD": library or str(self.library),
            "FAKETIME": f"+{self.ahead_s}s",
            "NO_FAKE_STAT": "1",
        }


class OwnBuildkit:
    """buildkitd of `scripts/docker`'s version in a folder; entering gives its address."""

    def __init__(
        self, folder: Path, registry: str, *, clock: Clock | None = None, disk_mb: int = 0
    ) -> None:
        """`disk_mb`: of a disk of its own for all that it keeps; 0: this machine's."""
        self._folder = folder
        self._registry = registry
        self._clock = clock
        self._disk_mb = disk_mb
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """How a client reaches it."""
        return f"unix://{self._folder}/buildkitd.sock"

    @property
    def _root(self) -> Path:
        return self._folder / "root"

    def __enter__(self) -> str:
        if os.geteuid() != 0:
            raise PermissionError("a BuildKit of its own needs root")
        self._root.mkdir(parents=True)
        if self._disk_mb:
            size = f"size={self._disk_mb}m"
            _must("mount", "-t", "tmpfs", "-o", size, "none", str(self._root))
        config = self._folder / "buildkitd.toml"
        config.write_text(f'[registry."{self._registry}"]\n  http = true\n')
        argv = [
            str(_program()), "--addr", self.address, "--root", str(self._root), "--config",
            str(config), "--containerd-worker=false", "--oci-worker-binary", str(self._runc()),
        ]  # fmt: skip
        log = self._folder / "buildkitd.log"
        self._process = shell.spawn(argv, cwd=self._folder, env=dict(os.environ), log=log)
        deadline = time.monotonic() + START_MAX_S
        while not (self._folder / "buildkitd.sock").exists():
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"buildkitd does not start: {log.read_text()[-2000:]}")
            time.sleep(0.1)
        return self.address

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
        # opsctl made a builder of this address, which buildx would remember for ever.
        name = f"opsctl-{hashlib.sha256(self.address.encode()).hexdigest()[:12]}"
        shell.run(["docker", "buildx", "rm", "--force", name], timeout_s=60)
        for line in Path("/proc/mounts").read_text().splitlines():
            if line.split()[1].startswith(str(self._root)):
                shell.run(["umount", "--lazy", line.split()[1]], timeout_s=60)
        shutil.rmtree(self._root, ignore_errors=True)

    def _runc(self) -> Path:
        """runc, or what calls it with another clock for each step."""
        runc = shutil.which("runc", path="/usr/sbin:/usr/bin:/sbin:/bin") or "runc"
        if self._clock is None:
            return Path(runc)
        wrapper = self._folder / "runc"
        variables = self._clock.environment(IN_STEP)
        text = WRAPPER.format(
            python=Path(sys.executable).resolve(),
            runc=runc,
            in_step=IN_STEP,
            library=self._clock.library.resolve(),
            environment=json.dumps([f"{name}={value}" for name, value in variables.items()]),
        )
        wrapper.write_text(text)
        wrapper.chmod(0o755)
        return wrapper


def _must(*argv: str, cwd: Path | None = None) -> None:
    """Run a command. Raises RuntimeError when it fails."""
    done = shell.run(argv, timeout_s=COMMAND_MAX_S, cwd=cwd)
    if not done.ok:
        raise RuntimeError(f"{argv[0]}: {done.why}")


def _program() -> Path:
    """The newest buildkitd that `scripts/docker` compiled."""
    cache = os.environ.get("OPSCTL_CACHE") or Path.home() / ".cache" / "opsctl"
    found = sorted(Path(cache).glob("docker/buildkit-*/buildkitd"), key=lambda p: p.stat().st_mtime)
    if not found:
        raise FileNotFoundError("no buildkitd is there: run scripts/docker up")
    return found[-1]
