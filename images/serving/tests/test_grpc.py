"""The gRPC port of a real server, asked by grpcio with TensorFlow's own messages.

Requests are made of bytes that TensorFlow Serving's own classes (tensorflow-serving-api 2.19.1)
wrote, or of TensorFlow's TensorProto, never of this package's definitions.
"""

from __future__ import annotations

import re
import socket
import time
from pathlib import Path
from types import SimpleNamespace

import grpc
import numpy as np
import pytest
from ascend_serving import tfproto

PREDICT = "/tensorflow.serving.PredictionService/Predict"
METADATA = "/tensorflow.serving.PredictionService/GetModelMetadata"

# PredictRequest: name anomaly, version 123, signature double, x = [1.5, -2], output y.
DOUBLE = bytes.fromhex(
    "0a150a07616e6f6d616c791202087b1a06646f75626c6512170a01781212080112041202080222080000c03f0000"
    "00c01a0179"
)
# The same without a signature and an output.
PLAIN = bytes.fromhex(
    "0a0d0a07616e6f6d616c791202087b12170a01781212080112041202080222080000c03f000000c0"
)
# GetModelMetadataRequest: name anomaly, field signature_def.
LOOK = bytes.fromhex("0a090a07616e6f6d616c79120d7369676e61747572655f646566")


@pytest.fixture(scope="module")
def server(start_server, toys):
    options = ("--grpc-port", "0")
    release = {"OPSCTL_RELEASE": "r12"}
    return start_server(toys / "half_plus_two", *options, environment=release).wait_ready()


def address(server) -> str:
    found = re.search(r"gRPC (\S+),", "\n".join(server.log))
    assert found, server.log
    return found[1]


@pytest.fixture(scope="module")
def channel(server):
    with grpc.insecure_channel(address(server)) as opened:
        yield opened


def ask(channel, request: bytes, method: str = PREDICT, timeout_s: float = 120) -> bytes:
    """The answer's bytes; grpc.RpcError for another status than OK."""
    answer = channel.unary_unary(method)(request, timeout=timeout_s)
    assert isinstance(answer, bytes)
    return answer


def refusal(channel, request: bytes, method: str = PREDICT) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        ask(channel, request, method)
    return caught.value.code().name, caught.value.details()


def request_of(tensors, *, signature: str = "", outputs=(), name: str = "anomaly") -> bytes:
    """A PredictRequest, written field by field: messages have no names on the wire."""
    spec = field(1, name.encode()) + (field(3, signature.encode()) if signature else b"")
    parts = [field(1, spec)]
    for key, tensor in tensors.items():
        parts.append(field(2, field(1, key.encode()) + field(2, tensor.SerializeToString())))
    return b"".join([*parts, *(field(3, one.encode()) for one in outputs)])


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field, as protobuf's encoding has it."""
    size, left = bytearray(), len(data)
    while left > 127:
        size.append(left & 127 | 128)
        left >>= 7
    return bytes([number << 3 | 2]) + bytes([*size, left]) + data


@pytest.fixture(scope="module")
def tensorflow():
    """TensorFlow's own messages and conversions, without the rest of it."""
    from tensorflow.core.framework import tensor_pb2
    from tensorflow.python.framework import tensor_util

    return SimpleNamespace(
        make=tensor_util.make_tensor_proto,
        read=tensor_util.MakeNdarray,
        proto=tensor_pb2.TensorProto,
    )


def outputs_of(answer: bytes, tensorflow) -> dict[str, np.ndarray]:
    """Outputs by name, read by TensorFlow."""
    message = tfproto.PredictResponse.FromString(answer)
    return {
        name: tensorflow.read(tensorflow.proto.FromString(tensor.SerializeToString()))
        for name, tensor in message.outputs.items()
    }


def test_bytes_of_the_official_client_are_understood_and_answered(server, channel, tensorflow):
    answer = ask(channel, DOUBLE)
    message = tfproto.PredictResponse.FromString(answer)
    assert message.model_spec.name == "anomaly"
    assert message.model_spec.version.value == 123
    assert message.model_spec.signature_name == "double"
    assert outputs_of(answer, tensorflow)["y"].tolist() == [3.0, -4.0]
    # As TensorFlow Serving answers: values in the field of their type, not as raw content.
    assert list(message.outputs["y"].float_val) == [3.0, -4.0]


def test_the_default_signature_is_the_one_without_a_name(channel, tensorflow):
    answer = ask(channel, request_of({"x": tensorflow.make(np.float32([1.0, 2.0]))}))
    assert outputs_of(answer, tensorflow)["y"].tolist() == [2.5, 3.0]


