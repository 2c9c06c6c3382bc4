"""How a command finds its cluster: contexts of a kubeconfig, proxies, plugins and their tokens."""

from __future__ import annotations

import contextlib
import json
import secrets
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.kubernetes import Cluster
from tests.kubernetes.bad_api import Faults, bad_api
from tests.kubernetes.light_project import KubeOpsctl, through

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

INSIDE_NAME = "kubernetes.default.svc"
"""A name of the API server that its certificate has, and that this machine can't resolve."""

BLOCK_BYTES = 65536


def known(cluster: Cluster) -> Any:
    """The administrator's kubeconfig."""
    return yaml.safe_load(Path(cluster.variables["KUBECONFIG"]).read_text())


def test_each_environment_is_deployed_in_the_cluster_of_its_own_context(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    cluster, first = light.light.cluster, light.light.namespace
    ways = {"staging": Faults(seed=1), "production": Faults(seed=2)}
    with (
        cluster.namespace(f"t-{secrets.token_hex(4)}") as second,
        bad_api(cluster, ways["staging"]) as one,
        bad_api(cluster, ways["production"]) as two,
    ):
        both = yaml.safe_load(one.kubeconfig(tmp_path / "one").read_text())
        both |= {"current-context": "nowhere"}
        other = yaml.safe_load(two.kubeconfig(tmp_path / "two").read_text())
        for kubeconfig, name in ((both, "staging"), (other, "production")):
            kubeconfig["clusters"][0]["name"] = name
            context = {"cluster": name, "user": "bad"}
            kubeconfig["contexts"][0] |= {"name": name, "context": context}
        both["clusters"] += other["clusters"]
        both["contexts"] += other["contexts"]
        file = tmp_path / "both.kubeconfig"
        file.write_text(yaml.safe_dump(both))
        environments(light, {"staging": first, "production": second})
        user = through(light, file)
        done = user.run("deploy", "-e", "staging,production")
        assert done.exit_code == 0, done.stderr
        asked = {name: faults.asked for name, faults in ways.items()}
        assert min(asked.values()) > 10
        for namespace in (first, second):
            found = cluster.get("deployments", "-n", namespace)["items"]
            assert [one["metadata"]["name"] for one in found] == ["light-r1"]
        # Who asks for one of them asks nobody else.
        told = user.run("status", "-e", "production")
        assert told.data["serving_release"] == "r1", told.stderr
        assert ways["staging"].asked == asked["staging"]
        assert ways["production"].asked > asked["production"]


def environments(light: KubeOpsctl, namespaces: dict[str, str]) -> None:
    """Environments of opsctl.yaml, each with a context of its own name."""
    data = yaml.safe_load(light.light.config.read_text())
    data["environments"] = {
        name: {
            "target": "kubernetes",
            "overrides": {"light": {"kubernetes": {"context": name, "namespace": namespace}}},
        }
        for name, namespace in namespaces.items()
    }
    light.light.config.write_text(yaml.safe_dump(data, sort_keys=False))


class Proxy:
    """A proxy of HTTP as companies have one: it only knows CONNECT, and where names lead."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Serve until it is closed."""
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(near,), daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _connect(self, near: socket.socket) -> None:
        with near, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                head += near.recv(BLOCK_BYTES)
            verb, target, _ = head.split(b" ", 2)
            assert verb == b"CONNECT", head
            self.asked.append(target.decode())
            host, _, port = target.decode().partition(":")
            with socket.create_connection((self._names[host], int(port)), 10) as far:
                near.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
                pipe(near, far)


def pipe(one: socket.socket, other: socket.socket) -> None:
    """Copy both ways until one ends."""
    ways = {one: other, other: one}
    while True:
        for ready in select.select(list(ways), [], [])[0]:
            block = ready.recv(BLOCK_BYTES)
            if not block:
                return
            ways[ready].sendall(block)


@contextmanager
def proxy(names: dict[str, str]) -> Iterator[Proxy]:
    """Such a proxy, for the length of a block."""
    made = Proxy(names)
    thread = threading.Thread(target=made.serve, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.close()
        thread.join()


@pytest.mark.parametrize("by", ["proxy-url", "HTTPS_PROXY"])
def test_a_cluster_behind_a_proxy_is_reached_by_it_alone(
    light: KubeOpsctl, tmp_path: Path, by: str
) -> None:
    cluster = light.light.cluster
    kubeconfig = known(cluster)
    server = kubeconfig["clusters"][0]["cluster"]
    port = server["server"].rpartition(":")[2]
    server["server"] = f"https://{INSIDE_NAME}:{port}"
    # A proxy of the environment is for the registry too.
    with proxy({INSIDE_NAME: cluster.address, cluster.address: cluster.address}) as way:
        more = {"HTTPS_PROXY": way.url} if by == "HTTPS_PROXY" else {}
        if not more:
            server["proxy-url"] = way.url
        file = tmp_path / "behind.kubeconfig"
        file.write_text(yaml.safe_dump(kubeconfig))
        user = through(light, file)
        # Smoke requests go by websockets, which have to find the proxy by themselves.
        done = user.run("deploy", **more)
        assert (done.exit_code, done.data["serving_release"]) == (0, "r1"), done.stderr
        assert way.asked.count(f"{INSIDE_NAME}:{port}") > 2


def plugin(folder: Path, tokens: list[str]) -> Path:
    """A program that gives credentials as kubeconfigs may name one: each call gives the next of
    `tokens`, and the last one for ever."""
    kind = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    answers = [json.dumps({**kind, "status": {"token": token}}) for token in tokens]
    for number, answer in enumerate(answers):
        (folder / f"answer-{number}").write_text(answer)
    program = folder / "plugin"
    program.write_text(
        f"#!/bin/sh\ncd {folder}\necho x >> calls\nn=$(($(wc -l < calls) - 1))\n"
        f"[ $n -lt {len(answers)} ] || n={len(answers) - 1}\ncat answer-$n\n"
    )
    program.chmod(0o755)
    return program


def by_plugin(light: KubeOpsctl, folder: Path, command: Path) -> KubeOpsctl:
    """The same command with a kubeconfig whose user has nothing but a plugin."""
    kubeconfig = known(light.light.cluster)
    run = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(command),
           "interactiveMode": "Never"}  # fmt: skip
    kubeconfig["users"][0]["user"] = {"exec": run}
    file = folder / "plugin.kubeconfig"
    file.write_text(yaml.safe_dump(kubeconfig))
    return through(light, file)


def test_a_token_that_is_refused_is_asked_for_anew(light: KubeOpsctl, tmp_path: Path) -> None:
    token = known(light.light.cluster)["users"][0]["user"]["token"]
    user = by_plugin(light, tmp_path, plugin(tmp_path, ["ended-meanwhile", token]))
    done = user.run("deploy")
    assert (done.exit_code, done.data["serving_release"]) == (0, "r1"), done.stderr


def test_a_plugin_without_credentials_is_told_in_its_own_words(
    light: KubeOpsctl, tmp_path: Path
) -> None:
    program = tmp_path / "plugin"
    program.write_text("#!/bin/sh\necho your session has ended >&2\nexit 1\n")
    program.chmod(0o755)
    done = by_plugin(light, tmp_path, program).run("status")
    assert done.exit_code == 30
    assert "the kubeconfig gives no credentials for the cluster" in done.stderr
    assert "your session has ended" in done.stderr
