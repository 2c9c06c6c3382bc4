"""Background tasks whose failure is never silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

Broken = Callable[[BaseException], None]
"""Gets an exception that nobody expected."""


class Tasks:
    """The tasks of one supervisor. One that fails ends the supervisor, which its keeper restarts:
    a replica that nobody looks after any more would be worse."""

    def __init__(self, broken: Broken) -> None:
        self._broken = broken
        self._running: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run `work` beside everything else."""
        task = asyncio.create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._broken(error)
