"""The terminal: one way to make a console, and the signs that fit its encoding."""

from __future__ import annotations

import codecs
import io
import os
import sys
from dataclasses import dataclass
from typing import IO

from rich.console import Console

from grader.report import Outcome
from grader.show import cut

WIDEST = 100
"""Longer lines are hard to read, however wide the terminal."""


@dataclass(frozen=True)
class Signs:
    """What stands for an outcome, and the characters of lines and bars."""

    outcome: dict[Outcome, str]
    rule: str
    full: str
    empty: str
    dot: str
    arrow: str
    bar: str
    spinner: str

    @property
    def passed(self) -> str:
        return self.outcome[Outcome.PASSED]

    @property
    def tried(self) -> str:
        """Begun and not passed."""
        return self.outcome[Outcome.FAILED]


UNICODE = Signs(
    outcome={
        Outcome.PASSED: "✓",
        Outcome.FAILED: "✗",
        Outcome.BLOCKED: "–",
        Outcome.NOT_MEASURED: "○",
        Outcome.ERROR: "!",
    },
    rule="─",
    full="█",
    empty="░",
    dot="·",
    arrow="→",
    bar="│",
    spinner="dots",
)

ASCII = Signs(
    outcome={
        Outcome.PASSED: "+",
        Outcome.FAILED: "x",
        Outcome.BLOCKED: "-",
        Outcome.NOT_MEASURED: "o",
        Outcome.ERROR: "!",
    },
    rule="-",
    full="#",
    empty=".",
    dot="-",
    arrow="->",
    bar="|",
    spinner="line",
)

STYLE = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "bold red",
    Outcome.BLOCKED: "yellow",
    Outcome.NOT_MEASURED: "cyan",
    Outcome.ERROR: "bold magenta",
}

# What has an ASCII twin that reads better than a question mark.
_TWINS = {"…": "...", "·": "-", "→": "->", "≤": "<=", "≥": ">=", "×": "x", "–": "-", "’": "'", "−": "-"}


def _twin(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    missing = error.object[error.start : error.end]
    return "".join(_TWINS.get(char, "?") for char in missing), error.end


codecs.register_error("twin", _twin)


def make_console(file: IO[str] | None = None, *, width: int | None = None) -> Console:
    """A console on `file` (stdout). Text is printed as it is: no markup, no guessing of colours; NO_COLOR, COLUMNS and
    pipes are rich's business."""
    out = sys.stdout if file is None else file
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="twin")
    return Console(file=out, markup=False, emoji=False, highlight=False, soft_wrap=True, width=width)


def signs_for(console: Console) -> Signs:
    """Unicode signs where the encoding has them, ASCII elsewhere."""
    return UNICODE if console.encoding.lower().replace("-", "").startswith("utf8") else ASCII


def nearby(path: str) -> str:
    """A path as it is typed from here: relative where it lies below the current folder."""
    here = os.getcwd()
    return os.path.relpath(path, here) if path.startswith(here + os.sep) else path


def say(console: Console, text: str, style: str = "") -> None:
    """Print a sentence, wrapped to the terminal."""
    for line in cut.prose(text, text_width(console)):
        console.print(line, style=style)


def text_width(console: Console) -> int:
    """How wide text may be."""
    return min(console.width, WIDEST)


def bar(share: float, cells: int, signs: Signs) -> str:
    """A bar of `cells` characters. It is full only when share is 1, and shows something as soon as share is above 0.

    >>> bar(0.999, 10, ASCII)
    '#########.'
    """
    filled = int(share * cells)
    if 0 < share < 1:
        filled = min(max(filled, 1), cells - 1)
    return signs.full * filled + signs.empty * (cells - filled)
