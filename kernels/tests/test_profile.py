"""The profile analyser: both CANN generations, right numbers, and unreadable input."""

import json
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from ascend_ops import profile_read
from ascend_ops.errors import ConversionError, InvalidInputError
from ascend_ops.profile_analysis import analyse
from ascend_ops.profile_read import read_profile
from ascend_ops.profile_report import format_analysis, plot
from ascend_ops.profile_run import find_msprof, make_folder, run_outside, run_under_msprof

from kernels.tests import profile_samples as samples

# Of each iteration of 100 µs: MatMul 60 µs with the cube at 30 %, Relu 20 µs with vectors at 40 %.
COMPUTE = (60 * 0.3 + 20 * 0.4) / 80
COPYING = (60 * 0.5 + 20 * 0.7) / 80


@pytest.mark.parametrize("unit", [1.0, 1000.0], ids=["us", "ns"])
def test_cann_6_in_either_unit_gives_the_right_times(tmp_path: Path, unit: float) -> None:
    samples.old_run(tmp_path, iterations=4, unit=unit)
    analysis = analyse(read_profile(tmp_path))
    assert analysis.generation == "CANN 6"
    assert (analysis.tasks, analysis.latency.count) == (8, 4)
    assert analysis.latency.mean_us == pytest.approx(85.0)  # 60 + 5 + 20
    assert analysis.throughput_per_s == pytest.approx(1e6 / 85)
    assert analysis.idle == pytest.approx((4 * 5 + 3 * 15) / (4 * 85 + 3 * 15))


def test_cann_8_gives_the_same_numbers_as_cann_6(tmp_path: Path) -> None:
    old = analyse(read_profile(samples.old_run(tmp_path / "old")))
    new = analyse(read_profile(samples.new_run(tmp_path / "new")))
    assert new.generation == "CANN 8–9"
    assert new.compute_utilisation == pytest.approx(COMPUTE)
    for name in ("compute_utilisation", "bandwidth_utilisation", "idle", "throughput_per_s"):
        assert getattr(new, name) == pytest.approx(getattr(old, name)), name
    assert [(op.type, op.count, op.total_us) for op in new.top] == [
        ("MatMulV2", 4, 240.0),
        ("Relu", 4, 80.0),
    ]
    assert new.latency == old.latency


def test_busiest_pipes_and_shares_are_told(tmp_path: Path) -> None:
    analysis = analyse(read_profile(samples.new_run(tmp_path)), top=1)
    (op,) = analysis.top
    assert (op.share, op.bound_by) == (0.75, "copy in 50%")
    assert analysis.bandwidth_utilisation == pytest.approx(COPYING)
    assert "share of time that copy engines work" in analysis.bandwidth_basis


def test_recommendations_follow_the_two_limits_and_state_their_estimate(tmp_path: Path) -> None:
    analysis = analyse(read_profile(samples.new_run(tmp_path)))
    assert [advice.gain_percent for advice in analysis.recommendations] == [(25, 40), (30, 50)]
    text = format_analysis(analysis)
    assert "memory bandwidth is used to 55%, below 60%" in text
    assert "Expected gain, an estimate: 25–40%" in text
    assert "compute units are used to 32%, below 50%" in text
    assert "MatMulV2 → Relu (4 times)" in text
    assert "Expected gain, an estimate: 30–50%" in text


def test_well_used_hardware_gets_no_recommendation(tmp_path: Path) -> None:
    rows = [row | {"aic_mac_ratio": 0.9, "aic_mte2_ratio": 0.8} for row in samples.new_rows(2)]
    rows = [row for row in rows if row["OP Type"] == "MatMulV2"]
    samples.write(tmp_path / "op_summary_1.csv", samples.NEW, rows)
    analysis = analyse(read_profile(tmp_path))
    assert analysis.recommendations == ()
    assert "no recommendation" in format_analysis(analysis)


