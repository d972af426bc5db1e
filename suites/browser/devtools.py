"""Chromium's developer tools over a pair of pipes: show a report page as a reader sees it.

Every command, answer and event is a JSON object followed by a zero byte. The browser reads commands
from file descriptor 3 and writes the rest to 4 (``--remote-debugging-pipe``). Nothing listens on a
port.
"""

import base64
import json
import os
import select
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from brokerproof.harness.clients.stompjs_in_chromium import chromium

_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-pipe",
    ),
)
_ANSWERS_WITHIN_S = 60.0
_LOOKS, _LOOKS_AGAIN_MS = 1200, 50
"""How often, and at what interval, to ask the browser whether something has arrived."""


class BrowserGone(Exception):
    """The browser ended or did not answer soon enough. The message is one sentence."""


class Browser:
    """A headless Chromium with one page, for a ``with`` block.

    Raises :class:`brokerproof.harness.targets.failure.SetUpFailed` if there is no Chromium.
    """

    def __init__(self) -> None:
        self._scratch = tempfile.TemporaryDirectory(
            prefix="brokerproof-chromium-", ignore_cleanup_errors=True
        )
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []
        """Events that the browser sends by itself: loads, and console messages of pages."""

        def as_3_and_4() -> None:
            # Either may already be 3 or 4: move both out of the way first.
            high = [os.dup(descriptor) for descriptor in (to_browser, from_browser)]
            for number, given in zip((3, 4), high, strict=True):
                os.dup2(given, number)

        self._process = subprocess.Popen(
            [chromium(), *_FLAGS, f"--user-data-dir={self._scratch.name}/profile", "about:blank"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self._scratch.name},
            close_fds=False,
            preexec_fn=as_3_and_4,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)

    def __enter__(self) -> Self:
        targets = self._call("Target.getTargets")["targetInfos"]
        page = next(page["targetId"] for page in targets if page["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=page, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")
        self._call(
            "Performance.enable", timeDomain="threadTicks"
        )  # of the processor, however busy the machine is
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        what: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        os.close(self._write)
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        self._scratch.cleanup()

    def look(
        self, *, width: int = 1400, height: int = 2000, scheme: str = "light", media: str = "screen"
    ) -> None:
        """Resize the window (in CSS pixels), and set the ``scheme`` to light or dark and the
        ``media`` to screen or print."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, path: Path, fragment: str = "") -> float:
        """Load a file; return the seconds until the first drawing, by the page's own clock."""
        # First an empty page, or only the fragment would change. Its load event may arrive late and
        # be mistaken for the file's.
        self._navigate("about:blank")
        self._navigate(path.resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return float(self.run("performance.now()")) / 1000

    def _navigate(self, url: str) -> None:
        self.events.clear()
        self._call("Page.navigate", url=url)
        self._until(lambda: any(event["method"] == "Page.loadEventFired" for event in self.events))

    def run(self, script: str) -> Any:
        """Return the value of a JavaScript expression in the page or, if it is a promise, what the
        promise resolves to. Raises ``RuntimeError`` with the page's exception as its message."""
        answer = self._call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(
                answer["exceptionDetails"].get("exception", {}).get("description", "it threw")
            )
        return answer["result"].get("value")

    def wait_for(self, script: str) -> None:
        """Wait until this expression is true in the page. Raises :class:`BrowserGone` if it never
        is."""
        self._until(lambda: bool(self.run(script)))

    def busy(self) -> float:
        """Return the processor time in seconds that the page has used for scripts, styles, layout
        and drawing since it was opened."""
        metrics = self._call("Performance.getMetrics")["metrics"]
        return float(
            next(metric["value"] for metric in metrics if metric["name"] == "TaskDuration")
        )

    def press(self, key: str, code: int) -> None:
        """Press and release a key at the current focus."""
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **({"text": "\r"} if key == "Enter" and kind == "keyDown" else {}),
            )

    def type(self, text: str) -> None:
        self._call("Input.insertText", text=text)

    def tree(self) -> list[dict[str, Any]]:
        """Return the page's accessibility tree without the ignored nodes."""
        nodes = self._call("Accessibility.getFullAXTree")["nodes"]
        return [node for node in nodes if not node.get("ignored")]

    def shot(self, to: Path, *, whole: bool = False) -> None:
        """Take a picture (PNG) of the window or of the ``whole`` page."""
        data = self._call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)[
            "data"
        ]
        to.write_bytes(base64.b64decode(data))

    def printed(self, to: Path) -> None:
        """Print the page as a PDF."""
        to.write_bytes(
            base64.b64decode(self._call("Page.printToPDF", printBackground=True)["data"])
        )

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            reply = self._next(method)
            if reply.get("id") == self._number:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']['message']}")
                result: dict[str, Any] = reply["result"]
                return result
            if "method" in reply:
                self.events.append(reply)

    def _next(self, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], _ANSWERS_WITHIN_S)
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise BrowserGone(
                    f"Chromium {'ended' if ready else 'did not answer'} while {waiting_for} was"
                    " asked"
                )
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        decoded: dict[str, Any] = json.loads(line)
        return decoded

    def _until(self, true: Callable[[], bool]) -> None:
        for _ in range(_LOOKS):
            if true():
                return
            self.run(f"new Promise(done => setTimeout(done, {_LOOKS_AGAIN_MS}))")
        raise BrowserGone(f"nothing arrived of it within {_LOOKS * _LOOKS_AGAIN_MS // 1000} s")
