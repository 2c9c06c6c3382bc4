"""Pure: what objects of the namespace say of a service's replicas and traffic."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from opsctl.model import DesiredState, Json, Phase, Replica, Role, Stamp
from opsctl.targets.kubernetes import reasons
from opsctl.targets.kubernetes.desired import Turns, read_state
from opsctl.targets.kubernetes.names import IN_FORCE, RELEASE, ROLE, TURNS, VALUES

CONTAINER = "service"
RELEASE_VARIABLE = "OPSCTL_RELEASE"
"""What the chart tells a container, so that its answers can name the release."""


@dataclass(frozen=True)
class Live:
    """Objects of one service, as the API gives them."""

    front: Json | None
    pods: Sequence[Json]
    deployments: Sequence[Json]
    events: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """By the identity of their object."""
    route: Json | None = None
    """The HTTPRoute, where traffic is shared by one."""

    @property
    def in_force(self) -> DesiredState:
        """What the newest revision of Helm asks for."""
        return read_state(self._annotations.get(IN_FORCE, ""))

    def objects(self) -> list[tuple[str, Json]]:
        """What others than Helm may have changed, by its kind."""
        found = [("services", self.front), ("httproutes", self.route)]
        found += [("deployments", one) for one in self.deployments]
        return [(kind, one) for kind, one in found if one]

    def is_managed_by(self, manager: str) -> bool:
        """Whether `manager` owns fields of any of them."""
        return any(
            entry["manager"] == manager for _, one in self.objects() for entry in owners(one)
        )

    @property
    def turns(self) -> Turns:
        """How often each release's pods were made anew."""
        told = json.loads(self._annotations.get(TURNS) or "{}")
        return {release: (int(turn), bool(used)) for release, (turn, used) in told.items()}

    @property
    def mark(self) -> str:
        """Digest of the values that it was made of."""
        return self._annotations.get(VALUES, "")

    @property
    def stamp(self) -> Stamp:
        """Whose order that was."""
        notes = self._annotations
        number = {name: int(notes.get(f"opsctl/{name}") or 0) for name in ("epoch", "sequence")}
        return Stamp(number["epoch"], number["sequence"], notes.get("opsctl/digest", ""))

    @property
    def _annotations(self) -> Mapping[str, str]:
        return (self.front or {"metadata": {}})["metadata"].get("annotations") or {}

    @property
    def routed(self) -> dict[str, int]:
        """Traffic by release as the HTTPRoute shares it; empty while its Gateway has not taken
        it in, or when it names what the newest revision does not have."""
        return self._shared if self.route is not None and route_taken(self.route) else {}

    def is_edited(self, selector: Json, mode: str) -> bool:
        """Whether somebody changed by hand where the traffic goes: the front Service, which should
        have this selector, or the HTTPRoute."""
        if self.front is None:
            return False
        if (self.front["spec"].get("selector") or {}) != selector:
            return True
        weights = {share.release: share.weight for share in self.in_force.shares if share.weight}
        return mode == "route" and self.route is not None and self._shared != weights

    @property
    def _shared(self) -> dict[str, int]:
        """Traffic by release as the HTTPRoute asks for it."""
        names: dict[str, str] = {
            self._service_of(s.release): s.release for s in self.in_force.shares
        }
        found: dict[str, int] = {}
        for back in backends(self.route or {"spec": {}}):
            name, weight = str(back["name"]), int(back.get("weight", 1))
            if weight:
                found[names.get(name, name)] = weight
        return found

    def _service_of(self, release: str) -> str:
        return f"{(self.front or {'metadata': {'name': ''}})['metadata']['name']}-{release}"

    def ready(self) -> dict[tuple[str, Role], int]:
        """Ready replicas by release and role."""
        found = Counter(key_of(pod) for pod in self.pods if is_ready(pod))
        return dict(found)

    def replicas(self) -> tuple[Replica, ...]:
        """All replicas by name, and those that could not even be made."""
        found = [self._replica(pod) for pod in self.pods]
        found += [one for one in map(self._refused, self.deployments) if one is not None]
        return tuple(sorted(found, key=lambda replica: replica.name))

    def _refused(self, deployment: Json) -> Replica | None:
        """What stands for the pods that quota, pod security or a webhook refuse."""
        why = reasons.first([{**deployment, "kind": "ReplicaSet"}], ())
        if why is None:
            return None
        release, role = key_of(deployment)
        name = deployment["metadata"]["name"]
        return Replica(name, release, role, "crash_loop", reason=f"{why.reason}: {why.what}")

    def _replica(self, pod: Json) -> Replica:
        release, role = key_of(pod)
        status = _container(pod)
        phase, reason = self._phase(pod, status)
        ended = (status.get("state") or {}).get("terminated") or (
            status.get("lastState") or {}
        ).get("terminated")
        return Replica(
            name=pod["metadata"]["name"],
            release=release,
            role=role,
            phase=phase,
            host=pod["status"].get("podIP", ""),
            port=_port(pod, "http"),
            health_port=_port(pod, "health"),
            restarts=int(status.get("restartCount") or 0),
            exit_code=ended.get("exitCode") if ended else None,
            reason=reason,
        )

    def _phase(self, pod: Json, status: Json) -> tuple[Phase, str]:
        if pod["metadata"].get("deletionTimestamp"):
            return "stopping", ""
        if is_ready(pod):
            return "ready", ""
        own = self.events.get(pod["metadata"].get("uid", ""), ())
        why = reasons.terminal({**pod, "kind": "Pod"}, own)
        state = status.get("state") or {}
        if why is not None and why.status == "fail":
            return "crash_loop", why.what
        if "terminated" in state or pod["status"].get("phase") == "Failed":
            said = state.get("terminated") or pod["status"]
            return "backoff", str(said.get("message") or said.get("reason") or "it ended")
        if status.get("restartCount"):
            return "unready", "it was started again and is not ready yet"
        began = status.get("started")
        return ("unready", "its readiness probe fails") if began else ("starting", "")

    def unexpected(self, state: DesiredState) -> list[tuple[str, Role]]:
        """Deployments that no share of `state` accounts for."""
        wanted = {(share.release, share.role) for share in state.shares}
        return [key for key in map(key_of, self._running()) if key not in wanted]

    def reached(self, state: DesiredState) -> bool:
        """Whether all replicas of `state` are up to date and ready, and nothing else is there."""
        found = {key_of(one): one for one in self._running()}
        counts = Counter(key_of(pod) for pod in self.pods)
        wanted = {(s.release, s.role): s.replicas for s in state.shares}
        return (
            found.keys() == wanted.keys()
            and all(settled(found[key], count) for key, count in wanted.items())
            and all(counts[key] <= wanted.get(key, 0) for key in counts)
        )

    def silent(self) -> set[str]:
        """Releases whose pods may not know what they are called: those that were adopted."""
        return {key_of(pod)[0] for pod in self.pods if not _knows_its_release(pod)}

    def _running(self) -> list[Json]:
        """Deployments less those that the guard has emptied."""
        return [one for one in self.deployments if one["spec"].get("replicas") != 0]