def test_the_metadata_is_what_the_official_client_reads(server, channel):
    answer = tfproto.GetModelMetadataResponse.FromString(ask(channel, LOOK, METADATA))
    packed = answer.metadata["signature_def"]
    assert packed.type_url == "type.googleapis.com/tensorflow.serving.SignatureDefMap"
    signatures = tfproto.SignatureDefMap.FromString(packed.value).signature_def
    assert sorted(signatures) == ["double", "serving_default"]
    [(name, info)] = signatures["serving_default"].inputs.items()
    assert (name, info.dtype, [dim.size for dim in info.tensor_shape.dim]) == ("x", 1, [-1])


def test_the_answer_says_which_release_gave_it(channel):
    _, call = channel.unary_unary(PREDICT).with_call(DOUBLE, timeout=120)
    assert ("x-opsctl-release", "r12") in [tuple(pair) for pair in call.trailing_metadata()]


def test_health_says_where_grpc_listens_and_its_requests_are_counted(server, channel):
    before = server.metric("inference_requests_total")
    ask(channel, DOUBLE)
    assert server.metric("inference_requests_total") == before + 1
    assert server.get("/health").json()["grpc_port"] == int(address(server).rsplit(":", 1)[1])


def test_what_is_wrong_gets_the_canonical_status(channel, tensorflow):
    def float_x(values):
        return {"x": tensorflow.make(np.float32(values))}

    assert refusal(channel, request_of(float_x([1]), name="other")) == (
        "NOT_FOUND",
        "Servable not found for request: Latest(other)",
    )
    assert refusal(channel, DOUBLE.replace(b"\x08\x7b", b"\x08\x7c")) == (
        "NOT_FOUND",
        "Servable not found for request: Specific(anomaly, 124)",
    )
    assert refusal(channel, request_of(float_x([1]), signature="no")) == (
        "INVALID_ARGUMENT",
        'Serving signature name: "no" not found in signature def',
    )
    assert refusal(channel, request_of({"z": tensorflow.make(np.float32([1]))})) == (
        "INVALID_ARGUMENT",
        "the inputs are {z} but the signature serving_default takes {x}",
    )
    assert refusal(channel, request_of({"x": tensorflow.make(np.int64([1]))})) == (
        "INVALID_ARGUMENT",
        "input x is of type DT_INT64 but the model takes DT_FLOAT",
    )
    assert refusal(channel, request_of(float_x([[1]]))) == (
        "INVALID_ARGUMENT",
        "input x has shape [1,1] but the model takes [?]",
    )
    code, details = refusal(channel, request_of(float_x([1]), outputs=["no"]))
    assert code == "INVALID_ARGUMENT"
    assert details.startswith("output tensor alias not found in signature: no ")
    assert refusal(channel, b"") == ("INVALID_ARGUMENT", "Missing ModelSpec.name")
    assert refusal(channel, field(1, field(1, b"anomaly")), METADATA)[0] == "INVALID_ARGUMENT"


def test_a_shape_that_one_value_stands_for_cannot_ask_for_any_amount_of_memory(channel, tensorflow):
    bomb = tensorflow.proto(dtype=1, float_val=[1.0])
    bomb.tensor_shape.dim.add(size=1 << 40)
    code, details = refusal(channel, request_of({"x": bomb}))
    assert (code, details) == ("RESOURCE_EXHAUSTED", "input x has more than 16000000 bytes")


def test_every_type_goes_in_and_comes_out(start_server, toys, tensorflow):
    server = start_server(toys / "tensors", "--grpc-port", "0").wait_ready()
    inputs = {
        "tag": tensorflow.make(np.array([b"foo", b"\xff\x00"], object)),
        "signal": tensorflow.make(np.int64([[1, 2, 3, 4, 5], [3, 4, 1, 2, 250]])),
        "sensor": tensorflow.make(np.float64([[[1, 2], [3, 4.5]], [[4, 5], [6, 8]]])),
        "flag": tensorflow.make(np.array([True, False])),
    }
    with grpc.insecure_channel(address(server)) as channel:
        found = outputs_of(ask(channel, request_of(inputs)), tensorflow)
        some = outputs_of(ask(channel, request_of(inputs, outputs=["total"])), tensorflow)
    assert found["tag"].tolist() == [b"foo", b"\xff\x00"]
    assert found["tag_bytes"].tolist() == [b"foo!", b"\xff\x00!"]
    assert found["total"].tolist() == [15, 260]
    assert found["total"].dtype == np.int64
    assert found["sensor"].tolist() == [[[2, 4], [6, 9]], [[8, 10], [12, 16]]]
    assert found["flipped"].tolist() == [False, True]
    assert found["small"].tolist() == [[1, 2, 3, 4, 5], [3, 4, 1, 2, 250]]
    assert found["small"].dtype == np.uint8
    assert {name: value.tolist() for name, value in some.items()} == {"total": [15, 260]}


