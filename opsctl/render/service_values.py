"""opsctl.yaml → values of the chart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from opsctl.config import placeholders
from opsctl.model import Json, Stamp

if TYPE_CHECKING:
    from opsctl.config.settings import Kubernetes, Npu, Project, Service

HTTP_PORT = 8501
HEALTH_PORT = 8080
MODEL_MOUNT = "/models"
PYTHON = "python3"
"""In an image; `app.python` names one of the machine that opsctl runs on."""


def service_values(project: Project, releases: Sequence[Json], stamp: Stamp | None = None) -> Json:
    """The values of a service with these releases (`release_values`), ordered by `stamp`."""
    settings = project.service.kubernetes
    return {
        "service": project.service_name,
        "state": (stamp or Stamp(0, 0)).to_dict(),
        "releases": list(releases),
        "traffic": _traffic(settings),
        "front": {"type": settings.service_type, "port": settings.port},
        "networkPolicy": {"enabled": settings.limit_network},
        "monitoring": {"enabled": settings.monitoring},
    }


def release_values(
    project: Project, name: str, image: str, *, weight: int = 100, base: str = ""
) -> Json:
    """One release as `releases` holds it, with all that its pods depend on: later changes of
    opsctl.yaml or of the chart's defaults leave it alone."""
    return {
        "name": name,
        "base": base,
        "replicas": project.service.replicas,
        "weight": weight,
        "image": image,
        "pod": pod_values(project.service, name, secret_name(project.service_name, name)),
    }


def secret_name(service: str, release: str) -> str:
    """The Secret with the values of `app.secrets` for a release."""
    return f"{service}-{release}-secrets"


def pod_values(service: Service, release: str, secret: str) -> Json:
    """What the pods of a release are like."""
    settings = service.kubernetes
    autoscaling = settings.autoscaling
    return {
        "imagePullSecrets": list(settings.image_pull_secrets),
        "command": command(service.app.command, release, settings.model_path),
        "ports": {"http": HTTP_PORT, "health": HEALTH_PORT},
        "env": {"TF_CPP_MIN_LOG_LEVEL": "2", **service.app.env},
        "secretEnv": {name: {"secret": secret, "key": name} for name in service.app.secrets},
        "model": {
            "claim": settings.model_claim or "",
            "mountPath": MODEL_MOUNT,
            "path": settings.model_path,
        },
        "resources": _resources(service),
        "npu": _npu(settings.npu),
        "nodeSelector": dict(settings.node_selector),
        "spread": {"hosts": settings.spread_hosts, "zones": settings.spread_zones},
        "probes": _probes(service),
        "drain": {"preStopSeconds": settings.pre_stop_s, "timeoutSeconds": _drain_s(service)},
        "surge": {"maxSurge": int(settings.surge), "maxUnavailable": int(not settings.surge)},
        "security": dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"), settings.user_id),
        "writable": {path: f"{size}Mi" for path, size in settings.writable_mb.items()},
        "autoscaling": {
            "enabled": autoscaling is not None,
            "maxReplicas": autoscaling.max_replicas if autoscaling else service.replicas,
            "cpuPercent": autoscaling.cpu_percent if autoscaling else 70,
        },
    }


def command(arguments: Sequence[str], release: str, model: str) -> list[str]:
    """`app.command` for a container: its placeholders filled, and nothing that Kubernetes (or
    compose) would take for a variable of its own but the replica's name."""
    values: Mapping[str, str] = {
        "python": PYTHON,
        "host": "0.0.0.0",
        "port": str(HTTP_PORT),
        "health_port": str(HEALTH_PORT),
        "model": model,
        "release": release,
        "replica": "\0",
    }
    filled = (placeholders.fill(argument, values) for argument in arguments)
    return [text.replace("$(", "$$(").replace("\0", "$(OPSCTL_REPLICA)") for text in filled]


def _traffic(settings: Kubernetes) -> Json:
    gateway = settings.gateway
    return {
        "mode": settings.traffic,
        "gateway": {
            "name": gateway.name,
            "namespace": gateway.namespace or "",
            "sectionName": gateway.section or "",
        },
        "hostnames": list(gateway.hostnames),
    }


def _resources(service: Service) -> Json:
    memory = f"{service.resources.memory_mb or service.kubernetes.memory_mb}Mi"
    cpu = f"{round(service.kubernetes.cpu * 1000)}m"
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


def _npu(npu: Npu) -> Json:
    return {
        "chip": "" if npu.chip == "none" else npu.chip,
        "count": npu.count,
        "resource": npu.resource or "",
        "vnpu": npu.vnpu or "",
        "driver": npu.driver,
        "runtimeClass": npu.runtime_class or "",
        "nodeLabels": dict(npu.node_labels),
        "chipLabel": npu.chip_label,
        "volcano": {
            "enabled": npu.volcano_queue is not None,
            "queue": npu.volcano_queue or "default",
        },
    }


def _probes(service: Service) -> Json:
    health = service.health
    timeout_s = whole(health.timeout_s)
    return {
        "readyPath": health.path,
        "livePath": health.live_path,
        "startup": {
            "periodSeconds": whole(health.interval_s),
            "failureThreshold": health.tries,
            "timeoutSeconds": timeout_s,
        },
        "readiness": {
            "periodSeconds": whole(health.interval_s),
            "failureThreshold": 2,
            "timeoutSeconds": timeout_s,
        },
        "liveness": {"periodSeconds": 10, "failureThreshold": 3, "timeoutSeconds": timeout_s},
    }


def whole(seconds: float) -> int:
    """Kubernetes counts whole seconds, one at least."""
    return max(1, -int(-seconds // 1))


def _drain_s(service: Service) -> int:
    return whole(max(service.strategy.drain_timeout_s, service.app.stop_timeout_s))
