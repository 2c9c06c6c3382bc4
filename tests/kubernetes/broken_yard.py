"""A namespace full of what will not come up, on a real cluster, and how it is recorded.

`python -m tests.kubernetes.broken_yard FILE` writes what the cluster says, for the fast tests.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from opsctl.targets.kubernetes import reasons
from tests.cluster.kubernetes import ENVIRONMENT, Cluster, wait_until
from tests.kubernetes import broken

NAMESPACES = ("pods", "quota", "refused")


class Yard:
    """Objects and events of the namespaces."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster = cluster
        self.prefix = prefix

    def namespace(self, part: str) -> str:
        return f"{self.prefix}-{part}"

    def make(self, part: str, *objects: Any) -> None:
        """Make objects in one of the namespaces."""
        given = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        where = ["--namespace", self.namespace(part)]
        self.cluster.kubectl("apply", "--server-side", *where, "-f", "-", given=given)

    def seen(self) -> tuple[list[Any], list[Any]]:
        """All pods, replica sets and claims, and all events."""
        objects, events = [], []
        for part in NAMESPACES:
            where = ("--namespace", self.namespace(part))
            objects += self.cluster.get("pods,replicasets,persistentvolumeclaims", *where)["items"]
            events += self.cluster.get("events", *where)["items"]
        return objects, events

    def reasons(self) -> dict[str, reasons.Reason]:
        """The best explanation of each object by its name, without a replica set's hash."""
        objects, events = self.seen()
        found = {}
        for one in objects:
            told = reasons.explain([one], events)
            name = one["metadata"]["name"]
            if one["kind"] == "ReplicaSet":
                name = name.rpartition("-")[0]
            if told is not None:
                found[f"{one['kind']}/{name}"] = told
        return found


@contextmanager
def yard(cluster: Cluster, prefix: str) -> Iterator[Yard]:
    """All that is broken, once everything has said why."""
    made = Yard(cluster, prefix)
    with ExitStack() as stack:
        for part in NAMESPACES:
            stack.enter_context(cluster.namespace(made.namespace(part)))
        folder = Path(stack.enter_context(TemporaryDirectory()))
        stack.enter_context(webhooks(cluster, made, folder))
        fill(made)
        wait_until(lambda: missing(made) == set(), "everything says why it does not come up")
        yield made


def fill(made: Yard) -> None:
    """Make what is broken."""
    light, registry = made.cluster.image, made.cluster.variables["CLUSTER_REGISTRY"]
    made.make("pods", broken.claim("unbound"), *broken.pods(light, registry))
    made.make("quota", broken.quota())
    made.make("quota", broken.deployment(broken.pod(light, name="quota")))
    made.make("refused", broken.limit_range())
    made.make("refused", *broken.refused(light))


def missing(made: Yard) -> set[str]:
    """Objects that do not yet tell what is expected of them."""
    told = made.reasons()
    pods = {
        f"Pod/{name}" for name, expected in broken.EXPECTED.items()
        if (found := told.get(f"Pod/{name}")) is None or found.reason not in expected.reasons
    }  # fmt: skip
    sets = {f"ReplicaSet/{name}" for name in broken.REFUSED if f"ReplicaSet/{name}" not in told}
    return pods | sets


class No(BaseHTTPRequestHandler):
    """A webhook that refuses all."""

    def do_POST(self) -> None:
        given = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {
            "uid": given["request"]["uid"],
            "allowed": False,
            "status": {"message": "not today"},
        }
        body = json.dumps({**given, "request": None, "response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return None


@contextmanager
def webhooks(cluster: Cluster, made: Yard, folder: Path) -> Iterator[None]:
    """A webhook that says no, one that nobody answers, and a policy."""
    host = cluster.address.rpartition(".")[0] + ".1"
    certificate = certificate_of(folder, host)
    server = HTTPServer((host, 0), No)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"https://{host}:{server.server_port}/"
    objects = broken.admission(
        made.prefix, made.namespace("refused"), url, certificate.read_bytes()
    )
    given = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    try:
        cluster.kubectl("apply", "--server-side", "-f", "-", given=given)
        yield
    finally:
        cluster.kubectl("delete", "--ignore-not-found", "-f", "-", given=given)
        server.shutdown()
        thread.join()
        server.server_close()


def certificate_of(folder: Path, host: str) -> Path:
    """A certificate for an address; its key lies beside it."""
    certificate = folder / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
         "-subj", "/CN=webhook", "-addext", f"subjectAltName=IP:{host}",
         "-keyout", str(folder / "key.pem"), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate


def recorded(made: Yard) -> Any:
    """What the tests keep: nothing that reasons don't read, and no addresses."""
    objects, events = made.seen()
    for one in objects:
        one["metadata"] = {name: one["metadata"][name] for name in ("name", "uid")}
        if one["kind"] != "Pod":
            one.pop("spec")
            continue
        one["spec"] = {
            "containers": [
                {name: container[name] for name in ("name", "resources")}
                for container in one["spec"]["containers"]
            ]
        }
    kept = ("involvedObject", "reason", "message", "lastTimestamp", "eventTime", "series")
    short = [
        {
            **{name: event[name] for name in kept if event.get(name)},
            "involvedObject": {"uid": event["involvedObject"]["uid"]},
            "metadata": {"creationTimestamp": event["metadata"]["creationTimestamp"]},
        }
        for event in events
    ]
    return {"objects": objects, "events": short}


def main() -> None:
    cluster = Cluster({**os.environ, **json.loads(ENVIRONMENT.read_text())})
    with yard(cluster, "recorded") as made:
        text = json.dumps(recorded(made), indent=1, sort_keys=True)
    registry = cluster.variables["CLUSTER_REGISTRY"]
    text = text.replace(registry, "registry.example").replace(cluster.address, "192.0.2.1")
    Path(sys.argv[1]).write_text(text + "\n")


if __name__ == "__main__":
    main()
