"""Fields that the guard changed, given back to Helm.

Helm 4 applies on the server's side, where a field that another manager owns is a conflict. To force
it would undo what people have changed as well, without a word.
"""

from __future__ import annotations

from opsctl.targets.kubernetes.api import Api, Conflict, Missing
from opsctl.targets.kubernetes.live import Live
from opsctl.targets.kubernetes.live import owners as owners_of
from opsctl.targets.kubernetes.names import GUARD, Names

TRIES = 10


def take_back(api: Api, names: Names, live: Live) -> None:
    """Have the guard own nothing of what was seen. No value changes. Raises TargetUnreachable."""
    for kind, name in live.managed_by(GUARD):
        path = names.path(kind, name)
        for _ in range(TRIES):
            if _disowned(api, path):
                break


def _disowned(api: Api, path: str) -> bool:
    """One try; False when somebody else wrote meanwhile."""
    try:
        found = api.get(path)
        left = [entry for entry in owners_of(found) if entry["manager"] != GUARD]
        version = found["metadata"]["resourceVersion"]
        api.patch(path, {"metadata": {"resourceVersion": version, "managedFields": left}})
    except Conflict:
        return False
    except Missing:
        return True
    return True
