"""A Dockerfile parsed, and checked by hadolint and against the folder that its build is given."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PINNED = re.compile(r"\S+@sha256:[0-9a-f]{64}$")
SHELL_INSTALL = re.compile(r"\b(?:apt-get|apt|dnf|yum)\b")
KNOWN = {"FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "EXPOSE", "LABEL", "CMD"}


@dataclass
class Stage:
    """One stage: its name, what it starts from, and its instructions as (word, rest)."""

    name: str
    source: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def runs(self) -> list[str]:
        """Its RUN instructions, each in one line."""
        return [" ".join(rest.split()) for word, rest in self.instructions if word == "RUN"]


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


def environment_of(text: str) -> dict[str, str]:
    """Variables that the image has."""
    entries = (rest for stage in stages_of(text) for word, rest in stage.instructions
               if word == "ENV")  # fmt: skip
    return {name: json.loads(value) for name, value in (entry.split("=", 1) for entry in entries)}


def faults_of(text: str, context: set[str]) -> list[str]:
    """What is wrong; `context` are the top names of the folder that the build is given."""
    return faults_of_all({"Dockerfile": text}, {"Dockerfile": context})


def faults_of_all(texts: Mapping[str, str], contexts: Mapping[str, set[str]]) -> list[str]:
    """What is wrong with Dockerfiles by name, each with its context; hadolint reads all at once."""
    faults = linted(texts)
    for name, text in texts.items():
        faults += [f"{name}: {fault}" for fault in _own_faults(text, contexts[name])]
    return faults


def linted(texts: Mapping[str, str]) -> list[str]:
    """What hadolint says, of each severity: `name:line CODE message`."""
    program = Path(sys.executable).with_name("hadolint")
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            Path(folder, name).write_text(text)
        argv = [str(program), "--no-color", "--disable-ignore-pragma", "--format", "json", *texts]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return [f"{one['file']}:{one['line']} {one['code']} {one['message']}"
            for one in json.loads(done.stdout)]  # fmt: skip


def _own_faults(text: str, context: set[str]) -> list[str]:
    """What hadolint does not look at: whether all that is named is there, and digests of bases."""
    faults: list[str] = []
    known: set[str] = set()
    for stage in stages_of(text):
        if stage.source not in known and not PINNED.match(stage.source):
            faults.append(f"{stage.name}: {stage.source} is neither a stage nor pinned")
        for word, rest in stage.instructions:
            faults += [f"{stage.name}: {fault}" for fault in _faults(word, rest, known, context)]
        known.add(stage.name)
    users = [rest for word, rest in stages_of(text)[-1].instructions if word == "USER"]
    if not users or users[-1].split(":")[0] in ("0", "root"):
        faults.append("the last user is root")
    return faults


def _top(path: str) -> str:
    return path.split("/")[0]


def _faults(word: str, rest: str, stages: set[str], context: set[str]) -> list[str]:
    found = []
    if word == "RUN":
        sources = re.findall(r"type=bind,source=([^,\s]+)", rest)
        found += [f"bind of {s}, which is not given" for s in sources if _top(s) not in context]
        if SHELL_INSTALL.search(re.sub(r"--mount=\S+", "", rest)):
            found.append("packages are installed by the step alone")
    if word == "COPY":
        stage = re.match(r"--from=(\S+)", rest)
        if stage and stage[1] not in stages:
            found.append(f"COPY from {stage[1]}, which is no stage")
        if not stage and rest.split()[0] not in context:
            found.append(f"COPY of {rest.split()[0]}, which is not in the context")
    return found
