"""The REST API of a real server, against what TensorFlow Serving documents and tests.

Expected answers of half_plus_two are those of tensorflow/serving,
model_servers/http_rest_api_handler_test.cc; error statuses follow the same file.
"""

from __future__ import annotations

import pytest
import requests


@pytest.fixture(scope="module")
def server(start_server, toys):
    return start_server(toys / "half_plus_two", environment={"OPSCTL_RELEASE": "r12"}).wait_ready()


def test_rows_are_answered_with_predictions(server):
    assert server.predict({"instances": [1.0, 2.0]}).json() == {"predictions": [2.5, 3.0]}


def test_columns_are_answered_with_outputs(server):
    assert server.predict({"inputs": [3.0, 4.0]}).json() == {"outputs": [3.5, 4.0]}
    assert server.predict({"inputs": {"x": [3.0, 4.0]}}).json() == {"outputs": [3.5, 4.0]}


def test_named_rows_are_the_same_as_plain_ones(server):
    assert server.predict({"instances": [{"x": 1.0}]}).json() == {"predictions": [2.5]}


def test_a_version_and_a_signature_can_be_named(server):
    by_version = server.predict({"instances": [3.0]}, "/versions/123:predict")
    assert by_version.json() == {"predictions": [3.5]}
    by_signature = server.predict({"signature_name": "double", "instances": [3.0]})
    assert by_signature.json() == {"predictions": [6.0]}


def test_numbers_that_json_does_not_have_go_both_ways(server):
    body = b'{"inputs": [NaN, Infinity, -Infinity, 1e1]}'
    answer = requests.post(server.url(), data=body, timeout=10)
    assert answer.text == '{"outputs": [NaN, Infinity, -Infinity, 7.0]}'


def test_text_after_the_json_is_ignored_as_in_tensorflow_serving(server):
    answer = requests.post(server.url(), data=b'{"instances": [1]} tail', timeout=10)
    assert answer.json() == {"predictions": [2.5]}


@pytest.mark.parametrize("tail", ["", "/versions/123"])
def test_status_is_the_documented_message(server, tail):
    answer = requests.get(server.url(tail), timeout=10)
    assert answer.status_code == 200
    assert answer.json() == {
        "model_version_status": [
            {
                "version": "123",
                "state": "AVAILABLE",
                "status": {"error_code": "OK", "error_message": ""},
            }
        ]
    }


def test_metadata_has_the_signatures_in_protobuf_json(server):
    for tail in ("/metadata", "/versions/123/metadata"):
        answer = requests.get(server.url(tail), timeout=10).json()
        assert answer["model_spec"] == {"name": "anomaly", "signature_name": "", "version": "123"}
        signatures = answer["metadata"]["signature_def"]["signature_def"]
        assert signatures["serving_default"] == {
            "inputs": {
                "x": {
                    "dtype": "DT_FLOAT",
                    "name": "serving_default_x:0",
                    "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
                }
            },
            "outputs": {
                "y": {
                    "dtype": "DT_FLOAT",
                    "name": signatures["serving_default"]["outputs"]["y"]["name"],
                    "tensor_shape": {"dim": [{"size": "-1", "name": ""}], "unknown_rank": False},
                }
            },
            "method_name": "tensorflow/serving/predict",
            "defaults": {},
        }
        assert set(signatures) == {"serving_default", "double"}


