"""What can become of a call other than a value. All of these fail the check they happen in."""

from __future__ import annotations

import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Text from a worker without the control characters that could play tricks on a terminal, or that no file takes."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n").replace("\r", "\n"))


class SubmissionError(Exception):
    """The submission raised something. `kinds` are the names of its class and base classes."""

    def __init__(self, kinds: list[str], message: str, traceback: str) -> None:
        super().__init__(message)
        self.kinds = kinds
        self.message = message
        self.traceback = traceback
        self.call: Any = None

    @classmethod
    def of(cls, description: dict[str, Any]) -> SubmissionError:
        """From a worker's description of an exception."""
        kinds = [printable(str(name)) for name in description["bases"]]
        return cls(kinds, printable(str(description["message"])), printable(str(description["traceback"])))

    @property
    def kind(self) -> str:
        """The class's name, such as "ValueError"."""
        return self.kinds[0]

    def is_a(self, kind: type[BaseException]) -> bool:
        """Whether it is an instance of this built-in exception."""
        return kind.__name__ in self.kinds


class NoSuchAttribute(SubmissionError, AttributeError):
    """An object of the submission lacks an attribute: so that hasattr and getattr with a default work on handles."""


class ForbiddenUsed(Exception):
    """The submission used what the exercise forbids; the message says what to write instead."""

    is_verdict = True
    call: Any = None


class ArgumentChanged(Exception):
    """The submission modified an argument that it should have left alone."""

    is_verdict = True

    def __init__(self, name: str, call: Any) -> None:
        super().__init__(f"{call.name} changed its argument {name}; work on a copy, or write into a new one")
        self.name = name
        self.call = call


class OutOfTime(Exception):
    """The time limit passed. `where` are the lines in which the submission was stuck, outermost first."""

    fatal = True

    def __init__(self, where: str, output: str) -> None:
        super().__init__("time is up")
        self.where = where
        self.output = output


class WorkerDied(Exception):
    """The worker is gone."""

    fatal = True

    def __init__(self, message: str, status: int | None, output: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.output = output
