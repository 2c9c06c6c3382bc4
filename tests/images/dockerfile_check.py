"""A Dockerfile parsed and checked for what hurts: the rules of hadolint that apply to ours."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}$")
SHELL_INSTALL = re.compile(r"\b(?:apt-get|apt|dnf|yum)\b")
KNOWN = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "LABEL", "CMD"}


@dataclass
class Stage:
    """One stage: its name, what it starts from, and its instructions as (word, rest)."""

    name: str
    source: str
    instructions: list[tuple[str, str]] = field(default_factory=list)


def stages_of(text: str) -> list[Stage]:
    """The stages in order. ValueError for a line that is no instruction."""
    joined = re.sub(r"\\\n(?:\s*\n)*", " ", text)
    stages: list[Stage] = []
    for line in joined.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if word not in KNOWN:
            raise ValueError(f"no instruction: {line}")
        if word == "FROM":
            source, name = re.fullmatch(r"(\S+) AS (\S+)", rest.strip()).groups()  # type: ignore[union-attr]
            stages.append(Stage(name, source))
        else:
            stages[-1].instructions.append((word, rest.strip()))
    return stages


def faults_of(text: str, context: set[str]) -> list[str]:
    """What is wrong; `context` are the top names of the folder that the build is given."""
    stages = stages_of(text)
    faults: list[str] = []
    known: set[str] = set()
    for stage in stages:
        if stage.source not in known and not PINNED.match(stage.source):
            faults.append(f"DL3006 {stage.name}: {stage.source} is neither a stage nor pinned")
        for word, rest in stage.instructions:
            faults += [f"{stage.name}: {fault}" for fault in _faults(word, rest, known, context)]
        known.add(stage.name)
    final = stages[-1].instructions
    users = [rest for word, rest in final if word == "USER"]
    if not users or users[-1].split(":")[0] in ("0", "root"):
        faults.append("DL3002 the last user is root")
    return faults


def _top(path: str) -> str:
    return path.split("/")[0]


def _faults(word: str, rest: str, stages: set[str], context: set[str]) -> list[str]:
    found = []
    if word == "RUN":
        sources = re.findall(r"type=bind,source=([^,\s]+)", rest)
        found += [f"bind of {s}, which is not given" for s in sources if _top(s) not in context]
        if SHELL_INSTALL.search(re.sub(r"--mount=\S+", "", rest)):
            found.append("DL3008 packages are installed by the step alone")
        if "sudo " in rest:
            found.append("DL3004 sudo")
    if word == "COPY":
        stage = re.match(r"--from=(\S+)", rest)
        if stage and stage[1] not in stages:
            found.append(f"DL3022 COPY from {stage[1]}, which is no stage")
        if not stage and rest.split()[0] not in context:
            found.append(f"COPY of {rest.split()[0]}, which is not in the context")
    if word == "WORKDIR" and not rest.startswith("/"):
        found.append("DL3000 relative WORKDIR")
    if word == "CMD" and not isinstance(json.loads(rest), list):
        found.append("DL3025 CMD is no list")
    return found
