"""Several inputs and outputs, types, ranks and binary values, through a real server."""

from __future__ import annotations

import base64

import pytest

ROWS = [
    {"tag": "foo", "signal": [1, 2, 3, 4, 5], "sensor": [[1, 2], [3, 4.5]], "flag": True},
    {"tag": "bär", "signal": [3, 4, 1, 2, 5], "sensor": [[4, 5], [6, 8]], "flag": False},
]


def binary(data: bytes) -> dict[str, str]:
    return {"b64": base64.b64encode(data).decode()}


@pytest.fixture(scope="module")
def server(start_server, toys):
    return start_server(toys / "tensors").wait_ready()


def test_rows_of_objects_are_answered_with_rows_of_objects(server):
    assert server.predict({"instances": ROWS}).json() == {
        "predictions": [
            {
                "tag": "foo",
                "tag_bytes": binary(b"foo!"),
                "total": 15,
                "sensor": [[2.0, 4.0], [6.0, 9.0]],
                "flipped": False,
                "small": [1, 2, 3, 4, 5],
            },
            {
                "tag": "bär",
                "tag_bytes": binary("bär!".encode()),
                "total": 15,
                "sensor": [[8.0, 10.0], [12.0, 16.0]],
                "flipped": True,
                "small": [3, 4, 1, 2, 5],
            },
        ]
    }


def test_columns_carry_the_same(server):
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    answer = server.predict({"inputs": columns}).json()["outputs"]
    assert answer["total"] == [15, 15]
    assert answer["tag_bytes"] == [binary(b"foo!"), binary("bär!".encode())]
    assert answer["flipped"] == [False, True]


def test_binary_values_come_in_as_base64_of_any_length(server):
    for size in (0, 1, 22, 23, 5000):  # TF_TString holds up to 22 bytes in place
        data = bytes(index % 256 for index in range(size))
        row = {**ROWS[0], "tag": binary(data)}
        answer = server.predict({"instances": [row]}).json()["predictions"][0]
        assert answer["tag_bytes"] == binary(data + b"!")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tag": 5}, "Type: Number is not of expected type: string"),
        ({"tag": {"b64": "%"}}, "Unable to base64 decode"),
        ({"tag": {"b65": ""}}, "not formatted correctly for base64 data"),
        ({"signal": [1, 2, 3, 4, 5.5]}, "is not of expected type: int64"),
        ({"signal": [1, 2, 3, 4, 2**63]}, "is not of expected type: int64"),
        ({"signal": [1, 2, 3, 4]}, "input signal has shape [1,4] but the model takes [?,5]"),
        ({"flag": 1}, "is not of expected type: bool"),
        ({"sensor": [[1, 2], [3, "4"]]}, "is not of expected type: double"),
    ],
)
def test_each_type_refuses_what_it_cannot_hold(server, change, message):
    answer = server.predict({"instances": [{**ROWS[0], **change}]})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_a_plain_list_is_refused_when_there_are_several_inputs(server):
    assert "expecting list of objects" in server.predict({"instances": [1]}).json()["error"]
    assert "expecting an object" in server.predict({"inputs": [1]}).json()["error"]


def test_a_model_without_a_free_axis_is_served_one_request_at_a_time(start_server, toys):
    server = start_server(toys / "fixed").wait_ready()
    inputs = {"a": [[1, 2, 3], [4, 5, 6]], "b": [[1], [10], [100]]}
    assert server.predict({"inputs": inputs}).json() == {"outputs": [[321.0], [654.0]]}
    wrong = server.predict({"inputs": {**inputs, "b": [[1], [10]]}})
    assert wrong.json()["error"] == "input b has shape [2,1] but the model takes [3,1]"
