"""`kills` on target `docker`. Restarts of the machine are left to the tests of the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.campaigns import kills
from scripts.campaigns._opsctl import Opsctl
from scripts.campaigns.docker_deploys import PATIENT
from tests.apps.project import CANDIDATES, Options
from tests.docker.bench_yard import Host, host_or_skip
from tests.docker.docker_project import DockerOpsctl
from tests.docker.light_project import light_on

RUNS = kills.RUNS - kills.RESTARTS
RANGE = kills.Range(kills.LIGHT.kinds, kills.LIGHT.good, kills.LIGHT.bad, 15.0)


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Kill deploys of the light service."""
    host = host_or_skip()
    chosen = {index: choose(seed, index) for index in indexes}
    begun = Beginner(host, seed)
    try:
        return kills.run_chain(kills.Chain(begun, CANDIDATES, workdir, seed), chosen, emit)
    finally:
        for name in begun.names:
            host.remove_images(f"opsctl-test-{name}")


def choose(seed: int, index: int, range_: kills.Range = RANGE) -> kills.Kill:
    """As in `kills`, with an instant in place of a restart of the machine."""
    kill = kills.choose(seed, index, range_)
    return replace(kill, point="instant") if kill.point == "restart" else kill


class Beginner:
    """Makes services whose first release serves."""

    def __init__(self, host: Host, seed: int) -> None:
        self.names: list[str] = []
        self._host = host
        self._seed = seed

    def __call__(self, folder: Path) -> Opsctl:
        """A light service in `folder`."""
        name = f"kills-{self._seed}-{len(self.names)}"
        self.names.append(name)
        options = Options(
            overrides={**PATIENT, "gate": {"budget_s": kills.GATE_S, "min_pairs": 30}}
        )
        light = light_on(self._host, folder, options, name)
        return kills.deploy_first(DockerOpsctl(light))


summarise = kills.summarise
