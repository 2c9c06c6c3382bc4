"""Request bodies made from what a model says that it takes, for services without a file of them.

Source: TensorFlow Serving's REST API (`GET /v1/models/NAME/metadata`, bodies of `:predict`) and
get_model_metadata.proto. Values are random but seeded: they show speed, not what users see.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from opsctl.errors import ConfigError, TargetUnreachable
from opsctl.model import Endpoint

SIGNATURE = "serving_default"

FREE_SIZE = 16
"""Length of an axis that may have any, besides the batch."""

NUMBERS_MAX = 4_000_000
"""Most numbers in one body: about 40 MB of JSON."""

WHOLE_BELOW = 10
"""Whole numbers are drawn below this: small enough for an index of most tables."""

DIGITS = 6
"""Of a fraction; more would only make bodies longer."""

LETTERS = 8

BYTES_SUFFIX = "_bytes"
"""Of names of inputs that take bytes, written as {"b64": …}."""

FLOATS = frozenset({"DT_FLOAT", "DT_DOUBLE"})
"""TensorFlow Serving's REST API has no form for the types of two bytes."""

WHOLES = frozenset({"DT_INT8", "DT_INT16", "DT_INT32", "DT_INT64",
                    "DT_UINT8", "DT_UINT16", "DT_UINT32", "DT_UINT64"})  # fmt: skip

NEXT_STEP = "Set bench.requests_file or bench.body."


@dataclass(frozen=True)
class Input:
    """One named input; -1 is an axis of any length, the first one that of the batch."""

    name: str
    data_type: str
    shape: tuple[int, ...]

    @property
    def is_batched(self) -> bool:
        return bool(self.shape) and self.shape[0] == -1


def metadata_path(path: str) -> str:
    """Where a model of a `:predict` path says what it takes."""
    return re.sub(r":predict$", "/metadata", path, flags=re.IGNORECASE)


def ask(endpoint: Endpoint, path: str, timeout_s: float) -> tuple[Input, ...]:
    """The inputs of the model behind a `:predict` path.

    Raises ConfigError when it does not say, TargetUnreachable when nobody answers.
    """
    import requests

    url = f"{endpoint.url}{metadata_path(path)}"
    with requests.Session() as session:
        session.trust_env = False  # a replica is never behind a proxy
        try:
            answer = session.get(url, timeout=timeout_s, allow_redirects=False)
        except requests.RequestException as error:
            raise TargetUnreachable(f"{url} does not answer", why=type(error).__name__) from error
    if not answer.ok:
        raise ConfigError(
            "there are no request bodies, and the model does not say what it takes",
            why=f"{url} answers HTTP {answer.status_code}",
            next_step=NEXT_STEP,
        )
    try:
        return inputs_of(answer.json())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{url} is no metadata of TensorFlow Serving", why=repr(error), next_step=NEXT_STEP
        ) from error


def inputs_of(metadata: Mapping[str, Any]) -> tuple[Input, ...]:
    """The inputs of the default signature. Raises KeyError and the like for another document."""
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    signature = signatures[SIGNATURE]
    found = []
    for name, info in sorted(signature["inputs"].items()):
        shape = info.get("tensor_shape", {})
        if shape.get("unknown_rank"):
            raise ValueError(f"the rank of input {name} is unknown")
        sizes = tuple(int(axis["size"]) for axis in shape.get("dim", ()))
        found.append(Input(name, info["dtype"], sizes))
    if not found:
        raise ValueError("the signature has no input")
    return tuple(found)


def bodies(inputs: tuple[Input, ...], size: int, count: int, seed: int) -> tuple[bytes, ...]:
    """`count` bodies of `size` items each; the same seed gives the same ones.

    Raises ConfigError when the model takes no batches (and `size` is not 1), too many numbers, or
    a type that JSON has no form for.
    """
    batched = all(one.is_batched for one in inputs)
    if not batched and size != 1:
        raise ConfigError(
            "the model takes no batches",
            why=", ".join(f"{one.name} has the shape {list(one.shape)}" for one in inputs),
            next_step="Set bench.batch_sizes to [1].",
        )
    _check_size(inputs, size)
    random = np.random.default_rng([seed, size])
    made = []
    for _ in range(count):
        rows = {one.name: _values(one, size, random) for one in inputs}
        made.append(json.dumps(_document(rows, batched=batched), separators=(",", ":")).encode())
    return tuple(made)


def _document(rows: Mapping[str, Any], *, batched: bool) -> Mapping[str, Any]:
    """Row format where there is a batch (a lone input stands without its name), else columns."""
    if not batched:
        return {"inputs": dict(rows)}
    if len(rows) == 1:
        return {"instances": next(iter(rows.values()))}
    names = list(rows)
    return {"instances": [dict(zip(names, row, strict=True)) for row in zip(*rows.values(),
                                                                         strict=True)]}  # fmt: skip


def _check_size(inputs: tuple[Input, ...], size: int) -> None:
    total = sum(math.prod(_shape(one, size)) for one in inputs)
    if total > NUMBERS_MAX:
        raise ConfigError(
            f"a body of batch size {size} would have {total:,} numbers",
            next_step="Lower bench.batch_sizes, or set bench.requests_file.",
        )


def _shape(one: Input, size: int) -> tuple[int, ...]:
    """The input's shape in one body."""
    sizes = [FREE_SIZE if axis < 0 else axis for axis in one.shape]
    return (size, *sizes[1:]) if one.is_batched else tuple(sizes)


def _values(one: Input, size: int, random: np.random.Generator) -> Any:
    shape = _shape(one, size)
    if one.data_type in FLOATS:
        return np.round(random.normal(size=shape), DIGITS).tolist()
    if one.data_type in WHOLES:
        return random.integers(0, WHOLE_BELOW, size=shape).tolist()
    if one.data_type == "DT_BOOL":
        return (random.integers(0, 2, size=shape) == 1).tolist()
    if one.data_type == "DT_STRING":
        letters = random.integers(ord("a"), ord("z") + 1, size=(*shape, LETTERS))
        return _texts(letters.tolist(), one.name.endswith(BYTES_SUFFIX), len(shape))
    raise ConfigError(
        f"no values can be made for input {one.name}",
        why=f"its type is {one.data_type}",
        next_step=NEXT_STEP,
    )


def _texts(letters: Any, as_bytes: bool, depth: int) -> Any:
    if depth:
        return [_texts(part, as_bytes, depth - 1) for part in letters]
    text = bytes(letters)
    return {"b64": base64.b64encode(text).decode()} if as_bytes else text.decode()
