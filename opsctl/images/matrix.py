"""The version matrix: which chip, CANN, system, Python, TensorFlow and driver go together.

`check` refuses a combination before anything is built, says why, and names rows that would work.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import yaml

from opsctl.errors import PreflightRefused
from opsctl.images.files import image_file
from opsctl.images.versions import version_key

ROWS_SHOWN = 5
"""Rows that would work, nearest first, that a refusal names."""


@dataclass(frozen=True)
class Combination:
    """What an image is to be made of. `driver` is the hosts', empty when nobody told it."""

    system: str
    python: str
    tensorflow: str
    architecture: str
    chip: str = ""
    cann: str = ""
    driver: str = ""
    soc: str = ""
    adapter: bool = False
    operators: bool = True

    def __str__(self) -> str:
        parts = [self.system, f"Python {self.python}", f"TensorFlow {self.tensorflow}"]
        if self.cann:
            parts += [
                f"CANN {self.cann}",
                self.chip,
                f"driver {self.driver}" if self.driver else "",
            ]
            parts.append("adapter" if self.adapter else "AscendCL route")
        return ", ".join([*filter(None, parts), self.architecture])


@dataclass(frozen=True)
class Matrix:
    """images/matrix.yaml."""

    systems: Mapping[str, Any]
    tensorflow: Mapping[str, Any]
    operators_python: str
    cann: Mapping[str, Any]
    chips: Mapping[str, Any]

    def soc(self, chip: str) -> str:
        """SOC_VERSION that a chip's operators are compiled for unless told otherwise."""
        return str(self.chips[chip]["socs"][0])

    def cann_files(self, version: str, chip: str, architecture: str) -> dict[str, str]:
        """Names of CANN's .run files by role, in order of installation."""
        row = self.chips[chip]
        return {
            role: name.format(
                version=version, arch=architecture, label=row["label"], kernels=row["kernels"]
            )
            for role, name in self.cann[version]["files"].items()
        }

    def problems(self, wanted: Combination) -> list[str]:
        """Why `wanted` can't be; empty when it can."""
        found = [*self._python_problems(wanted), *self._tensorflow_problems(wanted)]
        return found + (list(self._cann_problems(wanted)) if wanted.cann else [])

    def _python_problems(self, wanted: Combination) -> Iterator[str]:
        pythons = self.systems[wanted.system]["pythons"]
        if wanted.python not in pythons:
            yield f"{wanted.system} has Python {' and '.join(pythons)}, not {wanted.python}"
        least = self.operators_python
        if wanted.operators and version_key(wanted.python) < version_key(least):
            yield f"the op library's Python package needs Python {least} or newer"

    def _tensorflow_problems(self, wanted: Combination) -> Iterator[str]:
        row = self.tensorflow.get(wanted.tensorflow)
        if row is None:
            known = ", ".join(self.tensorflow)
            yield f"TensorFlow {wanted.tensorflow} is no row (there are {known})"
            return
        wheels = row["wheels"].get(wanted.architecture, [])
        if not wheels:
            yield f"TensorFlow {wanted.tensorflow} has no wheel for {wanted.architecture}"
        elif wanted.python not in wheels:
            yield (
                f"TensorFlow {wanted.tensorflow} has wheels for Python {', '.join(wheels)} on "
                f"{wanted.architecture}, not {wanted.python}"
            )
        if wanted.adapter:
            yield from self._adapter_problems(wanted, row.get("adapter", []))

    def _adapter_problems(self, wanted: Combination, pythons: list[str]) -> Iterator[str]:
        if not pythons:
            supported = [name for name, row in self.tensorflow.items() if row.get("adapter")]
            yield (
                f"TensorFlow's adapter for Ascend exists for TensorFlow {' and '.join(supported)} "
                f"only, not {wanted.tensorflow} (cann.adapter: false takes the AscendCL route, "
                "which works with any TensorFlow but copies at each call)"
            )
        elif wanted.python not in pythons:
            needed = ", ".join(pythons)
            yield f"the adapter for TensorFlow {wanted.tensorflow} needs Python {needed}"

    def _cann_problems(self, wanted: Combination) -> Iterator[str]:
        row = self.cann.get(wanted.cann)
        if row is None:
            yield f"CANN {wanted.cann} is no row (there are {', '.join(self.cann)})"
            return
        if wanted.chip not in row["chips"]:
            yield f"CANN {wanted.cann} has no kernels for {wanted.chip}"
        if wanted.soc and wanted.soc not in self.chips[wanted.chip]["socs"]:
            known = ", ".join(self.chips[wanted.chip]["socs"])
            yield f"kernels for {wanted.soc} do not run on {wanted.chip} (its SoCs: {known})"
        drivers = row["drivers"]
        if wanted.driver and drivers and version_key(wanted.driver) < version_key(drivers[-1]):
            yield f"CANN {wanted.cann} needs driver {drivers[-1]} or newer, not {wanted.driver}"

    def rows(self, near: Combination) -> list[Combination]:
        """Combinations that work, those that change least of `near` first."""
        canns = [*self.cann] if near.cann else [""]
        adapters = (near.adapter, not near.adapter) if near.cann else (False,)
        choices = itertools.product(self.systems, self.tensorflow, canns, adapters)
        possible = (
            replace(near, system=system, python=python, tensorflow=tensorflow, cann=cann,
                    adapter=adapter, soc=self._soc_of(near), driver=driver)
            for system, tensorflow, cann, adapter in choices
            for python in self.systems[system]["pythons"]
            for driver in self._drivers(near, cann)
        )  # fmt: skip
        working = [row for row in possible if not self.problems(row) and self._proved(row)]
        return sorted(working, key=lambda row: (_changes(row, near), _age(row)))[:ROWS_SHOWN]

    def _drivers(self, near: Combination, cann: str) -> list[str]:
        """The hosts' driver, or the newest that a version of CANN is known to run on."""
        known = self.cann[cann]["drivers"][:1] if cann and near.driver else []
        return list(dict.fromkeys([near.driver, *known]))

    def _proved(self, row: Combination) -> bool:
        """Whether CANN's own table has something to say about the driver."""
        return not row.driver or bool(self.cann[row.cann]["drivers"])

    def _soc_of(self, near: Combination) -> str:
        if near.chip and near.soc not in self.chips[near.chip]["socs"]:
            return self.soc(near.chip)
        return near.soc


