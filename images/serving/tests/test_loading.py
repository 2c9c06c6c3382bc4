"""What the two applications answer before the model is there, without a server around them."""

from __future__ import annotations

import asyncio
import json

import pytest
from ascend_serving.artifact import Artifact
from ascend_serving.health import HealthApi
from ascend_serving.options import read_options
from ascend_serving.rest import RestApi
from ascend_serving.service import Service


@pytest.fixture
def service(tmp_path):
    options = read_options(["--model-path", str(tmp_path)], {})
    return Service(options, Artifact(tmp_path, tmp_path, 4))


def call(application, method, path, body=b""):
    sent = []

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "raw_path": path.encode()}
    asyncio.run(application(scope, receive, send))
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], headers, sent[1]["body"]


def test_predictions_and_metadata_are_put_off_and_not_refused(service):
    for method, path in (("POST", ":predict"), ("GET", "/metadata")):
        status, headers, body = call(RestApi(service), method, f"/v1/models/anomaly{path}")
        assert (status, headers["retry-after"]) == (503, "1")
        assert json.loads(body) == {"error": "the model is still loading"}


def test_the_state_of_the_model_is_loading(service):
    _, _, body = call(RestApi(service), "GET", "/v1/models/anomaly")
    assert json.loads(body)["model_version_status"][0]["state"] == "LOADING"


def test_it_is_alive_and_not_ready(service):
    status, _, body = call(HealthApi(service), "GET", "/health/live")
    assert (status, json.loads(body)["status"]) == (200, "loading")
    for path in ("/health", "/health/ready"):
        status, _, body = call(HealthApi(service), "GET", path)
        assert (status, json.loads(body)["ready"]) == (503, False)
    assert (
        b'inference_ready{model="anomaly",version="4"} 0.0'
        in call(HealthApi(service), "GET", "/metrics")[2]
    )
