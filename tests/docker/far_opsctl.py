"""`far_opsctl.py SOCKET WORD...`: opsctl on an engine whose containers can not be reached."""

from __future__ import annotations

import sys
from unittest import mock

from opsctl.cli import main
from opsctl.config.settings import Docker
from opsctl.targets.docker import place
from opsctl.targets.docker.engine import Engine
from tests.docker.second_engine import far_engine


def engine_of(settings: Docker) -> Engine:
    """The engine of the command line, whatever the settings say."""
    return far_engine(sys.argv[1])


if __name__ == "__main__":
    with mock.patch.object(place, "Engine", engine_of):
        sys.exit(main(sys.argv[2:]))
