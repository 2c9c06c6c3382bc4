"""Who holds a port: asked of real sockets and real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from opsctl.ports import PortHolder, owned_by, port_holder, port_is_free

LISTENS = """
import os, socket, sys
listener = socket.create_server(("127.0.0.1", 0))
if "fork" in sys.argv and os.fork():
    listener.close()
    sys.stdin.read()
    sys.exit()
print(listener.getsockname()[1], os.getpid(), flush=True)
sys.stdin.read()
"""


@contextmanager
def listening_process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int, int]]:
    process = subprocess.Popen(
        [sys.executable, "-c", LISTENS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    try:
        port, pid = process.stdout.readline().split()
        yield process, int(port), int(pid)
    finally:
        process.communicate(timeout=10)


def test_the_holder_is_named_with_pid_and_command() -> None:
    with listening_process("named") as (process, port, _):
        holder = port_holder(port)
    assert holder is not None
    assert holder.pid == process.pid
    assert holder.command.startswith(sys.executable + " -c ")
    assert len(holder.command) == 120
    assert str(holder) == f"pid {process.pid} ({holder.command})"


def test_nobody_holds_a_port_that_was_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    assert port_holder(port) is None
    assert port_is_free("127.0.0.1", port) is True


def test_a_listening_port_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert port_is_free("127.0.0.1", listener.getsockname()[1]) is False


def test_a_port_with_connections_in_time_wait_is_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        client = socket.create_connection(address)
        served, _ = listener.accept()
        served.close()  # this side closes first: its end goes to TIME_WAIT
        client.recv(1)
        client.close()
    assert port_is_free(*address) is True


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(OSError, match="Cannot assign requested address"):
        port_is_free("192.0.2.1", 0)


def test_an_ipv6_listener_is_seen() -> None:
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        holder = port_holder(listener.getsockname()[1])
    assert holder is not None
    assert holder.pid == os.getpid()


def test_a_port_is_owned_by_the_process_that_listens() -> None:
    with listening_process("mine") as (mine, port, _), listening_process("other") as (other, *_):
        assert owned_by(port, [mine.pid]) is True
        assert owned_by(port, [other.pid]) is False
        assert owned_by(port, []) is False


def test_a_port_is_owned_by_the_parent_of_the_process_that_listens() -> None:
    with listening_process("fork") as (process, port, pid):
        assert pid != process.pid
        assert owned_by(port, [process.pid]) is True


def test_a_port_that_nobody_listens_on_is_owned_by_nobody() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        assert owned_by(bound.getsockname()[1], [os.getpid()]) is False


def test_a_holder_that_cannot_be_seen_is_named_by_its_user() -> None:
    assert str(PortHolder(80, 0, "", "www-data")) == "a process of user www-data"
