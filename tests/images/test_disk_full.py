"""A disk that is full while the inputs of a build are gathered: a real one, of 1 MB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.images.projects import CPU, make_project

ROOT = Path(__file__).resolve().parents[2]
MOUNT = 'mount -t tmpfs -o size=1m none "$1" && TMPDIR="$1" exec "$2" -c "$3" "$1" "$4"'

GATHERS = """
import json, os, sys
from pathlib import Path
from opsctl.config.load import load
from opsctl.errors import OpsctlError
from opsctl.images.context import staged
from opsctl.images.recipe import read_recipe
small, root = map(Path, sys.argv[1:])
project = load(root / "opsctl.yaml", environment=None, service=None)
try:
    with staged(read_recipe(project), root, lambda: None):
        told = {}
except OpsctlError as error:
    told = error.to_dict()
print(json.dumps({"error": told, "left": os.listdir(small)}))
"""


@pytest.mark.parametrize("file", ["app/big.bin", "tools.txt"], ids=["application", "requirements"])
def test_a_full_disk_ends_the_build_with_the_reason_and_leaves_nothing(
    tmp_path: Path, file: str
) -> None:
    allowed = subprocess.run(["unshare", "-Urm", "true"], capture_output=True, check=False)
    if allowed.returncode != 0:
        pytest.skip(f"no user namespace may be made here: {allowed.stderr.decode().strip()}")
    build = {**CPU, "operators": "kernels", "operator_requirements": "tools.txt"}
    make_project(tmp_path / "project", build)
    filling = tmp_path / "project" / file
    filling.write_bytes((filling.read_bytes() if filling.exists() else b"") + b"\n#" * 1_000_000)
    (tmp_path / "small").mkdir()
    command = ["unshare", "-Urm", "sh", "-c", MOUNT, "sh", str(tmp_path / "small")]
    done = subprocess.run(
        [*command, sys.executable, GATHERS, str(tmp_path / "project")],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["error"]["exit_code"] == 5
    assert result["error"]["why"].lower() in ("the disk is full", "no space left on device")
    assert result["left"] == []
