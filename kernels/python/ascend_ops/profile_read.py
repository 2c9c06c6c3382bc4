"""Reads what msprof exports: op_summary and step_trace CSV files of both CANN generations.

CANN 6 writes PROF_*/device_*/summary/op_summary_<device>_<model>_<iteration>.csv, whose start
times are in µs or ns without saying which; CANN 8 and 9 write one file of all devices into
PROF_*/mindstudio_profiler_output, in µs, with a column for each kind of core (aic_, aiv_).
"""

import csv
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ascend_ops.errors import InvalidInputError

REQUIRED: Final = ("Op Name", "OP Type", "Task Duration(us)")
MISSING: Final = ("", "N/A", "NA", "-")
ROWS_MAX: Final = 5_000_000  # about 2 GB in memory; a hundred iterations of any model are fewer
# A pipe's share of a task, under any of its names; the first is CANN 6's.
PREFIXES: Final = ("", "aic_", "aiv_", "ai*_")
PIPES: Final = ("mac", "vec", "scalar", "mte1", "mte2", "mte3", "fixpipe")
EXPORT: Final = "Export it again: msprof --export=on --output="
BYTES: Final = {
    "FLOAT": 4, "FLOAT32": 4, "FLOAT16": 2, "HALF": 2, "BF16": 2, "DT_BF16": 2, "BFLOAT16": 2,
    "INT8": 1, "UINT8": 1, "BOOL": 1, "INT16": 2, "UINT16": 2, "INT32": 4, "UINT32": 4, "INT64": 8,
    "UINT64": 8, "DOUBLE": 8,
}  # fmt: skip

# Reads a column of one row as a number.
Getter = Callable[[str], float | None]


@dataclass(frozen=True)
class Task:
    """One task of a device; times in µs, `start` in the file's own unit until `Profile` is made.

    `ratios` are shares of the task that a pipe worked, 0…1; `bandwidth_gb_s` is None where the
    profile measured none; `bytes` is what inputs and outputs hold, 0 when shapes are unknown.
    `first_shape` and `first_type` are those of the first input, () and "" when they are unknown.
    """

    name: str
    type: str
    core: str
    device: str
    stream: str
    iteration: int | None
    start: float | None
    duration_us: float
    wait_us: float
    ratios: Mapping[str, float]
    bandwidth_gb_s: float | None
    bytes: int
    first_shape: tuple[int, ...]
    first_type: str


@dataclass(frozen=True)
class Profile:
    """All tasks of one run, by device and start; `iterations_us` are measured iteration times."""

    source: Path
    files: tuple[Path, ...]
    generation: str
    tasks: tuple[Task, ...]
    iterations_us: tuple[float, ...] = field(default=())
    left_out: int = 0


def read_profile(directory: Path) -> Profile:
    """The newest PROF folder in `directory`, or `directory` itself.

    InvalidInputError when there is none, and for a file that is cut off, corrupt or too large.
    """
    if not directory.is_dir():
        raise InvalidInputError(
            f"{directory} is no folder of msprof's output. Name the folder that its --output named"
        )
    source, left_out = _newest(directory)
    files = _find(source, "op_summary")
    if not files:
        raise InvalidInputError(
            f"{source} has no op_summary CSV file: it was collected but not exported, or is "
            f"another folder. {EXPORT}{source}"
        )
    tasks = [task for path in files for task in _read_tasks(path)]
    if not tasks:
        raise InvalidInputError(
            f"{files[0]} lists no task: nothing ran on a device while it was profiled, or the "
            "program ended at once. Check the program alone, then profile it again"
        )
    new = any("mindstudio_profiler_output" in path.parts for path in files)
    generation = "CANN 8–9" if new else "CANN 6"
    ordered = _in_microseconds(tasks)
    iterations = tuple(time for path in _find(source, "step_trace") for time in _iterations(path))
    return Profile(source, tuple(files), generation, ordered, iterations, left_out)


def _newest(directory: Path) -> tuple[Path, int]:
    if _find(directory, "op_summary", deep=False):
        return directory, 0
    runs = [path for path in directory.rglob("PROF_*") if path.is_dir()]
    if not runs:
        return directory, 0
    newest = max(runs, key=lambda path: (path.stat().st_mtime, path.name))
    return newest, len(runs) - 1


def _find(source: Path, kind: str, *, deep: bool = True) -> list[Path]:
    """op_summary_*.csv, also cut into slices; below a folder that holds several runs none."""
    paths = [source, *source.glob("mindstudio_profiler_output"), *source.glob("device_*/summary")]
    if source.name.startswith("PROF_") or deep:
        paths += source.glob("PROF_*/mindstudio_profiler_output")
    return sorted({file for path in paths for file in path.glob(f"{kind}*.csv") if file.is_file()})


def _read_tasks(path: Path) -> list[Task]:
    rows = _rows(path, REQUIRED)
    device = _device_of(path)
    return [_task(path, line, row, device) for line, row in rows]


def _device_of(path: Path) -> str:
    match = re.search(r"device_(\d+)", str(path.parent))
    return match.group(1) if match else "0"


