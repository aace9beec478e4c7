"""A headless Chromium that tests drive over a pipe: no package is needed for that."""

import base64
import json
import os
import select
import shutil
import subprocess
import time

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)

#: What a browser would ask the network for by itself.
SILENT = "--disable-quic --disable-background-networking --disable-component-update --disable-sync"


class Headless:
    """One page of a browser.

    Attributes
    ----------
    complaints : errors of the console and of scripts, and entries of the log of that level
    requested : addresses that the page asked for
    """

    def __init__(self, profile):
        # The browser reads commands from descriptor 3 and writes to descriptor 4.
        ours_in, theirs_out = os.pipe()
        theirs_in, ours_out = os.pipe()
        command = (
            f"exec 3<&{theirs_in} 4>&{theirs_out}; exec {BROWSER} --headless=new --no-sandbox --disable-gpu "
            f"--no-first-run --disable-dev-shm-usage --hide-scrollbars --user-data-dir={profile} {SILENT} "
            "--remote-debugging-pipe about:blank"
        )
        self.process = subprocess.Popen(
            ["bash", "-c", command],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out = ours_in, ours_out
        self._text, self._number, self._session = b"", 0, None
        self.complaints, self.requested = [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        """A command, and its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + 600
        while time.monotonic() < until:
            reply = self._next(until - time.monotonic())
            if reply is not None and reply.get("id") == self._number:
                assert "error" not in reply, reply
                return reply["result"]
        raise TimeoutError(method)

    def _next(self, seconds):
        """The next message, None if there is none in time; events are noted."""
        while b"\0" not in self._text:
            if not select.select([self._in], [], [], seconds)[0]:
                return None
            part = os.read(self._in, 1 << 16)
            if not part:
                raise RuntimeError("the browser has ended")
            self._text += part
        text, _, self._text = self._text.partition(b"\0")
        message = json.loads(text)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown" or (
            method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert")
        ):
            self.complaints.append(json.dumps(params)[:500])
        if method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        if method == "Network.requestWillBeSent":
            self.requested.append(params["request"]["url"])
        return message

    def open(self, url, width):
        """Show a page in a window of that width."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Page.navigate", url=url)

    def ask(self, expression):
        """The value of an expression in the page."""
        reply = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply
        return reply["result"].get("value")

    def wait(self, expression, seconds=600):
        """Wait until an expression is true."""
        until = time.monotonic() + seconds
        while not self.ask(expression):
            assert time.monotonic() < until, (expression, self.complaints, self.ask("document.body.innerText"))
            time.sleep(0.1)

    def press(self, key, code):
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def picture(self, path):
        """Keep what the page looks like, as a whole."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        content = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)["data"]
        path.write_bytes(base64.b64decode(content))

    def close(self):
        """End the browser."""
        self.process.kill()
        self.process.wait(timeout=600)
        os.close(self._in)
        os.close(self._out)
