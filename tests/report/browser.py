"""Chromium without a window, driven over a pipe by its DevTools protocol."""

import json
import os
import select
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
#: A browser that is silent for so long will not say anything any more.
_PATIENCE_S = 30
#: Events that a page should not make, and what they say.
_SAID: dict[str, Callable[[Any], object]] = {
    "Runtime.consoleAPICalled": lambda params: [one.get("value") for one in params["args"]],
    "Runtime.exceptionThrown": lambda params: params["exceptionDetails"],
    "Log.entryAdded": lambda params: params["entry"]["text"],
    "Page.javascriptDialogOpening": lambda params: f"dialog: {params['message']}",
}


def chromium() -> str | None:
    """The command of an installed Chromium."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page in one browser; ``messages`` is what it would show in its console.

    ``requests``: addresses it asked for, but for the file itself and ``data:``.
    """

    def __init__(self, command: str, profile: Path) -> None:
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        # The protocol is NUL-separated JSON on the file descriptors 3 and 4.
        moved = f'exec "$@" 3<&{commands} 4>&{answers}'
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        flags += ["--no-first-run", "--disable-background-networking", "--hide-scrollbars"]
        flags += ["--remote-debugging-pipe", f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", command, *flags],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._in = os.fdopen(to_browser, "wb", buffering=0)
        self._out = os.fdopen(from_browser, "rb", buffering=0)
        self._unread = b""
        self._last = 0
        self._session: str | None = None
        self._is_loaded = False
        self._has_scripts = True
        self.messages: list[str] = []
        self.requests: list[str] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(it["targetId"] for it in targets if it["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._in.close()
        self._out.close()
        self._process.terminate()
        self._process.wait(20)

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command; raises RuntimeError with what Chromium says against it."""
        self._last += 1
        number, message = self._last, {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._in.write(json.dumps(message).encode() + b"\0")
        while (reply := self._next()).get("id") != number:
            pass
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']['message']}")
        return reply["result"]

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            readable, _, _ = select.select([self._out], [], [], _PATIENCE_S)
            more = self._out.read(1 << 16) if readable else b""
            if not more:
                raise RuntimeError("Chromium has ended, or says nothing more")
            self._unread += more
        text, self._unread = self._unread.split(b"\0", 1)
        message: dict[str, Any] = json.loads(text)
        self._take(message.get("method", ""), message.get("params", {}))
        return message

    def _take(self, event: str, params: dict[str, Any]) -> None:
        if event in _SAID:
            self.messages.append(str(_SAID[event](params)))
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Page.loadEventFired":
            self._is_loaded = True

    def open(self, page: Path, fragment: str = "", width: int = 1280, height: int = 6000) -> None:
        """Loads a file in a window of this size, and forgets what was there before."""
        self.resize(width, height)
        self._load("about:blank")  # or another fragment of the same file would load nothing
        self.messages, self.requests = [], []
        self._load(page.resolve().as_uri() + fragment)
        self.settle()
        self.requests = [it for it in self.requests if not it.startswith(("file:", "data:"))]

    def _load(self, address: str) -> None:
        self._is_loaded = False
        self.call("Page.navigate", url=address)
        while not self._is_loaded:
            self._next()

    def resize(self, width: int, height: int) -> None:
        of = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **of)

    def settle(self) -> None:
        """Until everything that is due has been drawn."""
        if not self._has_scripts:
            return
        frame = "new Promise(done => requestAnimationFrame(() => setTimeout(done, 0)))"
        self.run(f"{frame}.then(() => {frame}).then(() => {frame})")

    def run(self, script: str) -> Any:
        """The value of an expression, awaited where it is a promise."""
        of = {"expression": script, "awaitPromise": True, "returnByValue": True}
        reply = self.call("Runtime.evaluate", **of)
        if "exceptionDetails" in reply:
            raise RuntimeError(reply["exceptionDetails"]["exception"]["description"])
        return reply["result"].get("value")

    def scripts(self, on: bool) -> None:
        """Whether pages' own scripts run; ``run`` does in any case, but never waits then."""
        self._has_scripts = on
        self.call("Emulation.setScriptExecutionDisabled", value=not on)
