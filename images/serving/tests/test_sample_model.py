"""The sample model: data, training, export, and what a server answers with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from ascend_serving.sensor_data import CHANNELS, FAULTS, STEPS, generate


def test_the_same_seed_gives_the_same_windows_bit_for_bit():
    first, second = generate(7, 50), generate(7, 50)
    assert first.values.tobytes() == second.values.tobytes()
    assert first.kinds == second.kinds
    assert not np.array_equal(first.values, generate(8, 50).values)


def test_windows_have_the_stated_shape_kinds_and_share():
    windows = generate(1, 3000)
    assert windows.values.shape == (3000, STEPS, len(CHANNELS))
    assert windows.values.dtype == np.float32
    assert set(windows.kinds) == {"normal", *FAULTS}
    assert [kind != "normal" for kind in windows.kinds] == windows.labels.tolist()
    assert 0.36 < windows.labels.mean() < 0.44


def test_the_model_finds_anomalies_of_every_kind(sample, load_json):
    facts = load_json(sample / "model.json")
    assert facts["metrics"]["auc"] > 0.98
    assert facts["metrics"]["precision"] > 0.95
    assert set(facts["metrics"]["recall_by_kind"]) == set(FAULTS)
    assert min(facts["metrics"]["recall_by_kind"].values()) > 0.85
    assert (facts["seed"], facts["variant"]) == (42, "normal")


@pytest.mark.usefixtures("needs_ops")
def test_the_output_layer_is_the_custom_op(sample, load_json):
    assert load_json(sample / "model.json")["custom_op"] == "AscendSigmoid"
    assert b"AscendSigmoid" in (sample / "1" / "saved_model.pb").read_bytes()


def test_requests_are_windows_of_the_test_split_and_a_server_takes_them(
    sample, start_server, load_json
):
    lines = (sample / "requests.jsonl").read_text().splitlines()
    assert len(lines) == 512
    windows = [json.loads(line) for line in lines]
    assert np.shape(windows) == (512, STEPS, len(CHANNELS))
    server = start_server(sample).wait_ready()
    answers = server.predict({"instances": windows}).json()["predictions"]
    facts = load_json(sample / "model.json")
    flags = np.array([answer["anomaly"] for answer in answers])
    scores = np.array([answer["score"] for answer in answers], np.float32)
    assert (flags == (scores >= np.float32(facts["threshold"]))).all()
    assert server.metric("anomalies_detected_total") == flags.sum()
    assert server.get("/health").json()["model_hash"] == facts["hash"]
    assert server.get("/health").json()["op_backend"] == (
        "cpusim" if facts["custom_op"] else "none"
    )


def test_a_server_answers_what_expected_json_says_at_every_batch_size(
    sample, start_server, load_json
):
    server = start_server(sample).wait_ready()
    expected = load_json(sample / "expected.json")
    windows = expected["windows"]
    assert [one["kind"] for one in windows] == ["normal", *FAULTS]
    for size in (1, 4, 16, 32):
        chosen = [windows[index % len(windows)] for index in range(size)]
        body = {"instances": [one["instance"] for one in chosen]}
        answers = server.predict(body).json()["predictions"]
        for one, answer in zip(chosen, answers, strict=True):
            assert answer["score"] == pytest.approx(one["score"], abs=expected["tolerance"])
            assert answer["anomaly"] == one["anomaly"]


def test_a_threshold_of_the_operator_replaces_the_models_own(sample, start_server, load_json):
    windows = load_json(sample / "expected.json")["windows"]
    body = {"instances": [one["instance"] for one in windows]}
    for threshold, flagged in (("0.0", len(windows)), ("1.1", 0)):
        server = start_server(sample, "--threshold", threshold).wait_ready()
        answers = server.predict(body).json()["predictions"]
        assert sum(answer["anomaly"] for answer in answers) == flagged


@pytest.mark.long
@pytest.mark.usefixtures("needs_ops")
def test_another_export_and_one_without_the_op_give_the_same_answers(
    sample, train_model, load_json, tmp_path
):
    again = train_model(tmp_path / "again")
    without = train_model(tmp_path / "without", "--no-custom-op")
    first = load_json(sample / "expected.json")["windows"]
    for other in (again, without):
        scores = [one["score"] for one in load_json(other / "expected.json")["windows"]]
        assert scores == pytest.approx([one["score"] for one in first], abs=1e-6)
    assert b"AscendSigmoid" not in (without / "1" / "saved_model.pb").read_bytes()


def test_the_out_folder_must_be_writable(run_train, tmp_path):
    (tmp_path / "file").write_text("")
    code, text = run_train("--out", str(tmp_path / "file" / "model"))
    assert code == 2
    assert text.startswith("error: cannot write to")


def test_the_smoke_bodies_get_what_their_names_say(sample, start_server, load_json):
    server = start_server(sample).wait_ready()
    folder = Path(__file__).parent.parent / "smoke"
    expected = {"normal": [False], "drift": [True], "batch": [False, True, True]}
    for name, flags in expected.items():
        answers = server.predict(load_json(folder / f"{name}.json")).json()["predictions"]
        assert [answer["anomaly"] for answer in answers] == flags
