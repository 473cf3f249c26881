"""A real browser, driven over its debugging pipe: JSON that ends with a zero byte, on descriptors 3 and 4."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
from base64 import b64decode
from pathlib import Path
from time import monotonic
from typing import Any, Self

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome") or ""
PATIENCE = 20.0  # seconds for an answer; the machine may be busy

FLAGS = (
    "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--disable-default-apps", "--disable-extensions", "--mute-audio", "--password-store=basic", "--no-pings",
)  # fmt: skip

# A condition of the page, looked at once a frame until it is true.
WAIT = """new Promise((done, fail) => {
  const until = performance.now() + %d;
  const look = () => {
    let found = false;
    try { found = (%s); } catch (error) { found = false; }
    if (found) done(found);
    else if (performance.now() > until) fail(new Error("it never became true"));
    else setTimeout(look, 10);
  };
  look();
})"""


class Chromium:
    """The program. One of it is enough for all tests of a module."""

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="viewer-chromium-")
        theirs_in, ours_out = os.pipe()
        ours_in, theirs_out = os.pipe()
        command = [PROGRAM, *FLAGS, f"--user-data-dir={self._folder}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "bash", *command],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._kept, self._number = ours_in, ours_out, b"", 0
        self.events: list[dict[str, Any]] = []
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(PATIENCE)
        finally:
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            os.close(self._in)
            os.close(self._out)
            shutil.rmtree(self._folder, ignore_errors=True)

    def call(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        message |= {"sessionId": session} if session else {}
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = monotonic() + PATIENCE
        while True:
            heard = self._next(until)
            if heard.get("id") == self._number:
                if "error" in heard:
                    raise AssertionError(f"{method}: {heard['error']}")
                found: dict[str, Any] = heard["result"]
                return found
            self.events.append(heard)

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._kept:
            if not select.select([self._in], [], [], max(0, until - monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            data = os.read(self._in, 1 << 20)
            if not data:
                raise AssertionError("the browser has ended")
            self._kept += data
        line, _, self._kept = self._kept.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message

    def tab(self) -> Tab:
        return Tab(self)


class Tab:
    def __init__(self, browser: Chromium) -> None:
        self._browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._target = target
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look_like(1_000, 700)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def open(self, address: str) -> None:
        self.call("Page.navigate", url=address)
        self.until("document.body && document.body.dataset.ready === 'yes'")

    def look_like(self, width: int, height: int, scheme: str = "light") -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def get(self, expression: str) -> Any:
        made = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in made:
            raise AssertionError(f"{expression}: {made['exceptionDetails']}")
        return made["result"].get("value")

    def until(self, condition: str) -> Any:
        return self.get(WAIT % (PATIENCE * 900, condition))

    def click(self, x: float, y: float) -> None:
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {}
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13, "Escape": 27, "Tab": 9}
        code = {"windowsVirtualKeyCode": codes[key]} if key in codes else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text, **code)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, **code)

    def write(self, words: str) -> None:
        self.call("Input.insertText", text=words)

    def picture(self, file: Path) -> None:
        file.write_bytes(b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    # --- what happened meanwhile ---

    def _heard(self, method: str) -> list[dict[str, Any]]:
        self.get("1")  # what was on its way is here
        told = [one for one in self._browser.events if one.get("sessionId") == self._session]
        return [one["params"] for one in told if one["method"] == method]

    @property
    def complaints(self) -> list[str]:
        """Errors of scripts, what they wrote to the console, and what the browser itself logged."""
        raised = [one["exceptionDetails"]["text"] for one in self._heard("Runtime.exceptionThrown")]
        said = [str(one["args"]) for one in self._heard("Runtime.consoleAPICalled")]
        return [*raised, *said, *[one["entry"]["text"] for one in self._heard("Log.entryAdded")]]

    @property
    def requests(self) -> list[str]:
        return [one["request"]["url"] for one in self._heard("Network.requestWillBeSent")]
