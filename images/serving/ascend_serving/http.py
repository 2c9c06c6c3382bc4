"""The little of ASGI that the two servers share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ascend_serving.errors import TooLarge

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Header = tuple[bytes, bytes]

JSON: Header = (b"content-type", b"application/json")
CLOSE: Header = (b"connection", b"close")


class ClientGone(Exception):
    """The client closed the connection before its request was complete."""


@dataclass(frozen=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    body: bytes
    headers: tuple[Header, ...] = (JSON,)


async def read_body(receive: Receive, limit_bytes: int) -> bytes:
    """The whole body. Raises `TooLarge` or `ClientGone`."""
    message = await receive()
    body: bytes = message.get("body", b"")
    chunks, size = [body], len(body)
    while message.get("more_body") and size <= limit_bytes:
        message = await receive()
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
    if message["type"] == "http.disconnect":
        raise ClientGone
    if size > limit_bytes:
        raise TooLarge(f"the body is larger than {limit_bytes} bytes")
    return body if len(chunks) == 1 else b"".join(chunks)


async def send_answer(send: Send, answer: Answer, extra: tuple[Header, ...]) -> None:
    """Sends the answer with its length and the `extra` headers."""
    length: Header = (b"content-length", str(len(answer.body)).encode())
    headers = [*answer.headers, length, *extra]
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": answer.body})


def release_headers(release: str | None) -> tuple[Header, ...]:
    """The header that tells which release answered, when opsctl has named it."""
    return ((b"x-opsctl-release", release.encode()),) if release else ()