def owners(found: Json) -> list[Json]:
    """Who owns which fields of an object."""
    return list(found["metadata"].get("managedFields") or ())


def settled(deployment: Json, replicas: int) -> bool:
    """Whether a Deployment runs that many replicas as its newest generation says."""
    status = deployment.get("status") or {}
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) >= replicas
        and status.get("readyReplicas", 0) >= replicas
        and status.get("replicas", 0) == deployment["spec"].get("replicas", replicas)
    )


def key_of(found: Json) -> tuple[str, Role]:
    """Release and role of an object."""
    labels = found["metadata"].get("labels") or {}
    role: Role = "baseline" if labels.get(ROLE) == "baseline" else "serving"
    return labels.get(RELEASE, ""), role


def is_ready(pod: Json) -> bool:
    """Whether a pod takes requests: ready, and not on its way out."""
    if pod["metadata"].get("deletionTimestamp"):
        return False
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def front_weights(live: Live, selector: Json, mode: str) -> dict[str, int]:
    """Traffic in force: what the newest revision says, when the front Service selects as it says,
    and the HTTPRoute (mode `route`) shares as it says.

    What somebody changed by hand has none of it.
    """
    if live.front is None or (live.front["spec"].get("selector") or {}) != selector:
        return {}
    if mode == "route":
        return live.routed
    return {share.release: share.weight for share in live.in_force.shares if share.weight}


def backends(route: Json) -> list[Json]:
    """What an HTTPRoute shares all requests among: those of the rule without a header."""
    return [
        back
        for rule in route["spec"].get("rules") or ()
        if not by_header(rule)
        for back in rule.get("backendRefs") or ()
    ]


def by_header(rule: Json) -> bool:
    """Whether a rule of an HTTPRoute is for requests with a header only."""
    return any(match.get("headers") for match in rule.get("matches") or ())


def route_taken(route: Json) -> bool:
    """Whether a Gateway says that it has taken in the route as it is now."""
    generation = route["metadata"]["generation"]
    for parent in (route.get("status") or {}).get("parents") or ():
        told = {one["type"]: one for one in parent.get("conditions") or ()}
        accepted = told.get("Accepted", {})
        if accepted.get("status") == "True" and (
            accepted.get("observedGeneration", 0) >= generation
        ):
            return True
    return False


def container_of(spec: Json) -> Json:
    """The container that serves: ours by its name; of a pod that was adopted it is the first."""
    found: list[Json] = spec["containers"]
    return next((one for one in found if one["name"] == CONTAINER), found[0])


def _container(pod: Json) -> Json:
    name = container_of(pod["spec"])["name"]
    found = pod["status"].get("containerStatuses") or ()
    return next((one for one in found if one["name"] == name), {})


def _knows_its_release(pod: Json) -> bool:
    env = container_of(pod["spec"]).get("env") or ()
    return any(one["name"] == RELEASE_VARIABLE for one in env)


def _port(pod: Json, name: str) -> int:
    for container in pod["spec"]["containers"]:
        for port in container.get("ports") or ():
            if port.get("name") == name:
                return int(port["containerPort"])
    return 0
