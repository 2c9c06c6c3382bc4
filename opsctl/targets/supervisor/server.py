"""The supervisor's socket: one JSON object a line each way."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from opsctl.errors import OpsctlError
from opsctl.model import Json
from opsctl.targets.supervisor import wire
from opsctl.targets.supervisor.core import Supervisor
from opsctl.targets.supervisor.layout import SOCKET_NAME

LINE_MAX_BYTES = 4 * 1024 * 1024


async def serve(supervisor: Supervisor) -> asyncio.Server:
    """Listen in the working directory."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                answer = await answer_to(line, lambda request: called(supervisor, request))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the caller went away, or sent a line beyond all measure
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    return await asyncio.start_unix_server(talk, SOCKET_NAME, limit=LINE_MAX_BYTES)


async def answer_to(line: bytes, call: Callable[[Mapping[str, Any]], Awaitable[Json]]) -> Json:
    """What a request is answered with: what `call` returns, or the error that it raises."""
    try:
        return {"ok": True, **await call(json.loads(line))}
    except OpsctlError as error:
        return wire.packed(error)
    except Exception as error:  # noqa: BLE001  (a bad request must not end the supervisor)
        traceback.print_exc(file=sys.stderr)
        what = OpsctlError(f"the supervisor failed: {type(error).__name__}: {error}",
                           next_step="See logs/supervisor.log in the state directory.")  # fmt: skip
        return wire.packed(what)


async def called(supervisor: Supervisor, request: Mapping[str, Any]) -> Json:
    """Do what a request asks of the supervisor. Raises OpsctlError for what it does not know."""
    call = request["call"]
    if call == "hello":
        return supervisor.hello()
    if call == "observe":
        return {"observed": await supervisor.observe()}
    if call == "apply":
        return await supervisor.apply(request)
    if call == "renew":
        return supervisor.renew(request["epoch"])
    if call == "down":
        return supervisor.down(request["epoch"])
    if call == "replace":
        return supervisor.replace()
    raise OpsctlError(f"the supervisor does not know the call {call!r}")
