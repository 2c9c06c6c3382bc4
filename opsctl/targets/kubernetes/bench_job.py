"""The benchmark gate as a Job next to the pods that it asks, which this machine may not reach."""

from __future__ import annotations

import base64
import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from opsctl.bench.remote import Heard, files_of
from opsctl.bench.report import GateRequest
from opsctl.errors import GateUndecided, TargetUnreachable
from opsctl.model import Endpoint, Json
from opsctl.targets.kubernetes import reasons
from opsctl.targets.kubernetes.api import Conflict, Missing
from opsctl.targets.kubernetes.mirror import Mirror
from opsctl.targets.kubernetes.names import SERVICE

if TYPE_CHECKING:
    from opsctl.targets.kubernetes.target import KubernetesTarget

BENCH_PART = "bench"
JOBS = "/apis/batch/v1/namespaces"
FOLDER = "/bench"
MARGIN_S = 300
"""On top of the gate's budget: warm-up, throughput, another gate on the same node."""

KEPT_S = 60
"""A Job that has ended goes by itself after that, also when nobody looks any more."""

START_MAX_S = 180.0
LOOK_S = 0.2
RETRY_S = 1.0
ENTRY_MAX_BYTES = 700_000
"""An object holds 1 MiB, and base64 takes a third more."""

Tell = Callable[[str], None]
Interrupt = Callable[[], None]


def run_gate(
    target: KubernetesTarget, request: GateRequest, *, tell: Tell, interrupt: Interrupt
) -> Json:
    """The report of a gate that ran in the cluster; nothing of it is left there afterwards.

    Raises ConfigError, TargetUnreachable, GateUndecided when it does not run, and what `interrupt`
    raises.
    """
    asked = replace(
        request,
        baseline=request.baseline and _inside(target, request.baseline),
        candidate=_inside(target, request.candidate),
    )
    remove(target)
    job = _Job(target, asked, tell, interrupt)
    try:
        job.start()
        return job.report()
    finally:
        with contextlib.suppress(TargetUnreachable):  # it ends by itself
            remove(target)


def remove(target: KubernetesTarget) -> None:
    """No Job is there afterwards, nor one whose opsctl was killed. Raises TargetUnreachable."""
    api, path = target.api, _path(target)
    api.delete(path, propagationPolicy="Foreground")
    api.delete(target.names.path("secrets", _name(target)))
    deadline = time.monotonic() + START_MAX_S
    while _is_there(target) and time.monotonic() < deadline:
        time.sleep(LOOK_S)


def _name(target: KubernetesTarget) -> str:
    return f"opsctl-{target.names.service}-bench"


def _path(target: KubernetesTarget) -> str:
    return f"{JOBS}/{target.names.namespace}/jobs/{_name(target)}"


def _is_there(target: KubernetesTarget) -> bool:
    try:
        target.api.get(_path(target))
    except Missing:
        return False
    return True


def _inside(target: KubernetesTarget, arm: Endpoint) -> Endpoint:
    """Where a replica answers inside the cluster."""
    for replica in target.view.look().replicas():
        if replica.name == arm.name:
            return Endpoint(replica.host, replica.port, replica.health_port, name=arm.name)
    raise TargetUnreachable(f"{arm.name} is gone", next_step="Deploy again")


