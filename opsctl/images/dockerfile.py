"""The Dockerfile of a recipe: one template for every flavour, system and processor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import jinja2

from opsctl.images.files import image_file
from opsctl.images.matrix import Matrix, read_matrix
from opsctl.images.recipe import Recipe

SEARCH_PATH = "/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""No entry is empty: an empty one means the working directory."""

_PACKAGES = {
    "apt": {
        "runtime": ("python{python}", "libstdc++6", "ca-certificates"),
        "venv": ("python{python}-venv",),
        "compiler": ("g++", "ccache"),
    },
    "dnf": {
        "runtime": ("python{python}", "libstdc++", "ca-certificates"),
        "venv": ("python{python}", "python3-pip"),
        "compiler": ("gcc-c++", "ccache"),
    },
}
"""What each stage needs of the system, by its package manager."""


def render(recipe: Recipe, labels: Mapping[str, str] | None = None, foundation: str = "") -> str:
    """The Dockerfile's text. The same recipe and labels give the same text.

    `foundation` is an image of target `foundation` that was built before, pinned.
    """
    environment = jinja2.Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )  # fmt: skip
    environment.filters["tojson"] = _quoted
    template = environment.from_string(image_file("Dockerfile.j2").read_text(encoding="utf-8"))
    matrix = read_matrix()
    return template.render(
        base=recipe.build.base,
        foundation=foundation,
        python=f"python{recipe.combination.python}",
        wheelhouse=recipe.build.sources.wheelhouse is not None,
        no_network="" if recipe.build.sources.network else " --network=none",
        operators=bool(recipe.operators),
        extra_operators=[folder.path.name for folder in recipe.extra_operators],
        architecture=recipe.combination.architecture,
        user=recipe.user[0],
        user_id=recipe.user[1],
        environment=_environment(recipe, matrix),
        labels=dict(sorted((labels or {}).items())),
        port=recipe.port,
        health_port=recipe.health_port,
        command=list(recipe.command),
        **_packages(recipe, matrix),
        **_cann(recipe, matrix),
    )


def _quoted(value: Any) -> str:
    """JSON, with the dollar that a Dockerfile would replace by a variable's value escaped."""
    text = json.dumps(value, ensure_ascii=False)
    return text if isinstance(value, list) else text.replace("$", "\\$")


def _packages(recipe: Recipe, matrix: Matrix) -> dict[str, list[str]]:
    system = matrix.systems[recipe.combination.system]
    names = _PACKAGES[system["packages"]]
    filled = {
        f"{stage}_packages": [name.format(python=recipe.combination.python) for name in stages]
        for stage, stages in names.items()
    }
    filled["venv_packages"] += system.get("venv", [])
    filled["runtime_packages"] += sorted(recipe.build.system_packages)
    return filled


def _cann(recipe: Recipe, matrix: Matrix) -> dict[str, Any]:
    if recipe.cann is None:
        return {"cann": False, "cann_files": []}
    row = matrix.cann[recipe.cann.version]
    return {
        "cann": True,
        "cann_files": list(recipe.cann_files),
        "cann_home": row["home"].format(version=recipe.cann.version),
        "cann_setup": row["setup"].format(version=recipe.cann.version),
        "soc": recipe.combination.soc,
        "family": matrix.chips[recipe.cann.chip]["family"],
    }


def _environment(recipe: Recipe, matrix: Matrix) -> dict[str, str]:
    """Variables of the image: its own search paths, then what opsctl.yaml gives the service."""
    own = {"PATH": SEARCH_PATH, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    if recipe.cann is not None:
        home = matrix.cann[recipe.cann.version]["home"].format(version=recipe.cann.version)
        libraries = ["/usr/local/Ascend/driver/lib64", "/usr/local/Ascend/driver/lib64/driver",
                     f"{home}/lib64"]  # fmt: skip
        own |= {
            "ASCEND_TOOLKIT_HOME": home,
            "ASCEND_HOME_PATH": home,
            "ASCEND_OPP_PATH": f"{home}/opp",
            "LD_LIBRARY_PATH": ":".join(libraries),
            "PYTHONPATH": f"{home}/python/site-packages",
            "PATH": f"{SEARCH_PATH}:{home}/bin",
        }
        if recipe.operators:
            own["ASCEND_CUSTOM_OPP_PATH"] = "/opt/operators/opp/vendors/ascend_ops"
    return {**own, **recipe.environment}
