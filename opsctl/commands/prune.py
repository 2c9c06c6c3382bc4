"""releases prune."""

from __future__ import annotations

from opsctl.commands.outcome import Outcome, simple
from opsctl.config.settings import Project
from opsctl.reader import reader
from opsctl.retention import disposable


def prune(project: Project, *, dry_run: bool) -> Outcome:
    """Remove releases beyond `retention.releases`; needs no lock, as nothing in use may go."""
    look = reader(project)
    going = disposable(look, project.service.retention.releases)
    if not dry_run:
        for name in going:
            look.store.remove(name)
    verb = "would remove" if dry_run else "removed"
    text = f"{verb} {', '.join(going)}" if going else "nothing to remove"
    return simple("pruned", text, removed=going, dry_run=dry_run)