@pytest.mark.parametrize(
    ("method", "path", "status", "message"),
    [
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        ("POST", "/v1/foo", 400, "Malformed request: POST /v1/foo"),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        ("GET", "/v1/models/debug/model_name", 400, "Malformed request"),
        ("POST", "/v1/models", 400, "Malformed request"),
        ("GET", "/v1/models/anomaly:predict", 400, "Malformed request"),
        ("GET", "/v1/models/anomaly/version/50:predict", 400, "Malformed request"),
        ("POST", "/v1/models/anomaly/versions/HELLO:predict", 400, "Malformed request"),
        ("POST", "/v1/models/anomaly/metadata", 400, "Malformed request"),
        ("DELETE", "/v1/models/anomaly", 400, "Malformed request"),
        ("GET", f"/v1/models/anomaly/versions/{2**64}", 400, "Failed to convert version"),
        ("POST", "/v1/models/anomaly/labels/canary:predict", 400, "Unrecognized servable version"),
        ("GET", "/v1/models/anomaly/labels/canary", 400, "label: canary"),
        ("POST", "/v1/models/foo:predict", 404, "Servable not found for request: Latest(foo)"),
        ("POST", "/v1/models/foo/versions/50:predict", 404, "request: Specific(foo, 50)"),
        ("POST", "/v1/models/anomaly/versions/99:predict", 404, "Specific(anomaly, 99)"),
        ("GET", "/v1/models/foo", 404, "Could not find any versions of model foo"),
        ("GET", "/v1/models/anomaly/versions/9", 404, "Could not find version 9 of model anomaly"),
        ("GET", "/v1/models/foo/metadata", 404, "Servable not found"),
        ("POST", "/v1/models/anomaly:classify", 400, "Expected signature method_name"),
        ("GET", "/", 404, "Not found: /"),
    ],
)
def test_wrong_paths_have_the_right_status_and_one_error(server, method, path, status, message):
    answer = requests.request(method, server.rest + path, json={"instances": [1]}, timeout=10)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    assert set(answer.json()) == {"error"}
    assert message in answer.json()["error"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON Parse error: The document is empty"),
        (b"instances = [1, 2]", "JSON Parse error: Expecting value at offset: 0"),
        (b"[1]", "Is not object"),
        (b"\xff", "JSON Parse error: not UTF-8"),
        (b'{"instances": ' + b"[" * 100_000, "JSON Parse error"),
        (b"{}", "Missing 'inputs' or 'instances' key"),
        (b'{"instances": [1], "inputs": [1]}', "only one of 'inputs' or 'instances'"),
        (b'{"instances": 5}', "Expecting 'instances' to be an list/array"),
        (b'{"instances": []}', "No values in 'instances' array"),
        (b'{"instances": ["x", "y"]}', "is not of expected type: float"),
        (b'{"instances": [true]}', "is not of expected type: float"),
        (b'{"instances": [null]}', "is not of expected type: float"),
        (b'{"instances": [16777217]}', "without loss of precision"),
        (b'{"instances": [1, [2]]}', "Encountered list at unexpected level"),
        (b'{"instances": [[1], [2, 3]]}', "Encountered list at unexpected size: 2"),
        (b'{"instances": [[1, 2]]}', "input x has shape [1,2] but the model takes [?]"),
        (b'{"instances": [{"y": 1}]}', "keys must be equal to: x"),
        (b'{"instances": [1, {"x": 1}]}', "Expecting value/list but got object at item 1"),
        (b'{"inputs": {"y": [1]}}', "Missing named input: x in 'inputs' object."),
        (b'{"signature_name": 100}', "'signature_name' key must be a string value."),
        (b'{"signature_name": "no", "instances": [1]}', 'name: "no" not found in signature def'),
    ],
)
def test_wrong_bodies_are_refused_with_what_is_wrong(server, body, message):
    answer = requests.post(server.url(), data=body, timeout=10)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert message in answer.json()["error"]


def test_every_answer_names_the_release(server):
    for url in (server.url(""), server.url("/none"), f"{server.health}/health"):
        assert requests.get(url, timeout=10).headers["x-opsctl-release"] == "r12"


def test_a_body_over_the_limit_is_refused_and_the_connection_closed(start_server, toys):
    server = start_server(toys / "half_plus_two", "--max-body-mb", "0.01").wait_ready()
    answer = requests.post(server.url(), data=b" " * 20_000, timeout=10)
    assert answer.status_code == 413
    assert answer.headers["connection"] == "close"
    assert "larger than 10000 bytes" in answer.json()["error"]
    assert server.predict({"instances": [1]}).json() == {"predictions": [2.5]}
