"""The command line as a whole: documented, and light where it must be."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from opsctl import shell
from opsctl.cli_commands import COMMANDS as FUNCTIONS
from opsctl.cli_parser import COMMANDS
from tests.apps import project
from tests.tidy.sources import ROOT

HEAVY = {
    "asyncio", "docker", "hdrh", "jinja2", "kubernetes", "numpy", "requests", "scipy", "tensorflow",
    "uvloop",
}  # fmt: skip
NAMES = [name for name, _, _ in COMMANDS]


def test_every_command_has_a_function_and_every_function_a_command() -> None:
    assert sorted(FUNCTIONS) == sorted(NAMES)


def documented() -> set[str]:
    """First words of the code spans in the README's table of commands."""
    table = (ROOT / "README.md").read_text().partition("## Commands")[2].partition("| exit |")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {span.split()[0] for cell in cells for span in re.findall(r"`([^`]+)`", cell)}


def test_the_readme_has_every_command_and_no_other() -> None:
    assert sorted(documented()) == sorted(NAMES)


def modules_after(arguments: list[str], folder: Path) -> set[str]:
    """Top-level modules that are loaded when a command has ended."""
    program = (
        "import json, sys\n"
        "from opsctl.cli import main\n"
        "try:\n"
        f"    main({arguments!r})\n"
        "except SystemExit:\n"
        "    pass\n"
        "names = sorted({name.partition('.')[0] for name in sys.modules})\n"
        "print(json.dumps(names), file=sys.stderr)\n"
    )
    done = shell.run([sys.executable, "-c", program], cwd=folder, timeout_s=60)
    assert done.exit_code == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--help"], ["version"], ["status"], ["deploy", "--help"]])
def test_light_commands_import_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    made = project.write(tmp_path / "project")
    assert modules_after(arguments, made.root) & HEAVY == set()
