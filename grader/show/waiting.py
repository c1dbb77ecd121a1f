"""A spinner for whatever takes longer than two seconds."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.status import Status
from rich.text import Text

from grader.show.terminal import signs_for

AFTER = 2.0


class Waiting:
    """While open, shows `about` and the seconds spent once nothing has happened for `after` seconds.

    On a pipe, or where `shown` is false (a debugger wants the terminal for itself), it does nothing.
    """

    def __init__(self, console: Console, about: str, *, shown: bool = True, after: float = AFTER) -> None:
        self._console = console
        self._after = after
        self._shown = shown and console.is_terminal and not console.is_dumb_terminal
        self._about = about
        self._since = time.monotonic()
        self._status: Status | None = None
        self._lock = threading.Lock()
        self._done = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._shown:
            self._thread = threading.Thread(target=self._watch, name="spinner", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._done.set()
        if self._thread is not None:
            self._thread.join()
        self._stop()

    def now(self, about: str) -> None:
        """Something happened: what comes next is `about`, and its two seconds begin."""
        with self._lock:
            self._about = about
            self._since = time.monotonic()
            self._stop()

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            with self._lock:
                spent = time.monotonic() - self._since
                if spent < self._after:
                    continue
                text = Text(f"{self._about} {spent:.0f} s", style="dim")
                if self._status is None:
                    self._status = self._console.status(text, spinner=signs_for(self._console).spinner)
                    self._status.start()
                else:
                    self._status.update(text)

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
