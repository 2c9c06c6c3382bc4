"""A replica that is told to stop in the very moment in which it exits by itself."""

from __future__ import annotations

import asyncio
from typing import Any

from opsctl.targets.supervisor.replica import ReplicaRunner


class Gone:
    """A process that has just ended."""

    running = False

    def __init__(self) -> None:
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.exited.set_result(None)


def test_a_cancellation_while_the_last_probe_ends_is_not_lost() -> None:
    async def cancelled_then() -> bool:
        runner: Any = ReplicaRunner.__new__(ReplicaRunner)

        async def slow_to_end(_: object) -> None:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.2)
                raise

        runner._probe_on = slow_to_end
        waiting = asyncio.create_task(runner._until_exit(Gone()))
        await asyncio.sleep(0.1)  # it waits for its probe by now
        waiting.cancel()
        await asyncio.wait({waiting})
        return waiting.cancelled()

    assert asyncio.run(cancelled_then())
