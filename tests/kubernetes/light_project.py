"""The light service as a project on target `kubernetes`: what is wrong with a candidate is a
variable of its pods."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from opsctl.config.load import load
from opsctl.config.settings import Project
from opsctl.release_changes import is_name
from opsctl.targets.kubernetes.target import KubernetesTarget
from scripts.campaigns._opsctl import Opsctl, processes_of, processes_with
from scripts.nodes.layout import load as load_layout
from tests.apps.project import BIAS, PREDICT, SERVICE, WEIGHTS, Candidate, Options, write
from tests.cluster.kubernetes import Cluster

FAULTS = (
    "exit_at_start", "hang_at_start", "health_status", "dies_after_s", "value_error",
    "leak_mb_per_s", "ignores_sigterm", "user_errors_percent",
)  # fmt: skip
"""What the light image can get wrong by itself."""

HELM = "4"
LINGER_S = 4
"""After SIGTERM the light service goes on answering for so long, and closes what is kept alive: on
a machine that is busy kube-proxy learns seconds late that a pod is about to end."""

SERVICE_PORT = 8501
SERVING = "opsctl/release"
"""Label that the service's pods have, and the guard's has not."""


def image_with_model(cluster: Cluster, folder: Path) -> str:
    """The light service with a model whose right answers the tests know, by digest."""
    layout = load_layout()
    assert layout is not None
    shutil.copytree(Path(layout.parts.images) / "light", folder)
    (folder / "models").mkdir()
    (folder / "models" / "weights.json").write_text(json.dumps({"w": WEIGHTS, "b": BIAS}))
    return cluster.order("image", "served:1", str(folder), "/light").strip()


@dataclass(frozen=True)
class KubeLight:
    """A project on disk whose service runs in a namespace of the cluster."""

    root: Path
    cluster: Cluster
    namespace: str
    image: str
    options: Options
    port: int = 0
    helm: str = HELM
    door: int = 0
    """Port of a Gateway on the node; 0: users come by the Service's own."""
    address: str = ""
    """The Service's address inside the cluster, for users who are there."""

    @property
    def config(self) -> Path:
        """The opsctl.yaml."""
        return self.root / "opsctl.yaml"

    @property
    def requests(self) -> Path:
        """The client's requests with the right answers."""
        return self.root / "requests.json"

    @property
    def url(self) -> str:
        """Where users ask for predictions."""
        if self.address:
            return f"http://{self.address}:{SERVICE_PORT}{PREDICT}"
        port = self.door or self.cluster.node_port(self.namespace, SERVICE)
        return f"http://{self.cluster.address}:{port}{PREDICT}"

    @property
    def state(self) -> Path:
        """A copy of the journal in the namespace, made when it is asked for.

        A release's `app/serial.txt` comes from the variables of its pods.
        """
        copy = self.root / "state"
        storage = self.target().storage
        (copy / "journal").mkdir(parents=True, exist_ok=True)
        for name in storage.names("journal"):
            kept = storage.read(f"journal/{name}")
            (copy / "journal" / name).write_bytes(kept.data if kept else b"")
        for release in filter(is_name, storage.names("releases")):
            kept = storage.read(f"releases/{release}/release.json")
            if kept is not None:
                folder = copy / "releases" / release / "app"
                folder.mkdir(parents=True, exist_ok=True)
                pod = json.loads(kept.data)["launch"]["container"]["pod"]
                folder.joinpath("serial.txt").write_text(pod["env"]["SERIAL"])
        return copy

    @property
    def replica_mark(self) -> str:
        """Part of a replica's command line that no other process has."""
        return f"/light {self.namespace}"

    def change(self, candidate: Candidate, serial: int | str) -> None:
        """Turn the project into a candidate; `serial` makes it unlike all others."""
        known = {name: value for name, value in candidate.fault.items() if name in FAULTS}
        assert known == dict(candidate.fault), f"the light image has no fault {candidate.kind}"
        env = {"SERIAL": str(serial), "LIGHT_FAULT": json.dumps(known), "LINGER_S": str(LINGER_S)}
        self.edit(lambda service: service["app"].update(env=env))

    def edit(self, change: Any) -> None:
        """Change the service in opsctl.yaml."""
        data = yaml.safe_load(self.config.read_text())
        change(data["services"][SERVICE])
        self.config.write_text(yaml.safe_dump(data, sort_keys=False))

    def load(self) -> Project:
        """The project as opsctl reads it."""
        return load(self.config, environment="production", service=SERVICE)

    def target(self) -> KubernetesTarget:
        """Its target. KUBECONFIG must be set in this process."""
        return KubernetesTarget(self.load())


