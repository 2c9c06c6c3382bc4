"""What objects of Kubernetes say of a service, told without a cluster."""

from __future__ import annotations

import json
from typing import Any

from opsctl.model import DesiredState, Share, Stamp
from opsctl.targets.kubernetes.helm import decoded, encoded
from opsctl.targets.kubernetes.live import Live, front_weights
from opsctl.targets.kubernetes.owners import disowned
from opsctl.targets.kubernetes.traffic import counters

RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def pod(name: str, release: str, **more: Any) -> dict[str, Any]:
    """A ready pod; `more` are fields of its container's status, or `leaving`, or `ready`."""
    leaving, ready = more.pop("leaving", False), more.pop("ready", True)
    status = {"name": "service", "ready": ready, "restartCount": 0, "started": True,
              "state": RUNNING, **more}  # fmt: skip
    metadata: dict[str, Any] = {
        "name": name,
        "uid": name,
        "labels": {"opsctl/release": release, "opsctl/role": "serving"},
    }
    if leaving:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ports = [{"name": "http", "containerPort": 8501}, {"name": "health", "containerPort": 8080}]
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "service", "ports": ports}]},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
            "containerStatuses": [status],
        },
    }


def deployment(release: str, replicas: int, ready: int) -> dict[str, Any]:
    return {
        "metadata": {
            "name": f"light-{release}", "generation": 2,
            "labels": {"opsctl/release": release, "opsctl/role": "serving"},
        },
        "spec": {"replicas": replicas},
        "status": {"observedGeneration": 2, "updatedReplicas": ready, "readyReplicas": ready,
                   "replicas": replicas},
    }  # fmt: skip


def front(selector: dict[str, str], **notes: str) -> dict[str, Any]:
    annotations = {f"opsctl/{name}": value for name, value in notes.items()}
    return {"metadata": {"annotations": annotations}, "spec": {"selector": selector}}


def phases(*pods: dict[str, Any]) -> list[str]:
    return [replica.phase for replica in Live(None, pods, ()).replicas()]


def test_a_pod_tells_its_phase() -> None:
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    told = phases(
        pod("a", "r1"),
        pod("b", "r1", leaving=True),
        pod("c", "r1", ready=False, started=False),
        pod("d", "r1", ready=False),
        pod("e", "r1", ready=False, state=waiting, lastState=ended, restartCount=2),
        pod("f", "r1", ready=False, state=ended, started=False),
    )
    assert told == ["ready", "stopping", "starting", "unready", "crash_loop", "backoff"]


def test_a_replica_tells_where_it_answers_and_how_it_died() -> None:
    ended = {"terminated": {"exitCode": 3, "reason": "Error"}}
    (replica,) = Live(None, [pod("a", "r1", lastState=ended, restartCount=1)], ()).replicas()
    assert (replica.host, replica.port, replica.health_port) == ("10.0.0.9", 8501, 8080)
    assert (replica.restarts, replica.exit_code) == (1, 3)


def test_a_quota_that_refuses_all_pods_is_told_as_a_replica_that_does_not_stay() -> None:
    refused = deployment("r2", 1, 0)
    refused["status"]["conditions"] = [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
         "message": 'pods "light-r2-x" is forbidden: violates PodSecurity "restricted:latest"'}
    ]  # fmt: skip
    (replica,) = Live(None, (), [refused]).replicas()
    assert (replica.name, replica.release, replica.phase) == ("light-r2", "r2", "crash_loop")
    assert "violates PodSecurity" in replica.reason


def test_a_state_is_reached_when_all_is_ready_and_nothing_else_is_there() -> None:
    state = DesiredState((Share("r1", 2, 100),))
    pods = [pod("a", "r1"), pod("b", "r1")]
    assert Live(None, pods, [deployment("r1", 2, 2)]).reached(state)
    assert not Live(None, pods, [deployment("r1", 2, 1)]).reached(state)
    assert not Live(None, pods[:1], [deployment("r1", 2, 2), deployment("r2", 1, 1)]).reached(state)
    assert not Live(None, [*pods, pod("c", "r1")], [deployment("r1", 2, 2)]).reached(state)


def test_a_deployment_that_the_guard_has_emptied_counts_as_gone() -> None:
    live = Live(None, [pod("a", "r2")], [deployment("r1", 0, 0), deployment("r2", 1, 1)])
    state = DesiredState((Share("r2", 1, 100),))
    assert live.reached(state)
    assert live.unexpected(state) == []
    assert live.unexpected(DesiredState()) == [("r2", "serving")]


def test_the_front_service_tells_who_ordered_what() -> None:
    notes = {"epoch": "3", "sequence": "14", "digest": "ab", "state": '[["r1","serving",2,100]]'}
    live = Live(front({"a": "b"}, **notes, turns='{"r1":[1,true]}', values="guard"), (), ())
    assert live.stamp == Stamp(3, 14, "ab")
    assert live.in_force == DesiredState((Share("r1", 2, 100),))
    assert live.turns == {"r1": (1, True)}
    assert live.mark == "guard"
    assert front_weights(live, {"a": "b"}, "selector") == {"r1": 100}


