"""The block that explains a failed check: always the same fields in the same order, never more than 25 lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.text import Text

from grader.report import Check, Cost
from grader.show import cut
from grader.show.terminal import STYLE, Signs

MOST_LINES = 25
_LABEL = 12
_INDENT = 2


_NAMED = "bold yellow"


@dataclass
class Field:
    """One labelled part of a block: its text wrapped to the width, and how many lines of it are shown."""

    label: str
    text: list[str]
    most: int
    least: int = 1
    """The fewest that still say something."""
    style: str = ""
    cutter: Callable[[Sequence[str], int], list[str]] = cut.fewer

    @property
    def lines(self) -> list[str]:
        """What is shown: where it is too long prose loses its end, everything else its middle."""
        return self.cutter(self.text, self.most)


def failure_block(check: Check, exercise: str, width: int, signs: Signs, also: Sequence[str] = ()) -> list[Text]:
    """The lines of the block. `also`: names of checks that failed for the same reason."""
    room = max(width - _LABEL - _INDENT, 24)
    fields = [field for field in _fields(check, exercise, room, also, signs) if field.text]
    _fit(fields, MOST_LINES - 1)
    lines = [_title(check, width, signs)]
    for field in fields:
        label_style = field.style if field.style == _NAMED else "dim"
        for at, line in enumerate(field.lines):
            label = f"{' ' * _INDENT}{field.label if at == 0 else '':<{_LABEL}}"
            lines.append(Text.assemble((label, label_style), (line, field.style)))
    return lines


def _fields(check: Check, exercise: str, room: int, also: Sequence[str], signs: Signs) -> list[Field]:
    costs = [line for cost in check.costs for line in cut.prose(cost_line(cost), room)]
    diagnoses = "\n".join(mistake.diagnosis for mistake in check.mistakes[:2])
    printed = [f"{signs.bar} {line}" for line in cut.verbatim(check.output, room - 2)]
    return [
        _prose("about", check.about, room - 2, 3),
        _prose("because", check.message, room - 2, 6, least=2, style="bold"),
        Field("call", cut.code(check.call, room), 8, least=3),
        Field("got", cut.code(check.got, room), 4, least=2, style="red"),
        Field("expected", cut.code(check.expected, room), 4, least=2, style="green"),
        _prose("where", check.where, room - 2, 4),
        Field("costs", costs, 3),
        _prose("Looks like:", diagnoses, room - 2, 6, least=4, style=_NAMED),
        Field("your code", cut.traceback(check.traceback, room), 6, least=3),
        Field("printed", printed, 4, style="dim"),
        Field("also in", [cut.names(also, room)] if also else [], 1),
        Field("next", _next(check, exercise, room), 2, least=2, style="cyan"),
    ]


def _prose(label: str, text: str, width: int, most: int, *, least: int = 1, style: str = "") -> Field:
    return Field(label, cut.prose(text, width), most, least, style, cut.begun)


def cost_line(cost: Cost) -> str:
    """A cost against its limit: `largest temporary 2,048, at most 512 (two blocks per row)`."""
    text = f"{cost.name} {_number(cost.value)}"
    if cost.limit is not None:
        text += f", {cost.relation} {_number(cost.limit)}"
    return f"{text} ({cost.why})" if cost.why else text


def _number(value: float) -> str:
    """A count with thousands separated, a ratio with three digits."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.3g}"


def _next(check: Check, exercise: str, room: int) -> list[str]:
    hint = f"grade hint {exercise}"
    step = f"grade {exercise} --check {check.name} --debug"
    return [hint, step] if check.traceback and len(step) <= room else [hint]


def _title(check: Check, width: int, signs: Signs) -> Text:
    points = f" {check.points:g}/{check.possible:g} points"
    name = cut.middle(check.name, width - len(points) - 6)
    head = f"{signs.outcome[check.outcome]} {name} "
    rule = signs.rule * max(width - len(head) - len(points), 3)
    return Text.assemble((head, STYLE[check.outcome]), (rule, "dim"), (points, "dim"))


def _fit(fields: list[Field], most: int) -> None:
    """Shorten the longest fields, a line at a time, until the block has at most `most` lines."""
    while sum(len(field.lines) for field in fields) > most:
        longest = max(fields, key=lambda field: len(field.lines) - field.least)
        if len(longest.lines) <= longest.least:
            return
        longest.most = len(longest.lines) - 1
