"""Long text made short: code broken at its commas, lines and characters cut in the middle."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from itertools import pairwise

ALL_OF_IT = "--json shows all"

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Text of the learner's program that is safe to print: control characters (colours, cursor moves, bidirectional
    overrides) become visible escapes, so that a submission cannot draw a verdict of its own.

    >>> clean("\\x1b[32mpassed")
    '\\\\x1b[32mpassed'
    """
    text = text.replace("\r\n", "\n").expandtabs(4)
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def prose(text: str, width: int) -> list[str]:
    """Sentences wrapped to `width`; line breaks of the author are kept."""
    lines: list[str] = []
    for line in clean(text).splitlines():
        lines += textwrap.wrap(line, width, break_on_hyphens=False) or [""]
    return lines


def verbatim(text: str, width: int) -> list[str]:
    """Lines kept as they are; one that is too wide loses its middle."""
    return [middle(line, width) for line in clean(text).rstrip().splitlines()]


_FRAME = re.compile(r'^( *)File "(?:[^"]*[/\\])?([^"/\\]+)", line (\d+)(?:, in (.*))?$', re.MULTILINE)


def traceback(text: str, width: int) -> list[str]:
    """A Python traceback with file names for paths: the learner knows where the file is.

    >>> traceback('  File "/home/me/exercises/x.py", line 3, in f\\n    return 1 / 0', 60)
    ['x.py, line 3, in f', '  return 1 / 0']
    """
    named = _FRAME.sub(lambda found: _frame(*found.groups()), clean(text))
    return verbatim(textwrap.dedent(named), width)


def _frame(indent: str, file: str, line: str, function: str | None) -> str:
    return f"{indent}{file}, line {line}" + (f", in {function}" if function else "")


def code(text: str, width: int) -> list[str]:
    """Python broken after commas inside brackets, where a line break changes nothing: it can still be pasted.

    >>> code("f(torch.tensor([1.0, 2.0]), block=7)", 24)
    ['f(torch.tensor([1.0,', '    2.0]), block=7)']
    """
    lines: list[str] = []
    for line in clean(text).splitlines():
        lines += (middle(piece, 3 * width) for piece in _broken(line, width))
    return lines


def middle(text: str, width: int) -> str:
    """One line cut in the middle to `width` characters.

    >>> middle("abcdefghijklmnopqrstuvwxyz", 13)
    'abcde … vwxyz'
    """
    if len(text) <= width:
        return text
    head = (width - 3 + 1) // 2
    tail = max(width - 3 - head, 0)
    return f"{text[:head]} … {text[len(text) - tail :]}"


def names(names: Sequence[str], width: int) -> str:
    """Names in one line; those that do not fit are counted.

    >>> names(["alpha", "beta", "gamma"], 17)
    'alpha and 2 more'
    """
    for count in range(len(names), 0, -1):
        rest = f" and {len(names) - count} more" if count < len(names) else ""
        line = ", ".join(names[:count]) + rest
        if len(line) <= width:
            return line
    return f"{len(names)} checks"


def fewer(lines: Sequence[str], most: int) -> list[str]:
    """At most `most` lines: where there are more, the middle becomes one line that says how many are gone."""
    if len(lines) <= most:
        return list(lines)
    if most == 1:
        return [f"… {len(lines)} lines, {ALL_OF_IT}"]
    head = most // 2
    tail = most - 1 - head
    gone = len(lines) - head - tail
    return [*lines[:head], f"… {gone} more lines, {ALL_OF_IT}", *lines[len(lines) - tail :]]


def begun(lines: Sequence[str], most: int) -> list[str]:
    """At most `most` lines of prose: where there are more, the end becomes an ellipsis."""
    if len(lines) <= most:
        return list(lines)
    return [*lines[: most - 1], f"{lines[most - 1]} …"]


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()) + 4)
    lines: list[str] = []
    current = ""
    room = width - len(indent)
    for piece in (part for whole in _pieces(line) for part in ([whole] if len(whole) <= room else _opened(whole))):
        if current and len(current) + len(piece.rstrip()) > width:
            lines.append(current.rstrip())
            current = indent
        current += piece
    return [*lines, current.rstrip()]


_STRING_OR_OPEN = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|([(\[{])""")


def _opened(piece: str) -> list[str]:
    """A piece that is still too long, cut after its opening brackets."""
    ends = [found.end() for found in _STRING_OR_OPEN.finditer(piece) if found[2]]
    return [piece[start:end] for start, end in pairwise([0, *ends, len(piece)]) if start < end]


def _pieces(line: str) -> list[str]:
    """The line cut after each ", " that stands inside a bracket and outside a string."""
    pieces: list[str] = []
    depth, quote, start, at = 0, "", 0, 0
    while at < len(line):
        char = line[at]
        if quote:
            if char == "\\":
                at += 1
            elif char == quote:
                quote = ""
        elif char in "\"'":
            quote = char
        elif char in "([{":
            depth += 1
        elif char in ")]}":
            depth -= 1
        elif char == " " and depth > 0 and line[at - 1] == ",":
            pieces.append(line[start : at + 1])
            start = at + 1
        at += 1
    return [*pieces, line[start:]]
