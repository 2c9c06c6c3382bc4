"""The fast way from JSON to arrays gives what the slow, strict one gives, or is not taken."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from ascend_serving import answers, protocol
from ascend_serving.errors import InvalidRequest, RequestError, Unimplemented
from ascend_serving.signature import Signature, Tensor, make_signature
from hypothesis import given, settings
from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.integers(-300, 300), st.floats(width=32)
)
ODD = st.one_of(NUMBERS, st.booleans(), st.none(), st.text(max_size=2))


def nested(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(leaves, lambda inner: st.lists(inner, max_size=3), max_leaves=12)


def one_input(data_type: str) -> dict[str, Signature]:
    tensor, output = Tensor("x", data_type, None), Tensor("y", "DT_FLOAT", (None,))
    signature = make_signature("serving_default", "predict", {"x": tensor}, {"y": output})
    return {"serving_default": signature}


def decode(value: Any, data_type: str) -> np.ndarray[Any, Any] | str:
    body = json.dumps({"inputs": value}).encode()
    try:
        array: np.ndarray[Any, Any] = protocol.decode_predict(body, one_input(data_type)).inputs[
            "x"
        ]
    except RequestError as error:
        return str(error)
    return array


@pytest.mark.parametrize("data_type", ["DT_FLOAT", "DT_DOUBLE", "DT_INT32", "DT_UINT8", "DT_INT64"])
@settings(max_examples=150, deadline=None)
@given(value=nested(ODD))
def test_the_fast_way_never_changes_an_answer(data_type, value):
    fast = decode(value, data_type)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(protocol, "_convert_numbers", lambda *_: None)
        strict = decode(value, data_type)
    if isinstance(fast, str) or isinstance(strict, str):
        if data_type in ("DT_FLOAT", "DT_DOUBLE") and not isinstance(fast, str):
            # NumPy has read the list as doubles; that an integer among them lost bits is gone.
            assert "without loss of precision" in strict
            return
        assert fast == strict
        return
    assert fast.dtype == strict.dtype
    assert fast.shape == strict.shape
    np.testing.assert_array_equal(fast, strict)


def test_half_has_no_json_form():
    with pytest.raises(Unimplemented, match="DT_HALF"):
        protocol.decode_predict(b'{"inputs": [1]}', one_input("DT_HALF"))


def test_a_number_with_ten_thousand_digits_is_refused_and_not_computed():
    with pytest.raises(InvalidRequest, match="JSON Parse error"):
        protocol.decode_predict(b'{"inputs": [' + b"9" * 10_000 + b"]}", one_input("DT_FLOAT"))


def test_an_error_shows_the_start_of_a_large_value_only():
    with pytest.raises(InvalidRequest) as caught:
        protocol.decode_predict(json.dumps({"none": [0] * 10_000}).encode(), one_input("DT_FLOAT"))
    assert len(str(caught.value)) < 300


@settings(max_examples=200, deadline=None)
@given(values=st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_a_float_travels_through_json_without_change(values):
    array = np.array(values, np.float32)
    text = answers.encode_predict({"y": array}, in_rows=False)
    np.testing.assert_array_equal(np.array(json.loads(text)["outputs"], np.float32), array)


def test_a_float_has_the_fewest_digits_that_name_it():
    array = np.array([0.2, 1, 9e6, 1e-7, 16777216], np.float32)
    assert (
        answers.encode_predict({"y": array}, in_rows=False)
        == b'{"outputs": [0.2, 1.0, 9000000.0, 1e-07, 16777216.0]}'
    )


def test_outputs_of_different_length_cannot_be_rows():
    outputs = {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)}
    with pytest.raises(InvalidRequest, match="a: 2, b: 3"):
        answers.encode_predict(outputs, in_rows=True)
    with pytest.raises(InvalidRequest, match="no shape"):
        answers.encode_predict({"a": np.zeros((), np.float32)}, in_rows=True)
