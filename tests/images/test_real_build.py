"""`opsctl build` and `verify` of the sample service and of a user's own, on a real BuildKit."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from opsctl.config.load import load
from opsctl.errors import PreflightRefused
from opsctl.images.policy import require_policy
from opsctl.images.reference import parse
from opsctl.images.registry import Registry
from tests.images.yard import Clone, Yard, build_of, clone_into

pytestmark = [
    pytest.mark.docker,
    pytest.mark.long,
    # The first build on a machine fetches TensorFlow and compiles every operator.
    pytest.mark.slow,
    pytest.mark.timeout(1800),
]

SENTINEL = "sentinel-7f3a9c-never-in-an-image"
PUSHED_MAX_BYTES = 1_000_000
"""What a change of the service's code may push at most."""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, yard: Yard) -> Path:
    """A folder with cosign.key, cosign.pub and the public half of another pair."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("other", "cosign"):
        subprocess.run(
            [shutil.which("cosign", path=yard.path) or "cosign", "generate-key-pair"],
            cwd=folder, env={"COSIGN_PASSWORD": "pw", "HOME": str(folder), "PATH": yard.path},
            check=True, capture_output=True,
        )  # fmt: skip
        if name == "other":
            (folder / "cosign.pub").rename(folder / "other.pub")
            (folder / "cosign.key").unlink()
    return folder


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory, yard: Yard, keys: Path) -> Clone:
    made = clone_into(tmp_path_factory.mktemp("clone") / "opsctl", yard)
    made.configure(
        signing={"private_key": str(keys / "cosign.key"), "public_key": str(keys / "cosign.pub"),
                 "password": {"env": "SIGNING_PASSWORD"}},
        secrets={"pip.conf": {"env": "PIP_CONF"}},
    )  # fmt: skip
    return made


def build(clone: Clone, *words: str) -> dict[str, Any]:
    code, result, errors = clone.opsctl(
        "build", *words, SIGNING_PASSWORD="pw", PIP_CONF=f"# {SENTINEL}\n"
    )
    assert code == 0, errors
    return result


@pytest.fixture(scope="module")
def built(clone: Clone) -> dict[str, Any]:
    """The sample service's image, built or found."""
    return build(clone)


def layers(reference: str) -> dict[str, int]:
    place = parse(reference)
    manifest = Registry(place).manifest(place.digest)
    return {layer["digest"]: layer["size"] for layer in manifest["layers"]}


@pytest.fixture
def container(built: dict[str, Any]) -> Iterator[str]:
    """The image as a replica runs: read-only, without rights; its model is trained inside."""
    train = "python3 -m ascend_serving.train --out /tmp/model >&2 && exec python3 -m ascend_serving"
    command = f"{train} serve --model-name anomaly --model-path /tmp/model --host 0.0.0.0"
    words = ["docker", "run", "--detach", "--read-only", "--tmpfs", "/tmp", "--cap-drop", "ALL"]
    words += ["--security-opt", "no-new-privileges", "--publish", "127.0.0.1::8501"]
    words += ["--entrypoint", "sh", built["reference"], "-c", command]
    name = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    yield name
    subprocess.run(["docker", "rm", "--force", name], capture_output=True, check=False)


def test_the_sample_service_predicts_from_its_image(container: str, clone: Clone) -> None:
    asked = ["docker", "port", container, "8501/tcp"]
    address = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()[0]
    body = (clone.root / "images/serving/smoke/drift.json").read_text()
    url = f"http://{address}/v1/models/anomaly:predict"
    deadline = time.monotonic() + 300
    while True:
        try:
            answer = requests.post(url, data=body, timeout=30)
            break
        except requests.ConnectionError:
            assert time.monotonic() < deadline, "the service does not answer"
            time.sleep(0.5)
    assert answer.json()["predictions"][0]["anomaly"] is True


def test_nothing_changed_is_no_build_and_the_same_image(
    clone: Clone, built: dict[str, Any]
) -> None:
    again = build(clone)
    assert (again["outcome"], again["reference"]) == ("unchanged", built["reference"])


def test_every_check_of_the_sample_image_is_passed(clone: Clone, built: dict[str, Any]) -> None:
    code, result, errors = clone.opsctl("verify", SIGNING_PASSWORD="pw", PIP_CONF=SENTINEL)
    assert [check for check in result.get("checks", []) if not check["ok"]] == [], errors
    assert (code, len(result["checks"])) == (0, 9)
    details = {check["name"]: check["detail"] for check in result["checks"]}
    assert details["imports on a read-only root"] == "TensorFlow 2.21.0 as user 10001"
    assert details["signature and policy"] == "signature, cyclonedx, slsaprovenance1"


def test_no_secret_of_the_build_is_in_image_log_or_papers(
    clone: Clone, built: dict[str, Any]
) -> None:
    folder = clone.root / ".opsctl" / "production" / "anomaly" / "images"
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert len(written) >= 1
    assert [path for path in written if SENTINEL.encode() in path.read_bytes()] == []
    place = parse(built["reference"])
    config = Registry(place).json_blob(Registry(place).manifest(place.digest)["config"]["digest"])
    assert any("install-wheels" in step["created_by"] or "COPY" in step["created_by"]
               for step in config["history"])  # fmt: skip
    assert SENTINEL not in json.dumps(config)


