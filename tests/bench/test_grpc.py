"""The benchmark over gRPC: requests made of JSON bodies, load, verdicts, and what is refused."""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from ascend_serving import tensors, tfproto
from ascend_serving.grpc_api import PredictionApi
from ascend_serving.protocol import decode_predict
from ascend_serving.signature import Signature, Tensor

from opsctl import bench
from opsctl.bench import grpc_arm, predict_messages, signature
from opsctl.bench.bodies import load_bodies
from opsctl.bench.comparison import load_of
from opsctl.bench.predict_messages import Model
from opsctl.bench.signature import Input
from opsctl.config.settings import Bench
from opsctl.errors import ConfigError, TargetUnreachable
from opsctl.model import Endpoint
from tests.bench import sample
from tests.bench.grpc_server import OFFICIAL_METADATA, running_grpc
from tests.bench.server import Behaviour, refusing, running
from tests.bench.test_load import QUICK, Course, StopNow, drive, errors_of
from tests.bench.test_run import EQUAL, gated, never, request, silent
from tests.bench.test_signature import model

PATH = "/v1/models/anomaly:predict"

# PredictRequest of TensorFlow Serving's own classes (tensorflow-serving-api 2.19.1): name anomaly,
# version 123, signature double, x = float32 [1.5, -2].
OFFICIAL = bytes.fromhex(
    "0a150a07616e6f6d616c791202087b1a06646f75626c6512170a01781212080112041202080222080000c03f0000"
    "00c0"
)
# GetModelMetadataRequest of the same.
OFFICIAL_LOOK = bytes.fromhex("0a090a07616e6f6d616c79120d7369676e61747572655f646566")

FLOATS = {"double": (Input("x", "DT_FLOAT", (-1,)),)}


def by_grpc(timeout_s: float = 30.0, connections: int = 4) -> Bench:
    return Bench(path=PATH, protocol="grpc", timeout_s=timeout_s, connections=connections)


def test_a_json_body_becomes_the_bytes_that_the_official_client_sends() -> None:
    body = json.dumps({"signature_name": "double", "instances": [1.5, -2]}).encode()
    assert predict_messages.predict_request(body, Model("anomaly", 123), FLOATS) == OFFICIAL
    columns = json.dumps({"signature_name": "double", "inputs": {"x": [1.5, -2]}}).encode()
    assert predict_messages.predict_request(columns, Model("anomaly", 123), FLOATS) == OFFICIAL


def test_the_metadata_are_asked_and_read_as_the_official_client_does() -> None:
    assert predict_messages.metadata_request(Model("anomaly")) == OFFICIAL_LOOK
    found = predict_messages.signatures_of(OFFICIAL_METADATA)
    assert found == {"serving_default": (Input("x", "DT_FLOAT", (-1,)),)}


@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize(
    "inputs",
    [
        (Tensor("x", "DT_FLOAT", (None, 3, 2)),),
        (Tensor("x", "DT_DOUBLE", (None,)), Tensor("y", "DT_BOOL", (None, 2))),
        tuple(
            Tensor(name.lower(), name, (None, 2))
            for name in ("DT_INT8", "DT_INT16", "DT_INT32", "DT_INT64")
        ),
        tuple(
            Tensor(name.lower(), name, (None,))
            for name in ("DT_UINT8", "DT_UINT16", "DT_UINT32", "DT_UINT64")
        ),
        (Tensor("word", "DT_STRING", (None, 2)), Tensor("raw_bytes", "DT_STRING", (None,))),
    ],
)
def test_both_protocols_carry_the_same_arrays(inputs: tuple[Tensor, ...], size: int) -> None:
    signatures = model(*inputs)
    wanted = tuple(
        Input(one.name, one.data_type, tuple(-1 if axis is None else axis for axis in one.shape))
        for one in sorted(inputs, key=lambda one: one.name)
        if one.shape is not None
    )
    for body in signature.bodies(wanted, size, 3, seed=1):
        by_json = decode_predict(body, signatures).inputs
        made = predict_messages.predict_request(body, Model("m"), {"serving_default": wanted})
        message = tfproto.PredictRequest.FromString(made)
        assert message.inputs.keys() == by_json.keys()
        for one in inputs:
            read = tensors.read_tensor(message.inputs[one.name], one, 10**6)
            assert read.dtype == by_json[one.name].dtype
            np.testing.assert_array_equal(read, by_json[one.name])


