"""Health, metrics and what the accelerators' tools say, on a real server."""

from __future__ import annotations

import importlib.metadata
import stat

import pytest
import requests
from ascend_serving.accelerators import Sample, sample_gpus, sample_npus
from ascend_serving.artifact import hash_artifact

# `npu-smi info -l` and `-t usages` as CANN's drivers print them.
NPU_LIST = """\
        Total Count                    : 2

        NPU ID                         : 0
        Product Name                   : IT21PDDA01
        Serial Number                  : 033EUE10N7000001
        Chip Count                     : 1

        NPU ID                         : 3
        Chip Count                     : 1
"""
NPU_USAGES = """\
        NPU ID                         : 0
        Chip Count                     : 1

        DDR Capacity(MB)               : 13553
        DDR Usage Rate(%)              : 26
        DDR Hugepages Total(page)      : 0
        Aicore Usage Rate(%)           : 37
        Aicpu Usage Rate(%)            : 0
        Ctrlcpu Usage Rate(%)          : 3
        DDR Bandwidth Usage Rate(%)    : 0
        HBM Capacity(MB)               : 65536
        HBM Usage Rate(%)              : 50
        Chip ID                        : 0
"""


@pytest.fixture(scope="module")
def server(start_server, toys):
    return start_server(toys / "half_plus_two", environment={"OPSCTL_RELEASE": "r7"}).wait_ready()


def test_health_says_what_serves(server, toys):
    folder = toys / "half_plus_two" / "123"
    for path in ("/health", "/health/live", "/health/ready"):
        answer = server.get(path)
        assert answer.status_code == 200
        assert answer.json() == {
            "status": "ready",
            "live": True,
            "ready": True,
            "release": "r7",
            "model": "anomaly",
            "version": "123",
            "model_hash": hash_artifact(folder),
            "model_path": str(folder),
            "backend": f"tensorflow {importlib.metadata.version('tensorflow_cpu')}",
            "op_backend": "none",
            "in_flight": 0,
            "grpc_port": None,
        }


def test_other_paths_and_methods_are_refused(server):
    assert server.get("/none").status_code == 404
    assert requests.post(f"{server.health}/health", timeout=10).status_code == 405


def test_requests_errors_and_latency_are_counted_with_model_and_version(start_server, toys):
    server = start_server(toys / "half_plus_two").wait_ready()
    labels = {"model": "anomaly", "version": "123"}
    assert server.metric("inference_requests_total", **labels) == 0
    assert server.metric("inference_errors_total", kind="server", **labels) == 0
    for body in ({"instances": [1, 2]}, {"instances": [3]}, {"instances": ["x"]}):
        server.predict(body)
    assert server.metric("inference_requests_total", **labels) == 3
    assert server.metric("inference_errors_total", kind="client", **labels) == 1
    # The failure is timed too.
    assert server.metric("inference_latency_seconds_count", **labels) == 3
    assert server.metric("inference_latency_seconds_bucket", le="0.001", **labels) >= 1
    assert server.metric("inference_instances_total", **labels) == 3
    assert server.metric("inference_batch_instances_sum", **labels) == 3
    assert server.metric("inference_ready", **labels) == 1
    assert server.metric("process_resident_memory_bytes") > 1e7
    text = server.get("/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name in ("gpu_utilization_percent", "npu_utilization_percent"):
        assert f"# TYPE {name} gauge" in text.text


def test_npus_are_read_by_key_and_hbm_before_ddr():
    commands = []

    def run(command):
        commands.append(command)
        return NPU_LIST if command[-1] == "-l" else NPU_USAGES

    assert sample_npus(run) == [
        Sample("npu", device, 37.0, 32768 << 20, 65536 << 20) for device in ("0", "3")
    ]
    assert commands[-1] == ["npu-smi", "info", "-t", "usages", "-i", "3"]


def test_gpus_are_read_from_csv():
    samples = sample_gpus(lambda _: "0, 12, 100, 2000\n1, 7, 0, 2000\n")
    assert samples == [
        Sample("gpu", "0", 12.0, 100 << 20, 2000 << 20),
        Sample("gpu", "1", 7.0, 0, 2000 << 20),
    ]


def test_utilisation_appears_on_a_machine_with_npus(start_server, toys, tmp_path, eventually):
    write_tool(tmp_path, f"[ $2 = -l ] && cat <<E || cat <<F\n{NPU_LIST}E\n{NPU_USAGES}F\n")
    server = start_server(toys / "half_plus_two", environment=with_tool(tmp_path)).wait_ready()
    eventually(lambda: server.metric("npu_utilization_percent", device="3") == 37)
    assert server.metric("npu_memory_used_bytes", device="0", model="anomaly") == 32768 << 20


def test_a_tool_that_hangs_holds_up_nobody(start_server, toys, tmp_path):
    write_tool(tmp_path, "exec sleep 60\n")
    server = start_server(toys / "half_plus_two", environment=with_tool(tmp_path)).wait_ready()
    assert server.predict({"instances": [1]}).elapsed.total_seconds() < 30
    assert server.metric("npu_utilization_percent") is None
    server.terminate()
    assert server.wait(50) == 0


def write_tool(folder, body: str) -> None:
    tool = folder / "npu-smi"
    tool.write_text(f"#!/bin/sh\n{body}")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def with_tool(folder) -> dict[str, str]:
    return {"PATH": f"{folder}:/usr/bin:/bin"}
