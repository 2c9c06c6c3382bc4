"""The command's side of the supervisor's socket. Imports nothing heavy."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from typing import Any

from opsctl import errors
from opsctl.errors import OpsctlError, TargetUnreachable
from opsctl.model import Json
from opsctl.targets.supervisor.layout import SOCKET_NAME, Layout

CALL_TIMEOUT_S = 10.0


class NobodyListens(TargetUnreachable):
    """There is no supervisor at the socket."""


def call(layout: Layout, request: Mapping[str, Any], timeout_s: float = CALL_TIMEOUT_S) -> Json:
    """Send one request and return its answer.

    Raises the supervisor's own error, NobodyListens, or TargetUnreachable when it is silent.
    """
    try:
        line = _exchange(layout, json.dumps(request).encode() + b"\n", timeout_s)
        answer: Json = json.loads(line)
    except (FileNotFoundError, ConnectionError, ValueError) as error:
        raise NobodyListens(
            "the service's supervisor does not run", why=str(error), next_step="Run: opsctl resume"
        ) from error
    except TimeoutError as error:
        raise TargetUnreachable(
            f"the service's supervisor does not answer within {timeout_s:g} s",
            why=f"pid {_pid(layout)} may be stopped",
            next_step=f"See {layout.supervisor_log}",
        ) from error
    except OSError as error:
        raise TargetUnreachable(
            "the service's supervisor can't be reached",
            why=f"{layout.run / SOCKET_NAME}: {error.strerror}",
            next_step="Use the account that deployed the service.",
        ) from error
    return unpacked(answer)


def unpacked(answer: Json) -> Json:
    """The answer's content. Raises the error that it carries."""
    if answer.pop("ok"):
        return answer
    raise _error(answer)


def packed(error: OpsctlError) -> Json:
    """The answer that carries an error."""
    parts = {"what": error.what, "why": error.why, "next_step": error.next_step}
    return {"ok": False, "error": type(error).__name__, **parts}


def _exchange(layout: Layout, line: bytes, timeout_s: float) -> bytes:
    # A socket's path may have 107 bytes only (unix(7)); through the folder it is always short.
    folder = os.open(layout.run, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(f"/proc/self/fd/{folder}/{SOCKET_NAME}")
            connection.sendall(line)
            parts = []
            while part := connection.recv(65536):
                parts.append(part)
                if part.endswith(b"\n"):
                    break
            return b"".join(parts)
    finally:
        os.close(folder)


def _error(answer: Mapping[str, Any]) -> OpsctlError:
    kind = getattr(errors, answer["error"], OpsctlError)
    error: OpsctlError = kind(answer["what"], why=answer["why"], next_step=answer["next_step"])
    return error


def _pid(layout: Layout) -> str:
    try:
        return layout.pid_file.read_text().strip()
    except OSError:
        return "?"
