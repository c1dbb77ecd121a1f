"""The block that explains a failed check: always the same fields in the same order, never more than 25 lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from grader.report import Check, Cost
from grader.show import cut
from grader.show.terminal import STYLE, Signs

MOST_LINES = 25
_LABEL = 12
_INDENT = 2


@dataclass
class Field:
    """One labelled part of a block, wrapped to the width, and the fewest lines that still say something."""

    label: str
    lines: list[str]
    style: str = ""
    least: int = 1


def failure_block(check: Check, exercise: str, width: int, signs: Signs, also: Sequence[str] = ()) -> list[Text]:
    """The lines of the block. `also`: names of checks that failed in just the same way."""
    room = max(width - _LABEL - _INDENT, 24)
    fields = [field for field in _fields(check, exercise, room, also, signs) if field.lines]
    _fit(fields, MOST_LINES - 1)
    lines = [_title(check, width, signs)]
    for field in fields:
        for at, line in enumerate(field.lines):
            label = f"{' ' * _INDENT}{field.label if at == 0 else '':<{_LABEL}}"
            lines.append(Text.assemble((label, _NAMED if field.style == _NAMED else "dim"), (line, field.style)))
    return lines


_NAMED = "bold yellow"


def _fields(check: Check, exercise: str, room: int, also: Sequence[str], signs: Signs) -> list[Field]:
    return [
        Field("about", cut.fewer(cut.prose(check.about, room), 2)),
        Field("because", cut.fewer(cut.prose(check.message, room), 5), "bold", least=2),
        Field("call", cut.fewer(cut.code(check.call, room), 6), least=3),
        Field("got", cut.fewer(cut.verbatim(check.got, room), 4), "red", least=2),
        Field("expected", cut.fewer(cut.verbatim(check.expected, room), 4), "green", least=2),
        Field("where", cut.fewer(cut.prose(check.where, room), 3)),
        Field("costs", cut.fewer([line for cost in check.costs for line in cut.prose(cost_line(cost), room)], 3)),
        Field("Looks like:", _diagnoses(check, room), _NAMED, least=2),
        Field("your code", cut.fewer(cut.verbatim(check.traceback, room), 6), least=3),
        Field("printed", [f"{signs.bar} {line}" for line in cut.fewer(cut.verbatim(check.output, room - 2), 4)], "dim"),
        Field("also", cut.fewer(cut.prose(_same(also), room), 2)),
        Field("next", _next(check, exercise, room), "cyan"),
    ]


def cost_line(cost: Cost) -> str:
    """A cost against its limit: `largest temporary 2,048, at most 512 (two blocks per row)`."""
    text = f"{cost.name} {_number(cost.value)}"
    if cost.limit is not None:
        text += f", {cost.relation} {_number(cost.limit)}"
    return f"{text} ({cost.why})" if cost.why else text


def _number(value: float) -> str:
    """A count with thousands separated, a ratio with three digits."""
    return f"{int(value):,}" if float(value).is_integer() else f"{value:.3g}"


def _diagnoses(check: Check, room: int) -> list[str]:
    lines: list[str] = []
    for mistake in check.mistakes[:2]:
        lines += cut.prose(mistake.diagnosis, room)
    return cut.fewer(lines, 4)


def _same(also: Sequence[str]) -> str:
    if not also:
        return ""
    return f"the same in {', '.join(also)}"


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
        del longest.lines[len(longest.lines) // 2]
