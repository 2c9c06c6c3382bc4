"""TensorFlow Serving's REST protocol, answer side: arrays and states to JSON.

Source: tensorflow/serving, util/json_tensor.cc (MakeJsonFromTensors), apis/get_model_status.proto
and apis/get_model_metadata.proto.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf import json_format
from numpy.typing import NDArray

from ascend_serving.errors import InvalidRequest
from ascend_serving.signature import Signature, write_signature_map

Array = NDArray[Any]

_BYTES_SUFFIX = "_bytes"  # outputs named so are binary, and travel as {"b64": …}
_CODES = {0: "OK", 14: "UNAVAILABLE"}


def encode_predict(outputs: Mapping[str, Array], in_rows: bool) -> bytes:
    """The answer: `predictions` by row, or `outputs` by column; one output goes unnamed."""
    names = sorted(outputs)
    columns = {name: _to_json(name, outputs[name]) for name in names}
    if not in_rows:
        return dump({"outputs": columns if len(names) > 1 else columns[names[0]]})
    _check_rows(outputs)
    if len(names) == 1:
        return dump({"predictions": columns[names[0]]})
    rows = zip(*columns.values(), strict=True)
    return dump({"predictions": [dict(zip(names, row, strict=True)) for row in rows]})


def encode_status(version: int, state: str, code: int = 0, message: str = "") -> bytes:
    """The answer of the model status API; `code` is canonical."""
    status = {"error_code": _CODES[code], "error_message": message}
    return dump(
        {"model_version_status": [{"version": str(version), "state": state, "status": status}]}
    )


def encode_metadata(name: str, version: int, signatures: Mapping[str, Signature]) -> bytes:
    """The answer of the model metadata API."""
    definitions = json_format.MessageToDict(
        write_signature_map(signatures),
        preserving_proto_field_name=True,
        always_print_fields_with_no_presence=True,
    )
    return dump(
        {
            "model_spec": {"name": name, "signature_name": "", "version": str(version)},
            "metadata": {"signature_def": definitions},
        }
    )


def encode_error(message: str) -> bytes:
    """The one shape of every error."""
    return dump({"error": message})


def dump(value: Any) -> bytes:
    """JSON; not-a-number and infinities as NaN and Infinity, as the protocol has them."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": ")).encode(
        "utf-8", "surrogatepass"
    )


def _check_rows(outputs: Mapping[str, Array]) -> None:
    sizes = {}
    for name, array in outputs.items():
        if array.ndim == 0:
            raise InvalidRequest(f"Tensor name: {name} has no shape information ")
        sizes[name] = array.shape[0]
    if len(set(sizes.values())) > 1:
        shown = ", ".join(f"{name}: {size}" for name, size in sizes.items())
        raise InvalidRequest(f"Outputs have inconsistent batch sizes ({shown}); ask with 'inputs'")


def _to_json(name: str, array: Array) -> Any:
    if array.dtype == object:
        encode = _encode_binary if name.endswith(_BYTES_SUFFIX) else _encode_text
        encoded = np.empty(array.shape, dtype=object)
        for index, text in np.ndenumerate(array):
            encoded[index] = encode(text)
        return encoded.tolist()
    if array.dtype in (np.float32, np.float16):
        # By way of text: the shortest decimal that gives the same float32 back. Directly as a
        # double, 0.2 would become 0.20000000298023224, which no client has ever seen there.
        return array.astype("U").astype(np.float64).tolist()
    return array.tolist()


def _encode_text(text: bytes) -> str:
    return text.decode("utf-8", "replace")


def _encode_binary(text: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(text).decode("ascii")}
