"""Images of a registry that wants a login: who pulls them has it, or is told what is missing."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from scripts.nodes.layout import load as load_layout
from tests.apps.project import free_port
from tests.cluster.kubernetes import Cluster, ask, wait_until
from tests.kubernetes.light_project import KubeOpsctl

pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.timeout(900)]

USER, PASSWORD = "puller", "sesame"
HASHED = "$2b$05$abcdefghijklmnopqrstuuKcS.CYWVYVaLiiCKrrc0A5s3mGesJ9O"
"""The password by bcrypt, as the registry's list of users has it."""

UNAUTHORIZED = 401
SECRET = "registry-login"


@contextmanager
def private_registry(cluster: Cluster, folder: Path) -> Iterator[str]:
    """A registry with all images of the cluster's own, for users with the password; host:port."""
    layout = load_layout()
    assert layout is not None
    address = f"{cluster.address}:{free_port()}"
    (folder / "users").write_text(f"{USER}:{HASHED}\n")
    settings = {
        "version": "0.1",
        "log": {"level": "warn"},
        "storage": {"filesystem": {"rootdirectory": str(layout.control / "registry")}},
        "http": {"addr": address},
        "auth": {"htpasswd": {"realm": "images", "path": str(folder / "users")}},
    }
    (folder / "registry.yaml").write_text(json.dumps(settings))
    hosts = layout.node(1) / "registries" / address
    hosts.mkdir()
    (hosts / "hosts.toml").write_text(
        f'server = "http://{address}"\n'
        f'[host."http://{address}"]\n  capabilities = ["pull", "resolve"]\n'
    )
    program = shutil.which("docker-registry", path=layout.parts.path)
    argv = [*cluster.within(), str(program), "serve", str(folder / "registry.yaml")]
    host, _, port = address.partition(":")
    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(lambda: ask(host, int(port), "/v2/").status == UNAUTHORIZED, "it listens")
            yield address
        finally:
            process.terminate()
            process.wait(30)
            shutil.rmtree(hosts)


def login(address: str) -> str:
    """A config.json of Docker with the password."""
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return json.dumps({"auths": {address: {"auth": auth}}})


def test_a_login_is_needed_here_and_in_the_cluster_and_what_is_missing_is_told(
    light: KubeOpsctl, guards: str, tmp_path: Path
) -> None:
    cluster, namespace = light.light.cluster, light.light.namespace
    with private_registry(cluster, tmp_path) as address:
        image, guard = (address + name[name.index("/") :] for name in (light.light.image, guards))
        light.light.edit(lambda service: service["app"].update(image=image))
        project = replace(light.light, image=image)
        user = KubeOpsctl(project, project)
        (tmp_path / "docker").mkdir()
        here = {"DOCKER_CONFIG": str(tmp_path / "docker")}
        # Nodes may have a login that this machine has not, so nothing is refused for that.
        unasked = user.run("preflight", **here)
        (found,) = (one for one in unasked.data["findings"] if one["check"] == "image")
        assert found["status"] == "unknown", found
        assert found["next_step"] == "Log in with docker login, if the nodes can pull it."
        (tmp_path / "docker" / "config.json").write_text(login(address))
        # The nodes have no login yet: the deploy ends as soon as they say so.
        bad = user.run("deploy", **here)
        assert bad.exit_code == 12, bad.stderr
        assert "ErrImagePull" in bad.data["reason"]
        settings = {"image_pull_secrets": [SECRET], "guard_image": guard}
        user.light.edit(lambda service: service["kubernetes"].update(settings))
        unmade = user.run("preflight", **here)
        assert unmade.exit_code == 4
        said = {one["check"]: one["what"] for one in unmade.data["findings"]}
        assert said["image_pull_secrets"] == f"there is no Secret {SECRET} in {namespace}"
        file = tmp_path / "docker" / "config.json"
        kind = ("secret", "generic", SECRET, "--type=kubernetes.io/dockerconfigjson")
        cluster.kubectl("create", *kind, f"--from-file=.dockerconfigjson={file}", "-n", namespace)
        done = user.run("deploy", **here)
        assert done.exit_code == 0, done.stderr
        cluster.roll_out(namespace, "opsctl-light-guard")
        pods = cluster.get("pods", "-n", namespace)["items"]
        images = {pod["spec"]["containers"][0]["image"] for pod in pods}
        assert images == {image, guard}
