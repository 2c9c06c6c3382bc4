"""The operator benchmark: what it measures, its files, its judgement of regimes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from ascend_ops.build_record import read_build_record

if not read_build_record().tensorflow_version:
    pytest.skip("ascend-ops was built without TensorFlow", allow_module_level=True)

from ascend_ops import benchmark
from ascend_ops.benchmark import Settings, Timing


def test_the_defaults_are_the_documented_ones() -> None:
    settings = Settings()
    assert settings.sizes == (1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
    assert settings.dtypes == ("float32", "float16", "bfloat16")
    assert (settings.warm_up, settings.runs, settings.seed) == (10, 100, 42)


def test_each_operator_type_and_size_is_a_row() -> None:
    report = benchmark.run_benchmark(Settings(sizes=(4096, 1024), warm_up=1, runs=5))
    assert len(report.rows) == 2 * 3 * 2
    assert [row.elements for row in report.rows[:2]] == [1024, 4096]
    for row in report.rows:
        assert 0 < row.custom.median_us <= row.custom.p95_us
        assert row.ratio.low <= row.ratio.speedup <= row.ratio.high
        assert (row.bar, row.verdict) == (1.0, row.ratio.judge(1.0))
        moved = (2 if row.operator == "sigmoid" else 3) * row.elements
        moved *= 4 if row.dtype == "float32" else 2
        assert row.custom.bandwidth_gb_s == pytest.approx(moved / row.custom.median_us / 1e3)
    assert any(name.endswith("CPU:0") for name in report.devices)
    assert report.peak_bandwidth_gb_s > 0.1


@pytest.mark.parametrize(
    ("median_us", "bandwidth", "regime"),
    [(19.0, 9.0, "launch"), (21.0, 6.1, "bandwidth"), (21.0, 5.9, "compute")],
)
def test_the_regime_follows_time_and_bandwidth(
    median_us: float, bandwidth: float, regime: str
) -> None:
    smallest = Timing(10.0, 11.0, 1.0)
    assert benchmark._regime(Timing(median_us, median_us, bandwidth), smallest, 10.0) == regime


def test_sixteen_bit_types_have_to_be_twice_as_fast_from_65536_elements_on() -> None:
    assert benchmark._bar("float16", 65536) == benchmark._bar("bfloat16", 4194304) == 2.0
    assert benchmark._bar("float16", 65535) == benchmark._bar("float32", 4194304) == 1.0


def test_settings_that_measure_nothing_are_refused() -> None:
    for settings in (Settings(runs=0), Settings(sizes=()), Settings(sizes=(0,))):
        with pytest.raises(ValueError, match="runs and sizes are at least 1"):
            benchmark.run_benchmark(settings)


@pytest.mark.long
def test_the_command_writes_json_and_a_picture(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ascend_ops.benchmark", "--output", str(tmp_path)]
    command += ["--sizes", "1024", "4096", "--runs", "3", "--warm-up", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "speedup" in done.stdout
    report = json.loads((tmp_path / "benchmark.json").read_text(encoding="utf-8"))
    assert len(report["rows"]) == 12
    pytest.importorskip("matplotlib")
    assert (tmp_path / "benchmark.png").read_bytes().startswith(b"\x89PNG")
