"""How busy the accelerators are, asked every 5 s on a thread of its own.

The vendors' own command-line tools are the source: `npu-smi info -t usages` (key : value lines,
read by key and never by column, since columns have moved between versions) and
`nvidia-smi --query-gpu`. Without a tool, or without a device, there are no samples: an absent
series and not a false zero.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ascend_serving.metrics import Identity, Metrics

_LOG = logging.getLogger(__name__)
PERIOD_S = 5.0
_TOOL_LIMIT_S = 4.0  # below the period: a hung tool must not make the next sample late
_MB = 1 << 20
_USAGE = re.compile(r"^\s*(?P<key>[^:]+?)\s*:\s*(?P<value>\d+)\s*$", re.MULTILINE)
_NPU_ID = re.compile(r"^\s*NPU ID\s*:\s*(\d+)", re.MULTILINE)
_GPU_QUERY = "--query-gpu=index,utilization.gpu,memory.used,memory.total"


@dataclass(frozen=True)
class Sample:
    """One device at one moment; None for what its tool does not tell."""

    kind: str  # npu or gpu
    device: str
    utilization_percent: float
    memory_used_bytes: int | None
    memory_total_bytes: int | None


RunTool = Callable[[Sequence[str]], str]


class Watcher:
    """Collects until stopped."""

    def __init__(
        self, sources: Sequence[Callable[[], list[Sample]]], metrics: Metrics, identity: Identity
    ) -> None:
        self._sources = sources
        self._metrics = metrics
        self._labels = (identity.model, identity.version)
        self._stopping = threading.Event()
        threading.Thread(target=self._collect, name="accelerators", daemon=True).start()

    def stop(self) -> None:
        """Ends the collection after the sample under way."""
        self._stopping.set()

    def _collect(self) -> None:
        while not self._stopping.is_set():
            for source in self._sources:
                for sample in _sample(source):
                    self._publish(sample)
            self._stopping.wait(PERIOD_S)

    def _publish(self, sample: Sample) -> None:
        labels = (*self._labels, sample.device)
        metrics, kind = self._metrics, sample.kind
        metrics.utilization[kind].labels(*labels).set(sample.utilization_percent)
        if sample.memory_used_bytes is not None:
            metrics.memory_used[kind].labels(*labels).set(sample.memory_used_bytes)
        if sample.memory_total_bytes is not None:
            metrics.memory_total[kind].labels(*labels).set(sample.memory_total_bytes)


def watch_accelerators(metrics: Metrics, identity: Identity) -> Watcher | None:
    """Starts to collect from the tools that this machine has; None when it has none."""
    sources = [
        source
        for tool, source in (("npu-smi", sample_npus), ("nvidia-smi", sample_gpus))
        if shutil.which(tool)
    ]
    return Watcher(sources, metrics, identity) if sources else None


def sample_npus(run: RunTool | None = None) -> list[Sample]:
    """All NPUs by npu-smi; `OSError` or `SubprocessError` when the tool fails."""
    run = run or _run_tool
    devices = _NPU_ID.findall(run(["npu-smi", "info", "-l"]))
    return [
        _read_npu(device, run(["npu-smi", "info", "-t", "usages", "-i", device]))
        for device in devices
    ]


def sample_gpus(run: RunTool | None = None) -> list[Sample]:
    """All GPUs by nvidia-smi; `OSError` or `SubprocessError` when the tool fails."""
    run = run or _run_tool
    text = run(["nvidia-smi", _GPU_QUERY, "--format=csv,noheader,nounits"])
    return [_read_gpu(line) for line in text.splitlines() if line.count(",") == 3]


def _read_npu(device: str, text: str) -> Sample:
    facts = {match["key"].lower(): int(match["value"]) for match in _USAGE.finditer(text)}
    # Chips with HBM report it beside DDR; the model lives in HBM where there is any.
    memory = "hbm" if facts.get("hbm capacity(mb)") else "ddr"
    capacity_mb = facts.get(f"{memory} capacity(mb)")
    rate = facts.get(f"{memory} usage rate(%)")
    used = None if capacity_mb is None or rate is None else capacity_mb * rate * _MB // 100
    total = None if capacity_mb is None else capacity_mb * _MB
    return Sample("npu", device, float(facts.get("aicore usage rate(%)", 0)), used, total)


def _read_gpu(line: str) -> Sample:
    index, busy, used_mb, total_mb = (cell.strip() for cell in line.split(","))
    return Sample("gpu", index, float(busy), int(used_mb) * _MB, int(total_mb) * _MB)


def _sample(source: Callable[[], list[Sample]]) -> list[Sample]:
    try:
        return source()
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        _LOG.warning("no accelerator sample: %s", error)
        return []


def _run_tool(command: Sequence[str]) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_TOOL_LIMIT_S, check=True
    )
    return done.stdout
