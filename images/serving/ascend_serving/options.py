"""The options of `serve`: one table, read from the command line and from the environment."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ascend_serving.backend import BACKENDS
from ascend_serving.errors import UsageError


@dataclass(frozen=True)
class ServeOptions:
    """How to serve. Times in seconds but `batch_timeout_ms`; counts of instances."""

    model_name: str
    model_path: Path
    host: str
    port: int
    grpc_port: int | None
    health_host: str
    health_port: int
    backend: str
    workers: int
    threads: int
    max_batch: int
    max_queue: int
    batch_timeout_ms: float
    request_timeout_s: float
    stall_timeout_s: float
    lame_duck_s: float
    drain_timeout_s: float
    keep_alive_s: int
    max_body_mb: float
    threshold: float | None
    op_library: Path | None
    device: int
    acl_config: Path | None
    release: str | None


@dataclass(frozen=True)
class _Row:
    flag: str
    kind: type
    default: object
    help: str
    low: float | None = None
    choices: tuple[str, ...] | None = None
    variable: str | None = None  # the environment's name, where it is not SERVING_<FLAG>

    @property
    def name(self) -> str:
        return self.flag.removeprefix("--").replace("-", "_")

    @property
    def environment(self) -> str:
        return self.variable or f"SERVING_{self.name.upper()}"


_REQUIRED = object()
_BACKENDS = ("auto", *BACKENDS)
_ROWS = (
    _Row("--model-name", str, "anomaly", "name in the URL", variable="MODEL_NAME"),
    _Row(
        "--model-path",
        Path,
        _REQUIRED,
        "SavedModel folder, .om file, or folder of numbered versions",
        variable="MODEL_PATH",
    ),
    _Row("--host", str, "127.0.0.1", "address of the REST API"),
    _Row("--port", int, 8501, "port of the REST API; 0 takes a free one", low=0),
    _Row("--grpc-port", int, None, "port of gRPC on --host, as 8500; 0 takes a free one", low=0),
    _Row("--health-host", str, None, "address of health and metrics (as --host)"),
    _Row("--health-port", int, 8080, "port of health and metrics; 0 takes a free one", low=0),
    _Row("--backend", str, "auto", "what runs the model", choices=_BACKENDS),
    _Row("--workers", int, 4, "batches that run at once", low=1),
    _Row("--threads", int, 1, "threads of one batch; 0 lets TensorFlow choose", low=0),
    _Row("--max-batch", int, 32, "instances in a batch, at most", low=1),
    _Row("--max-queue", int, 1024, "instances that may wait; more are refused (503)", low=1),
    _Row("--batch-timeout-ms", float, 0.0, "time to wait for a batch to fill", low=0),
    _Row("--request-timeout-s", float, 10.0, "time limit of a request (504)", low=0.001),
    _Row("--stall-timeout-s", float, 5.0, "not ready when work is older than this", low=0.001),
    _Row("--lame-duck-s", float, 2.0, "time to keep serving after SIGTERM", low=0),
    _Row("--drain-timeout-s", float, 30.0, "then, time for requests under way to end", low=0),
    _Row("--keep-alive-s", int, 75, "time an idle connection stays open", low=1),
    # While a body is decoded nothing else is answered, health included: 16 MB take about 0.4 s.
    _Row("--max-body-mb", float, 16.0, "size of a request body, at most", low=0.001),
    _Row("--threshold", float, None, "score that counts as an anomaly (the model's own)"),
    _Row("--op-library", Path, None, "custom-op library (the one that ascend-ops brings)"),
    _Row("--device", int, 0, "NPU, for the back end acl", low=0),
    _Row("--acl-config", Path, None, "acl.json, for the back end acl"),
)


def make_parser() -> argparse.ArgumentParser:
    """The parser of `serve`, with each option's variable in its help."""
    parser = argparse.ArgumentParser(
        prog="python -m ascend_serving serve",
        description="Serves one model in TensorFlow Serving's protocols.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    for row in _ROWS:
        parser.add_argument(
            row.flag,
            default=argparse.SUPPRESS,
            metavar=row.kind.__name__.upper(),
            help=f"{row.help} [{row.environment}; {_show_default(row)}]",
        )
    return parser


def read_options(argv: Sequence[str], environment: Mapping[str, str] = os.environ) -> ServeOptions:
    """The options; the command line wins over the environment. Raises `UsageError`."""
    given = vars(make_parser().parse_args(argv))
    values: dict[str, object] = {}
    for row in _ROWS:
        if row.name in given:
            values[row.name] = _convert(row, given[row.name], row.flag)
        elif environment.get(row.environment):
            values[row.name] = _convert(row, environment[row.environment], row.environment)
        elif row.default is _REQUIRED:
            raise UsageError(
                "cannot serve", f"{row.flag} is not set", f"Set it or {row.environment}."
            )
        else:
            values[row.name] = row.default
    values["health_host"] = values["health_host"] or values["host"]
    values["release"] = environment.get("OPSCTL_RELEASE") or None
    return ServeOptions(**values)  # type: ignore[arg-type]  # checked row by row


def _convert(row: _Row, text: str, source: str) -> object:
    try:
        value = row.kind(text)
    except ValueError as error:
        raise UsageError(
            f"cannot read {source}={text}", f"it is no {row.kind.__name__}", f"It is: {row.help}."
        ) from error
    if row.choices and value not in row.choices:
        raise UsageError(
            f"cannot use {source}={text}", "there is no such choice", f"Use {_either(row.choices)}."
        )
    if row.low is not None and not value >= row.low:
        raise UsageError(
            f"cannot use {source}={text}", f"it is below {row.low:g}", f"It is: {row.help}."
        )
    return value


def _either(choices: Sequence[str]) -> str:
    return f"{', '.join(choices[:-1])} or {choices[-1]}"


def _show_default(row: _Row) -> str:
    return "required" if row.default is _REQUIRED else f"default {row.default}"
