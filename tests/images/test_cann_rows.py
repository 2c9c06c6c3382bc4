"""Flavour `cann`: each row of the matrix gives a Dockerfile without faults, with what it must have.

Names of packages, folders and flags stand here once more, as the vendor's images and manuals have
them, so that the matrix is compared with something else than itself.
"""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from opsctl.images.dockerfile import render
from opsctl.images.matrix import Combination, check, read_matrix
from opsctl.images.recipe import read_recipe
from tests.images.dockerfile_check import Stage, environment_of, faults_of_all, stages_of
from tests.images.projects import CANN, OPERATORS, make_project

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = {"app", "steps", "requirements.txt"}
CHIPS = {
    "6.0.RC1": ("310p", "910"),
    "6.3.RC2": ("310p", "910", "910b"),
    "8.0.RC1": ("310p", "910", "910b"),
    "8.1.RC1": ("310p", "910", "910b", "a3"),
    "8.2.RC1": ("310p", "910", "910b", "a3"),
    "8.3.RC1": ("310p", "910", "910b", "a3"),
    "8.5.0": ("310p", "910", "910b", "a3"),
    "9.1.0": ("310p", "910", "910b", "a3", "950"),
}
SOCS = {"310p": "ascend310p1", "910": "ascend910a", "910b": "ascend910b1", "a3": "ascend910_9391",
        "950": "ascend950dt_9582"}  # fmt: skip
OLD_HOME = "/usr/local/Ascend/ascend-toolkit/latest"
OLDEST_DRIVERS = {"6.3.RC2": "23.0.rc2", "8.0.RC1": "24.1.RC1", "8.1.RC1": "25.0.RC1",
                  "8.2.RC1": "24.1.RC2", "8.5.0": "25.0", "9.1.0": "26.1.0"}  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A chip, CANN and processor; `files`: from .run packages, else from a base that has CANN."""

    cann: str
    chip: str
    architecture: str
    adapter: bool
    files: bool

    def __str__(self) -> str:
        route = "adapter" if self.adapter else "own"
        source = "files" if self.files else "base"
        return f"{self.cann}-{self.chip}-{self.architecture}-{route}-{source}"

    @property
    def home(self) -> str:
        """Where CANN stands."""
        return OLD_HOME if self.cann < "8.5" else f"/usr/local/Ascend/cann-{self.cann}"

    @property
    def names(self) -> list[str]:
        """The vendor's packages, in order of installation."""
        tail = f"{self.cann}_linux-{self.architecture}.run"
        chip = "A3" if self.chip == "a3" else self.chip
        kernels: list[str] = []
        if self.cann >= "8.5":
            kernels = [f"Ascend-cann-{chip}-ops_{tail}"]
        elif self.cann >= "8.1":
            family = "Atlas-A3-cann-kernels" if chip == "A3" else f"Ascend-cann-kernels-{chip}"
            kernels = [f"{family}_{tail}"]
        elif self.cann >= "6.3":
            kernels = [f"Ascend-cann-kernels-{chip}_{self.cann}_linux.run"]
        nnal = [f"Ascend-cann-nnal_{tail}"] if self.cann >= "8.1" else []
        plugin = [f"Ascend-cann-tfplugin_{tail}"] if self.adapter else []
        return [f"Ascend-cann-toolkit_{tail}", *kernels, *nnal, *plugin]


ROWS = [
    Row(cann, chip, architecture, adapter, files)
    for cann, chips in CHIPS.items()
    for chip in chips
    for architecture, adapter in (("x86_64", False), ("aarch64", False), ("x86_64", True))
    for files in (True, False)
]


def build_of(row: Row, folder: Path) -> dict[str, Any]:
    """`build` of a row, with empty files in place of the vendor's."""
    cann: dict[str, Any] = {"version": row.cann, "chip": row.chip, "adapter": row.adapter}
    if row.files:
        (folder / "cann").mkdir(parents=True)
        for name in row.names:
            (folder / "cann" / name).touch()
        cann |= {"packages": "cann", "accept_eula": True,
                 "checksums": dict.fromkeys(row.names, "ab" * 32)}  # fmt: skip
    build = {**CANN, "architecture": row.architecture, "cann": cann}
    if row.adapter:  # for TensorFlow 2.6.5, for whose Pythons the op library has no package
        return {**build, "system": "ubuntu-18.04", "python": "3.7", "requirements": "old.txt"}
    return {**build, **OPERATORS, "system": "openeuler-22.03" if row.files else "ubuntu-22.04"}


