"""A real Chromium without a window, driven over its debugging protocol.

The protocol: https://chromedevtools.github.io/devtools-protocol/ (Emulation, Log, Network, Page,
Runtime). `ignore certificate` and friends are not needed: pages are files.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from websocket import WebSocket, create_connection

from opsctl import shell

NAMES = ("chromium", "chromium-browser", "google-chrome")

START_S = 30.0
ANSWER_S = 30.0

SILENT = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--no-first-run",
    "--no-default-browser-check",
    "--mute-audio",
    # Nobody outside of this machine can be asked, whatever a page tries.
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-port=0",
)


def installed() -> str | None:
    """The browser's program; None when there is none."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


@dataclass
class Page:
    """A page as it was loaded: what it asked for and what it complained of."""

    tab: Tab
    requests: list[str] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    """Why those of its requests that were not let out were not."""
    complaints: list[str] = field(default_factory=list)

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page. Raises AssertionError if it throws."""
        answer = self.tab.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def press(self, key: str, code: int) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.tab.call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                text="\r" if key == "Enter" and kind == "keyDown" else "",
            )

    def screenshot(self, path: Path) -> None:
        """A picture of the whole page."""
        answer = self.tab.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))


class Tab:
    """A tab of the browser, and everything that it reports."""

    def __init__(self, address: str) -> None:
        self.socket: WebSocket = create_connection(address, timeout=ANSWER_S, suppress_origin=True)
        self.events: list[dict[str, Any]] = []
        self.number = 0

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol. Raises AssertionError when it is refused."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        self.socket.send(json.dumps(message))
        while True:
            answer = json.loads(self.socket.recv())
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def wait_for(self, method: str) -> None:
        """Wait for an event."""
        while not any(event.get("method") == method for event in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def open(self, path: Path, *, width: int, dark: bool = False) -> Page:
        """Load a file in a window of `width` pixels, with the user's wish for dark or light."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        page = Page(self)
        # A round trip through the page itself: what it had to say before is here afterwards.
        page.evaluate("document.readyState")
        for event in self.events:
            self._take(event, page)
        return page

    @staticmethod
    def _take(event: dict[str, Any], page: Page) -> None:
        parameters = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                page.requests.append(parameters["request"]["url"])
            case "Network.loadingFailed":
                page.blocked.append(parameters.get("blockedReason", parameters["errorText"]))
            case "Log.entryAdded":
                page.complaints.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                page.complaints.append(json.dumps(parameters))


@contextmanager
def browser(program: str, folder: Path) -> Iterator[Tab]:
    """A browser with one tab; its profile and log lie in `folder`. It is gone afterwards."""
    log = folder / "browser.log"
    argv = [program, *SILENT, f"--user-data-dir={folder / 'profile'}", "about:blank"]
    process = shell.spawn(argv, cwd=folder, env={**os.environ, "HOME": str(folder)}, log=log)
    try:
        tab = Tab(_tab_address(folder / "profile" / "DevToolsActivePort", log))
        try:
            yield tab
        finally:
            tab.call("Browser.close")
            tab.socket.close()
            process.wait(START_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(START_S)


def _tab_address(port_file: Path, log: Path) -> str:
    """The debugging address of the first tab, as soon as the browser listens."""
    import urllib.request

    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if port_file.exists() and (lines := port_file.read_text().splitlines()):
            url = f"http://127.0.0.1:{lines[0]}/json/list"
            with urllib.request.urlopen(url, timeout=ANSWER_S) as answer:
                tabs = json.load(answer)
            for tab in tabs:
                if tab["type"] == "page":
                    address: str = tab["webSocketDebuggerUrl"]
                    return address
        time.sleep(0.05)
    raise AssertionError(f"the browser did not start: {log.read_text(errors='replace')[-2000:]}")
