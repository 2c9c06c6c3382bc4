"""Health and metrics as an ASGI application, on a port of its own.

`/health/live`: the event loop answers. `/health/ready`: this replica wants traffic; false while
loading, draining, and when work has been stuck for longer than the stall limit. `/health` says
both, with readiness as its status, for balancers that have one check.
"""

from __future__ import annotations

from typing import Any

from ascend_serving import answers
from ascend_serving.http import Answer, Receive, Send, release_headers, send_answer
from ascend_serving.metrics import CONTENT_TYPE
from ascend_serving.service import Service


class HealthApi:
    """The application on the health port."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._headers = release_headers(service.options.release)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            answer = Answer(405, answers.encode_error("use GET"))
        else:
            answer = self._answer(scope["path"])
        await send_answer(send, answer, self._headers)

    def _answer(self, path: str) -> Answer:
        service = self._service
        if path == "/metrics":
            service.observe()
            return Answer(200, service.metrics.render(), ((b"content-type", CONTENT_TYPE),))
        if path == "/health/live":
            return Answer(200, answers.dump(service.describe()))
        if path in ("/health", "/health/ready"):
            return Answer(200 if service.is_ready else 503, answers.dump(service.describe()))
        return Answer(404, answers.encode_error(f"Not found: {path}"))
