"""The parts of a node are built at the versions that the script names; no cluster is needed."""

from __future__ import annotations

import re

import pytest

from tests.cluster.kubernetes import ROOT

NODES = ROOT / "scripts" / "nodes"


@pytest.mark.parametrize(
    ("module", "requirement", "variable"),
    [
        ("kubernetes", "k8s.io/kubernetes", "kubernetes_version"),
        ("dns", "github.com/coredns/coredns", "coredns_version"),
    ],
)
def test_a_module_requires_the_version_that_the_script_names(
    module: str, requirement: str, variable: str
) -> None:
    named = re.search(rf"^{variable}=(\S+)$", (NODES / "build.sh").read_text(), re.MULTILINE)
    assert named is not None
    required = (NODES / module / "go.mod").read_text()
    assert f"{requirement} {named[1]}\n" in required


def test_coredns_has_every_plugin_that_the_corefile_names_and_no_other() -> None:
    files = (NODES / "files.py").read_text()
    corefile = files[files.index('COREFILE = """') : files.index('CONTAINERD = """')]
    used = set(re.findall(r"^    (\w+)\b", corefile, re.MULTILINE))
    built = set(re.findall(r"coredns/plugin/(\w+)", (NODES / "dns" / "main.go").read_text()))
    assert used == built == {"bind", "errors", "kubernetes"}
