"""Traefik as a Gateway of the test cluster: a real data plane for HTTPRoutes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.cluster.kubernetes import Cluster, ask, wait_until

PORT = 18080
CLASS = "traefik-of-tests"
CONTROLLER = "traefik.io/gateway-controller"


@contextmanager
def traefik(cluster: Cluster, namespace: str, folder: Path) -> Iterator[int]:
    """A Gateway `front` in the namespace; its port on the node. Ends with the block."""
    cluster.kubectl("apply", "--server-side", "--filename", "-", given=objects(namespace))
    settings = {
        "entryPoints": {"web": {"address": f":{PORT}"}},
        "providers": {
            "kubernetesGateway": {
                "namespaces": [namespace],
                # Where users reach it: without a load balancer only Traefik can be told.
                "statusAddress": {"ip": cluster.address},
            }
        },
        "log": {"level": "INFO"},
    }
    file = folder / "traefik.yaml"
    file.write_text(yaml.safe_dump(settings))
    program = Path(sys.executable).with_name("traefik")
    log = (folder / "traefik.log").open("wb")
    process = subprocess.Popen(
        [*cluster.within(), str(program), f"--configfile={file}"],
        env=cluster.variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        wait_until(lambda: ask(cluster.address, PORT, "/").status == 404, "Traefik answers")
        yield PORT
    finally:
        process.terminate()
        process.wait(30)
        log.close()
        cluster.kubectl("delete", "gatewayclass", CLASS, "--ignore-not-found")


def objects(namespace: str) -> str:
    """Class and Gateway."""
    listener = {"name": "web", "port": PORT, "protocol": "HTTP"}
    return yaml.safe_dump_all(
        [
            {
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "GatewayClass",
                "metadata": {"name": CLASS},
                "spec": {"controllerName": CONTROLLER},
            },
            {
                "apiVersion": "gateway.networking.k8s.io/v1",
                "kind": "Gateway",
                "metadata": {"name": "front", "namespace": namespace},
                "spec": {"gatewayClassName": CLASS, "listeners": [listener]},
            },
        ]
    )
