"""Which releases nobody needs any more."""

from __future__ import annotations

from collections.abc import Sequence

from opsctl.model import DesiredState
from opsctl.reader import Reader
from opsctl.rollout import ReleaseMarks


def disposable(look: Reader, keep: int) -> list[str]:
    """Names of the releases that neither run, nor can be gone back to first, nor are new."""
    observed = look.observed()
    states = [look.last_state()] + ([observed.desired] if observed else [])
    going = look.open_progress()
    if going:
        states += [going.before, *(s.state for s in going.plan if s.state)]
    names = [release.name for release in look.store.list()]
    return choose(names, pinned(states, look.marks()), keep)


def pinned(states: Sequence[DesiredState], marks: ReleaseMarks) -> set[str]:
    """Releases that must stay: those of any state in force, and the two proved last."""
    running = {share.release for state in states for share in state.shares}
    return running | set(marks.proved[-2:])


def choose(names: Sequence[str], must_stay: set[str], keep: int) -> list[str]:
    """Of `names` (oldest first), those beyond the newest `keep` that nothing pins."""
    loose = [name for name in names if name not in must_stay]
    return loose[: max(0, len(loose) - keep)]