class _Job:
    """One run."""

    def __init__(
        self, target: KubernetesTarget, request: GateRequest, tell: Tell, interrupt: Interrupt
    ) -> None:
        self._target = target
        self._request = request
        self._interrupt = interrupt
        self._name = _name(target)
        chosen = f"job-name={self._name}"
        self._pods = Mirror(target.api, target.names.path("pods"), chosen)
        self._heard = Heard(request, tell)

    def start(self) -> None:
        """Make the Job and what it reads, which goes with it."""
        files = files_of(self._request)
        size = sum(map(len, files.values()))
        if size > ENTRY_MAX_BYTES:
            raise GateUndecided(
                "the benchmark can't run in the cluster",
                why=f"its requests take {size} bytes, and an object holds {ENTRY_MAX_BYTES}",
                next_step="Make bench.requests_file smaller, or set kubernetes.bench_image to null",
            )
        api, names = self._target.api, self._target.names
        made = api.post(f"{JOBS}/{names.namespace}/jobs", self._manifest())
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": self._name,
                 "uid": made["metadata"]["uid"]}  # fmt: skip
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {**self._metadata(), "ownerReferences": [owner]},
            "data": {name: base64.b64encode(data).decode() for name, data in files.items()},
        }
        with contextlib.suppress(Conflict):
            api.post(names.path("secrets"), secret)

    def report(self) -> Json:
        """What it found, told as it comes."""
        pod = self._started()
        for line in self._lines(pod):
            self._heard.take([line])
            if self._heard.report is not None:
                return self._heard.report
        said = "; ".join(self._heard.other[-3:]) or "it said nothing"
        raise GateUndecided(
            "the benchmark's Job ended without a result", why=said,
            next_step="See that kubernetes.bench_image has opsctl and what it needs",
        )  # fmt: skip

    def _started(self) -> str:
        """The name of its pod once that has begun. Raises GateUndecided."""
        deadline = time.monotonic() + START_MAX_S
        why = "it has no pod"
        while time.monotonic() < deadline:
            self._interrupt()
            for pod in self._pods.all():
                if pod["status"].get("phase") in ("Running", "Succeeded", "Failed"):
                    return str(pod["metadata"]["name"])
                reason = reasons.terminal({**pod, "kind": "Pod"}, self._events(pod))
                why = reason.what if reason else f"its pod is {pod['status'].get('phase')}"
                if reason is not None and reason.status == "fail":
                    deadline = 0.0
            self._pods.wait(lambda objects: False, LOOK_S)
        raise GateUndecided(
            "the benchmark's Job does not start", why=why,
            next_step="See kubectl describe job, then deploy again",
        )  # fmt: skip

    def _events(self, pod: Json) -> list[Json]:
        with contextlib.suppress(TargetUnreachable):
            uid = pod["metadata"]["uid"]
            found = self._target.view.warnings()
            return [one for one in found if one.get("involvedObject", {}).get("uid") == uid]
        return []

    def _lines(self, pod: str) -> Iterator[str]:
        """What it says, to its end; a way that broke is taken again from where it was."""
        said: queue.Queue[str | None] = queue.Queue()
        path = self._target.names.path("pods", pod, "log")

        def read() -> None:
            count = 0
            while True:
                try:
                    query = {"follow": "true", "timeoutSeconds": 3600}
                    for number, line in enumerate(self._target.api.lines(path, **query)):
                        if number >= count:
                            count += 1
                            said.put(line.decode(errors="replace"))
                except Missing:
                    break
                except TargetUnreachable:
                    time.sleep(RETRY_S)
                    continue
                if self._has_ended(pod):
                    break
                time.sleep(RETRY_S)
            said.put(None)

        threading.Thread(target=read, name="bench", daemon=True).start()
        while True:
            self._interrupt()
            with contextlib.suppress(queue.Empty):
                line = said.get(timeout=LOOK_S)
                if line is None:
                    return
                yield line

    def _has_ended(self, pod: str) -> bool:
        found = self._pods.get(pod)
        return found is None or found["status"].get("phase") in ("Succeeded", "Failed")

    def _metadata(self) -> Json:
        names = self._target.names
        labels = {**names.labels(BENCH_PART), SERVICE: names.service}
        return {"name": self._name, "namespace": names.namespace, "labels": labels}

    def _manifest(self) -> Json:
        settings = self._target.settings
        limit_s = int(2 * self._request.gate.budget_s) + MARGIN_S
        container = {
            "name": "bench",
            "image": settings.bench_image,
            "command": ["python3", "-m", "opsctl.bench.remote", FOLDER],
            "resources": {
                "requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "1Gi"},
            },
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": "bench", "mountPath": FOLDER, "readOnly": True},
                {"name": "tmp", "mountPath": "/tmp"},
            ],
        }  # fmt: skip
        user = settings.user_id
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "imagePullSecrets": [{"name": name} for name in settings.image_pull_secrets],
            "securityContext": {
                "runAsNonRoot": True, "runAsUser": user, "runAsGroup": user, "fsGroup": user,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [
                {"name": "bench", "secret": {"secretName": self._name}},
                {"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}},
            ],
        }  # fmt: skip
        labels = self._target.names.labels(BENCH_PART)
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": self._metadata(),
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": limit_s,
                "ttlSecondsAfterFinished": KEPT_S,
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        }