def light_in(
    cluster: Cluster, namespace: str, root: Path, image: str, options: Options
) -> KubeLight:
    """A new project in `root` with a good service."""
    write(root, options)
    project = KubeLight(root, cluster, namespace, image, options)
    data = yaml.safe_load(project.config.read_text())
    service = data["services"][SERVICE]
    for part in ("local", "model"):
        service.pop(part, None)
    service["app"].update(command=["/light", namespace], image=image)
    # A node whose machine is busy may be away for half a minute.
    patient = {"interval_s": 1.0, "tries": 300, **options.overrides.get("health", {})}
    service["health"].update(patient)
    service["strategy"].update(step_timeout_s=400, drain_timeout_s=2 * LINGER_S)
    service["kubernetes"] = {
        "namespace": namespace, "service_type": "NodePort", "traffic": "selector", "cpu": 0.01,
        "helm": cluster.variables[f"CLUSTER_HELM{project.helm}"], "model_claim": None,
        "pre_stop_s": 0, **service.get("kubernetes", {}),
    }  # fmt: skip
    data["environments"] = {"production": {"target": "kubernetes"}}
    project.config.write_text(yaml.safe_dump(data, sort_keys=False))
    project.change(Candidate("first"), 0)
    return project


def by_route(light: KubeLight, port: int) -> KubeLight:
    """The same project with traffic by the Gateway `front` of its namespace."""
    settings = {"traffic": "route", "gateway": {"name": "front"}, "service_type": "ClusterIP"}
    light.edit(lambda service: service["kubernetes"].update(settings))
    return replace(light, door=port)


def inside(light: KubeLight, address: str) -> KubeLight:
    """The same project for users inside the cluster, where the Service has this address."""
    return replace(light, address=address)


def by_helm(light: KubeLight, major: str) -> KubeLight:
    """The same project with another Helm."""
    program = light.cluster.variables[f"CLUSTER_HELM{major}"]
    light.edit(lambda service: service["kubernetes"].update(helm=program))
    return replace(light, helm=major)


@dataclass(frozen=True)
class KubeOpsctl(Opsctl):
    """The command, in a project whose service runs in a cluster."""

    light: KubeLight

    def env(self, **more: str) -> dict[str, str]:
        """With the cluster's kubeconfig."""
        own = {"KUBECONFIG": self.light.cluster.variables["KUBECONFIG"]}
        return super().env(**own, **more)

    def wrong_processes(self, replicas: Collection[int]) -> list[str]:
        """What is wrong with what runs: a process for each replica, and no command left over."""
        running = processes_of(self.light.root)
        wrong = [f"left over: {line}" for line in running.values() if "opsctl.cli" in line]
        pods = self.light.cluster.get("pods", "-n", self.light.namespace, "-l", SERVING)["items"]
        found = len(processes_with(self.light.replica_mark))
        if found != len(pods):
            wrong.append(f"{found} processes run for {len(pods)} replicas")
        return wrong

    def recoverer(self, serial: str) -> KubeOpsctl:
        """The command from another folder: all that it needs lies in the namespace."""
        return self.elsewhere(self.light.root.parent / f"elsewhere-{serial}")

    def elsewhere(self, folder: Path) -> KubeOpsctl:
        """The same service from another folder, with nothing but opsctl.yaml and what it names."""
        shutil.copytree(self.light.root, folder, ignore=shutil.ignore_patterns(".opsctl"))
        moved = KubeLight(**{**_fields(self.light), "root": folder})
        return KubeOpsctl(moved, moved)


def _fields(light: KubeLight) -> Mapping[str, Any]:
    return dict(light.__dict__)


def through(light: KubeOpsctl, kubeconfig: Path) -> KubeOpsctl:
    """The command for the same project by another kubeconfig: another account, or another way."""
    cluster = Cluster({**light.light.cluster.variables, "KUBECONFIG": str(kubeconfig)})
    project = replace(light.light, cluster=cluster)
    return KubeOpsctl(project, project)


def use_cluster(cluster: Cluster) -> None:
    """Let this process reach the cluster."""
    os.environ["KUBECONFIG"] = cluster.variables["KUBECONFIG"]
