"""Steps of the image's build in a container, on systems that differ from the one built here."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from opsctl.images.files import image_file
from tests.docker.bench_yard import FIRST_TIME_MAX_S, Host

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]

OLD_PIP = "22.0.2"
"""Ubuntu 22.04's, which knows no `--python`."""

SYSTEM = """
FROM {base}
RUN apt-get update \\
 && apt-get install --yes --no-install-recommends python3 python3-distutils \\
 && rm -rf /var/lib/apt/lists/*
"""
"""A Python with what such an old pip needs of its system."""

FAKES = {
    "rpm": '#!/bin/sh\nfor name in "$@"; do [ "$name" = libstdc++ ] && exit 0; done\nexit 1\n',
    "dnf": '#!/bin/sh\necho "dnf $*"\n',
    "python3.11": "#!/bin/sh\nexit 0\n",
}
"""openEuler with a Python of its own and libstdc++, as CANN's images are."""

TRY = """
set -eu
python3 -m venv --without-pip /opt/pip
python3 -m zipfile -e /given/pip-*.whl /opt/pip/lib/python3.11/site-packages
mkdir /wheelhouse
cp /given/tiny-*.whl /wheelhouse
/steps/install-wheels python3.11 /opt/venv /given/requirements.txt >&2
/opt/venv/bin/python -c 'import tiny; print(tiny.VALUE)'
cd /opt/venv/lib/python3.11/site-packages
echo *
"""


def ran(image: str, script: str, given: Path, path: str) -> str:
    """What a script says in a container that has the steps, and a folder as /given."""
    steps = image_file("steps/install-packages").parent
    words = ["docker", "run", "--rm", "--network", "none", "--env", f"PATH={path}"]
    words += ["--volume", f"{steps}:/steps:ro", "--volume", f"{given}:/given:ro"]
    done = subprocess.run(
        [*words, image, "/bin/sh", "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return folder


def test_a_base_that_has_a_python_of_its_own_gets_no_other(host: Host, tmp_path: Path) -> None:
    script = (
        "set -eu; PATH=/bin; mkdir /tools; ln -s /bin/rm /tools/rm; export PATH=/given:/tools; "
        "/bin/sh /steps/install-packages python3.11 python3.11-venv libstdc++ ccache; "
        "/bin/sh /steps/install-packages python3.11 libstdc++"
    )
    said = ran(host.base, script, written(tmp_path, FAKES), "/bin")
    assert said.splitlines() == [
        "dnf -q -y --setopt=install_weak_deps=False install ccache",
        "dnf clean all",
    ]


def test_wheels_are_installed_by_the_pip_of_an_older_system(host: Host, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", f"pip=={OLD_PIP}",
         "--dest", str(tmp_path)],
        check=True, capture_output=True,
    )  # fmt: skip
    wheel = tmp_path / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny.py", "VALUE = 42\n")
        about = "tiny-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{about}/WHEEL", tag)
        names = ("tiny.py", f"{about}/METADATA", f"{about}/WHEEL", f"{about}/RECORD")
        archive.writestr(f"{about}/RECORD", "".join(f"{name},,\n" for name in names))
    found = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (tmp_path / "requirements.txt").write_text(f"tiny==1.0 --hash=sha256:{found}\n")
    said = ran(host.built(SYSTEM.format(base=host.base), {}), TRY, tmp_path, "/usr/bin:/bin")
    value, names_there = said.splitlines()
    assert value == "42"
    assert names_there.split() == ["__pycache__", "tiny-1.0.dist-info", "tiny.py"]
