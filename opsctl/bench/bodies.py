"""Requests of the benchmark, rendered to bytes ahead of time so that sending costs nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from opsctl.bench import signature
from opsctl.bench.recorded import WHOLE
from opsctl.config import settings
from opsctl.errors import ConfigError
from opsctl.model import Endpoint

ITEMS_MAX = 2048
"""Lines of a requests file that are used; more would only cost memory."""

VARIANTS = 32
"""Different bodies a batch size: enough that no cache answers for the model, and little memory."""


@dataclass(frozen=True)
class Bodies:
    """Request bodies by batch size; an empty body stands for a request without one."""

    by_size: dict[int, tuple[bytes, ...]]

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted(self.by_size))

    @property
    def digest(self) -> str:
        """Names what is sent, wherever it came from."""
        made = hashlib.sha256()
        for size in self.sizes:
            for body in self.by_size[size]:
                made.update(b"%d %d " % (size, len(body)) + body)
        return made.hexdigest()[:12]


def load_bodies(bench: settings.Bench, root: Path, endpoint: Endpoint | None = None) -> Bodies:
    """The bodies that opsctl.yaml asks for; ConfigError when the file is missing or malformed.

    Where it names none, or they go by gRPC (`endpoint` is then where that is spoken), the model
    behind `endpoint` is asked what it takes: then TargetUnreachable is raised when nobody answers.
    """
    if bench.protocol == "grpc" and endpoint is not None:
        return _messages(bench, root, endpoint)
    inputs = None
    if bench.is_generated and endpoint is not None:
        inputs = signature.ask(endpoint, bench.path, bench.timeout_s)
    return _json_bodies(bench, root, inputs)


def _messages(bench: settings.Bench, root: Path, endpoint: Endpoint) -> Bodies:
    """The bodies as messages of gRPC, with the types that the model's signatures have."""
    from opsctl.bench import grpc_arm, predict_messages

    grpc_arm.require_grpc()
    model = grpc_arm.model_of(bench.path)
    signatures = grpc_arm.ask_inputs(endpoint, model, bench.timeout_s)
    made = _json_bodies(bench, root, signatures.get(signature.SIGNATURE))
    return Bodies(
        {
            size: tuple(predict_messages.predict_request(body, model, signatures) for body in some)
            for size, some in made.by_size.items()
        }
    )


def _json_bodies(
    bench: settings.Bench, root: Path, inputs: tuple[signature.Input, ...] | None
) -> Bodies:
    """The bodies as JSON; made from `inputs` where opsctl.yaml gives none."""
    if bench.requests_file is not None:
        items = read_items(root / bench.requests_file)
        if WHOLE in (items[0] if isinstance(items[0], dict) else ()):
            return Bodies({1: _whole_bodies(items, bench)})
        return Bodies({size: _batches(items, size) for size in bench.batch_sizes})
    if bench.is_generated and inputs is not None:
        # Not the seed of the run, which is another one each time: runs must send the same.
        seed = bench.seed or 0
        made = {s: signature.bodies(inputs, s, VARIANTS, seed) for s in bench.batch_sizes}
        return Bodies(made)
    if bench.body is None:
        return Bodies({1: (b"",)})
    return Bodies({1: (_encode(bench.body),)})


def _whole_bodies(items: Sequence[object], bench: settings.Bench) -> tuple[bytes, ...]:
    """Bodies that were recorded whole (see `opsctl.bench.recorded`)."""
    if bench.batch_sizes != (1,):
        raise ConfigError(
            f"bench.requests_file {bench.requests_file} holds whole bodies, not `instances`",
            why="no batches can be cut from them",
            next_step="Set bench.batch_sizes to [1].",
        )
    bodies = [item[WHOLE] for item in items if isinstance(item, dict) and WHOLE in item]
    return tuple(_encode(body) for body in bodies)


def read_items(path: Path) -> list[object]:
    """The JSON values of a JSON-lines file, blank lines skipped."""
    items: list[object] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    items.append(_parse(line, path, number))
                if len(items) == ITEMS_MAX:
                    break
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"cannot read bench.requests_file {path}",
            why=str(error),
            next_step="Write one JSON item a line there, or correct bench.requests_file.",
        ) from error
    if not items:
        raise ConfigError(
            f"bench.requests_file {path} has no request",
            next_step="Write one JSON item a line there.",
        )
    return items


def _parse(line: str, path: Path, number: int) -> object:
    try:
        item: object = json.loads(line)
    except ValueError as error:
        raise ConfigError(
            f"{path}:{number} is no JSON value",
            why=str(error),
            next_step="Write one JSON item a line.",
        ) from error
    return item


def _batches(items: Sequence[object], size: int) -> tuple[bytes, ...]:
    """Row-format bodies of `size` items each, cut one after the other, starting again at the end.

    Source of the format: TensorFlow Serving's REST API, `{"instances": [...]}`.
    """
    count = min(VARIANTS, len(items))
    bodies = []
    for number in range(count):
        rows = [items[(number * size + row) % len(items)] for row in range(size)]
        bodies.append(_encode({"instances": rows}))
    return tuple(bodies)


def _encode(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def render(bench: settings.Bench, endpoint: Endpoint, body: bytes) -> bytes:
    """One HTTP/1.1 request, head and body; by gRPC the body, which is all that is ours."""
    if bench.protocol == "grpc":
        return body
    head = [
        f"{bench.method} {bench.path} HTTP/1.1",
        f"Host: {endpoint.host}:{endpoint.port}",
        "User-Agent: opsctl-bench",
        "Accept: application/json",
    ]
    if body:
        head.append("Content-Type: application/json")
    if body or bench.method != "GET":
        head.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*head, "", ""]).encode() + body
