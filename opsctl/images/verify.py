"""What is proved of an image: by its files, and by running it as a service would be run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from opsctl.images.contents import Contents, read_contents
from opsctl.images.engine import docker, own_platform
from opsctl.images.layers import Image
from opsctl.images.secret_scan import find_secrets
from opsctl.model import Json
from opsctl.shell import Completed

RUN_TIMEOUT_S = 300.0
"""Importing TensorFlow and asking each operator takes seconds; a busy machine takes longer."""

PULL_TIMEOUT_S = 900.0
FOUND_SHOWN = 5

REQUIRED_LABELS = ("opsctl.content", "opsctl.flavour", "opsctl.python", "opsctl.tensorflow",
                   "opsctl.operators", "org.opencontainers.image.base.digest")  # fmt: skip
SEARCH_PATHS = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "ASCEND_CUSTOM_OPP_PATH")

_ASK_TENSORFLOW = (
    "import json, os, tensorflow; "
    "print(json.dumps({'tensorflow': tensorflow.__version__, 'uid': os.getuid()}))"
)


@dataclass(frozen=True)
class Check:
    """One thing that must be true of an image."""

    name: str
    ok: bool
    detail: str

    def to_dict(self) -> Json:
        return dict(self.__dict__)


def verify_image(
    image: Image, reference: str, secrets: Mapping[str, str], cache: Path
) -> list[Check]:
    """Every check with its result; those that run the image come last.

    Raises BuildFailed when image, registry or engine can't be read.
    """
    contents = read_contents(image, cache)
    checks = [
        _platform(image),
        _user(image),
        _labels(image),
        _search_paths(image),
        _build_tools(contents),
        _secrets(image, secrets),
    ]
    if not checks[0].ok:
        return checks  # it can't be run here
    pulled = _pull(reference)
    if not pulled.ok:
        return [*checks, Check("runs", False, f"the engine can't get it: {pulled.why}")]
    checks.append(_imports(image, reference))
    if image.labels.get("opsctl.operators") == "yes":
        checks.append(_operators(reference))
    return checks


def _platform(image: Image) -> Check:
    found = f"{image.config.get('os')}/{image.config.get('architecture')}"
    return Check("platform", found == own_platform(), f"{found}; this machine is {own_platform()}")


def _user(image: Image) -> Check:
    user = str(image.config.get("config", {}).get("User") or "")
    name = user.split(":")[0]
    return Check("user without rights", name not in ("", "0", "root"), user or "root (none is set)")


def _labels(image: Image) -> Check:
    missing = [name for name in REQUIRED_LABELS if not image.labels.get(name)]
    return Check(
        "labels",
        not missing,
        f"missing: {', '.join(missing)}"
        if missing
        else f"content {image.labels['opsctl.content']}",
    )


def _search_paths(image: Image) -> Check:
    """An empty entry means the working directory, from which nobody wants to load libraries."""
    wrong = [
        name
        for name in SEARCH_PATHS
        if name in image.environment and "" in image.environment[name].split(":")
    ]
    return Check(
        "search paths", not wrong, f"empty entry in {', '.join(wrong)}" if wrong else "whole"
    )


def _build_tools(contents: Contents) -> Check:
    found = contents.build_tools
    return Check("no build tool", not found, ", ".join(found[:FOUND_SHOWN]) or "none")


def _secrets(image: Image, secrets: Mapping[str, str]) -> Check:
    found = find_secrets(image, secrets)
    detail = "; ".join(found[:FOUND_SHOWN]) or f"none of {len(secrets)} known, and no private key"
    return Check("no secret in any layer", not found, detail)


def _pull(reference: str) -> Completed:
    if reference.startswith("sha256:") or docker("image", "inspect", reference).ok:
        return docker("version")
    return docker("pull", "--quiet", reference, timeout_s=PULL_TIMEOUT_S)


def run_restricted(reference: str, *command: str) -> Completed:
    """Run a command in the image as a replica runs: nothing to write to, no rights, no network."""
    return docker(
        "run", "--rm", "--read-only", "--tmpfs", "/tmp", "--network", "none", "--cap-drop", "ALL",
        "--security-opt", "no-new-privileges", "--pids-limit", "4096", "--pull", "never",
        "--entrypoint", command[0], reference, *command[1:],
        timeout_s=RUN_TIMEOUT_S,
    )  # fmt: skip


def _imports(image: Image, reference: str) -> Check:
    done = run_restricted(reference, "python3", "-c", _ASK_TENSORFLOW)
    answer = _json(done)
    wanted = image.labels.get("opsctl.tensorflow", "")
    right = done.ok and answer.get("tensorflow") == wanted and answer.get("uid") != 0
    detail = f"TensorFlow {answer.get('tensorflow')} as user {answer.get('uid')}"
    return Check("imports on a read-only root", right, detail if done.ok else done.why)


def _operators(reference: str) -> Check:
    """Each operator against its float64 reference, in each type."""
    done = run_restricted(reference, "python3", "-m", "ascend_ops.selftest")
    answer = _json(done)
    rows = answer.get("rows", [])
    detail = f"{len(rows)} comparisons, {answer.get('outcome')}" if answer else done.why
    return Check(
        "operators against references", done.ok and answer.get("outcome") == "pass", detail
    )


def _json(done: Completed) -> Json:
    try:
        data = json.loads(done.stdout)
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
