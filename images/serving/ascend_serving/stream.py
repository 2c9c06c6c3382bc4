"""`python -m ascend_serving detect`: the pipeline on a stream of JSON lines instead of HTTP.

Reading, batched inference and writing overlap: while some batches run, the next windows are read
and the answers before them are written, in the order of the input. A line is a whole window
[steps, channels], or one sample [channels]; samples are collected into windows that overlap.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import uvloop

from ascend_serving.artifact import find_artifact
from ascend_serving.errors import InvalidRequest, RequestError, UsageError
from ascend_serving.loader import start_loading
from ascend_serving.options import ServeOptions, read_options
from ascend_serving.protocol import DEFAULT_SIGNATURE
from ascend_serving.service import Service
from ascend_serving.signature import Tensor

_FAILED = 1  # exit code when some window had no answer


class Preprocessor:
    """Turns lines into windows of the model's input.

    Of samples, a window is complete every `stride` samples, as soon as there are enough.
    """

    def __init__(self, tensor: Tensor, stride: int) -> None:
        self._window_shape = tensor.shape[1:] if tensor.shape else ()
        self._samples: deque[Any] = deque(maxlen=self._window_shape[0] or 1)
        self._stride = stride
        self._until_next = self._samples.maxlen or 1

    def feed(self, line: bytes) -> Any | None:
        """The next window, or None when more samples are needed. Raises `InvalidRequest`."""
        try:
            value = json.loads(line)
        except ValueError as error:
            raise InvalidRequest(f"JSON Parse error: {error}") from error
        depth = _depth(value)
        if depth == len(self._window_shape):
            return value
        if depth != len(self._window_shape) - 1:
            raise InvalidRequest(
                f"a line nested {depth} deep is neither a window {list(self._window_shape)} "
                f"nor a sample {list(self._window_shape[1:])}"
            )
        self._samples.append(value)
        self._until_next -= 1
        if self._until_next > 0:
            return None
        self._until_next = self._stride
        return list(self._samples)


@dataclass
class Summary:
    """What a run did."""

    windows: int = 0
    anomalies: int = 0
    failed: int = 0


async def detect_stream(
    service: Service, preprocessor: Preprocessor, source: BinaryIO, sink: BinaryIO
) -> Summary:
    """Writes a JSON line for each window of `source`: its number, score and flag, or its error."""
    options = service.options
    # Enough that every worker has a full batch while the next ones are collected.
    room = min(options.max_queue, 2 * options.workers * options.max_batch)
    pending: asyncio.Queue[asyncio.Task[dict[str, Any]] | None] = asyncio.Queue(room)
    reader = asyncio.create_task(_read(service, preprocessor, source, pending))
    summary = Summary()
    while (task := await pending.get()) is not None:
        answer = await task
        summary.anomalies += bool(answer.get("anomaly"))
        summary.failed += "error" in answer
        sink.write(json.dumps({"window": summary.windows, **answer}).encode() + b"\n")
        summary.windows += 1
        if pending.empty():
            sink.flush()
    await reader
    sink.flush()
    return summary


async def _read(
    service: Service,
    preprocessor: Preprocessor,
    source: BinaryIO,
    pending: asyncio.Queue[asyncio.Task[dict[str, Any]] | None],
) -> None:
    while line := await asyncio.to_thread(source.readline):
        try:
            window = preprocessor.feed(line) if line.strip() else None
        except InvalidRequest as error:
            await pending.put(asyncio.create_task(_fail(error)))
            continue
        if window is not None:
            await pending.put(asyncio.create_task(_ask(service, window)))
    await pending.put(None)


async def _ask(service: Service, window: Any) -> dict[str, Any]:
    try:
        answer = await service.predict(json.dumps({"instances": [window]}).encode())
    except RequestError as error:
        return {"error": str(error)}
    prediction = json.loads(answer)["predictions"][0]
    return prediction if isinstance(prediction, dict) else {"output": prediction}


async def _fail(error: RequestError) -> dict[str, Any]:
    return {"error": str(error)}


def run_detect(arguments: Sequence[str], source: BinaryIO, sink: BinaryIO) -> int:
    """The exit code of the command; 1 when a window had no answer. Raises `StartError`."""
    parser = argparse.ArgumentParser(
        prog="python -m ascend_serving detect",
        description=__doc__,
        epilog="All options of serve are taken too.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--stride", type=int, default=1, help="samples from window to window")
    given, rest = parser.parse_known_args(arguments)
    if given.stride < 1:
        raise UsageError(f"cannot use --stride {given.stride}", "it is below 1", "Use 1 or more.")
    options = read_options(rest)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(options, given.stride, source, sink))


async def _run(options: ServeOptions, stride: int, source: BinaryIO, sink: BinaryIO) -> int:
    artifact = find_artifact(options.model_path)
    service = Service(options, artifact)
    service.start(await asyncio.wrap_future(start_loading(options, artifact)))
    preprocessor = Preprocessor(_only_input(service), stride)
    started_s = time.monotonic()
    summary = await detect_stream(service, preprocessor, source, sink)
    service.close()
    seconds = time.monotonic() - started_s
    print(
        f"{summary.windows} windows in {seconds:.1f} s, {summary.anomalies} anomalies, "
        f"{summary.failed} failed",
        file=sys.stderr,
    )
    return _FAILED if summary.failed else 0


def _only_input(service: Service) -> Tensor:
    assert service.loaded is not None
    signature = service.loaded.backend.signatures.get(DEFAULT_SIGNATURE)
    if signature is None or len(signature.inputs) != 1 or not signature.batchable:
        raise UsageError(
            f"cannot stream into {service.artifact.path}",
            f"its signature {DEFAULT_SIGNATURE} does not have one input with a free first axis",
            "Serve it instead: python -m ascend_serving serve.",
        )
    return next(iter(signature.inputs.values()))


def _depth(value: Any) -> int:
    depth = 0
    while isinstance(value, list):
        depth += 1
        value = value[0] if value else None
    return depth