def rendered(row: Row, folder: Path) -> str:
    """The row's Dockerfile."""
    folder.mkdir()
    (folder / "old.txt").write_text(f"tensorflow==2.6.5 --hash=sha256:{'cd' * 32}\n")
    return render(read_recipe(make_project(folder, build_of(row, folder))))


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Every row's Dockerfile by the row's name."""
    folder = tmp_path_factory.mktemp("rows")
    return {str(row): rendered(row, folder / str(row)) for row in ROWS}


def stage_of(text: str, name: str) -> Stage:
    (found,) = [stage for stage in stages_of(text) if stage.name == name]
    return found


def test_the_rows_of_these_tests_are_those_of_the_matrix() -> None:
    matrix = read_matrix()
    assert {cann: tuple(row["chips"]) for cann, row in matrix.cann.items()} == CHIPS
    assert {chip: matrix.soc(chip) for chip in matrix.chips} == SOCS


def test_no_row_has_a_fault_that_a_linter_finds(texts: dict[str, str]) -> None:
    contexts = {}
    for row in ROWS:
        operators = set() if row.adapter else {"operators", "operator-requirements.txt"}
        contexts[str(row)] = CONTEXT | operators | ({"cann"} if row.files else set())
    assert faults_of_all(texts, contexts) == []


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_has_the_stages_that_its_route_needs(row: Row, texts: dict[str, str]) -> None:
    stages = [(stage.name, stage.source) for stage in stages_of(texts[str(row)])]
    operators = [("compiler", "tools"), ("operators", "compiler")]
    assert stages == [
        ("system", CANN["base"]),
        ("cann", "system"),
        ("tools", "cann"),
        *([] if row.adapter else operators),
        ("slim", "tools"),
        ("foundation", "cann"),
        ("runtime", "foundation"),
    ]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_installs_the_vendors_packages_of_its_chip_in_their_order(
    row: Row, texts: dict[str, str]
) -> None:
    runs = stage_of(texts[str(row)], "cann").runs()
    if not row.files:
        assert runs == []
        return
    (run,) = runs
    assert run.rsplit("/steps/install-cann ", 1)[1].split() == [row.home, *row.names]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_the_stub_of_the_driver_is_there_for_the_step_that_links_and_nowhere_else(
    row: Row, texts: dict[str, str]
) -> None:
    text = texts[str(row)]
    with_stub = {stage.name for stage in stages_of(text) for run in stage.runs() if "devlib" in run}
    assert with_stub == (set() if row.adapter else {"operators"})
    if row.adapter:
        return
    (run,) = [run for run in stage_of(text, "operators").runs() if "devlib" in run]
    assert f'LD_LIBRARY_PATH="{row.home}/{row.architecture}-linux/devlib' in run
    assert f"export SOC_VERSION={SOCS[row.chip]} " in run
    setup = OLD_HOME.removesuffix("latest") if row.home == OLD_HOME else f"{row.home}/"
    assert f". {setup}set_env.sh " in run


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_a_row_runs_as_the_drivers_user_with_search_paths_that_are_whole(
    row: Row, texts: dict[str, str]
) -> None:
    text = texts[str(row)]
    environment = environment_of(text)
    assert environment["ASCEND_HOME_PATH"] == environment["ASCEND_TOOLKIT_HOME"] == row.home
    assert environment["LD_LIBRARY_PATH"].split(":")[0] == "/usr/local/Ascend/driver/lib64"
    assert "devlib" not in json.dumps(environment)
    paths = {name: value.split(":") for name, value in environment.items() if "PATH" in name}
    assert [name for name, entries in paths.items() if "" in entries] == []
    final = stage_of(text, "runtime").instructions
    assert [rest for word, rest in final if word == "USER"] == ["1000:1000"]


@pytest.mark.parametrize("cann", OLDEST_DRIVERS)
def test_a_driver_as_old_as_each_cann_allows_is_accepted_and_an_older_one_is_not(
    cann: str,
) -> None:
    row = functools.partial(
        Combination, "ubuntu-22.04", "3.11", "2.21.0", "x86_64", "910", cann, soc=SOCS["910"]
    )
    check(row(driver=OLDEST_DRIVERS[cann]))
    matrix = read_matrix()
    older = row(driver="22.0.0")
    assert matrix.problems(older) == [
        f"CANN {cann} needs driver {OLDEST_DRIVERS[cann]} or newer, not 22.0.0"
    ]
    assert matrix.rows(older)
    for instead in matrix.rows(older):
        check(instead)


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "tensorflow": (
        {"cann": {"version": "6.0.RC1", "chip": "910", "adapter": True}, "python": "3.10",
         "requirements": "old.txt"},
        "adapter for Ascend exists for TensorFlow 1.15.0 and 2.6.5 only, not 2.8.0",
    ),
    "python": ({"python": "3.8"}, "ubuntu-22.04 has Python 3.10 and 3.11, not 3.8"),
    "chip": (
        {"cann": {"version": "8.5.0", "chip": "910b", "soc": "ascend310p1"}},
        "kernels for ascend310p1 do not run on 910b",
    ),
    "driver": (
        {"cann": {"version": "8.5.0", "chip": "910b", "driver": "24.1.RC3"}},
        "CANN 8.5.0 needs driver 25.0 or newer, not 24.1.RC3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_build_refuses_what_can_not_be_with_rows_that_would_work_and_starts_nothing(
    tmp_path: Path, case: str
) -> None:
    changes, why = IMPOSSIBLE[case]
    make_project(tmp_path, CANN)
    (tmp_path / "old.txt").write_text(f"tensorflow==2.8.0 --hash=sha256:{'cd' * 32}\n")
    data = yaml.safe_load((tmp_path / "opsctl.yaml").read_text())
    data["services"]["web"]["build"] |= {"architecture": "x86_64", **changes}
    (tmp_path / "opsctl.yaml").write_text(yaml.safe_dump(data))
    before = sorted(tmp_path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-m", "opsctl.cli", "build", "-o", "json"], cwd=tmp_path,
        capture_output=True, text=True, check=False,
        # No engine and no docker command: nothing may be asked of them.
        env={"PATH": "/nonexistent", "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    error = json.loads(done.stdout)["error"]
    assert (done.returncode, error["exit_code"]) == (4, 4), done.stderr
    assert why in error["why"]
    assert error["next_step"].startswith("These would work")
    assert len(error["next_step"].splitlines()) > 1
    assert sorted(tmp_path.rglob("*")) == before