def test_what_the_service_says_of_its_model_is_what_the_benchmark_reads() -> None:
    wanted = (Tensor("a", "DT_INT32", (None, 3)), Tensor("b", "DT_STRING", ()))
    answer = described(model(*wanted))
    assert predict_messages.signatures_of(answer) == {
        "serving_default": (Input("a", "DT_INT32", (-1, 3)), Input("b", "DT_STRING", ()))
    }


def described(signatures: dict[str, Signature]) -> bytes:
    """The service's own answer to GetModelMetadata for these signatures."""
    backend = SimpleNamespace(signatures=signatures)
    service = SimpleNamespace(
        options=SimpleNamespace(model_name="m", release=None),
        artifact=SimpleNamespace(version=1),
        loaded=SimpleNamespace(backend=backend),
        check_served=lambda name, version: None,
    )
    api = PredictionApi(service, 10**6)  # type: ignore[arg-type]  # the parts that it looks at
    asked = tfproto.GetModelMetadataRequest.FromString(
        predict_messages.metadata_request(Model("m"))
    )
    data: bytes = api._describe(asked).SerializeToString()
    return data


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ([1], "it is no object"),
        ({"a": 1}, "it has not exactly one of instances and inputs"),
        ({"instances": []}, "instances is no list, or empty"),
        ({"instances": ["a"]}, "input x has values of the type <U1"),
        ({"instances": [[1], [2, 3]]}, "inhomogeneous"),
        ({"instances": [1], "signature_name": "no"}, "the model has no signature no"),
    ],
)
def test_a_body_that_is_none_of_predict_is_refused_with_its_text(body: object, why: str) -> None:
    signatures = {"serving_default": FLOATS["double"]}
    text = json.dumps(body).encode()
    with pytest.raises(ConfigError, match="can't be sent by gRPC") as caught:
        predict_messages.predict_request(text, Model("m"), signatures)
    assert text.decode() in caught.value.why and why in caught.value.why


def test_numbers_that_a_type_does_not_hold_are_refused() -> None:
    wrong = {
        "DT_UINT8": ([256], [-1], [1.5], [True]),
        "DT_INT32": ([2**31], [-(2**31) - 1], [0.5]),
        "DT_FLOAT": ([1e39], [False], ["1"]),
        "DT_BOOL": ([1],),
        "DT_STRING": ([1], [{"b64": "%"}]),
        "DT_BFLOAT16": ([1],),
    }
    for data_type, bodies in wrong.items():
        signatures = {"serving_default": (Input("x", data_type, (-1,)),)}
        for values in bodies:
            body = json.dumps({"instances": values}).encode()
            with pytest.raises(ConfigError, match="can't be sent by gRPC"):
                predict_messages.predict_request(body, Model("m"), signatures)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (PATH, Model("anomaly")),
        ("/v1/models/a%20b/versions/12:predict", Model("a b", 12)),
        ("/V1/MODELS/m:PREDICT", Model("m")),
    ],
)
def test_the_path_names_the_model(path: str, found: Model) -> None:
    assert grpc_arm.model_of(path) == found


def test_another_path_names_none() -> None:
    with pytest.raises(ConfigError, match="names no model"):
        grpc_arm.model_of("/score")


def test_each_round_asks_both_arms_in_order_without_an_error() -> None:
    course = Course(200)
    with running_grpc(QUICK) as one, running_grpc(QUICK) as other:
        drive(course, one.endpoint, other.endpoint, bench=by_grpc())
    assert errors_of(course) == set()
    starts = [done.started for done in course.done]
    assert starts == sorted(starts)
    assert all(0 < latency < 5 for done in course.done for latency in done.latencies)


