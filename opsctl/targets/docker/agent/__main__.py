"""`python -m opsctl.targets.docker.agent --service NAME`: what the agent's container runs."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path

from opsctl.errors import TargetUnreachable
from opsctl.targets.docker.agent.agent_core import Agent
from opsctl.targets.docker.agent.daemon import Daemon
from opsctl.targets.docker.names import STATE_DIR, Names
from opsctl.targets.supervisor.layout import SOCKET_NAME, Layout
from opsctl.targets.supervisor.server import answer_to

LINE_MAX_BYTES = 64 * 1024 * 1024
"""Request files of a benchmark travel in one line."""

CANNOT_WORK = 3


def main() -> int:
    """Run the agent until the service is taken down, or it is replaced."""
    parser = argparse.ArgumentParser(prog="opsctl-agent")
    parser.add_argument("--service", required=True)
    names = Names(parser.parse_args().service)
    layout = Layout(Path(STATE_DIR))
    os.umask(0o077)
    for folder in (layout.run, layout.logs, layout.inbox):
        folder.mkdir(exist_ok=True)
    os.chdir(layout.run)
    try:
        return asyncio.run(_run(layout, names))
    except TargetUnreachable as error:
        print(error, file=sys.stderr, flush=True)
        return CANNOT_WORK


async def _run(layout: Layout, names: Names) -> int:
    agent = Agent(layout, names, Daemon())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _end, agent)
    await agent.adopt()
    server = await _serve(agent)
    try:
        return await agent.run()
    finally:
        server.close()


def _end(agent: Agent) -> None:
    agent.exit_code = 0
    agent.wake()


async def _serve(agent: Agent) -> asyncio.Server:
    """Listen in the working directory: one JSON object a line each way."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = object()
        try:
            while text := await reader.readline():
                answer = await answer_to(text, lambda request: agent.answer(request, line))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            pass  # the caller went away, or sent a line beyond all measure
        finally:
            agent.hung_up(line)
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    # A killed agent leaves its socket; asyncio removes it before it binds.
    return await asyncio.start_unix_server(talk, SOCKET_NAME, limit=LINE_MAX_BYTES)


if __name__ == "__main__":
    # os._exit: threads that wait for the engine must not hold up the end.
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
