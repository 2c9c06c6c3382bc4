"""opsctl and Helm killed in the middle on a real node: the next command, from anywhere, goes on."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from opsctl.targets.kubernetes.helm import UNFINISHED, decoded, encoded
from tests.apps.project import CANDIDATES
from tests.cluster.kubernetes import Cluster, Refused
from tests.kubernetes.light_project import KubeOpsctl

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

WAIT_S = 240.0


def wait_for(holds: Callable[[], bool], what: str) -> float:
    """Wait until something is so; how long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < WAIT_S, f"it did not come true that {what}"
        time.sleep(0.05)
    return time.monotonic() - began


def history(light: KubeOpsctl) -> list[dict[str, Any]]:
    """All revisions of the Helm release."""
    told = light.light.cluster.helm(
        "4", "history", "light", "-n", light.light.namespace, "-o", "json"
    )
    found: list[dict[str, Any]] = json.loads(told)
    return found


def statuses(light: KubeOpsctl) -> list[str]:
    """Of all revisions of the Helm release."""
    return [row["status"] for row in history(light)]


def test_kills_around_journal_records_lose_nothing(light: KubeOpsctl, tmp_path: Path) -> None:
    assert light.run("deploy").exit_code == 0
    light.light.change(CANDIDATES["code"], 2)
    # Before and after a record of the way, each in a command of its own.
    for point in ("after:2", "before:3", "after:4", "before:1"):
        killed = light.run("deploy", OPSCTL_KILL_AT=point)
        assert killed.exit_code == -signal.SIGKILL
    there = light.elsewhere(tmp_path / "elsewhere")
    done = there.run("resume")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    assert light.status()["serving_release"] == "r2"
    assert statuses(light)[-1] == "deployed"


def helm_of(light: KubeOpsctl) -> int:
    """The process of Helm that works in the namespace; 0 when there is none."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if words and words[0].endswith(b"/helm") and light.light.namespace.encode() in words:
                return int(entry.name)
    return 0


def test_helm_dies_with_opsctl_and_what_it_left_blocks_nothing(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    assert light.run("deploy").exit_code == 0
    light.light.change(CANDIDATES["code"], 2)
    process = light.spawn(tmp_path / "killed.log", "deploy")
    wait_for(lambda: helm_of(light) > 0, "Helm works")
    helm = helm_of(light)
    time.sleep(0.15)
    process.kill()
    process.wait()
    wait_for(lambda: not Path(f"/proc/{helm}").exists(), "Helm has died with it")
    done = light.elsewhere(tmp_path / "elsewhere").run("resume")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    assert not [status for status in statuses(light) if status.startswith("pending")]


def test_a_pending_revision_is_marked_failed_and_passed(light: KubeOpsctl) -> None:
    assert light.run("deploy").exit_code == 0
    cluster, namespace = light.light.cluster, light.light.namespace
    leave_pending(cluster, namespace)
    with pytest.raises(Refused, match="another operation"):
        cluster.helm("4", "upgrade", "light", "helm", "-n", namespace, "--reuse-values")
    light.light.change(CANDIDATES["code"], 2)
    done = light.run("deploy")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r2"), done.stderr
    # Helm calls what it went over superseded; that it never ended stays in the history.
    assert history(light)[1]["description"] == UNFINISHED
    assert statuses(light)[-1] == "deployed"
    assert not [status for status in statuses(light) if status.startswith("pending")]


def leave_pending(cluster: Cluster, namespace: str) -> None:
    """Turn the newest revision into one whose upgrade was killed after it had changed objects."""
    found = cluster.get("secrets", "-n", namespace, "-l", "owner=helm,status=deployed")["items"]
    (record,) = found
    release = decoded(record)
    release["info"]["status"] = "pending-upgrade"
    record["metadata"]["labels"]["status"] = "pending-upgrade"
    record["data"]["release"] = encoded(release)
    cluster.kubectl("replace", "-f", "-", given=json.dumps(record))


def selector(light: KubeOpsctl) -> Any:
    front = light.light.cluster.get("service", "light", "-n", light.light.namespace)
    return front["spec"]["selector"]


def test_the_guard_takes_an_unproved_candidate_off_traffic(
    light: KubeOpsctl, guards: str, tmp_path: Path
) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    light.light.edit(lambda service: service["kubernetes"].update(guard_image=guards))
    stages = [{"weight": 50, "hold_s": 600}]
    light.light.edit(lambda service: service["strategy"].update(stages=stages))
    assert light.run("deploy").exit_code == 0
    cluster.roll_out(namespace, "opsctl-light-guard")
    alone = selector(light)
    light.light.change(CANDIDATES["code"], 2)
    process = light.spawn(tmp_path / "killed.log", "deploy")
    wait_for(lambda: "opsctl/joins-r1" in selector(light), "the candidate has traffic")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    took_s = wait_for(lambda: selector(light) == alone, "the candidate has no traffic any more")
    print(f"the guard acted {took_s:.1f} s after the kill")
    status = light.status()
    assert status["observed"]["guarded"] is True
    assert "nobody has been in charge" in status["observed"]["guard_reason"]
    assert status["observed"]["weights"] == {"r1": 100}
    done = light.elsewhere(tmp_path / "elsewhere").run("abort")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r1"), done.stderr
    observed = light.status()["observed"]
    assert (observed["guarded"], observed["weights"]) == (False, {"r1": 100})
    assert {replica["release"] for replica in observed["replicas"]} == {"r1"}


def test_a_warm_release_retires_without_anybody(light: KubeOpsctl, guards: str) -> None:
    light.light.edit(lambda service: service["kubernetes"].update(guard_image=guards))
    light.light.edit(lambda service: service["strategy"].update(rollback_window_s=1))
    assert light.run("deploy").exit_code == 0
    light.light.change(CANDIDATES["code"], 2)
    assert light.run("deploy").exit_code == 0

    def pods() -> set[str]:
        found = light.light.cluster.get(
            "pods", "-n", light.light.namespace, "-l", "opsctl/role=serving"
        )
        return {pod["metadata"]["labels"]["opsctl/release"] for pod in found["items"]}

    wait_for(lambda: pods() == {"r2"}, "r1 has retired")
    status = light.status()
    assert status["observed"]["converged"] is True
    assert [share["release"] for share in status["desired"]["shares"]] == ["r2"]


def test_nothing_runs_of_a_helm_whose_opsctl_is_gone_already(tmp_path: Path) -> None:
    from opsctl.targets.kubernetes.helm import TIED

    mark = tmp_path / "ran"
    argv = ["python3", "-S", "-E", str(TIED), "1", "touch", str(mark)]
    done = subprocess.run(argv, check=False)
    assert done.returncode == 1
    assert not mark.exists()
