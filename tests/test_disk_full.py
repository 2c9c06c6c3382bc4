"""A disk that fills up while a release is written: a real one, of 2 MB, in a mount of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.release_projects import write_project

MOUNT = 'mount -t tmpfs -o size=2m none "$1" && exec "$2" -c "$3" "$4"'

FILLS_UP = """
import json, os, sys
from pathlib import Path
from opsctl.config.settings import App, Retention, Service
from tests.release_projects import build, project_of, silent, store_of
root = Path(sys.argv[1])
project = project_of(root, Service(
    app=App(directory="app", command=("x",)), retention=Retention(min_free_mb=0)))
filler = root / ".opsctl" / "filler"

def fill():
    # Asked between two chunks: someone else takes the space that was free a moment ago.
    if (root / ".opsctl/production/s/releases/r1/app").exists() and not filler.exists():
        with filler.open("wb") as file:
            try:
                while True:
                    file.write(bytes(4096))
                    file.flush()
            except OSError:
                pass

store = store_of(project)
try:
    store.build(project, "r1", actor="", tell=silent, interrupt=fill)
except Exception as error:
    told = error.to_dict()
filler.unlink()
left = [path.name for path in (root / ".opsctl/production/s/releases").iterdir()]
built = build(project, "r1").name
print(json.dumps({"error": told, "left": left, "built": built}))
"""


def on_a_small_disk(root: Path, code: str) -> Any:
    """Run code with `root/.opsctl` on a disk of 2 MB; the JSON that it prints."""
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing")
    (root / ".opsctl").mkdir()
    command = ["unshare", "-Urm", "sh", "-c", MOUNT, "sh", str(root / ".opsctl"), sys.executable]
    done = subprocess.run(
        [*command, code, str(root)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if "unshare failed" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"this machine allows no mounts of one's own: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_disk_that_fills_up_while_copying_is_told_and_nothing_is_left(tmp_path: Path) -> None:
    write_project(tmp_path)
    (tmp_path / "app" / "big").write_bytes(b"x" * 1_200_000)
    found = on_a_small_disk(tmp_path, FILLS_UP)
    error = found["error"]
    assert (error["type"], error["exit_code"], error["why"]) == (
        "BuildFailed",
        5,
        "the disk is full",
    )
    assert "opsctl releases prune" in error["next_step"]
    assert found["left"] == ["last"]
    assert found["built"] == "r1"
