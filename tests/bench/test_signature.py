"""Bodies made from a model's signature, read by the sample service's own decoder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from ascend_serving.answers import encode_metadata
from ascend_serving.protocol import decode_predict
from ascend_serving.signature import Signature, Tensor, make_signature

from opsctl.bench import signature
from opsctl.bench.bodies import load_bodies
from opsctl.config.settings import Bench
from opsctl.errors import ConfigError, TargetUnreachable
from opsctl.model import Endpoint
from tests.bench.server import running
from tests.bench.test_run import EQUAL, LOAD, SHORT, gated, request

PREDICT = "/v1/models/m:predict"


def model(*inputs: Tensor) -> dict[str, Signature]:
    batched = inputs[0].has_batch_axis
    scores = Tensor("scores", "DT_FLOAT", (None,) if batched else (1,))
    named = {tensor.name: tensor for tensor in inputs}
    made = make_signature(
        "serving_default", "tensorflow/serving/predict", named, {"scores": scores}
    )
    return {"serving_default": made}


def inputs_of(signatures: dict[str, Signature]) -> tuple[signature.Input, ...]:
    return signature.inputs_of(json.loads(encode_metadata("m", 1, signatures)))


@pytest.mark.parametrize(
    ("inputs", "shapes"),
    [
        ((Tensor("x", "DT_FLOAT", (None, 3, 2)),), {"x": (4, 3, 2)}),
        ((Tensor("x", "DT_DOUBLE", (None,)),), {"x": (4,)}),
        (
            (Tensor("ids", "DT_INT64", (None, None)), Tensor("on", "DT_BOOL", (None,))),
            {"ids": (4, 16), "on": (4,)},
        ),
        (
            (Tensor("word", "DT_STRING", (None, 2)), Tensor("raw_bytes", "DT_STRING", (None,))),
            {"word": (4, 2), "raw_bytes": (4,)},
        ),
    ],
)
def test_bodies_have_the_types_and_shapes_that_the_model_names(
    inputs: tuple[Tensor, ...], shapes: dict[str, tuple[int, ...]]
) -> None:
    signatures = model(*inputs)
    for body in signature.bodies(inputs_of(signatures), 4, 3, seed=1):
        read = decode_predict(body, signatures)
        assert (read.size, read.in_rows) == (4, True)
        assert {name: array.shape for name, array in read.inputs.items()} == shapes
        for tensor in inputs:
            assert read.inputs[tensor.name].dtype == tensor.dtype


def test_values_are_seeded_and_differ_from_body_to_body() -> None:
    inputs = inputs_of(model(Tensor("x", "DT_FLOAT", (None, 100))))
    first, second = signature.bodies(inputs, 8, 2, seed=1)
    assert signature.bodies(inputs, 8, 2, seed=1) == (first, second)
    assert first != second
    assert signature.bodies(inputs, 8, 1, seed=2) != (first,)
    values = np.array(json.loads(first)["instances"])
    assert abs(values.mean()) < 0.2 and abs(values.std() - 1.0) < 0.2


def test_a_model_without_a_batch_axis_gets_columns_and_batch_size_one_only() -> None:
    signatures = model(Tensor("x", "DT_FLOAT", (2, 2)))
    (body,) = signature.bodies(inputs_of(signatures), 1, 1, seed=1)
    assert decode_predict(body, signatures).inputs["x"].shape == (2, 2)
    with pytest.raises(ConfigError, match="takes no batches"):
        signature.bodies(inputs_of(signatures), 4, 1, seed=1)


def test_types_without_a_form_and_bodies_without_measure_are_refused() -> None:
    for data_type in ("DT_COMPLEX64", "DT_HALF"):
        odd = signature.Input("z", data_type, (-1,))
        with pytest.raises(ConfigError, match="no values can be made for input z"):
            signature.bodies((odd,), 1, 1, seed=1)
    huge = signature.Input("x", "DT_FLOAT", (-1, 4096, 4096))
    with pytest.raises(ConfigError, match="would have 16,777,216 numbers"):
        signature.bodies((huge,), 1, 1, seed=1)


@pytest.mark.parametrize(
    ("path", "metadata"),
    [
        (PREDICT, "/v1/models/m/metadata"),
        ("/v1/models/m/versions/3:predict", "/v1/models/m/versions/3/metadata"),
        ("/v1/models/m/labels/stable:predict", "/v1/models/m/labels/stable/metadata"),
    ],
)
def test_the_metadata_stand_beside_the_predict_path(path: str, metadata: str) -> None:
    assert signature.metadata_path(path) == metadata


def test_a_gate_without_bodies_asks_the_old_release_what_it_takes() -> None:
    metadata = encode_metadata("m", 1, model(Tensor("x", "DT_FLOAT", (None, 3)))).decode()
    load = replace(LOAD, path=PREDICT, body=None)
    assert load.is_generated and load.sizes == (1,)
    with running(replace(EQUAL, metadata=metadata)) as old, running(EQUAL) as new:
        report = gated(request(old, new, load=load, gate=SHORT))
        assert (report.outcome, report.reason_kind) == ("pass", "proved")
        made = load_bodies(load, Path(), old.endpoint)
        assert report.data["bodies"] == made.digest
    rows = [json.loads(body)["instances"] for body in made.by_size[1]]
    assert len(rows) == 32 and all(len(row) == 1 and len(row[0]) == 3 for row in rows)


def test_a_service_that_does_not_say_what_it_takes_is_told_with_the_way_out() -> None:
    load = Bench(path=PREDICT)
    with running(replace(EQUAL, error_rate=1.0)) as silent:
        with pytest.raises(ConfigError, match="does not say what it takes") as caught:
            load_bodies(load, Path(), silent.endpoint)
        assert caught.value.why.endswith("/v1/models/m/metadata answers HTTP 503")
    with (
        running(replace(EQUAL, metadata='{"a": 1}')) as odd,
        pytest.raises(ConfigError, match="is no metadata of TensorFlow Serving"),
    ):
        load_bodies(load, Path(), odd.endpoint)
    with pytest.raises(TargetUnreachable, match="does not answer"):
        load_bodies(load, Path(), Endpoint("127.0.0.1", 1))
