"""The BuildKit of the campaign `same_image`: its steps really live by another clock."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from opsctl.images.engine import find_builder
from scripts.campaigns._own_buildkit import Clock, OwnBuildkit, require_faketime
from scripts.campaigns.same_image import AHEAD_S
from tests.images.yard import Yard

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(900)]

DOCKERFILE = """\
FROM {base} AS step
RUN date +%s >/when
FROM scratch
COPY --from=step /when /
"""


@pytest.fixture
def address(yard: Yard) -> Iterator[str]:
    """A BuildKit whose steps are an hour ahead."""
    if os.geteuid() != 0:
        pytest.skip("a BuildKit of its own needs root")
    folder = Path(tempfile.mkdtemp(prefix="opsctl-buildkit-"))
    clock = Clock(require_faketime(folder), AHEAD_S)
    with OwnBuildkit(folder / "own", yard.registry, clock=clock) as made:
        yield made
    shutil.rmtree(folder)


def test_a_step_sees_the_clock_that_is_ahead(yard: Yard, address: str, tmp_path: Path) -> None:
    (tmp_path / "context").mkdir()
    (tmp_path / "context" / "Dockerfile").write_text(DOCKERFILE.format(base=yard.base))
    words = ["docker", "buildx", "build", "--builder", find_builder(address).name]
    words += ["--output", f"type=local,dest={tmp_path / 'out'}", str(tmp_path / "context")]
    began = int(time.time())
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "PATH": yard.path})
    seen = int((tmp_path / "out" / "when").read_text())
    assert began + AHEAD_S <= seen <= time.time() + AHEAD_S