def test_a_change_of_the_code_pushes_little_and_leaves_every_other_layer(
    clone: Clone, built: dict[str, Any]
) -> None:
    (clone.root / "images/serving/note.txt").write_text(str(time.time_ns()))
    changed = build(clone)
    (clone.root / "images/serving/note.txt").unlink()
    new = {d: size for d, size in layers(changed["reference"]).items()
           if d not in layers(built["reference"])}  # fmt: skip
    assert len(new) == 1
    assert sum(new.values()) < PUSHED_MAX_BYTES


def test_the_bill_of_materials_names_python_debian_and_the_operators(
    clone: Clone, built: dict[str, Any]
) -> None:
    folder = clone.root / ".opsctl" / "production" / "anomaly" / "images"
    if not list(folder.glob("*.cdx.json")):
        pytest.skip("the image was found, not built")
    bill = json.loads(min(folder.glob("*.cdx.json")).read_text())
    versions = {part["name"]: part["version"] for part in bill["components"]}
    assert versions["tensorflow-cpu"] == "2.21.0"
    assert {"libc6", "python3.11-minimal", "ascend-ops", "uvicorn"} <= set(versions)
    own = next(part for part in bill["components"] if part["name"] == "ascend-ops")
    assert "sigmoid" in [part["name"] for part in own["components"]]


def test_the_policy_admits_only_what_the_right_key_has_signed(
    clone: Clone, built: dict[str, Any], keys: Path
) -> None:
    project = load(clone.root / "opsctl.yaml", environment=None, service=None)
    admitted = require_policy(project, built["reference"])
    assert admitted.signatures == ("signature", "cyclonedx", "slsaprovenance1")
    clone.configure(signing={"public_key": str(keys / "other.pub")})
    try:
        stranger = load(clone.root / "opsctl.yaml", environment=None, service=None)
        with pytest.raises(PreflightRefused, match="has no valid signature") as caught:
            require_policy(stranger, built["reference"])
        assert caught.value.exit_code == 4
        with pytest.raises(PreflightRefused, match="is not pinned"):
            require_policy(stranger, f"{clone.yard.image}:latest")
    finally:
        clone.configure()


BAD = """\
FROM {base}
ENV LD_LIBRARY_PATH=/opt/lib:
RUN echo {sentinel} > /opt/key && touch /usr/bin/gcc
RUN rm /opt/key
"""


def test_verify_names_everything_that_is_wrong_with_an_image(
    clone: Clone, tmp_path: Path, yard: Yard
) -> None:
    clone.configure(secrets={"pip.conf": {"env": "TOKEN"}})
    (tmp_path / "Dockerfile").write_text(BAD.format(base=yard.base, sentinel=SENTINEL))
    name = f"opsctl-test/bad:{time.time_ns()}"
    plain = {"PATH": yard.path, "DOCKER_BUILDKIT": "0", "HOME": "/nonexistent"}
    command = ["docker", "build", "--quiet", "--tag", name, str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True, env=plain)
    try:
        code, result, errors = clone.opsctl("verify", name, TOKEN=SENTINEL)
    finally:
        subprocess.run(["docker", "image", "rm", name], capture_output=True, check=False)
        clone.configure()
    assert code == 4, errors
    wrong = {check["name"]: check["detail"] for check in result["checks"] if not check["ok"]}
    assert set(wrong) == {
        "user without rights", "labels", "search paths", "no build tool", "no secret in any layer",
        "imports on a read-only root",
    }  # fmt: skip
    assert wrong["no build tool"] == "usr/bin/gcc"
    assert wrong["search paths"] == "empty entry in LD_LIBRARY_PATH"
    assert "opt/key: the value of secret pip.conf" in wrong["no secret in any layer"]
    assert SENTINEL not in json.dumps(result) + errors


def test_a_registry_that_is_down_ends_the_build_before_it_begins(clone: Clone) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        clone.configure(image=f"127.0.0.1:{taken.getsockname()[1]}/web")
        code, result, _ = clone.opsctl("build")
    clone.configure()
    assert (code, result["error"]["why"]) == (5, "no connection")


def test_an_operator_that_does_not_compile_is_shown_with_the_compilers_words(
    clone: Clone,
) -> None:
    broken = clone.root / "kernels" / "sigmoid" / "sigmoid_kernel.h"
    before = broken.read_text()
    broken.write_text(before + "\n#error this operator is broken on purpose\n")
    try:
        code, result, _ = clone.opsctl("build")
    finally:
        broken.write_text(before)
    assert (code, result["outcome"]) == (5, "error")
    assert "this operator is broken on purpose" in Path(_log_of(result)).read_text()


def _log_of(result: dict[str, Any]) -> str:
    text: str = result["error"]["next_step"]
    return text.split("its whole output: ")[1].split(")")[0]


def test_a_users_own_project_is_built_outside_this_repository(
    tmp_path: Path, yard: Yard, clone: Clone, built: dict[str, Any]
) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "main.py").write_text("import tensorflow\nprint(tensorflow.__version__)\n")
    for name in ("serving.txt", "operators.txt"):
        shutil.copy(clone.root / "images" / "requirements" / name, tmp_path / name)
    own = build_of(yard, requirements="serving.txt")
    del own["operators"], own["operator_requirements"]
    app = {"directory": "app", "command": ["{python}", "main.py"]}
    data = {"services": {"own": {"app": app, "build": own}}}
    (tmp_path / "opsctl.yaml").write_text(yaml.safe_dump(data))
    result = build(Clone(tmp_path, yard))
    ran = subprocess.run(
        ["docker", "run", "--rm", "--read-only", "--tmpfs", "/tmp", result["reference"]],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.stdout == "2.21.0\n", ran.stderr
