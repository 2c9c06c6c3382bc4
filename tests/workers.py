"""Which of pytest's workers runs what: all tests of a group one after the other in the same one."""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "kernels/": "kernels",
    "images/": "serving",
    "tests/bench/": "services",
    "tests/campaigns/": "services",
    "tests/contract/": "services",
    "tests/e2e/": "services",
    "tests/targets/": "services",
    "tests/cluster/": "cluster",
    "tests/kubernetes/": "cluster",
    "tests/docker/": "docker",
}
"""Groups by folder. Tests of the kernels share builds, which a second worker would make again; two
services in their gates would take each other's CPU. Elsewhere a file is a group."""


def group_of(test: str) -> str:
    """The group of a test, by its node id."""
    for folder, group in GROUPS.items():
        if test.startswith(folder):
            return group
    return test.partition("::")[0]


class ByGroup(LoadScopeScheduling):  # type: ignore[misc]  # it ships no types
    """Groups go to workers as a whole, the largest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)