def test_bandwidth_is_measured_where_memory_was_profiled(tmp_path: Path) -> None:
    rows = [
        samples.MATMUL | {"aic_main_mem_read_bw(GB/s)": 300, "aic_main_mem_write_bw(GB/s)": 100},
        samples.RELU | {"aiv_main_mem_read_bw(GB/s)": 500, "aiv_main_mem_write_bw(GB/s)": 300},
    ]
    samples.write(tmp_path / "op_summary_1.csv", samples.NEW_MEMORY, rows)
    analysis = analyse(read_profile(tmp_path), peak_gb_s=1000.0)
    assert analysis.bandwidth_utilisation == pytest.approx((60 * 0.4 + 20 * 0.8) / 80)
    assert analysis.bandwidth_basis == "500.0 GB/s measured, of 1000 GB/s"
    assert analysis.compute_utilisation is None  # Memory profiles have no pipe ratios


def test_with_a_peak_and_no_memory_profile_shapes_tell_the_bytes(tmp_path: Path) -> None:
    analysis = analyse(read_profile(samples.new_run(tmp_path, 1)), peak_gb_s=100.0)
    moved = 2 * (1000 * 1000 + 1000 * 500 + 1000 * 500) + 2 * 2 * 1000 * 500
    assert analysis.bandwidth_utilisation == pytest.approx(moved / 80e-6 / 1e9 / 100)


def test_step_trace_gives_the_iteration_times(tmp_path: Path) -> None:
    prof = samples.new_run(tmp_path, 3)
    times = [
        {"Iteration ID": i, "Iteration Time(us)": time} for i, time in enumerate((90, 100, 110))
    ]
    samples.write(
        prof / "mindstudio_profiler_output/step_trace_20260101000000.csv", samples.STEP_TRACE, times
    )
    latency = analyse(read_profile(prof)).latency
    assert (latency.source, latency.mean_us, latency.p50_us) == ("step_trace", 100.0, 100.0)
    assert latency.p95_us == pytest.approx(109.0)


def test_the_newest_run_counts_and_the_others_are_told(tmp_path: Path) -> None:
    old = samples.old_run(tmp_path)
    new = samples.new_run(tmp_path)
    os.utime(old, (1, 1))
    profile = read_profile(tmp_path)
    assert (profile.source, profile.left_out) == (new, 1)


def test_time_on_the_ai_cpu_is_a_bottleneck(tmp_path: Path) -> None:
    rows = [*samples.new_rows(1), {"Op Name": "u", "OP Type": "Unique", "Task Type": "AI_CPU",
                                   "Task Duration(us)": 20}]  # fmt: skip
    samples.write(tmp_path / "op_summary_1.csv", samples.NEW, rows)
    assert (
        "20% of the time is spent on the AI CPU, not on AI cores"
        in analyse(read_profile(tmp_path)).bottlenecks
    )


def test_two_devices_are_judged_together_and_timed_apart(tmp_path: Path) -> None:
    rows = samples.new_rows(2)
    rows += [row | {"Device_id": 1} for row in rows]
    samples.write(tmp_path / "op_summary_1.csv", samples.NEW, rows)
    analysis = analyse(read_profile(tmp_path))
    assert (analysis.devices, analysis.latency.count, analysis.latency.mean_us) == (2, 4, 85.0)


def test_a_plot_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "profile.png"
    plot(analyse(read_profile(samples.new_run(tmp_path))), path)
    assert path.read_bytes().startswith(b"\x89PNG")


def test_a_missing_folder_and_one_without_a_profile_are_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="is no folder of msprof's output"):
        read_profile(tmp_path / "nothing")
    with pytest.raises(InvalidInputError, match=r"has no op_summary CSV file.*--export=on"):
        read_profile(tmp_path)


BROKEN: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", r"column 'Op Name' is missing"),
    "another": ("a,b\n1,2\n", r"column 'Op Name' is missing"),
    "no task": ("Op Name,OP Type,Task Duration(us)\n", r"lists no task"),
    "cut off": ("Op Name,OP Type,Task Duration(us)\na,b,1\nc\n", r":3 has 1 fields and not 3"),
    "words": (
        "Op Name,OP Type,Task Duration(us)\na,b,fast\n",
        r":2: Task Duration\(us\) is 'fast'",
    ),
    "negative": ("Op Name,OP Type,Task Duration(us)\na,b,-1\n", r"is '-1', which is no measured"),
    "nan": ("Op Name,OP Type,Task Duration(us)\na,b,nan\n", r"is 'nan', which is no measured"),
    "no duration": ("Op Name,OP Type,Task Duration(us)\na,b,N/A\n", r":2: a has no duration"),
    "binary": (b"\xff\xfe\x00\x01", r"is no CSV text"),
    "endless field": ("Op Name,OP Type,Task Duration(us)\n" + "x" * 200_000, r"is no CSV text"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_unreadable_file_is_told_with_its_place_and_what_next(tmp_path: Path, name: str) -> None:
    content, message = BROKEN[name]
    path = tmp_path / "op_summary_1.csv"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InvalidInputError, match=message) as raised:
        read_profile(tmp_path)
    assert str(path) in str(raised.value)


