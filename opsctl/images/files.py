"""Matrix, template and steps of images: beside the package in a checkout, inside it in a wheel."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def image_file(name: str) -> Path:
    """The file images/NAME. Raises FileNotFoundError when the installation is incomplete."""
    for folder in (_PACKAGE / "_data" / "images", _PACKAGE.parent / "images"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"images/{name} is missing from the installation at {_PACKAGE}")
