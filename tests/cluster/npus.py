"""Cards of the test cluster's node, as a device plugin would report them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster.kubernetes import Cluster, wait_until

CARDS = "/status/capacity/huawei.com~1Ascend910"


@contextmanager
def npus(cluster: Cluster, count: int) -> Iterator[None]:
    """Within the block the node has cards, as a device plugin would say."""

    def patch(change: dict[str, str]) -> None:
        cluster.kubectl(
            "patch", "node", "node1", "--subresource=status", "--type=json",
            "--patch", json.dumps([{**change, "path": CARDS}]),
        )  # fmt: skip

    def has_cards() -> bool:
        node = cluster.get("node", "node1")
        return bool(node["status"]["allocatable"].get("huawei.com/Ascend910") == str(count))

    labels = ("hardware-type=ascend-npu", "accelerator=huawei-Ascend910")
    cluster.kubectl("label", "node", "node1", "--overwrite", *labels)
    patch({"op": "add", "value": str(count)})
    try:
        wait_until(has_cards, "the node has cards")
        yield
    finally:
        cluster.kubectl("label", "node", "node1", "hardware-type-", "accelerator-")
        patch({"op": "remove"})
