"""The sample service's image, built twice from nothing: the same digest, wherever and whenever.

Two clean clones in folders of different depth, umask and time zone; two BuildKits of their own with
empty caches; and for the second one a clock that is an hour ahead, for opsctl and for each program
that a step of the build runs. Only root can start a BuildKit; `scripts/docker up` must have run.
The first run is without the operators, whose compilation takes most of the time of the second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opsctl.images.reference import parse
from opsctl.images.registry import Registry
from scripts.campaigns._own_buildkit import Clock, OwnBuildkit, require_faketime
from tests.images.yard import Clone, Yard, clone_into, yard_or_skip

RUNS = 2
AHEAD_S = 3600


@dataclass(frozen=True)
class Place:
    """Where one of the two is built."""

    name: str
    folder: str
    umask: int
    timezone: str
    ahead_s: int


PLACES = (
    Place("first", "a", 0o022, "UTC", 0),
    Place("second", "somewhere/else entirely/b", 0o077, "Asia/Kathmandu", AHEAD_S),
)


WITHOUT_OPERATORS = {"operators": None, "operator_requirements": None}


@dataclass(frozen=True)
class Built:
    """One of the two images: where it is built, and what of `build` differs."""

    place: Place
    workdir: Path
    changes: Mapping[str, Any]


def run_one(seed: int, index: int, workdir: Path) -> dict[str, Any]:
    """Both builds; `why` says what differs."""
    yard = yard_or_skip()
    library = require_faketime(workdir)
    changes = {} if index % 2 else WITHOUT_OPERATORS
    name = f"{yard.registry}/same-{seed}-{index}"
    builds = [
        Built(place, workdir, {**changes, "image": f"{name}-{place.name}"}) for place in PLACES
    ]
    built = [_build(yard, one, library) for one in builds]
    wrong = [f"{one['name']}: {one['why']}" for one in built if one["why"]]
    if not wrong:
        first, second = (_described(one["reference"]) for one in built)
        wrong = differences(first, second)
    return {
        "ok": not wrong,
        "kind": "with operators" if index % 2 else "without operators",
        "digests": [one["reference"].rpartition("@")[2] for one in built],
        "build_s": [one["seconds"] for one in built],
        "why": "; ".join(wrong),
    }


def _build(yard: Yard, build: Built, library: Path) -> dict[str, Any]:
    began, place = time.monotonic(), build.place
    clock = Clock(library, place.ahead_s) if place.ahead_s else None
    own = OwnBuildkit(build.workdir / f"buildkit-{place.name}", yard.registry, clock=clock)
    with own as address:
        clone = _clone(yard, build, address)
        environment = clock.environment() if clock else {}
        code, result, errors = clone.opsctl(
            "build", PYTHONPATH=str(clone.root), TZ=place.timezone, **environment
        )
    return {
        "name": place.name,
        "reference": result.get("reference", ""),
        "seconds": round(time.monotonic() - began, 1),
        "why": "" if code == 0 else f"exit code {code}: {errors[-2000:]}",
    }


def _clone(yard: Yard, build: Built, builder: str) -> Clone:
    folder = build.workdir / build.place.folder
    before = os.umask(build.place.umask)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        return clone_into(folder, yard, **build.changes, builder=builder)
    finally:
        os.umask(before)


def _described(reference: str) -> dict[str, Any]:
    place = parse(reference)
    manifest = Registry(place).manifest(place.digest)
    config = Registry(place).json_blob(manifest["config"]["digest"])
    return {"digest": place.digest, "manifest": manifest, "config": config}


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    """Which layers, by the command that made them, and which keys of the configuration differ."""
    if first["digest"] == second["digest"]:
        return []
    made = [step["created_by"] for step in first["config"]["history"] if "empty_layer" not in step]
    layers = [[layer["digest"] for layer in one["manifest"]["layers"]] for one in (first, second)]
    found = [
        f"layer {number} ({made[number][:80]})"
        for number, (one, other) in enumerate(zip(*layers, strict=False))
        if one != other
    ]
    if len(layers[0]) != len(layers[1]):
        found.append(f"{len(layers[0])} and {len(layers[1])} layers")
    keys = sorted({*first["config"], *second["config"]})
    return [
        *found,
        *(f"{key} of the configuration" for key in keys
          if first["config"].get(key) != second["config"].get(key)),
    ] or ["the manifests differ in something else than layers and configuration"]  # fmt: skip
