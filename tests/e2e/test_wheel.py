"""opsctl as its users have it: installed from a wheel, far from this repository, without root."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from opsctl import shell
from scripts.campaigns._opsctl import end_leftovers

pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]

ROOT = Path(__file__).parents[2]
INSTALL_MAX_S = 900.0
COMMAND_MAX_S = 240.0
NOBODY = 65534
"""The user `nobody` of Debian: nothing of this machine belongs to it."""


@dataclass(frozen=True)
class Installed:
    """An installed opsctl, and the ordinary user who runs it in a home of his own."""

    command: Path
    home: Path
    user: tuple[str, ...]
    """Command line in front of each command that becomes this user."""

    def run(self, *arguments: str, folder: Path) -> shell.Completed:
        """Run a command as the user."""
        path = os.environ["PATH"]
        argv = [*self.user, str(self.command), *arguments]
        # Not by `shell`, which keeps the end of a long output only.
        done = subprocess.run(
            argv, capture_output=True, text=True, timeout=COMMAND_MAX_S, check=False, cwd=folder,
            env={"HOME": str(self.home), "PATH": path, "OPSCTL_ACTOR": "somebody"},
        )  # fmt: skip
        return shell.Completed(tuple(argv), done.returncode, done.stdout, done.stderr)

    def folder(self, name: str) -> Path:
        """An empty folder of the user's."""
        folder = self.home / name
        folder.mkdir()
        if self.user:
            os.chown(folder, NOBODY, NOBODY)
        return folder


def must(argv: Sequence[str], cwd: Path) -> shell.Completed:
    """Run a command that must succeed."""
    done = shell.run(argv, timeout_s=INSTALL_MAX_S, cwd=cwd)
    assert done.ok, f"{argv}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    """The wheel of this checkout in a virtual environment of its own."""
    # Not below pytest's own folder, which only its user may enter.
    base = Path(tempfile.mkdtemp(prefix="opsctl-wheel-"))
    base.chmod(0o755)
    try:
        yield install(base)
        assert end_leftovers(base, 10) == []
    finally:
        end_leftovers(base, 0)
        shutil.rmtree(base)


def install(base: Path) -> Installed:
    """Build, install, and make the user's home."""
    source = base / "source"
    # A build may leave files behind, and other projects of the repository don't belong to it.
    skip = shutil.ignore_patterns(".*", "__pycache__", "build", "kernels", "serving", "tests")
    shutil.copytree(ROOT, source, ignore=skip)
    wheels = base / "wheels"
    must([sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(wheels), "."], source)
    shutil.rmtree(source)
    wheel = next(wheels.glob("opsctl-*.whl"))
    home = base / "home"
    home.mkdir()
    user: tuple[str, ...] = ()
    if os.geteuid() == 0:
        user = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        os.chown(home, NOBODY, NOBODY)
    must([python_for(user), "-m", "venv", str(base / "venv")], base)
    must([str(base / "venv" / "bin" / "pip"), "install", "-q", str(wheel)], base)
    return Installed(base / "venv" / "bin" / "opsctl", home, user)


def python_for(user: tuple[str, ...]) -> str:
    """A Python of 3.11 or newer that the user may run and that makes virtual environments."""
    check = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))"
    base = getattr(sys, "_base_executable", sys.executable)
    for python in ("/usr/bin/python3", base):
        if shell.run([*user, python, "-c", check], timeout_s=30).ok:
            return str(python)
    pytest.skip("no Python of 3.11 with venv that an ordinary user may run")


def ask(url: str, body: object) -> tuple[int, str, dict[str, object]]:
    """Status, release and answer of a prediction."""
    request = urllib.request.Request(url, json.dumps(body).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=20) as answer:
        return answer.status, answer.headers["X-Opsctl-Release"], json.load(answer)


def test_init_deploy_answer_and_down_as_an_ordinary_user_far_from_the_repository(
    installed: Installed,
) -> None:
    folder = installed.folder("shop")
    written = installed.run("init", "-o", "json", folder=folder)
    assert written.ok, written.stderr
    assert json.loads(written.stdout)["outcome"] == "written"
    deployed = installed.run("deploy", "-o", "json", folder=folder)
    assert deployed.ok, deployed.stderr
    assert json.loads(deployed.stdout)["serving_release"] == "r1"
    status = json.loads(installed.run("status", "-o", "json", folder=folder).stdout)
    door = status["observed"]["front_url"]
    body = {"instances": [[1.0, 2.0, 4.0, 0.5], [0.0, 0.0, 0.0, 0.0]]}
    code, release, answer = ask(f"{door}/v1/models/shop:predict", body)
    assert (code, release) == (200, "r1")
    predictions = answer["predictions"]
    assert isinstance(predictions, list)
    # sigmoid(0.5), as the smoke test of the template says.
    assert abs(predictions[0] - 0.6224593312) < 1e-6
    owners = {path.stat().st_uid for path in (folder / ".opsctl").rglob("*")}
    assert owners == {NOBODY if installed.user else os.geteuid()}
    down = installed.run("down", "--yes", folder=folder)
    assert down.ok, down.stderr
    assert not (folder / ".opsctl").exists()
    assert end_leftovers(folder, 5) == []


def test_version_and_reference_files_are_in_the_wheel(installed: Installed) -> None:
    from opsctl import __version__

    folder = installed.folder("looks")
    said = installed.run("version", folder=folder)
    assert said.stdout.strip() == f"opsctl {__version__}"
    schema = installed.run("config", "schema", folder=folder)
    assert json.loads(schema.stdout)["type"] == "object"
    docs = installed.run("config", "docs", folder=folder)
    assert "services" in docs.stdout


def test_a_folder_that_may_not_be_written_is_refused_without_a_traceback(
    installed: Installed,
) -> None:
    folder = installed.home.parent / "not-mine"
    folder.mkdir(mode=0o755)
    if not installed.user:
        folder.chmod(0o555)
    done = installed.run("init", str(folder), folder=installed.home)
    assert done.exit_code == 2
    assert "Permission denied" in done.stderr
    assert "Traceback" not in done.stderr
