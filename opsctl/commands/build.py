"""`opsctl build`: the service's image, unless the same content is built already."""

from __future__ import annotations

from opsctl.commands.outcome import Outcome
from opsctl.config.settings import Project
from opsctl.console import Console


def build(
    project: Project, console: Console, *, rebuild: bool, network: bool, dry_run: bool
) -> Outcome:
    """Build, sign and record. With `dry_run` only say what would be built."""
    from opsctl.images import build as images
    from opsctl.images.stopping import stop_on_signals

    if dry_run:
        return _preview(project)
    with stop_on_signals() as interrupt:
        made = images.build(project, console.tell, interrupt, rebuild=rebuild, network=network)
    outcome = "built" if made.fresh else "unchanged"
    text = f"{made.reference}\n" + (
        f"built in {made.seconds:.0f} s" if made.fresh else "nothing changed: it is built already"
    )
    return Outcome(0, {"outcome": outcome, "exit_code": 0, **made.to_dict()}, text)


def _preview(project: Project) -> Outcome:
    from opsctl.images.context import content_key
    from opsctl.images.dockerfile import render
    from opsctl.images.recipe import read_recipe

    recipe = read_recipe(project)
    key = content_key(recipe, lambda: None)
    text = render(recipe)
    data = {"outcome": "differences", "exit_code": 0, "key": key, "dockerfile": text}
    return Outcome(0, {**data, "combination": recipe.combination.__dict__}, text.rstrip("\n"))
