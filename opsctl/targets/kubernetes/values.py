"""A desired state as values of the chart."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from opsctl.errors import ConfigError
from opsctl.model import FULL_WEIGHT, DesiredState, Json, Share, digest
from opsctl.render.manifests import front_selector
from opsctl.render.service_values import service_values
from opsctl.targets.kubernetes.desired import Order, Turns, spelled
from opsctl.targets.kubernetes.live import Live, key_of
from opsctl.targets.kubernetes.names import IN_FORCE, TURN, TURNS, VALUES

if TYPE_CHECKING:
    from opsctl.config.kubernetes import Gateway
    from opsctl.targets.kubernetes.target import KubernetesTarget

FOLDER = "releases"
DIGEST_DIGITS = 16


def of_state(target: KubernetesTarget, state: DesiredState, order: Order, turns: Turns) -> Json:
    """The values that put `state` in force on the way to `order`. Raises ConfigError."""
    releases = [_entry(target, share, turns) for share in state.shares]
    _level(releases, order.guard.on_trial)
    values = service_values(target.project, releases)
    values["traffic"]["mode"] = target.mode
    if target.mode == "route":
        values["traffic"] |= _tried(target.settings.gateway, state, order.guard.on_trial)
    mark = digest(values)[:DIGEST_DIGITS]
    values["front"]["annotations"] = {
        IN_FORCE: spelled(state), TURNS: json.dumps(turns), VALUES: mark,
    }  # fmt: skip
    values["state"] = order.stamp.to_dict()
    return values


def _level(releases: list[Json], on_trial: str | None) -> None:
    """Give both arms of a benchmark the same resources: the baseline is there to compare with."""
    candidate = next((one for one in releases if one["name"] == on_trial), None)
    if candidate is None:
        return
    for one in releases:
        if one["role"] == "baseline":
            one["pod"] = {**one["pod"], "resources": candidate["pod"]["resources"]}


def as_scaled(target: KubernetesTarget, state: DesiredState, live: Live) -> DesiredState:
    """`state` with as many replicas as its autoscalers want, where releases have them."""
    wanted = {key_of(one): one["spec"].get("replicas") for one in live.deployments}
    return DesiredState(
        tuple(
            replace(share, replicas=wanted.get((share.release, "serving")) or share.replicas)
            if share.role == "serving" and _is_scaled(target, share.release)
            else share
            for share in state.shares
        )
    )


def _is_scaled(target: KubernetesTarget, release: str) -> bool:
    if target.mode != "route":
        return False
    try:
        pod = kept_release(target, release)["launch"]["container"]["pod"]
    except ConfigError:
        return False
    return bool(pod.get("autoscaling", {}).get("enabled"))


def _tried(gateway: Gateway, state: DesiredState, on_trial: str | None) -> Json:
    """Whose requests go to the candidate whatever its weight, and whether it gets copies of all:
    only once its trials are passed, so that it has a share of the traffic, and not when it is being
    taken back."""
    if on_trial is None or not 0 < state.weight(on_trial) < FULL_WEIGHT:
        return {}
    found: Json = {}
    if gateway.try_header is not None:
        name, _, value = gateway.try_header.partition(":")
        found["header"] = {"name": name.strip(), "value": value.strip(), "release": on_trial}
    if gateway.mirror:
        found["mirror"] = {"release": on_trial}
    return found


def mark_of(values: Json) -> str:
    """What tells values from others, whoever ordered them."""
    return str(values["front"]["annotations"][VALUES])


def selector(target: KubernetesTarget, state: DesiredState) -> Json:
    """What the front Service selects while `state` is in force."""
    rows = [
        {"name": s.release, "weight": s.weight, "base": base_of(target, s.release)}
        for s in state.shares
        if s.weight
    ]
    try:
        return front_selector(target.names.service, rows, target.mode)
    except ConfigError:
        return {}


def kept_release(target: KubernetesTarget, name: str) -> Json:
    """A release as the store keeps it. Raises ConfigError when there is none."""
    if name not in target.known_releases:
        kept = target.storage.read(f"{FOLDER}/{name}/release.json")
        if kept is None:
            raise ConfigError(f"there is no release {name}", next_step="Run: opsctl releases list")
        target.known_releases[name] = json.loads(kept.data)
    return target.known_releases[name]


def base_of(target: KubernetesTarget, name: str) -> str:
    """The release that `name` was made to follow; empty without one."""
    try:
        return str(kept_release(target, name)["launch"]["container"].get("base", ""))
    except ConfigError:
        return ""


def _entry(target: KubernetesTarget, share: Share, turns: Turns) -> Json:
    launch = kept_release(target, share.release)["launch"]
    pod = launch["container"]["pod"]
    turn, _ = turns.get(share.release, (0, False)) if share.role == "serving" else (0, False)
    if turn:
        pod = {**pod, "annotations": {TURN: str(turn)}}
    return {
        "name": share.release,
        "role": share.role,
        "base": launch["container"]["base"],
        "replicas": share.replicas,
        "weight": share.weight,
        "image": launch["image"],
        "pod": pod,
    }