def test_a_service_that_somebody_changed_has_no_known_traffic() -> None:
    live = Live(front({"a": "other"}, state='[["r1","serving",2,100]]'), (), ())
    assert front_weights(live, {"a": "b"}, "selector") == {}


def route(*weights: tuple[str, int], taken: int = 3, header: str = "") -> dict[str, Any]:
    """An HTTPRoute of generation 3 of which a Gateway has taken in generation `taken`."""
    backs = [{"name": f"light-{name}", "weight": weight} for name, weight in weights]
    rules: list[dict[str, Any]] = [{"backendRefs": backs}]
    if header:
        match = {"headers": [{"name": "X-Try", "value": "yes"}]}
        rules.insert(0, {"matches": [match], "backendRefs": [{"name": f"light-{header}"}]})
    accepted = {"type": "Accepted", "status": "True", "observedGeneration": taken}
    return {
        "metadata": {"generation": 3},
        "spec": {"rules": rules},
        "status": {"parents": [{"conditions": [accepted]}]},
    }


def shared(made: dict[str, Any] | None) -> dict[str, int]:
    """Traffic in force by a route, while the newest revision shares 75 to 25."""
    state = '[["r1","serving",2,75],["r2","serving",2,25]]'
    named = front({"a": "b"}, state=state)
    named["metadata"]["name"] = "light"
    return front_weights(Live(named, (), (), route=made), {"a": "b"}, "route")


def test_a_route_shares_traffic_once_its_gateway_has_taken_it_in() -> None:
    assert shared(route(("r1", 75), ("r2", 25))) == {"r1": 75, "r2": 25}
    assert shared(route(("r1", 75), ("r2", 25), taken=2)) == {}
    assert shared(None) == {}


def test_a_route_that_somebody_changed_tells_what_it_does_now() -> None:
    assert shared(route(("r1", 50), ("r2", 50))) == {"r1": 50, "r2": 50}
    assert shared(route(("r1", 100), ("r2", 0))) == {"r1": 100}
    # What goes to a release by a header is nobody's share.
    assert shared(route(("r1", 75), ("r2", 25), header="r2")) == {"r1": 75, "r2": 25}


def test_a_service_that_is_not_ours_says_nothing() -> None:
    live = Live({"metadata": {}, "spec": {}}, (), ())
    assert (live.stamp, live.in_force, live.turns) == (Stamp(0, 0), DesiredState(), {})


def test_a_record_of_helm_is_read_and_written_as_helm_does() -> None:
    release = {"name": "light", "info": {"status": "pending-upgrade"}, "config": {"ä": [1]}}
    assert decoded({"data": {"release": encoded(release)}}) == release
    assert json.loads(json.dumps(release)) == release


def test_counters_are_summed_over_their_labels() -> None:
    text = (
        "# TYPE inference_requests_total counter\n"
        'inference_requests_total{model="a"} 7\n'
        'inference_requests_total{model="b"} 1e1\n'
        "inference_errors_total 2.0\n"
        "inference_requests_total_created 5\n"
    )
    assert counters(text) == (17, 2)
    assert counters("") == (0, 0)


def test_traffic_that_somebody_sent_elsewhere_by_hand_is_noticed() -> None:
    state = '[["r1","serving",2,75],["r2","serving",2,25]]'
    named = front({"a": "b"}, state=state)
    named["metadata"]["name"] = "light"
    right = Live(named, (), (), route=route(("r1", 75), ("r2", 25), taken=2))
    assert not right.is_edited({"a": "b"}, "route")
    assert right.is_edited({"a": "c"}, "route")
    wrong = Live(named, (), (), route=route(("r1", 100), ("r2", 0)))
    assert wrong.is_edited({"a": "b"}, "route")
    assert not wrong.is_edited({"a": "b"}, "selector")
    assert not Live(None, (), ()).is_edited({"a": "b"}, "selector")


def test_what_is_opsctls_alone_is_taken_from_others_and_nothing_else() -> None:
    labels: dict[str, Any] = {"f:metadata": {"f:labels": {"f:team": {}}}}
    helm = {"manager": "helm", "fieldsV1": {"f:spec": {"f:selector": {}, "f:type": {}}}}
    guard = {"manager": "opsctl-guard", "fieldsV1": {"f:spec": {"f:selector": {}}}}
    person = {"manager": "kubectl-edit", "fieldsV1": {**labels, "f:spec": {"f:selector": {}}}}
    assert disowned("services", [helm, guard, person]) == [
        helm, {"manager": "kubectl-edit", "fieldsV1": {**labels, "f:spec": {}}},
    ]  # fmt: skip
    scaled = {"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    assert disowned("deployments", [helm, guard, scaled]) == [helm, scaled]
