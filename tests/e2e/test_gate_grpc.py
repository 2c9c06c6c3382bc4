"""Whole deploys whose gate speaks gRPC."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from scripts.campaigns._opsctl import ROOT, Opsctl
from tests.apps import anomaly
from tests.apps.project import GATE, Candidate
from tests.bench.kept import BUILD
from tests.e2e.conftest import MakeSite
from tests.e2e.refusal import refuse_untouched
from tests.e2e.site import quick

pytestmark = pytest.mark.long


def sample_command() -> list[str]:
    """The sample service's own command, which opens a port for gRPC too."""
    settings = yaml.safe_load((ROOT / "opsctl.yaml").read_text())["services"][anomaly.SERVICE]
    return [*settings["app"]["command"], "--grpc-port", "0"]


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Opsctl]:
    """The real sample service, whose gate goes by gRPC; nothing runs yet."""
    if importlib.util.find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    project = anomaly.write(
        tmp_path / "project",
        BUILD / "models",
        variants=("normal",),
        overrides={
            "app": {"command": sample_command()},
            "health": {"tries": 240},
            "bench": {"protocol": "grpc", "batch_sizes": [1, 4], "rate_per_s": 20,
                      "warmup_requests": 5, "timeout_s": 60},
            # The light service's margins: wide enough for a machine that is very busy.
            "gate": {**GATE, "budget_s": 60},
            "strategy": {"stages": [{"weight": 20, "hold_s": 1}], "promote_hold_s": 1},
        },
    )  # fmt: skip
    opsctl = Opsctl(project)
    yield opsctl
    assert opsctl.down() == []


@pytest.mark.timeout(900)
def test_the_real_service_is_deployed_by_a_gate_that_speaks_grpc(sample: Opsctl) -> None:
    first = sample.run("deploy")
    assert (first.exit_code, first.data["serving_release"]) == (0, "r1"), first.stderr
    sample.project.change(Candidate("code"), 1)
    second = sample.run("deploy")
    assert (second.exit_code, second.data["serving_release"]) == (0, "r2"), second.stderr
    for rollout, arms in ((1, {"candidate"}), (2, {"baseline", "candidate"})):
        folder = sample.project.state / "reports" / f"{rollout:04d}"
        gate = yaml.safe_load((folder / "gate-1.json").read_text())
        assert (gate["outcome"], gate["bench"]["protocol"]) == ("pass", "grpc")
        assert list(gate["batch_sizes"]) == ["1", "4"]
        for size in ("1", "4"):
            assert gate["batch_sizes"][size].keys() == arms
            for arm in arms:
                figures = gate["batch_sizes"][size][arm]
                assert (figures["errors"], figures["failures"]) == (0, {})
                assert figures["requests"] > 0 and figures["p50_ms"] > 0.0


def test_without_grpcio_or_without_a_grpc_port_nothing_is_touched(
    make_site: MakeSite, tmp_path: Path
) -> None:
    site = make_site(quick())
    site.good("deploy")
    site.with_options(gate={"enabled": True}, bench={"protocol": "grpc"})
    # A Python without grpcio: importing it fails as if it were not there.
    absent = tmp_path / "absent" / "grpc"
    absent.mkdir(parents=True)
    (absent / "__init__.py").write_text('raise ImportError("No module named grpc")\n')
    missing = refuse_untouched(site, PYTHONPATH=f"{absent.parent}:{ROOT}").data
    assert missing["reason"] == (
        "preflight failed: bench.protocol is grpc, and this opsctl cannot speak it: "
        "No module named grpc"
    )
    assert 'pip install "opsctl[grpc]"' in missing["next_step"]
    mute = refuse_untouched(site).data
    assert mute["reason"].startswith(
        "preflight failed: r1-1 does not say where it speaks gRPC: http://127.0.0.1:"
    )
    assert "bench.grpc_port" in mute["next_step"]
