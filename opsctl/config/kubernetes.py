"""Keys of opsctl.yaml for Kubernetes; a part of the settings."""

from __future__ import annotations

from collections.abc import Mapping

from opsctl.config.fields import Section, key, section

CHIPS = ("none", "910", "910b", "910c", "310p", "310", "950")


@section
class Npu(Section):
    """Accelerators of a replica."""

    chip: str = key("none", doc="Kind of NPU.", choices=CHIPS)
    count: int = key(1, doc="NPUs of a replica.", low=1, high=64)
    resource: str | None = key(
        None,
        doc="Extended resource; default: the device plugin's name for the chip.",
        example="huawei.com/Ascend910B4",
    )
    vnpu: str | None = key(None, doc="Template of a static virtual NPU.", example="4c.3cpu")
    driver: str = key(
        "runtime",
        doc="runtime: the Ascend runtime mounts the driver; host: by hostPath, which needs a"
        " privileged namespace.",
        choices=("runtime", "host"),
    )
    runtime_class: str | None = key(
        None, doc="RuntimeClass, where the Ascend runtime is not the default.", example="ascend"
    )
    node_labels: Mapping[str, str] = key(
        factory=lambda: {"hardware-type": "ascend-npu"}, doc="Labels of nodes with NPUs."
    )
    chip_label: bool = key(True, doc="Also ask for the label `accelerator` of the chip.")
    volcano_queue: str | None = key(
        None, doc="Queue of Volcano, which then gives the NPUs out.", example="default"
    )


@section
class Gateway(Section):
    """The Gateway that an HTTPRoute hangs on."""

    name: str = key("gateway", doc="Its name.")
    namespace: str | None = key(None, doc="Its namespace; default: the service's.", example="infra")
    section: str | None = key(None, doc="Listener; default: all.", example="web")
    hostnames: tuple[str, ...] = key((), doc="Host names that the service answers to.")
    try_header: str | None = key(
        None,
        doc="NAME: VALUE; requests with this header go to a candidate as soon as it has a share of"
        " the traffic, whatever its weight.",
        example="X-Try: yes",
    )
    mirror: bool = key(
        False,
        doc="As long as a candidate has a share of the traffic, it gets a copy of every request"
        " too, whose answer goes nowhere; live limits count them. Not each Gateway can.",
    )


@section
class Autoscaling(Section):
    """Replicas by load; needs traffic by route."""

    max_replicas: int = key(doc="Most replicas.", low=1, high=10000, example=10)
    cpu_percent: int = key(70, doc="CPU use, of the request, that is aimed at.", low=1, high=1000)


@section
class Kubernetes(Section):
    """Settings of Kubernetes, for rendering and for target `kubernetes`."""

    namespace: str = key("ai-serving", doc="Namespace.")
    context: str | None = key(
        None, doc="Context of the kubeconfig; default: its current one.", example="production"
    )
    helm: str = key("helm", doc="The helm program, 3.16 or newer.")
    address: str | None = key(
        None,
        doc="HOST:PORT where users reach the service; default: by the Service or the Gateway.",
        example="anomaly.example.org:80",
    )
    guard_image: str | None = key(
        None,
        doc="Image with opsctl and its Python, of which the guard runs; null: no guard.",
        example="registry.example/opsctl@sha256:DIGEST",
    )
    bench_image: str | None = key(
        None,
        doc="Image with opsctl, in which the benchmark gate runs as a Job next to the pods; null:"
        " it runs here, and asks them through the API server.",
        example="registry.example/opsctl@sha256:DIGEST",
    )
    service_type: str = key(
        "LoadBalancer",
        doc="Type of the front Service.",
        choices=("LoadBalancer", "ClusterIP", "NodePort"),
    )
    port: int = key(8501, doc="Port of the front Service.", low=1, high=65535)
    traffic: str = key(
        "auto",
        doc="route: weights by an HTTPRoute; selector: by the share of replicas; auto: route where"
        " the cluster has the Gateway API.",
        choices=("auto", "route", "selector"),
    )
    gateway: Gateway = key(factory=Gateway, doc="The Gateway of the route.")
    cpu: float = key(2.0, doc="CPUs that a replica is given at least.", low=0.01)
    memory_mb: int = key(
        4096, doc="Memory of a replica, where resources.memory_mb says nothing.", low=16
    )
    npu: Npu = key(factory=Npu, doc="Accelerators of a replica.")
    model_claim: str | None = key("model-pvc", doc="Claim with the models; null: in the image.")
    model_path: str = key(
        "/models", doc="The model's version in a replica; its claim is at /models."
    )
    node_selector: Mapping[str, str] = key(factory=dict, doc="Labels of the nodes.")
    spread_hosts: str = key(
        "ScheduleAnyway",
        doc="Replicas on different nodes: wished, a must, or off.",
        choices=("ScheduleAnyway", "DoNotSchedule", "off"),
    )
    spread_zones: str = key(
        "ScheduleAnyway",
        doc="Replicas in different zones: wished, a must, or off.",
        choices=("ScheduleAnyway", "DoNotSchedule", "off"),
    )
    surge: bool = key(True, doc="Whether there is room for one replica more during a change.")
    user_id: int = key(1000, doc="User and group of a replica; HwHiAiUser is 1000.", low=1)
    pre_stop_s: int = key(
        3,
        doc="SIGTERM waits so long; 0 for an application that goes on answering after it.",
        low=0,
        high=600,
    )
    image_pull_secrets: tuple[str, ...] = key((), doc="Secrets of private registries.")
    writable_mb: Mapping[str, int] = key(
        factory=lambda: {"/tmp": 256}, doc="Folders that a replica may write, and their size."
    )
    autoscaling: Autoscaling | None = key(None, doc="Replicas by load.")
    monitoring: bool = key(False, doc="ServiceMonitor and PrometheusRule.")
    limit_network: bool = key(True, doc="A NetworkPolicy that opens nothing but the two ports.")
