"""The service's one state, and the pipeline: decode → batch → infer → detect → encode."""

from __future__ import annotations

import asyncio
import enum
import time
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

from ascend_serving import answers, protocol
from ascend_serving.artifact import Artifact
from ascend_serving.backend import Array, Arrays
from ascend_serving.batcher import Batcher, BatchLimits
from ascend_serving.detection import Detector, count_anomalies
from ascend_serving.errors import DeadlineExceeded, NotFound, RequestError, Unavailable
from ascend_serving.loader import Loaded
from ascend_serving.metrics import Identity, Metrics
from ascend_serving.options import ServeOptions
from ascend_serving.protocol import PredictRequest
from ascend_serving.signature import Signature

Answer = TypeVar("Answer")
Decode = Callable[[Mapping[str, Signature]], PredictRequest]


class Phase(enum.Enum):
    """Where the service is in its life; only READY takes new traffic by choice."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"


class Service:
    """One model, served. Lives on the event loop."""

    def __init__(self, options: ServeOptions, artifact: Artifact) -> None:
        self.options = options
        self.artifact = artifact
        self.phase = Phase.LOADING
        self.metrics = Metrics()
        self.identity = Identity(options.model_name, str(artifact.version))
        self.loaded: Loaded | None = None
        self.in_flight = 0
        self.grpc_address: tuple[str, int] | None = None
        self._batcher: Batcher | None = None
        self._detector = Detector(options.threshold)
        self._series = _Series(self.metrics, self.identity)
        self.metrics.announce(self.identity)

    def start(self, loaded: Loaded) -> None:
        """Takes the loaded model into service."""
        self.loaded = loaded
        limits = BatchLimits(
            max_batch=loaded.max_batch,
            max_queue=self.options.max_queue,
            batch_timeout_s=self.options.batch_timeout_ms / 1000,
            workers=self.options.workers,
        )
        self._batcher = Batcher(self._run, limits, self._series.observe_batch)
        if self.phase is Phase.LOADING:
            self.phase = Phase.READY

    def drain(self) -> None:
        """From now on not ready; requests are still answered, each with `Connection: close`."""
        self.phase = Phase.DRAINING

    def close(self) -> None:
        """Ends the workers; what still waits is refused."""
        if self._batcher is not None:
            self._batcher.close()

    @property
    def is_stalled(self) -> bool:
        """Whether a batch or a waiting request is older than the stall limit."""
        oldest_s = self._batcher.oldest_s() if self._batcher else 0.0
        return oldest_s > self.options.stall_timeout_s

    @property
    def is_ready(self) -> bool:
        return self.phase is Phase.READY and not self.is_stalled

    @property
    def status(self) -> str:
        """One word: loading, ready, stalled or draining."""
        return "stalled" if self.phase is Phase.READY and self.is_stalled else self.phase.value

    def describe(self) -> dict[str, Any]:
        """What /health says."""
        loaded = self.loaded
        return {
            "status": self.status,
            "live": True,
            "ready": self.is_ready,
            "release": self.options.release,
            "model": self.options.model_name,
            "version": str(self.artifact.version),
            "model_hash": loaded.model_hash if loaded else None,
            "model_path": str(self.artifact.path),
            "backend": loaded.backend.runtime if loaded else None,
            "op_backend": loaded.backend.op_backend if loaded else None,
            "in_flight": self.in_flight,
            "grpc_port": self.grpc_address[1] if self.grpc_address else None,
        }

    def observe(self) -> None:
        """Brings the gauges up to date, before they are read."""
        self._series.queued.set(self._batcher.queued if self._batcher else 0)
        self._series.ready.set(1 if self.is_ready else 0)

    def check_served(self, model: str, version: int | None) -> None:
        """Raises `NotFound` for another model or version than this; None is the latest."""
        if model == self.options.model_name and version in (None, self.artifact.version):
            return
        if version is None:
            raise NotFound(f"Servable not found for request: Latest({model})")
        raise NotFound(f"Servable not found for request: Specific({model}, {version})")

    async def predict(self, body: bytes) -> bytes:
        """A :predict body's answer; raises as `answer` does."""
        return await self.answer(partial(protocol.decode_predict, body), _encode_json)

    async def answer(
        self, decode: Decode, encode: Callable[[PredictRequest, dict[str, Array]], Answer]
    ) -> Answer:
        """The answer to a request of any protocol. Raises `RequestError`; counts and times it
        either way."""
        started_s = time.perf_counter()
        self.in_flight += 1
        try:
            return await self._answer(decode, encode)
        except RequestError as error:
            self._series.count_error(error.kind)
            raise
        finally:
            self.in_flight -= 1
            self._series.requests.inc()
            self._series.latency.observe(time.perf_counter() - started_s)

    async def _answer(
        self, decode: Decode, encode: Callable[[PredictRequest, dict[str, Array]], Answer]
    ) -> Answer:
        if self.loaded is None or self._batcher is None:
            raise Unavailable("the model is still loading")
        request = decode(self.loaded.backend.signatures)
        lane, size = _choose_lane(request)
        limit_s = self.options.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                outputs = await self._batcher.submit(lane, request.inputs, size)
        except TimeoutError as error:
            raise DeadlineExceeded(f"no answer within {limit_s:g} s") from error
        detected = self._detector.detect(outputs)
        self._series.instances.inc(size)
        self._series.anomalies.inc(count_anomalies(detected))
        return encode(request, detected)

    def _run(self, lane: Hashable, inputs: Arrays) -> dict[str, Array]:
        assert self.loaded is not None and isinstance(lane, tuple)
        return self.loaded.backend.run(lane[0], inputs)


class _Series:
    """The service's own series of each metric, looked up once and not for each request."""

    def __init__(self, metrics: Metrics, identity: Identity) -> None:
        labels = (identity.model, identity.version)
        self._errors = metrics.errors
        self._labels = labels
        self._batch_size = metrics.batch_size.labels(*labels)
        self._batch_seconds = metrics.batch_seconds.labels(*labels)
        self.requests = metrics.requests.labels(*labels)
        self.latency = metrics.latency.labels(*labels)
        self.instances = metrics.instances.labels(*labels)
        self.anomalies = metrics.anomalies.labels(*labels)
        self.queued = metrics.queued.labels(*labels)
        self.ready = metrics.ready.labels(*labels)

    def count_error(self, kind: str) -> None:
        self._errors.labels(*self._labels, kind).inc()

    def observe_batch(self, size: int, seconds: float) -> None:
        self._batch_size.observe(size)
        self._batch_seconds.observe(seconds)


def _encode_json(request: PredictRequest, outputs: Mapping[str, Array]) -> bytes:
    return answers.encode_predict(outputs, request.in_rows)


def _choose_lane(request: PredictRequest) -> tuple[Hashable, int]:
    """Which requests may share a batch with this one, and how many instances it counts as.

    A request whose inputs have no common first axis runs alone, and counts as one.
    """
    signature = request.signature
    if not signature.batchable or request.size is None:
        return (signature.name, object()), 1
    shapes = tuple(request.inputs[name].shape[1:] for name in signature.inputs)
    return (signature.name, shapes), request.size