def test_a_second_load_on_a_new_loop_works_too() -> None:
    with running_grpc(QUICK) as served:
        for _ in range(3):
            course = Course(30)
            drive(course, served.endpoint, bench=by_grpc())
            assert errors_of(course) == set()


def test_stalls_of_the_server_show_in_every_request_that_was_due_then() -> None:
    course = Course(400, rounds_per_s=200.0)
    stalls = Behaviour(service_ms=0.05, stall_ms=300.0, stall_every_s=1.0)
    with running_grpc(stalls) as served:
        drive(course, served.endpoint, bench=replace(by_grpc(), arrivals="constant"))
    latencies = np.array([done.latencies[0] for done in course.done])
    # 30 % of evenly spaced requests meet a stall; of those half wait for 150 ms or longer. A closed
    # loop would show one slow request a second. Wide, as a busy machine only makes more of them.
    assert float((latencies >= 0.15).mean()) >= 0.10
    assert float(np.quantile(latencies, 0.99)) >= 0.27


def test_a_request_without_an_answer_times_out_as_the_worst_latency_in_its_pair() -> None:
    course = Course(120)
    hangs = Behaviour(service_ms=0.05, hang_rate=0.1)
    with running_grpc(hangs) as silent, running_grpc(QUICK) as other:
        drive(course, other.endpoint, silent.endpoint, bench=by_grpc(timeout_s=1.0))
    timed_out = [done for done in course.done if done.errors[1]]
    assert {done.errors[1] for done in timed_out} == {"timeout"}
    assert all(math.isinf(done.latencies[1]) for done in timed_out)
    starts = [done.started for done in course.done]
    assert len(timed_out) >= 1 and starts == sorted(starts)


def test_a_status_other_than_ok_is_an_error_and_infinite() -> None:
    course = Course(100)
    with running_grpc(Behaviour(service_ms=0.05, error_rate=0.3)) as served:
        drive(course, served.endpoint, bench=by_grpc())
    failed = [done for done in course.done if done.errors[0]]
    assert {done.errors[0] for done in failed} == {"gRPC UNAVAILABLE"}
    assert all(math.isinf(done.latencies[0]) for done in failed)


def test_a_port_where_nobody_listens_fails_each_request_and_does_not_hang() -> None:
    course = Course(50)
    with refusing() as endpoint:
        drive(course, endpoint, bench=by_grpc())
    assert len(course.done) >= 50
    assert errors_of(course) == {"gRPC UNAVAILABLE"}


def test_a_server_killed_in_the_middle_turns_into_errors_of_its_arm_alone() -> None:
    course = Course(400)
    with running_grpc(QUICK) as stays, running_grpc(QUICK) as dies:
        asked = itertools.count()
        course.interrupt = lambda: dies.process.kill() if next(asked) == 25 else None
        drive(course, stays.endpoint, dies.endpoint, bench=by_grpc())
    assert not any(done.errors[0] for done in course.done)
    assert all(done.errors[1] for done in course.done[-50:])


def test_what_interrupt_raises_stops_the_load_at_once() -> None:
    began = time.monotonic()

    def interrupt() -> None:
        if time.monotonic() - began > 0.6:
            raise StopNow

    course = Course(10**9, interrupt=interrupt)
    with running_grpc(Behaviour(service_ms=0.05, hang_rate=0.5)) as served:
        began = time.monotonic()
        with pytest.raises(StopNow):
            drive(course, served.endpoint, bench=by_grpc(timeout_s=60.0))
        assert time.monotonic() - began < 30.0


def test_a_missing_grpcio_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "grpc.aio", None)
    with pytest.raises(ConfigError, match="cannot speak it") as caught:
        bench.check_grpc(by_grpc(), Path(), ())
    assert "grpc.aio" in caught.value.why
    assert 'pip install "opsctl[grpc]"' in caught.value.next_step


