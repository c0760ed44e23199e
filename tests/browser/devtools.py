"""A browser driven through a pipe: just enough of the DevTools protocol to open a page, ask it and photograph it."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SWITCHES = (
    "--headless",
    "--no-sandbox",  # it opens our own page only, and must start as root in a container
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-quic",
    "--disable-sync",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
)
PATIENCE = 60.0  # seconds; a busy machine is slow, not broken


def find_browser() -> str | None:
    """Return the program's path; None where there is none."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One page, and everything that it complained about or asked the network for."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._number, self._rest, self._session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events that come meanwhile are kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def open(self, file: Path) -> None:
        """Open a file and wait until it is loaded."""
        self.events.clear()
        self.call("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._read())

    def ask(self, script: str) -> Any:
        """Return the value of a JavaScript expression."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def resize(self, width: int, height: int = 900) -> None:
        """Give the page another size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, scheme: str) -> None:
        """Let the system prefer the light or the dark scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str) -> None:
        """Press a key where the focus is."""
        codes = {"Tab": 9, "Enter": 13}
        text = "\r" if key == "Enter" else ""
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **extra)

    def point(self, x: float, y: float) -> None:
        """Move the pointer."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def screenshot(self, file: Path, *, whole: bool = False) -> bytes:
        """Photograph the window or the whole page."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"])
        file.write_bytes(data)
        return data

    def complaints(self) -> list[str]:
        """Return errors and warnings of the console, and exceptions."""
        found = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                found.append(json.dumps(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"):
                found.append(event["params"]["entry"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"):
                found.append(json.dumps(event["params"]["args"]))
        return found

    def requests(self) -> list[str]:
        """Return every address that was asked for."""
        return [
            event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"
        ]

    def _read(self) -> dict[str, Any]:
        """Return the next message."""
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._answers, 1 << 20) if ready else b""
            if not part:
                raise TimeoutError(f"the browser did not answer within {PATIENCE:g} s, or has ended")
            self._rest += part
        message, _, self._rest = self._rest.partition(b"\0")
        parsed: dict[str, Any] = json.loads(message)
        return parsed


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Page]:
    """Start a browser without a window, give a page of it, and end it."""
    command_read, command_write = os.pipe()
    answer_read, answer_write = os.pipe()
    switches = [*SWITCHES, f"--user-data-dir={profile}", "--remote-debugging-pipe", "about:blank"]

    def hand_over() -> None:  # the browser reads from 3 and writes to 4
        os.dup2(command_read, 53)
        os.dup2(answer_write, 54)
        os.dup2(53, 3)
        os.dup2(54, 4)

    process = subprocess.Popen(
        [program, *switches], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        preexec_fn=hand_over, close_fds=False,
    )  # fmt: skip
    os.close(command_read)
    os.close(answer_write)
    try:
        yield Page(command_write, answer_read)
    finally:
        os.close(command_write)
        os.close(answer_read)
        process.terminate()
        try:
            process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
