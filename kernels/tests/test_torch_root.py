"""test_torch.py in real PyTorchs: those of Debian, each in a root folder of its own.

The folders come from scripts/torch-root, which makes them once for all checkouts.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from ascend_ops.build_record import PACKAGE_DIR

# The version of PyTorch, and what is skipped there: opcheck, and tracing, came later than 1.13.
RELEASES = {"bookworm": ("1.13", 13), "trixie": ("2.6", 0)}


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first time on a machine it installs Debian
@pytest.mark.parametrize("release", RELEASES)
def test_every_torch_test_passes_in_the_pytorch_of_debian(
    release: str, torch_root: Callable[[str], Path]
) -> None:
    version, skipped = RELEASES[release]
    root = torch_root(release)
    name = f"run-{os.getpid()}"
    folder = root / "opt" / name
    try:
        shutil.copytree(PACKAGE_DIR, folder / "packages/ascend_ops", dirs_exist_ok=True)
        shutil.copy(Path(__file__).with_name("test_torch.py"), folder)
        inside = f"/opt/{name}"
        run = (
            f"PYTHONPATH={inside}/packages:/opt/packages python3 -m pytest -q -p no:cacheprovider "
            f"--import-mode=importlib -W error -rs {inside}/test_torch.py && "
            "python3 -c 'import torch; print(torch.__version__)'"
        )
        # A mount namespace of its own: /proc is there for the run, and nothing is left behind.
        script = f'mount --bind /proc "{root}/proc" && exec chroot "{root}" sh -c "$1"'
        command = ["unshare", "--mount", "sh", "-c", script, "sh", run]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith(version)
    summary = re.search(r"(\d+) passed(?:, (\d+) skipped)?", done.stdout)
    assert summary is not None
    assert int(summary[1]) > 40
    assert int(summary[2] or 0) == skipped, done.stdout
