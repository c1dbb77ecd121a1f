"""The findings of `grade doctor` on the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from grader.doctor import Finding, State
from grader.report import Outcome
from grader.show import cut
from grader.show.terminal import signs_for, text_width

_NAME = 12
_OUTCOME = {State.FINE: Outcome.PASSED, State.ABSENT: Outcome.NOT_MEASURED, State.BROKEN: Outcome.FAILED}
_STYLE = {State.FINE: "green", State.ABSENT: "cyan", State.BROKEN: "bold red"}


def show_finding(console: Console, finding: Finding) -> None:
    """Print one."""
    room = max(text_width(console) - _NAME - 5, 20)
    head = f"  {signs_for(console).outcome[_OUTCOME[finding.state]]} {finding.name:<{_NAME}} "
    for line in cut.prose(finding.value, room) or [""]:
        console.print(Text.assemble((head, _STYLE[finding.state]), line))
        head = " " * len(head)
    for line in cut.prose(finding.meaning, room):
        console.print(Text.assemble(head, (line, "dim")))