def _changes(row: Combination, near: Combination) -> int:
    return sum(getattr(row, field.name) != getattr(near, field.name) for field in fields(row))


def _age(row: Combination) -> tuple[Any, ...]:
    """Newer first, where as much is changed."""

    def newest(version: str) -> tuple[int, ...]:
        key = version_key(version)
        return tuple(-number for number in (*key.numbers, *key.candidate))

    return newest(row.tensorflow), newest(row.cann), newest(row.python), row.system


@cache
def read_matrix() -> Matrix:
    """images/matrix.yaml."""
    data = yaml.safe_load(image_file("matrix.yaml").read_text(encoding="utf-8"))
    return Matrix(
        systems=data["systems"],
        tensorflow=data["tensorflow"],
        operators_python=data["operators"]["python"],
        cann=data["cann"],
        chips=data["chips"],
    )


def check(wanted: Combination) -> None:
    """Raises `PreflightRefused` with every reason, and rows that would work."""
    matrix = read_matrix()
    problems = matrix.problems(wanted)
    if not problems:
        return
    rows = "\n  ".join(str(row) for row in matrix.rows(wanted))
    raise PreflightRefused(
        f"no image can be made of {wanted}",
        why="; ".join(problems),
        next_step=f"These would work (set services.*.build in opsctl.yaml):\n  {rows}"
        if rows
        else "No row of the matrix is near it; see images/matrix.yaml",
    )
