"""The command's line to the agent: one long-lived `exec` of the relay in the agent's container."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opsctl.errors import TargetUnreachable
from opsctl.model import Json
from opsctl.targets.docker.engine import Engine, Missing, Refused
from opsctl.targets.docker.names import STATE_DIR
from opsctl.targets.supervisor import wire
from opsctl.targets.supervisor.layout import SOCKET_NAME
from opsctl.targets.supervisor.wire import CALL_TIMEOUT_S, NobodyListens

RELAY = ("python3", "-S", "-E", "/opt/opsctl/opsctl/targets/docker/relay.py")
"""Started by path and without site-packages: it must cost a `status` little."""

FRAME_HEAD = struct.Struct(">BxxxL")
"""Stream number and length of each piece of output (Engine API, `ContainerAttach`)."""

STDOUT = 1


class Pipe:
    """Stdin and stdout of a command that runs in a container."""

    def __init__(self, engine: Engine, container: str, argv: Sequence[str]) -> None:
        """Raises Missing or Refused without a running container of that name."""
        self._rest = b""
        api = engine.api
        with engine.told(f"cannot enter the container {container}"):
            created = api.exec_create(container, list(argv), stdin=True, stdout=True, stderr=True)
            self._file = api.exec_start(created["Id"], socket=True)
        self._socket: socket.socket = getattr(self._file, "_sock", self._file)
        self.said = b""
        """What it wrote to stderr."""

    def settimeout(self, seconds: float | None) -> None:
        """How long `read` may wait."""
        self._socket.settimeout(seconds)

    def write(self, data: bytes) -> None:
        """Send all of it."""
        self._socket.sendall(data)

    def read(self) -> bytes:
        """The next piece of its output; empty at its end. A TimeoutError loses nothing of it."""
        while self._has(FRAME_HEAD.size):
            stream, length = FRAME_HEAD.unpack_from(self._rest)
            if not self._has(FRAME_HEAD.size + length):
                break
            data = self._rest[FRAME_HEAD.size : FRAME_HEAD.size + length]
            self._rest = self._rest[FRAME_HEAD.size + length :]
            if stream == STDOUT:
                return data
            self.said += data
        return b""

    def shutdown(self) -> None:
        """Tell it that no more comes."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Hang up: the engine then ends its stdin."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        for end in (self._file, self._socket):
            with contextlib.suppress(OSError):
                end.close()

    def _has(self, count: int) -> bool:
        """Wait until so many bytes have come; False when its output ended before."""
        while len(self._rest) < count:
            data = self._socket.recv(65536)
            if not data:
                return False
            self._rest += data
        return True


class Channel:
    """Calls to the agent of one service. Threads may share it."""

    def __init__(self, engine: Engine, container: str) -> None:
        self._engine = engine
        self._container = container
        self._pipe: Pipe | None = None
        self._lock = threading.Lock()

    def call(self, request: Mapping[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> Json:
        """Send one request and return its answer.

        Raises the agent's own error, NobodyListens without an agent, TargetUnreachable.
        """
        line = json.dumps(request).encode() + b"\n"
        with self._lock, self._failing_told(timeout_s):
            fresh = self._pipe is None
            answer = self._exchange(line, timeout_s)
            if not answer and not fresh:
                # The agent was replaced or restarted since the last call: every call may be sent
                # again, as each is idempotent.
                answer = self._exchange(line, timeout_s)
            if not answer:
                raise NobodyListens("the service's agent does not answer",
                                    next_step="Run: opsctl resume")  # fmt: skip
        return wire.unpacked(json.loads(answer))

    def close(self) -> None:
        """Hang up."""
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def _exchange(self, line: bytes, timeout_s: float) -> bytes:
        """The answer's line; empty when the other side hung up."""
        try:
            if self._pipe is None:
                where = f"{STATE_DIR}/run/{SOCKET_NAME}"
                self._pipe = Pipe(self._engine, self._container, [*RELAY, "unix", where])
            pipe = self._pipe
            pipe.settimeout(timeout_s)
            pipe.write(line)
            parts = [pipe.read()]
            while parts[-1] and not parts[-1].endswith(b"\n"):
                parts.append(pipe.read())
        except ConnectionError:
            parts = [b""]
        except BaseException:
            self.close()  # an answer that comes later must not be taken for the next one's
            raise
        # An exec in a container that is just ending answers with the runtime's words.
        if not parts[-1] or not parts[0].startswith(b"{"):
            self.close()
            return b""
        return b"".join(parts)

    @contextlib.contextmanager
    def _failing_told(self, timeout_s: float) -> Iterator[None]:
        try:
            yield
        except (Missing, Refused) as error:
            raise NobodyListens(
                "the service's agent does not run", why=error.why, next_step="Run: opsctl resume"
            ) from error
        except TimeoutError as error:
            raise TargetUnreachable(
                f"the service's agent does not answer within {timeout_s:g} s",
                next_step=f"See: docker logs {self._container}",
            ) from error
