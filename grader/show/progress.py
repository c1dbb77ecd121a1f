"""What a run tells while it goes on. On its own it shows only a spinner; the console view adds the verdicts."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console

from grader.report import Check, Report
from grader.show.waiting import Waiting


class Progress:
    """Told of every exercise that begins, every check that ends, every report that is ready."""

    def __init__(self, console: Console, *, spinner: bool = True) -> None:
        self.console = console
        self._waiting = Waiting(console, "starting the judge", shown=spinner)
        self._exercise = ""

    def __enter__(self) -> Self:
        self._waiting.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._waiting.__exit__(kind, error, at)

    def begin(self, exercise: str, title: str, path: str) -> None:
        """An exercise is about to be graded."""
        self._exercise = exercise
        self._waiting.now(f"{exercise}: loading your file")

    def start(self, check: str) -> None:
        """A check begins."""
        self._waiting.now(f"{self._exercise}: {check}")

    def check(self, check: Check) -> None:
        """A check has finished."""
        self._waiting.now(self._exercise)

    def end(self, report: Report) -> None:
        """An exercise is graded."""
        self._waiting.now("going on")