def test_a_replica_that_does_not_say_where_it_speaks_grpc_is_told() -> None:
    with (
        running(Behaviour()) as served,
        pytest.raises(ConfigError, match="does not say where it speaks gRPC"),
    ):
        grpc_arm.located(replace(served.endpoint, name="r2-1"), by_grpc())
    with pytest.raises(TargetUnreachable, match="does not answer"):
        grpc_arm.located(Endpoint("127.0.0.1", 1), by_grpc())
    fixed = grpc_arm.located(Endpoint("10.0.0.7", 80, 81), replace(by_grpc(), grpc_port=8500))
    assert (fixed.host, fixed.port) == ("10.0.0.7", 8500)


def test_a_port_that_speaks_another_protocol_or_none_is_told() -> None:
    with running(QUICK) as served, pytest.raises(TargetUnreachable, match="does not answer"):
        load_bodies(by_grpc(), Path(), served.endpoint)
    with refusing() as endpoint, pytest.raises(TargetUnreachable, match="does not answer"):
        load_bodies(by_grpc(), Path(), endpoint)


def test_reports_of_both_protocols_are_not_compared_without_saying_so() -> None:
    old = {"bench": {"path": PATH}}
    new = {"bench": {"path": PATH, "protocol": "grpc"}}
    assert load_of(old)["bench.protocol"] == "rest"
    assert load_of(new)["bench.protocol"] == "grpc"


LOAD = replace(
    by_grpc(), body={"instances": [1.0]}, warmup_s=0.3, warmup_max_s=3.0, rate_per_s=150.0,
    batch_sizes=(1,),
)  # fmt: skip


@pytest.mark.long
def test_a_gate_by_grpc_fails_a_much_slower_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_arm, "located", lambda endpoint, bench: endpoint)
    with running_grpc(EQUAL) as old, running_grpc(replace(EQUAL, service_ms=8.0)) as new:
        report = gated(request(old.endpoint, new.endpoint, load=LOAD))
    assert (report.outcome, report.reason_kind) == ("fail", "regression")
    assert report.reason == "the candidate is worse in p50 of batch size 1"
    assert report.data["bench"]["protocol"] == "grpc"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_sample_service_is_measured_by_grpc() -> None:
    trained = sample.trained_model()
    load = replace(
        by_grpc(timeout_s=60.0), requests_file="requests.jsonl", batch_sizes=(1, 4),
        rate_per_s=20.0, warmup_s=0.5, warmup_requests=5,
    )  # fmt: skip
    with sample.serving(trained, 0.0, (), "--grpc-port", "0") as served:
        bench.check_grpc(load, trained, (served.endpoint,))
        asked = bench.BenchRequest(served.endpoint, load, trained, 1, seconds_a_size=2.0)
        report = bench.measure(asked, tell=silent, interrupt=never).to_dict()
        odd = replace(load, requests_file=None, body={"instances": [{"odd": 1}]})
        with pytest.raises(ConfigError, match="can't be sent by gRPC"):
            bench.check_grpc(odd, trained, (served.endpoint,))
        other = replace(load, path="/v1/models/other:predict")
        with pytest.raises(ConfigError, match="does not say by gRPC what it takes") as caught:
            bench.check_grpc(other, trained, (served.endpoint,))
        assert "NOT_FOUND: Servable not found for request: Latest(other)" in caught.value.why
        # Bodies made from what the model says of itself by gRPC.
        there = grpc_arm.located(served.endpoint, load)
        assert there.port not in (served.endpoint.port, served.endpoint.health_port)
        made = load_bodies(replace(load, requests_file=None), trained, there)
        assert [len(bodies) for bodies in made.by_size.values()] == [32, 32]
    assert report["bench"]["protocol"] == "grpc"
    for size in ("1", "4"):
        arm = report["batch_sizes"][size]["candidate"]
        assert arm["errors"] == 0 and arm["requests"] >= 20
        assert report["batch_sizes"][size]["capacity"]["instances_per_s"] > 0
