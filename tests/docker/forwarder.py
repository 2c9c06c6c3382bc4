"""The Docker engine of this machine as one that is far away."""

from __future__ import annotations

import contextlib
import socket
import threading


class Forwarder:
    """An engine's socket as a TCP port, as a remote engine offers it."""

    def __init__(self, path: str = "/var/run/docker.sock") -> None:
        self.path = path

    def __enter__(self) -> str:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.ends: list[socket.socket] = []
        self.threads = [threading.Thread(target=self.accept)]
        self.threads[0].start()
        return f"tcp://127.0.0.1:{self.listener.getsockname()[1]}"

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for end in self.ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(10)
        for end in self.ends:
            end.close()

    def accept(self) -> None:
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.socket(socket.AF_UNIX)
            try:
                there.connect(self.path)
            except OSError:  # the engine is restarting
                here.close()
                there.close()
                continue
            self.ends += [here, there]
            for pair in ((here, there), (there, here)):
                self.threads.append(threading.Thread(target=self.pump, args=pair))
                self.threads[-1].start()

    @staticmethod
    def pump(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
