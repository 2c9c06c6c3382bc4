"""Files that belong to opsctl but are not Python: found in the checkout and in the wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def template_path(name: str) -> Path:
    """The template `manifests/NAME`: beside the package in a checkout, inside it in a wheel.

    Raises FileNotFoundError when the installation is incomplete.
    """
    for folder in (_PACKAGE / "_data" / "manifests", _PACKAGE.parent / "manifests"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"template {name} is missing from the installation at {_PACKAGE}")


def chart_path() -> Path:
    """The folder of the Helm chart. Raises FileNotFoundError when it is missing."""
    for folder in (_PACKAGE / "_data" / "helm", _PACKAGE.parent / "helm"):
        if (folder / "Chart.yaml").is_file():
            return folder
    raise FileNotFoundError(f"the Helm chart is missing from the installation at {_PACKAGE}")
