"""test_torch.py in real PyTorchs: those of Debian, each in a root folder of its own.

The folders come from scripts/torch-root, which makes them once for all checkouts.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ascend_ops.build_record import PACKAGE_DIR

REPOSITORY = Path(__file__).resolve().parents[2]
TORCH_ROOT = REPOSITORY / "scripts/torch-root"
# The version of PyTorch, and what is skipped there: opcheck, and tracing, came later than 1.13.
RELEASES = {"bookworm": ("1.13", 9), "trixie": ("2.6", 0)}


def make_root(release: str) -> Path:
    """The root folder; skips where it cannot be made."""
    if not TORCH_ROOT.is_file():
        pytest.skip("scripts/torch-root is not here: these tests need the whole repository")
    if os.getuid() != 0 or shutil.which("debootstrap") is None:
        pytest.skip("a root folder with PyTorch needs root and debootstrap")
    command = [str(TORCH_ROOT), release]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1500)
    assert done.returncode == 0, done.stderr
    return Path(done.stdout.strip())


@pytest.mark.long
@pytest.mark.timeout(1800)  # the first time on a machine it installs Debian
@pytest.mark.parametrize("release", RELEASES)
def test_every_torch_test_passes_in_the_pytorch_of_debian(release: str) -> None:
    version, skipped = RELEASES[release]
    root = make_root(release)
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
