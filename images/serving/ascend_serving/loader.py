"""Loads the model on a thread, while the rest of the service starts."""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass

from ascend_serving.artifact import Artifact, hash_artifact
from ascend_serving.backend import (
    Backend,
    BackendSettings,
    choose_backend,
    load_backend,
    warm_up,
)
from ascend_serving.errors import ModelBroken, RequestError
from ascend_serving.options import ServeOptions


@dataclass(frozen=True)
class Loaded:
    """A model that has answered on zeros at each batch size. `seconds` is what that took."""

    backend: Backend
    model_hash: str
    max_batch: int
    seconds: float


def start_loading(options: ServeOptions, artifact: Artifact) -> Future[Loaded]:
    """Begins to load; the future holds the model or the `StartError`.

    The thread is a daemon: a load that hangs in a driver must not keep a stopping process.
    """
    future: Future[Loaded] = Future()

    def work() -> None:
        try:
            future.set_result(_load(options, artifact))
        except BaseException as error:  # noqa: BLE001 — who waits for the future gets it
            future.set_exception(error)

    threading.Thread(target=work, name="load", daemon=True).start()
    return future


def _load(options: ServeOptions, artifact: Artifact) -> Loaded:
    started_s = time.monotonic()
    name = choose_backend(options.backend, artifact)
    backend = load_backend(
        name,
        BackendSettings(
            artifact=artifact,
            threads=options.threads,
            concurrency=options.workers,
            device=options.device,
            acl_config=options.acl_config,
            op_library=options.op_library,
        ),
    )
    max_batch = min(options.max_batch, backend.max_batch or options.max_batch)
    try:
        warm_up(backend, max_batch)
    except RequestError as error:
        raise ModelBroken(
            f"cannot serve {artifact.path}",
            f"it loads, but fails on a batch of zeros: {error}",
            "Export it again; a Keras model with model.export, which saves its variables so "
            "that TensorFlow Serving can restore them.",
        ) from error
    model_hash = hash_artifact(artifact.path)
    return Loaded(backend, model_hash, max_batch, time.monotonic() - started_s)