def _rows(path: Path, required: tuple[str, ...]) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number and fields of each row. InvalidInputError for what is no whole CSV file."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            missing = [name for name in required if name not in header]
            if missing:
                raise InvalidInputError(
                    f"{path} is not what msprof exports: column {missing[0]!r} is missing. "
                    f"{EXPORT}{path.parent}"
                )
            for count, fields in enumerate(reader, 1):
                if count > ROWS_MAX:
                    raise InvalidInputError(
                        f"{path} has more than {ROWS_MAX} tasks. Profile fewer iterations"
                    )
                if len(fields) not in (len(header), len(header) + 1):  # some end in a comma
                    raise InvalidInputError(
                        f"{path}:{reader.line_num} has {len(fields)} fields and not "
                        f"{len(header)}: the file is cut off. {EXPORT}{path.parent}"
                    )
                row = zip(header, fields, strict=False)
                yield reader.line_num, {name: value.strip() for name, value in row}
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidInputError(
            f"{path} is no CSV text ({error}). {EXPORT}{path.parent}"
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"cannot read {path}: {error.strerror}. msprof may have run as another user: give "
            "yourself the right to read it"
        ) from error


def _number(path: Path, line: int, row: Mapping[str, str], name: str) -> float | None:
    """The value of a column, None where it is missing; InvalidInputError when it is no number."""
    text = row.get(name, "")
    if text in MISSING:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise InvalidInputError(
            f"{path}:{line}: {name} is {text!r}, which is no measured number. {EXPORT}{path.parent}"
        )
    return value


def _task(path: Path, line: int, row: Mapping[str, str], device: str) -> Task:
    def get(name: str) -> float | None:
        return _number(path, line, row, name)

    duration = get("Task Duration(us)")
    if duration is None:
        raise InvalidInputError(
            f"{path}:{line}: {row['Op Name']} has no duration. {EXPORT}{path.parent}"
        )
    start = next((get(name) for name in row if name.startswith("Task Start Time")), None)
    infer = get("Infer ID")
    return Task(
        name=row["Op Name"],
        type=row["OP Type"],
        core=row.get("Task Type", ""),
        device=row.get("Device_id") or device,
        stream=row.get("Stream ID", ""),
        iteration=None if infer is None else int(infer),
        start=start,
        duration_us=duration,
        wait_us=get("Task Wait Time(us)") or 0.0,
        ratios=_ratios(row, get),
        bandwidth_gb_s=_bandwidth(row, get),
        bytes=_bytes(row, "Input") + _bytes(row, "Output"),
        first_shape=next((shape for shape, _ in _tensors(row, "Input")), ()),
        first_type=next((kind for _, kind in _tensors(row, "Input")), ""),
    )


def _ratios(row: Mapping[str, str], get: Getter) -> dict[str, float]:
    """Each pipe's share of the task, of the kind of core that used it most."""
    ratios: dict[str, float] = {}
    for pipe in PIPES:
        for prefix in PREFIXES:
            name = f"{prefix}{pipe}_ratio"
            value = get(name) if name in row else None
            if value is not None:
                ratios[pipe] = max(ratios.get(pipe, 0.0), min(value, 1.0))
    return ratios


def _bandwidth(row: Mapping[str, str], get: Getter) -> float | None:
    """Main memory read and written in 10^9 bytes a second, all kinds of core together."""
    names = [f"{prefix}main_mem_{way}_bw(GB/s)" for prefix in PREFIXES for way in ("read", "write")]
    values = [get(name) for name in names if name in row]
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _tensors(row: Mapping[str, str], side: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Shape and type of each tensor of one side, from "8,16;16" and "FLOAT;FLOAT16"."""
    shapes = row.get(f"{side} Shapes", "").strip('"')
    types = row.get(f"{side} Data Types", "").split(";")
    if shapes in MISSING:
        return
    for shape, kind in zip(shapes.split(";"), types, strict=False):
        dimensions = [part.strip() for part in shape.split(",") if part.strip()]
        if all(part.isdigit() for part in dimensions):
            yield tuple(map(int, dimensions)), kind.strip().upper()


def _bytes(row: Mapping[str, str], side: str) -> int:
    """Bytes of all tensors of one side whose shapes and types are known."""
    return sum(math.prod(shape) * BYTES.get(kind, 0) for shape, kind in _tensors(row, side))


def _iterations(path: Path) -> list[float]:
    times = []
    for line, row in _rows(path, ()):
        name = next((name for name in row if name.startswith("Iteration Time")), None)
        value = None if name is None else _number(path, line, row, name)
        if value:
            times.append(value)
    return times


def _in_microseconds(tasks: list[Task]) -> tuple[Task, ...]:
    """The tasks in order of their start, which is brought to µs.

    CANN 6.0.RC1 wrote µs, 6.0.1 ns, under the same header. A task starts when the one before it in
    its stream has ended and it has waited, and both of these are in µs: that tells the unit.
    """
    tasks.sort(key=lambda task: (task.device, task.stream, task.start or 0.0))
    raw = measured = 0.0
    for before, task in itertools.pairwise(tasks):
        same = (before.device, before.stream) == (task.device, task.stream)
        if same and before.start is not None and task.start is not None:
            raw += task.start - before.start
            measured += before.duration_us + task.wait_us
    scale = 1e-3 if measured > 0 and raw / measured > math.sqrt(1000) else 1.0
    scaled = [
        Task(**{**vars(task), "start": None if task.start is None else task.start * scale})
        for task in tasks
    ]
    scaled.sort(key=lambda task: (task.device, task.start or 0.0))
    return tuple(scaled)
