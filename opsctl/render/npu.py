"""What Kubernetes calls the NPUs of a chip.

Source: MindCluster's device plugin and scheduler (component/ascend-common/api/default_name.go, its
node labels and its Volcano guide), as of mid-2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opsctl.model import Json


@dataclass(frozen=True)
class Chip:
    """Names that go with one kind of chip."""

    resource: str
    """Extended resource, after `huawei.com/`."""
    accelerator: str
    """Value of the node label `accelerator`, which the device plugin writes."""
    ring: str
    """Value of the pod label `ring-controller.atlas`, which Volcano's plug-in asks for."""


CHIPS: Mapping[str, Chip] = {
    "910": Chip("Ascend910", "huawei-Ascend910", "ascend-910"),
    "910b": Chip("Ascend910", "huawei-Ascend910", "ascend-910b"),
    "910c": Chip("Ascend910", "huawei-Ascend910", "ascend-910b"),
    "310p": Chip("Ascend310P", "huawei-Ascend310P", "ascend-310P"),
    "310": Chip("Ascend310", "huawei-Ascend310", "ascend-310"),
    "950": Chip("npu", "huawei-npu", "ascend-npu"),
}

DRIVER: tuple[tuple[str, str, str], ...] = (
    ("driver", "/usr/local/Ascend/driver", "Directory"),
    ("dcmi", "/usr/local/dcmi", "Directory"),
    ("npu-smi", "/usr/local/bin/npu-smi", "File"),
    ("install-info", "/etc/ascend_install.info", "File"),
)
"""What the Ascend runtime would mount: volume name, path on both sides, kind."""


def resource(npu: Mapping[str, Any]) -> str:
    """The extended resource of a pod's NPUs."""
    if npu["resource"]:
        return str(npu["resource"])
    return f"huawei.com/{CHIPS[npu['chip']].resource}{'-' if npu['vnpu'] else ''}{npu['vnpu']}"


def node_labels(npu: Mapping[str, Any]) -> Json:
    """Labels that a node must have."""
    labels = dict(npu["nodeLabels"] or {})
    if npu["chipLabel"]:
        labels["accelerator"] = CHIPS[npu["chip"]].accelerator
    return labels
