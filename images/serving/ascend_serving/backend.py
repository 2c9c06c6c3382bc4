"""What every back end can do, and the table of them.

A new back end is one module with a `load(settings)` function and one row in `BACKENDS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from ascend_serving.artifact import Artifact
from ascend_serving.errors import UsageError
from ascend_serving.signature import Signature

Array = NDArray[Any]
Arrays = Mapping[str, Array]

BACKENDS = {
    "tensorflow": "ascend_serving.backend_tensorflow",
    "acl": "ascend_serving.backend_acl",
}


@dataclass(frozen=True)
class BackendSettings:
    """What a back end needs to load a model."""

    artifact: Artifact
    threads: int  # of one batch; TensorFlow only
    concurrency: int  # batches that may run at once
    device: int  # of an NPU
    acl_config: Path | None  # acl.json; NPU only
    op_library: Path | None  # None: the one that ascend_ops brings


class Backend(Protocol):
    """A loaded model. `run` is called from several threads at once."""

    name: str
    runtime: str  # what computes, with its version, for /health
    op_backend: str  # what computes the custom ops: cpusim, npu, or none when there are none
    max_batch: int | None  # the largest batch it accepts; None: any
    signatures: Mapping[str, Signature]

    def run(self, signature: str, inputs: Arrays) -> dict[str, Array]:
        """Outputs by name. Raises `RequestError`."""

    def close(self) -> None:
        """Frees the model; no `run` may be under way."""


def choose_backend(requested: str, artifact: Artifact) -> str:
    """The back end's name; `auto` takes pyACL for an `.om` file and TensorFlow otherwise."""
    fitting = "acl" if artifact.path.suffix == ".om" else "tensorflow"
    if requested in ("auto", fitting):
        return fitting
    raise UsageError(
        f"cannot serve {artifact.path} with --backend {requested}",
        f"it is a model for the back end {fitting}",
        f"Use --backend {fitting}, or convert the model first.",
    )


def load_backend(name: str, settings: BackendSettings) -> Backend:
    """Loads the model. Raises `StartError`."""
    module = importlib.import_module(BACKENDS[name])
    return cast(Backend, module.load(settings))


def warm_up(backend: Backend, max_batch: int) -> None:
    """Runs each batchable signature at sizes 1, 2, 4 … `max_batch` on zeros.

    The first run of a shape builds kernels and plans memory, which would otherwise be paid by
    the first requests: 20 ms instead of 0.1 ms with the sample model. Raises `RequestError`.
    """
    for name, signature in backend.signatures.items():
        if not signature.batchable:
            continue
        for size in _warm_up_sizes(max_batch):
            backend.run(name, _zeros(signature, size))


def _warm_up_sizes(max_batch: int) -> list[int]:
    sizes = [1 << power for power in range(max_batch.bit_length()) if 1 << power < max_batch]
    return [*sizes, max_batch]


def _zeros(signature: Signature, size: int) -> dict[str, Array]:
    arrays: dict[str, Array] = {}
    for name, tensor in signature.inputs.items():
        shape = tuple(1 if axis is None else axis for axis in (tensor.shape or ())[1:])
        fill: Any = b"" if tensor.data_type == "DT_STRING" else 0
        arrays[name] = np.full((size, *shape), fill, dtype=tensor.dtype)
    return arrays