def test_a_file_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples.old_run(tmp_path, iterations=10)
    monkeypatch.setattr(profile_read, "ROWS_MAX", 10)
    with pytest.raises(InvalidInputError, match=r"has more than 10 tasks\. Profile fewer"):
        read_profile(tmp_path)


MSPROF = """\
    #!{python}
    # Stands for msprof: it accepts the options that msprof documents, and no others.
    import shlex, subprocess, sys
    from pathlib import Path
    sys.path.insert(0, {tests!r})
    import profile_samples
    known = {{"output", "application", "ai-core", "aic-metrics", "export"}}
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:])
    assert set(options) <= known, options
    if options.get("export") == "on":
        assert Path(options["output"]).name.startswith("PROF_")
        Path(options["output"]).rename("moved")
        profile_samples.new_run(Path(options["output"]).parent)
    else:
        assert options["ai-core"] == "on" and options["aic-metrics"] == "PipeUtilization"
        code = subprocess.run(shlex.split(options["application"])).returncode
        if code:
            print("[ERROR] the application failed")
            sys.exit(1)
        if {exports}:
            profile_samples.new_run(Path(options["output"]))
        else:
            (Path(options["output"]) / "PROF_000001_20260101000000000_ABC").mkdir()
"""


def fake_msprof(folder: Path, *, exports: bool = True) -> Path:
    """An msprof that writes a sample directory."""
    path = folder / "msprof"
    tests = str(Path(__file__).parent)
    text = textwrap.dedent(MSPROF).format(python=sys.executable, tests=tests, exports=exports)
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.mark.parametrize("exports", [True, False])
def test_run_times_outside_the_profiler_and_judges_what_msprof_wrote(
    tmp_path: Path, exports: bool
) -> None:
    (tmp_path / "bin").mkdir()
    msprof = fake_msprof(tmp_path / "bin", exports=exports)
    count = "import sys; open('runs', 'a').write('r')"
    command = [sys.executable, "-m", "ascend_ops.profile", "--json", "run", "--iterations=5",
               f"--msprof={msprof}", "--", sys.executable, "-c", count]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (tmp_path / "runs").read_text() == "r" * 6  # five outside, one under the profiler
    assert found["latency"]["source"] == "outside the profiler"
    assert (found["latency"]["count"], found["tasks"]) == (5, 8)
    assert found["throughput_per_s"] == pytest.approx(1e6 / found["latency"]["mean_us"])


def test_a_program_that_repeats_itself_is_run_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f"import sys; open({str(log)!r}, 'a').write(sys.argv[1] + ' ')"
    outside = run_outside([sys.executable, "-c", script, "{iterations}"], 7)
    assert (log.read_text(), len(outside.seconds), outside.iterations) == ("7 ", 1, 7)


def test_what_cannot_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cannot start /nowhere: No such file"):
        run_outside(["/nowhere"], 3)
    with pytest.raises(InvalidInputError, match="exit code 3 without a profiler"):
        run_outside([sys.executable, "-c", "raise SystemExit(3)"], 3)
    with pytest.raises(ConversionError, match=r"there is no .*/msprof: it comes with the CANN"):
        find_msprof(str(tmp_path / "msprof"))
    (tmp_path / "file").touch()
    with pytest.raises(InvalidInputError, match=r"cannot make the folder .*file: File exists"):
        make_folder(tmp_path / "file")
    failing = [sys.executable, "-c", "raise SystemExit(1)"]
    with pytest.raises(ConversionError, match=r"failed \(exit code 1\): \[ERROR\] the application"):
        run_under_msprof(str(fake_msprof(tmp_path)), failing, tmp_path / "out")
