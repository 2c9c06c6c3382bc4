"""The pyACL back end, on pyACL's functions without a device (fake_acl.py has its rules)."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from ascend_serving.artifact import Artifact
from ascend_serving.backend import BackendSettings, load_backend, warm_up
from ascend_serving.errors import Internal, ModelBroken


@pytest.fixture
def acl(fake_acl, monkeypatch):
    module = fake_acl.FakeAcl()
    monkeypatch.setitem(sys.modules, "acl", module)
    return module


def load(concurrency=2, config=None):
    path = Path("/models/1/net.om")
    return load_backend(
        "acl",
        BackendSettings(
            artifact=Artifact(path, path, 1),
            threads=1,
            concurrency=concurrency,
            device=3,
            acl_config=config,
            op_library=None,
        ),
    )


def inputs(size):
    window = np.arange(size * 3, dtype=np.float32).reshape(size, 3)
    return {"window": window, "gain": np.full(size, 0.5, np.float32)}


def test_a_short_batch_is_padded_and_its_padding_cut_off(acl):
    backend = load()
    for size in (8, 3, 1):
        outputs = backend.run("serving_default", inputs(size))
        expected = [(9 * n + 3) * 0.5 for n in range(size)]
        assert outputs["score"].tolist() == expected
        assert outputs["score"].dtype == np.float32
        assert outputs["anomaly"].tolist() == [score > 10 for score in expected]


def test_what_a_client_sees_has_a_free_batch_axis_and_no_half(acl):
    backend = load()
    signature = backend.signatures["serving_default"]
    assert backend.max_batch == 8
    assert signature.batchable
    assert {
        name: (tensor.data_type, tensor.shape)
        for name, tensor in {**signature.inputs, **signature.outputs}.items()
    } == {
        "window": ("DT_FLOAT", (None, 3)),
        "gain": ("DT_FLOAT", (None,)),
        "score": ("DT_FLOAT", (None,)),
        "anomaly": ("DT_BOOL", (None,)),
    }
    assert backend.runtime == "acl Ascend910B1 device 3"
    warm_up(backend, 8)


def test_batches_overlap_each_on_its_own_copy_of_the_model(acl):
    backend = load(concurrency=3)
    acl.hold = threading.Event()
    with ThreadPoolExecutor(6) as pool:
        runs = [pool.submit(backend.run, "serving_default", inputs(2)) for _ in range(6)]
        threading.Timer(0.3, acl.hold.set).start()
        answers = [run.result(10)["score"].tolist() for run in runs]
    assert answers == [[1.5, 6.0]] * 6
    assert acl.most_at_once == 3


def test_closing_frees_everything_in_order(acl):
    backend = load(config=Path("/etc/acl.json"))
    assert acl.config == "/etc/acl.json"
    backend.close()
    assert acl.live == {}
    assert acl.calls[-1] == "finalize"


def test_acl_is_finalised_only_by_whoever_initialised_it(acl):
    acl.init_code = 100002
    load().close()
    assert acl.live == {}
    assert "finalize" not in acl.calls


@pytest.mark.parametrize(
    "function",
    ["rt.set_device", "mdl.load_from_file", "rt.malloc", "mdl.get_desc"],
)
def test_a_failed_load_frees_what_it_had_and_says_what_to_do(acl, function):
    acl.fail[function] = 207001
    with pytest.raises(ModelBroken) as caught:
        load()
    text = str(caught.value)
    assert f"acl.{function} returned 207001: EL0004: out of memory" in text
    assert "npu-smi info" in text
    assert acl.live == {}


def test_a_failed_run_is_an_error_of_its_request_and_the_copy_is_used_again(acl):
    backend = load(concurrency=1)
    acl.fail["mdl.execute"] = 507011
    with pytest.raises(Internal, match="returned 507011"):
        backend.run("serving_default", inputs(1))
    acl.fail.clear()
    assert backend.run("serving_default", inputs(1))["score"].tolist() == [1.5]


def test_a_model_without_one_fixed_batch_size_is_refused(acl):
    acl.inputs = [("window", [-1, 3], 0, 4), acl.inputs[1]]
    with pytest.raises(ModelBroken, match=r"window \[-1, 3\]") as caught:
        load()
    assert "atc --input_shape" in str(caught.value)
    assert acl.live == {}


def test_a_type_without_a_json_form_is_refused(acl):
    acl.outputs = [("score", [8], 27, 2)]
    with pytest.raises(ModelBroken, match="output score has the ACL type 27"):
        load()
