"""The processes of a node, in the order of their start, with their command lines.

Source of the flags: `--help` of each at the version that scripts/nodes/build.sh names.
"""

from __future__ import annotations

from collections.abc import Callable

from scripts.nodes.layout import API_PORT, PODS_RANGE, SERVICE_RANGE, STATE, Layout

CONTROL = (
    "etcd",
    "registry",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "coredns",
)
WORK = ("containerd", "kubelet", "kube-proxy")


def names(node: int) -> tuple[str, ...]:
    """What runs on a node; the first one has the control plane too."""
    return (*CONTROL, *WORK) if node == 1 else WORK


def command(name: str, layout: Layout, node: int) -> list[str]:
    """The command line of a component on a node."""
    return [PROGRAMS.get(name, name), *ARGUMENTS[name](layout, node)]


def etcd(layout: Layout, _: int) -> list[str]:
    """The store of the API server."""
    return [
        f"--data-dir={layout.control}/etcd",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
        # Nothing here has to outlive the machine.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def registry(layout: Layout, _: int) -> list[str]:
    """The registry of images, plain HTTP."""
    return ["serve", f"{layout.control}/registry.yaml"]


def apiserver(layout: Layout, _: int) -> list[str]:
    """The API server, reachable from the machine and from pods."""
    control = layout.control
    return [
        "--etcd-servers=http://127.0.0.1:2379",
        f"--service-account-key-file={control}/accounts.key",
        f"--service-account-signing-key-file={control}/accounts.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={control}/tokens.csv",
        "--authorization-mode=Node,RBAC",
        f"--bind-address={layout.address(1)}",
        f"--advertise-address={layout.address(1)}",
        f"--secure-port={API_PORT}",
        f"--cert-dir={control}/certificates",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--kubelet-preferred-address-types=InternalIP",
        "--allow-privileged=true",
        # Leave open what a test that restarts the server would otherwise wait for.
        "--shutdown-delay-duration=0s",
    ]


def controllers(layout: Layout, _: int) -> list[str]:
    """What makes pods of Deployments, and the rest."""
    control = layout.control
    return [
        f"--kubeconfig={control}/kube-controller-manager.kubeconfig",
        f"--service-account-private-key-file={control}/accounts.key",
        "--use-service-account-credentials=true",
        f"--root-ca-file={control}/certificates/apiserver.crt",
        "--leader-elect=false",
        f"--cluster-cidr={PODS_RANGE}",
        # Twice the default: on a busy machine a kubelet is late, and its node must stay usable.
        "--node-monitor-grace-period=90s",
    ]


def scheduler(layout: Layout, _: int) -> list[str]:
    """What gives pods to nodes."""
    return [
        f"--kubeconfig={layout.control}/kube-scheduler.kubeconfig",
        "--leader-elect=false",
    ]


def coredns(layout: Layout, _: int) -> list[str]:
    """Names of Services."""
    return ["-conf", f"{layout.control}/Corefile"]


def containerd(layout: Layout, node: int) -> list[str]:
    """What runs containers; the node has its own."""
    return ["--config", f"{layout.node(node)}/containerd.toml"]


def kubelet(layout: Layout, node: int) -> list[str]:
    """What runs the pods of a node."""
    folder = layout.node(node)
    return [
        f"--kubeconfig={folder}/kubelet.kubeconfig",
        f"--config={folder}/kubelet.yaml",
        f"--hostname-override=node{node}",
        f"--root-dir={folder}/kubelet",
        f"--cert-dir={folder}/certificates",
        f"--node-ip={layout.address(node)}",
    ]


def proxy(layout: Layout, node: int) -> list[str]:
    """Services of a node, by iptables."""
    return [f"--config={layout.node(node)}/proxy.yaml"]


PROGRAMS = {"registry": "docker-registry"}
ARGUMENTS: dict[str, Callable[[Layout, int], list[str]]] = {
    "etcd": etcd,
    "registry": registry,
    "kube-apiserver": apiserver,
    "kube-controller-manager": controllers,
    "kube-scheduler": scheduler,
    "coredns": coredns,
    "containerd": containerd,
    "kubelet": kubelet,
    "kube-proxy": proxy,
}


def log_path(name: str, node: int) -> str:
    """Where a component's output goes."""
    return f"{STATE}/logs/node{node}-{name}.log"
