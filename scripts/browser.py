"""A headless Chromium for tests: opens a page, evaluates JavaScript, takes screenshots.

It speaks the DevTools protocol over two pipes (`--remote-debugging-pipe`), so that it needs neither a
driver nor a package: a message is JSON with a zero byte behind it.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
#: Longest wait for an answer [s]. The first start of a browser on a busy machine takes seconds.
TIMEOUT_S = 60.0
#: Where the browser reads commands and writes answers.
COMMANDS_FD, ANSWERS_FD = 3, 4


def find():
    """The path of a browser: that in BROWSER_FOR_TESTS, else that of a usual name, else None."""
    return os.environ.get("BROWSER_FOR_TESTS") or next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(Exception):
    """The browser ended, did not answer, or refused a command."""


class Browser:
    """A browser with one page. It is a context manager, and ends with it.

    Attributes:
        problems: what went wrong on the page: errors of the console, exceptions, failed requests.
        requests: the addresses that the page asked for.
    """

    def __init__(self, path):
        self._folder = tempfile.TemporaryDirectory(prefix="robocache-browser-")
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        options = [
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._folder.name}",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
        ]
        if os.geteuid() == 0:
            options.append("--no-sandbox")  # its sandbox refuses root

        # A shell puts the pipes where the browser expects them.
        redirect = f'exec "$@" {COMMANDS_FD}<&{commands} {ANSWERS_FD}>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", redirect, "browser", path, *options, "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        self._session = None
        self._loaded = False
        self.problems = []
        self.requests = []
        try:
            target = self.call("Target.createTarget", url="about:blank")["targetId"]
            attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
            self._session = attached["sessionId"]
            for domain in ("Page", "Runtime", "Log", "Network"):
                self.call(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the browser."""
        for pipe in (self._commands, self._answers):
            os.close(pipe)
        try:
            self._process.wait(5)  # it ends when its pipe does
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def call(self, method, **params):
        """Sends a command and returns its result."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            command["sessionId"] = self._session
        try:
            os.write(self._commands, json.dumps(command).encode() + b"\0")
        except BrokenPipeError:
            raise BrowserError(f"{method}: the browser has ended") from None
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._next(method, deadline)
            if answer.get("id") != self._number:
                continue
            if "error" in answer:
                raise BrowserError(f"{method}: {answer['error']}")
            return answer["result"]

    def open(self, path):
        """Opens a file and waits until it is loaded."""
        self._loaded = False
        self.problems.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        deadline = time.monotonic() + TIMEOUT_S
        while not self._loaded:
            self._next("load", deadline)

    def look(self, width, dark=False, height=900, media=""):
        """Gives the window this size [px], and the reader this theme and medium: a screen, or `print`."""
        theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[theme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def evaluate(self, script):
        """The value of a JavaScript expression, which JSON must be able to hold."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in done:
            raise BrowserError(f"the script failed: {done['exceptionDetails']}")
        return done["result"].get("value")

    def screenshot(self, path):
        """Writes a picture of the whole page (PNG)."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(taken["data"]))

    def _next(self, what, deadline):
        """The next message. Events of the page are noted."""
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise BrowserError(f"{what}: no answer within {TIMEOUT_S:.0f} s")
            read = os.read(self._answers, 1 << 20)
            if not read:
                raise BrowserError(f"{what}: the browser has ended")
            self._buffer += read
        message, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(message)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event, params):
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Runtime.exceptionThrown":
            self.problems.append(f"exception: {params['exceptionDetails'].get('text')}")
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.problems.append(f"console: {params['args']}")
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"log: {params['entry']['text']}")
        elif event == "Network.loadingFailed":
            self.problems.append(f"request failed: {params['errorText']}")
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
