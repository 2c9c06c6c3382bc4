"""The small server of `tests.bench.server`, asked by gRPC: it answers Predict with the request.

    python -m tests.bench.grpc_server '{"service_ms": 1.0, "stall_ms": 200}'

It prints its port and serves until it is stopped.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc.aio
import uvloop

from tests.bench.server import Behaviour, Served, started

OFFICIAL_METADATA = bytes.fromhex(
    "0a090a07616e6f6d616c79129a010a0d7369676e61747572655f6465661288010a36747970652e676f6f676c6561"
    "7069732e636f6d2f74656e736f72666c6f772e73657276696e672e5369676e61747572654465664d6170124e0a4c"
    "0a0f73657276696e675f64656661756c7412390a1b0a017812160a03783a3010011a0d120b08ffffffffffffffff"
    "ff011a1a74656e736f72666c6f772f73657276696e672f70726564696374"
)
"""GetModelMetadataResponse of TensorFlow Serving's own classes (tensorflow-serving-api 2.19.1): the
signature serving_default takes x, float32 of any length."""


class Predictions:
    """The one method."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.started = time.monotonic()

    async def predict(self, request: bytes, context: Any) -> bytes:
        how = self.behaviour
        if how.stall_ms:
            phase = (time.monotonic() - self.started) % how.stall_every_s
            time.sleep(max(0.0, how.stall_ms / 1000.0 - phase))
        spread = random.lognormvariate(0.0, how.spread)
        busy_until = time.perf_counter() + how.service_ms / 1000.0 * spread
        while time.perf_counter() < busy_until:
            pass
        if random.random() < how.hang_rate:
            await asyncio.sleep(3600)
        if random.random() < how.error_rate:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "as asked")
        return request

    async def metadata(self, request: bytes, context: Any) -> bytes:
        return OFFICIAL_METADATA


async def serve(behaviour: Behaviour) -> None:
    if behaviour.cpus:
        os.sched_setaffinity(0, behaviour.cpus)
    server = grpc.aio.server()
    answers = Predictions(behaviour)
    methods = {
        "Predict": grpc.unary_unary_rpc_method_handler(answers.predict),
        "GetModelMetadata": grpc.unary_unary_rpc_method_handler(answers.metadata),
    }
    name = "tensorflow.serving.PredictionService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, methods),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


@contextmanager
def running_grpc(behaviour: Behaviour) -> Iterator[Served]:
    """A server process; it is gone afterwards."""
    with started("tests.bench.grpc_server", behaviour) as served:
        yield served


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    uvloop.run(serve(Behaviour(**{**given, "cpus": tuple(given.get("cpus", ()))})))
