"""The configuration files of a cluster."""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from opsctl import shell
from scripts.nodes.layout import PODS_RANGE, Layout

USERS = {
    # user: groups
    "admin": "system:masters",
    "system:kube-controller-manager": "",
    "system:kube-scheduler": "",
    "system:kube-proxy": "",
}


def write_control(layout: Layout) -> None:
    """All files of the control plane, with new tokens."""
    control = layout.control
    for folder in ("etcd", "registry", "certificates"):
        (control / folder).mkdir(parents=True, exist_ok=True)
    make_key(control / "accounts.key")
    users = dict(USERS)
    users.update({f"system:node:node{n}": "system:nodes" for n in range(1, layout.nodes + 1)})
    tokens = {user: secrets.token_hex(16) for user in users}
    lines = [f'{tokens[user]},{user},{user},"{groups}"' for user, groups in users.items()]
    (control / "tokens.csv").write_text("\n".join(lines) + "\n")
    (control / "tokens.json").write_text(json.dumps(tokens))
    for path in control.glob("tokens.*"):
        path.chmod(0o600)
    (control / "registry.yaml").write_text(REGISTRY.format(layout=layout))
    (control / "Corefile").write_text(COREFILE.format(layout=layout, address=layout.address(1)))


def write_clients(layout: Layout) -> None:
    """The kubeconfig files; the API server has to have made its certificate."""
    control = layout.control
    tokens = json.loads((control / "tokens.json").read_text())
    for name in ("kube-controller-manager", "kube-scheduler", "kube-proxy"):
        write_kubeconfig(layout, control / f"{name}.kubeconfig", tokens[f"system:{name}"])
    for node in range(1, layout.nodes + 1):
        token = tokens[f"system:node:node{node}"]
        write_kubeconfig(layout, layout.node(node) / "kubelet.kubeconfig", token)
    layout.kubeconfig.parent.mkdir(parents=True, exist_ok=True)
    write_kubeconfig(layout, layout.kubeconfig, tokens["admin"])


def write_node(layout: Layout, node: int) -> None:
    """The files of a node, but for its kubeconfig."""
    folder = layout.node(node)
    hosts = folder / "registries" / layout.registry
    for made in (folder / "cni", hosts):
        made.mkdir(parents=True, exist_ok=True)
    (folder / "containerd.toml").write_text(
        CONTAINERD.format(folder=folder, debian=layout.parts.debian, registry=layout.registry)
    )
    (hosts / "hosts.toml").write_text(
        f'server = "http://{layout.registry}"\n'
        f'[host."http://{layout.registry}"]\n  capabilities = ["pull", "resolve"]\n'
    )
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(network(layout, node)))
    (folder / "kubelet.yaml").write_text(json.dumps(kubelet(layout, node)))
    (folder / "proxy.yaml").write_text(json.dumps(proxy(layout, node)))


def make_key(path: Path) -> None:
    """The key that signs the tokens of service accounts."""
    if not path.exists():
        made = shell.run(["openssl", "genrsa", "-out", str(path), "2048"], timeout_s=60)
        if not made.ok:
            raise OSError(f"no key can be made: {made.why}")


def write_kubeconfig(layout: Layout, path: Path, token: str) -> None:
    """A kubeconfig (JSON is YAML) of one user, readable by its owner only."""
    certificate = (layout.control / "certificates" / "apiserver.crt").read_bytes()
    cluster = {
        "server": layout.api,
        "certificate-authority-data": base64.b64encode(certificate).decode(),
    }
    path.touch(mode=0o600)
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [{"name": layout.name, "cluster": cluster}],
                "users": [{"name": layout.name, "user": {"token": token}}],
                "contexts": [
                    {"name": layout.name, "context": {"cluster": layout.name, "user": layout.name}}
                ],
                "current-context": layout.name,
            },
            indent=1,
        )
    )


def network(layout: Layout, node: int) -> dict[str, Any]:
    """A bridge for the node's pods; the other nodes' pods are reached by routes."""
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "dataDir": f"{layout.node(node)}/addresses",
            "ranges": [[{"subnet": layout.pods(node)}]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    plugins = [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": plugins}


def kubelet(layout: Layout, node: int) -> dict[str, Any]:
    """KubeletConfiguration."""
    little_left = {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup(node)}",
        "clusterDNS": [layout.address(1)],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{layout.node(node)}/containerd.sock",
        "failSwapOn": False,
        "failCgroupV1": False,
        "evictionHard": {**little_left, "nodefs.inodesFree": "1%"},
        "imageGCHighThresholdPercent": 100,
        "podCIDR": layout.pods(node),
        # Its own pods' logs, so that two nodes of one machine don't meet in /var/log/pods.
        "podLogsDir": f"{layout.node(node)}/pod-logs",
        "resolvConf": f"{layout.node(node)}/resolv.conf",
        "volumePluginDir": f"{layout.node(node)}/volume-plugins",
        "serializeImagePulls": False,
        "nodeStatusUpdateFrequency": "5s",
        "maxPods": 250,
    }


def proxy(layout: Layout, node: int) -> dict[str, Any]:
    """KubeProxyConfiguration; connection tracking is the machine's and stays as it is."""
    kept = {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": f"{layout.control}/kube-proxy.kubeconfig"},
        "mode": "iptables",
        "clusterCIDR": PODS_RANGE,
        "hostnameOverride": f"node{node}",
        "conntrack": kept,
        "iptables": {"minSyncPeriod": "0s"},
    }


REGISTRY = """\
version: 0.1
log: {{level: warn}}
storage: {{filesystem: {{rootdirectory: {layout.control}/registry}}, delete: {{enabled: true}}}}
http: {{addr: 0.0.0.0:5000}}
"""

COREFILE = """\
cluster.local:53 {{
    bind {address}
    errors
    kubernetes cluster.local {{
        kubeconfig {layout.kubeconfig} {layout.name}
        pods insecure
        ttl 5
    }}
}}
"""

CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/containerd-state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{registry}/pause:1"
  # Without CAP_SYS_RESOURCE a sandbox can't be given less than its parent's value.
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{debian}/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "{folder}/registries"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  # The handler that the Ascend runtime installs, so that pods which name it run here too.
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.ascend]
    runtime_type = "io.containerd.runc.v2"
"""
