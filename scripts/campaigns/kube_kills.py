"""`kills` on target `kubernetes`: recovered from another folder with nothing but the kubeconfig."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from scripts.campaigns import kills
from scripts.campaigns._kube import cluster_or_fail, service_in
from scripts.campaigns._opsctl import Opsctl
from tests.apps.project import CANDIDATES, Options
from tests.kubernetes.guard_image import guard_image

RUNS = kills.RUNS - kills.RESTARTS
RANGE = kills.Range(("code", "code", "wrong_value", "dies"), "code", ("wrong_value", "dies"), 25.0)
OPTIONS = Options(gate=False, overrides={"health": {"tries": 60}})


def run_all(
    seed: int, indexes: Sequence[int], workdir: Path, emit: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Kill deploys of the light service, with a guard in the cluster."""
    chosen = {index: choose(seed, index) for index in indexes}
    cluster = cluster_or_fail()
    with tempfile.TemporaryDirectory() as folder:
        guard = guard_image(cluster, Path(folder))
    with contextlib.ExitStack() as stack:

        def begin(where: Path) -> Opsctl:
            opsctl = stack.enter_context(service_in(where, OPTIONS))
            opsctl.light.edit(lambda service: service["kubernetes"].update(guard_image=guard))
            kills.deploy_first(opsctl)
            cluster.roll_out(opsctl.light.namespace, "opsctl-light-guard")
            return opsctl

        chain = kills.Chain(begin, CANDIDATES, workdir, seed)
        return kills.run_chain(chain, chosen, emit)


def choose(seed: int, index: int) -> kills.Kill:
    """As in `kills`, with an instant in place of a restart of the machine."""
    kill = kills.choose(seed, index, RANGE)
    return replace(kill, point="instant") if kill.point == "restart" else kill


summarise = kills.summarise
