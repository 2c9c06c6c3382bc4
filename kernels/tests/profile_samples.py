"""Directories as msprof exports them, from the columns that its documentation and sources name."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OLD = [
    "Model Name",
    "Model ID",
    "Task ID",
    "Stream ID",
    "Infer ID",
    "Op Name",
    "OP Type",
    "Task Type",
    "Task Start Time",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "Block Dim",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
    "aicore_time(us)",
    "total_cycles",
    "vec_time(us)",
    "vec_ratio",
    "mac_time(us)",
    "mac_ratio",
    "scalar_time(us)",
    "scalar_ratio",
    "mte1_time(us)",
    "mte1_ratio",
    "mte2_time(us)",
    "mte2_ratio",
    "mte3_time(us)",
    "mte3_ratio",
    "icache_miss_rate",
]
NEW = [
    "Device_id",
    "Model ID",
    "Task ID",
    "Stream ID",
    "Op Name",
    "OP Type",
    "OP State",
    "Task Type",
    "Task Start Time(us)",
    "Task Duration(us)",
    "Task Wait Time(us)",
    "Block Dim",
    "Mix Block Dim",
    "HF32 Eligible",
    "Input Shapes",
    "Input Data Types",
    "Input Formats",
    "Output Shapes",
    "Output Data Types",
    "Output Formats",
    "Context ID",
    "aicore_time(us)",
    "aic_total_cycles",
    "aic_mac_time(us)",
    "aic_mac_ratio",
    "aic_scalar_time(us)",
    "aic_scalar_ratio",
    "aic_mte1_time(us)",
    "aic_mte1_ratio",
    "aic_mte2_time(us)",
    "aic_mte2_ratio",
    "aic_fixpipe_time(us)",
    "aic_fixpipe_ratio",
    "aic_icache_miss_rate",
    "aiv_time(us)",
    "aiv_total_cycles",
    "aiv_vec_time(us)",
    "aiv_vec_ratio",
    "aiv_scalar_time(us)",
    "aiv_scalar_ratio",
    "aiv_mte2_time(us)",
    "aiv_mte2_ratio",
    "aiv_mte3_time(us)",
    "aiv_mte3_ratio",
    "aiv_icache_miss_rate",
    "cube_utilization(%)",
]
NEW_MEMORY = (
    *NEW[:22],
    "aic_main_mem_read_bw(GB/s)",
    "aic_main_mem_write_bw(GB/s)",
    "aiv_main_mem_read_bw(GB/s)",
    "aiv_main_mem_write_bw(GB/s)",
)
STEP_TRACE = [
    "Iteration ID",
    "FP Start(us)",
    "BP End(us)",
    "Iteration End(us)",
    "Iteration Time(us)",
    "FP to BP Time(us)",
    "Iteration Refresh(us)",
    "Data Aug Bound(us)",
]

MATMUL: dict[str, Any] = {
    "Op Name": "dense/MatMul",
    "OP Type": "MatMulV2",
    "Task Type": "AI_CORE",
    "Task Duration(us)": 60,
    "Input Shapes": '"1000,1000;1000,500"',
    "Input Data Types": "FLOAT16;FLOAT16",
    "Output Shapes": '"1000,500"',
    "Output Data Types": "FLOAT16",
}
RELU: dict[str, Any] = {
    "Op Name": "dense/Relu",
    "OP Type": "Relu",
    "Task Type": "AI_VECTOR_CORE",
    "Task Duration(us)": 20,
    "Input Shapes": '"1000,500"',
    "Input Data Types": "FLOAT16",
    "Output Shapes": '"1000,500"',
    "Output Data Types": "FLOAT16",
}


def old_rows(iterations: int, unit: float) -> list[dict[str, Any]]:
    """MatMul 60 µs, wait 5, Relu 20 µs, wait 15 to the next iteration; `unit` times µs."""
    rows = []
    for i in range(iterations):
        begin = 1_000_000 + 100 * i
        matmul = MATMUL | {"Infer ID": i + 1, "Task Start Time": begin * unit, "mac_ratio": 0.3}
        matmul |= {"mte2_ratio": 0.5, "vec_ratio": 0.0, "Task Wait Time(us)": 15 if i else 0}
        relu = RELU | {"Infer ID": i + 1, "Task Start Time": (begin + 65) * unit, "vec_ratio": 0.4}
        relu |= {"mte2_ratio": 0.7, "mte3_ratio": 0.6, "mac_ratio": 0, "Task Wait Time(us)": 5}
        rows += [matmul, relu]
    return [{"Stream ID": 3, "Model ID": 1, "Task ID": n} | row for n, row in enumerate(rows)]


def new_rows(iterations: int) -> list[dict[str, Any]]:
    """The same run as CANN 8 tells it: no Infer ID, tabs behind start times, N/A."""
    names = {"mac_ratio": "aic_mac_ratio", "vec_ratio": "aiv_vec_ratio"}
    rows = []
    for row in old_rows(iterations, 1.0):
        prefix = "aic" if row["OP Type"] == "MatMulV2" else "aiv"
        row = {names.get(key, key): value for key, value in row.items()}
        row |= {f"{prefix}_mte2_ratio": row["mte2_ratio"], "Context ID": "N/A"}
        row |= {"Task Start Time(us)": f"{row['Task Start Time']}\t", "Device_id": 0}
        if "mte3_ratio" in row:
            row["aiv_mte3_ratio"] = row["mte3_ratio"]
        rows.append(row)
    return rows


def write(path: Path, header: Sequence[str], rows: Sequence[dict[str, Any]]) -> Path:
    """One CSV file; fields that a row does not name are empty."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, header, extrasaction="ignore", restval="")
        writer.writeheader()
        writer.writerows(rows)
    return path


def old_run(folder: Path, iterations: int = 4, unit: float = 1.0) -> Path:
    """A PROF folder of CANN 6."""
    prof = folder / "PROF_000001_20230101000000000_ABC"
    write(prof / "device_0/summary/op_summary_0_1_1.csv", OLD, old_rows(iterations, unit))
    return prof


def new_run(folder: Path, iterations: int = 4) -> Path:
    """A PROF folder of CANN 8."""
    prof = folder / "PROF_000001_20260101000000000_ABC"
    summary = "mindstudio_profiler_output/op_summary_20260101000000.csv"
    write(prof / summary, NEW, new_rows(iterations))
    return prof