def test_requests_of_both_protocols_share_batches(start_server, toys):
    options = (
        "--grpc-port",
        "0",
        "--batch-timeout-ms",
        "60000",
        "--max-batch",
        "4",
        "--request-timeout-s",
        "60",
    )
    server = start_server(toys / "half_plus_two", *options).wait_ready()
    with grpc.insecure_channel(address(server)) as channel:
        grpc.channel_ready_future(channel).result(timeout=120)
        waiting = channel.unary_unary(PREDICT).future(PLAIN, timeout=120)
        by_rest = server.predict({"instances": [1.0, 2.0]})
        by_grpc = tfproto.PredictResponse.FromString(waiting.result(120))
    assert by_rest.json() == {"predictions": [2.5, 3.0]}
    assert list(by_grpc.outputs["y"].float_val) == [2.75, 1.0]
    assert server.metric("inference_batch_instances_sum") == 4.0
    assert server.metric("inference_batch_instances_count") == 1.0


@pytest.mark.long
def test_sigterm_lets_grpc_requests_under_way_finish(start_server, toys, eventually):
    options = ("--grpc-port", "0", "--lame-duck-s", "0.5", "--request-timeout-s", "60")
    server = start_server(toys / "busy", *options).wait_ready()
    busy = request_of({"rounds": tensor_of_int32(rounds_for_two_seconds(server))})
    with grpc.insecure_channel(address(server)) as channel:
        waiting = channel.unary_unary(PREDICT).future(busy, timeout=60)
        eventually(lambda: server.get("/health").json()["in_flight"] == 1)
        server.terminate()
        assert len(waiting.result(60)) > 0
    assert server.wait() == 0
    assert any("drained" in line for line in server.log)


@pytest.mark.long
def test_a_drain_that_is_over_refuses_what_is_under_way(start_server, toys, eventually):
    options = ("--grpc-port", "0", "--lame-duck-s", "0", "--drain-timeout-s", "0.3")
    server = start_server(toys / "busy", *options, "--request-timeout-s", "60").wait_ready()
    busy = request_of({"rounds": tensor_of_int32(20 * rounds_for_two_seconds(server))})
    with grpc.insecure_channel(address(server)) as channel:
        waiting = channel.unary_unary(PREDICT).future(busy, timeout=60)
        eventually(lambda: server.get("/health").json()["in_flight"] == 1)
        server.terminate()
        with pytest.raises(grpc.RpcError) as caught:
            waiting.result(60)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert caught.value.details() == "the service has stopped"
    assert server.wait() == 1


def tensor_of_int32(value: int):
    return tfproto.TensorProto(dtype=3, tensor_shape={"dim": [{"size": 1}]}, int_val=[value])


def rounds_for_two_seconds(server) -> int:
    server.predict({"instances": [10]})
    started_s = time.monotonic()
    server.predict({"instances": [200]})
    return int(2 * 200 / (time.monotonic() - started_s))


@pytest.mark.long
def test_a_client_that_gives_up_frees_its_place(start_server, toys, eventually):
    options = ("--grpc-port", "0", "--workers", "1", "--request-timeout-s", "60")
    server = start_server(toys / "busy", *options).wait_ready()
    busy = request_of({"rounds": tensor_of_int32(rounds_for_two_seconds(server))})
    with grpc.insecure_channel(address(server)) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            ask(channel, busy, timeout_s=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        eventually(lambda: server.get("/health").json()["in_flight"] == 0)


def test_without_the_option_nothing_listens_and_health_says_so(start_server, toys):
    server = start_server(toys / "half_plus_two").wait_ready()
    assert server.get("/health").json()["grpc_port"] is None
    assert "gRPC" not in "\n".join(server.log)


def test_a_taken_port_ends_the_start_with_its_name(start_server, toys):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        server = start_server(toys / "half_plus_two", "--grpc-port", port)
        assert server.wait() == 69
    assert f"cannot listen on 127.0.0.1:{port}" in server.log[-1]


def test_a_missing_grpcio_ends_the_start_with_its_name(start_server, toys, tmp_path):
    source = Path(tfproto.__file__).parent.parent
    (tmp_path / "grpc.py").write_text('raise ImportError("No module named grpc")\n')
    server = start_server(
        toys / "half_plus_two",
        *("--grpc-port", "0"),
        environment={"PYTHONPATH": f"{tmp_path}:{source}"},
    )
    assert server.wait() == 69
    assert server.log[-1].startswith("error: cannot open --grpc-port 0: No module named grpc.")
