"""`opsctl deploy` and the policy of images: what it does not admit is never pulled or started."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from opsctl.config.building import Signing
from opsctl.config.secret_source import SecretSource
from opsctl.images.provenance import PREDICATE_TYPE
from opsctl.images.signing import ATTESTATIONS, SBOM_TYPE, sign
from opsctl.targets.docker.names import AGENT_PART, PART, Names
from tests.apps.project import Options
from tests.docker.bench_yard import FIRST_TIME_MAX_S, Host, tools_path
from tests.docker.docker_project import DockerOpsctl
from tests.docker.light_project import DockerLight, light_on

pytestmark = [pytest.mark.docker, pytest.mark.long, pytest.mark.timeout(FIRST_TIME_MAX_S)]

PASSWORD = "pw"

PREDICATES: dict[str, dict[str, Any]] = {
    SBOM_TYPE: {"bomFormat": "CycloneDX", "specVersion": "1.6"},
    PREDICATE_TYPE: {
        "buildDefinition": {"buildType": "a test", "externalParameters": {"service": "light"}},
        "runDetails": {"builder": {"id": "a test"}},
    },
}
"""The least that each format asks for."""


@pytest.fixture(scope="module")
def cosign() -> str:
    found = shutil.which("cosign", path=tools_path())
    if found is None:
        pytest.skip("cosign is not there (scripts/docker up)")
    return found


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory, cosign: str) -> Path:
    """A folder with two pairs of keys: ours/cosign.* and theirs/cosign.*."""
    folder = tmp_path_factory.mktemp("keys")
    for owner in ("ours", "theirs"):
        (folder / owner).mkdir()
        subprocess.run(
            [cosign, "generate-key-pair"], cwd=folder / owner, check=True, capture_output=True,
            env={"COSIGN_PASSWORD": PASSWORD, "HOME": str(folder), "PATH": os.environ["PATH"]},
        )  # fmt: skip
    return folder


@dataclass(frozen=True)
class Guarded:
    """A service whose image must be signed by our key."""

    light: DockerLight
    opsctl: DockerOpsctl
    reference: str
    keys: Path
    cosign: str

    def signed_by(self, owner: str, statements: tuple[str, ...] = ATTESTATIONS) -> None:
        """Sign the image, and attach statements."""
        signing = Signing(
            private_key=f"{owner}/cosign.key", password=SecretSource(env="SIGNING_PASSWORD"),
            cosign=self.cosign,
        )  # fmt: skip
        sign(signing, self.keys, self.reference, {kind: PREDICATES[kind] for kind in statements})

    def refused(self) -> str:
        """What `deploy` says when it refuses; nothing may have been started or pulled."""
        done = self.opsctl.run("deploy")
        assert done.exit_code == 4, done.stderr
        api, names = self.light.host.engine.api, Names(self.light.name)
        containers = api.containers(all=True, filters=names.filters())
        assert [one["Names"] for one in containers if one["Labels"][PART] != AGENT_PART] == []
        assert api.images(self.reference.partition("@")[0]) == []
        return str(done.data.get("reason", "")) + done.stderr


@pytest.fixture
def guarded(
    host: Host, tmp_path: Path, keys: Path, cosign: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Guarded]:
    monkeypatch.setenv("SIGNING_PASSWORD", PASSWORD)
    name = f"policy-{uuid.uuid4().hex[:8]}"
    options = Options(gate=False, overrides={"health": {"tries": 600}})
    light = light_on(host, tmp_path / "project", options, name)
    reference = pushed(host, f"opsctl-test-{name}:0", f"{host.registry}/{name}")
    policy = {"signing": {"public_key": str(keys / "ours" / "cosign.pub"), "cosign": cosign}}
    light.edit(admitting(f"{host.registry}/{name}:v1", host.base, policy))
    yield Guarded(light, DockerOpsctl(light), reference, keys, cosign)
    DockerOpsctl(light).down()
    host.remove_images(f"opsctl-test-{name}")


def pushed(host: Host, image: str, repository: str) -> str:
    """Push the image as `v1`, and forget it here by that name; its name by digest there."""
    digest = host.push(image, f"{repository}:v1")
    host.remove_images(repository)
    return f"{repository}@{digest}"


def admitting(image: str, base: str, policy: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    """A change of the service: this image, under this policy."""

    def change(service: dict[str, Any]) -> None:
        service["app"]["image"] = image
        service["build"] = {
            "image": image.rpartition(":")[0], "base": base, "requirements": "none.txt", **policy,
        }  # fmt: skip

    return change


def test_only_what_our_key_has_signed_is_deployed(guarded: Guarded) -> None:
    told = guarded.refused()
    assert "has no valid signature of" in told
    assert guarded.reference in told
    guarded.signed_by("theirs")
    assert "has no valid signature of" in guarded.refused()
    guarded.signed_by("ours", statements=())
    assert "has no valid cyclonedx of" in guarded.refused()
    guarded.signed_by("ours")
    done = guarded.opsctl.run("deploy")
    assert done.exit_code == 0, done.stderr
    (replica,) = guarded.light.host.engine.api.containers(
        filters=Names(guarded.light.name).filters("replica")
    )
    assert replica["Image"] == guarded.reference


def test_what_a_scanner_found_keeps_an_image_from_being_deployed(guarded: Guarded) -> None:
    repository, _, digest = guarded.reference.partition("@")
    report = {
        "matches": [
            {"vulnerability": {"id": "CVE-2026-1", "severity": "Critical", "fix": {}},
             "artifact": {"name": "openssl", "version": "3.0.15"}}
        ],
        "source": {"target": {"manifestDigest": digest}},
    }  # fmt: skip
    (guarded.light.root / "scan.json").write_text(json.dumps(report))
    policy = {"vulnerabilities": {"report": "scan.json"}}
    guarded.light.edit(admitting(f"{repository}:v1", guarded.light.host.base, policy))
    told = guarded.refused()
    assert "1 vulnerabilities of severity critical or worse" in told
    assert "CVE-2026-1 (critical) in openssl 3.0.15, no fix" in told
