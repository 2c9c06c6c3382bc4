"""A BuildKit that runs out of disk: what `opsctl build` says, and that nothing half-made stays."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from scripts.campaigns._own_buildkit import OwnBuildkit
from tests.images.yard import Yard, clone_into

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(900)]

DISK_MB = 150
"""Less than the base image has when it is unpacked."""


@pytest.fixture
def full(yard: Yard) -> Iterator[str]:
    """The address of a BuildKit whose disk is too small."""
    if os.geteuid() != 0:
        pytest.skip("a BuildKit of its own needs root")
    folder = Path(tempfile.mkdtemp(prefix="opsctl-buildkit-"))
    with OwnBuildkit(folder / "own", yard.registry, disk_mb=DISK_MB) as address:
        yield address
    shutil.rmtree(folder)


def test_a_builder_whose_disk_is_full_fails_the_build_and_leaves_nothing(
    yard: Yard, full: str, tmp_path: Path
) -> None:
    name = f"full-{uuid.uuid4().hex[:8]}"
    clone = clone_into(tmp_path / "clone", yard, image=f"{yard.registry}/{name}", builder=full)
    (tmp_path / "tmp").mkdir()
    code, result, errors = clone.opsctl("build", TMPDIR=str(tmp_path / "tmp"))
    assert (code, result["error"]["exit_code"]) == (5, 5), errors
    assert "no space left on device" in result["error"]["why"]
    assert "its whole output: " in result["error"]["next_step"]
    assert list((tmp_path / "tmp").iterdir()) == []
    asked = requests.get(f"http://{yard.registry}/v2/{name}/tags/list", timeout=30)
    assert asked.status_code == requests.codes.not_found
    assert not (clone.root / ".opsctl/production/anomaly/images/last.json").exists()
