"""A Report on the terminal: a line per check as it finishes, a block per failure, a summary, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from grader.report import Check, Cost, Outcome, Report
from grader.show import cut
from grader.show.failure import cost_line, failure_block
from grader.show.progress import Progress
from grader.show.terminal import STYLE, bar, nearby, signs_for, text_width

MOST_BLOCKS = 3
NOT_WRITTEN = "not written yet: "
"""How the judge's message begins where a check met a stub's NotImplementedError."""
NOT_LOADED = "not run: the file could not be loaded"
"""The judge's message of every check of a file that cannot be imported."""

_NAME = 28
_FAILURES = (Outcome.FAILED, Outcome.ERROR)


class ReportView(Progress):
    """Shows reports one after the other while they are made."""

    def __init__(self, console: Console, *, spinner: bool = True) -> None:
        super().__init__(console, spinner=spinner)
        self._signs = signs_for(console)
        self._width = text_width(console)

    def begin(self, exercise: str, title: str, path: str) -> None:
        """The head of one exercise."""
        super().begin(exercise, title, path)
        self._print()
        self._print(Text.assemble((exercise, "bold"), "  ", title))
        self._print(Text(cut.middle(nearby(path), self._width), style="dim"))

    def check(self, check: Check) -> None:
        """One check has finished."""
        super().check(check)
        if check.message == NOT_LOADED:
            return  # said once, when the report is there
        open_yet = check.message.startswith(NOT_WRITTEN)
        sign = self._signs.dot if open_yet else self._signs.outcome[check.outcome]
        name = f"  {sign} {check.name:<{_NAME}}"
        line = Text(name, style="dim" if open_yet else STYLE[check.outcome])
        tail = "".join(_tail(check))
        room = self._width - len(name) - len(tail) - 2
        about = " ".join(cut.clean(_about(check)).split())
        if room >= 16 and about:
            shown = about if len(about) <= room else about[: room - 1].rstrip() + "…"
            line.append(f"  {shown}", style="not bold" if open_yet else "not bold default")
        if tail:
            line.append(tail, style="not bold dim default")
        self._print(line)
        if check.outcome is Outcome.PASSED:
            for cost in tightest(check.costs):
                line = Text(f"      {cut.clean(cost_line(cost))}", style="dim")
                line.truncate(self._width, overflow="ellipsis")
                self._print(line)

    def end(self, report: Report) -> None:
        """The failures of one exercise, explained, and its points."""
        super().end(report)
        if report.problem:
            self._problem(report)
        groups = same_failures(report.checks)
        for group in groups[:MOST_BLOCKS]:
            self._print()
            also = [check.name for check in group[1:]]
            for line in failure_block(group[0], report.exercise, self._width, self._signs, also):
                self._print(line)
        self._print()
        rest = [check.name for group in groups[MOST_BLOCKS:] for check in group]
        if rest:
            self._prose(f"{len(rest)} more failed: {', '.join(rest)}", "yellow")
            self._prose(f"one of them alone: grade {report.exercise} --check {rest[0]}", "dim")
        missing = [check.message.removeprefix(NOT_WRITTEN) for check in report.checks if _is_open(check)]
        if missing:
            self._prose(f"{NOT_WRITTEN}{', '.join(dict.fromkeys(missing))}", "yellow")
        for line in self._verdict(report):
            self._print(line)

    def summary(self, reports: Sequence[Report]) -> None:
        """Several exercises at a glance; nothing for one."""
        if len(reports) < 2:
            return
        self._print()
        wide = max(len(report.exercise) for report in reports)
        for report in reports:
            share = report.points / report.possible if report.possible else 0.0
            points = f"{report.points:g}/{report.possible:g}"
            style = "green" if report.passed else "red" if report.points == 0 else "yellow"
            self._print(
                Text.assemble(f"  {report.exercise:<{wide}}  ", (bar(share, 20, self._signs), style), f"  {points}")
            )
        passed = sum(report.passed for report in reports)
        points = f"{sum(r.points for r in reports):g}/{sum(r.possible for r in reports):g}"
        self._print(Text(f"  {passed} of {len(reports)} exercises passed, {points} points", style="bold"))

    def next(self, text: str) -> None:
        """What to do now."""
        sign = f"{self._signs.arrow} "
        for line in cut.prose(text, self._width - len(sign)):
            self._print(Text.assemble((sign, "cyan"), line))
            sign = " " * len(sign)

    def interrupted(self, grading: str, graded: int) -> None:
        """Ctrl-C came: what is kept and what is not."""
        lost = f" while {grading} was being graded: that attempt does not count" if grading else ""
        exercises = "exercise" if graded == 1 else "exercises"
        kept = f"; {graded} {exercises} finished before and kept" if graded else ""
        self._print()
        self._prose(f"interrupted{lost}{kept}", "yellow")

    def _problem(self, report: Report) -> None:
        self._print()
        title = f"{self._signs.outcome[Outcome.FAILED]} the file could not be loaded"
        self._print(Text(title, style=STYLE[Outcome.FAILED]))
        for line in cut.fewer(cut.traceback(report.problem, self._width - 4), 12):
            self._print(f"    {line}")
        for line in cut.fewer(cut.verbatim(report.output, self._width - 6), 4):
            self._print(Text(f"    {self._signs.bar} {line}", style="dim"))

    def _verdict(self, report: Report) -> list[Text]:
        dot = f" {self._signs.dot} "
        counts = [(outcome, sum(check.outcome is outcome for check in report.checks)) for outcome in Outcome]
        words = ", ".join(f"{count} {outcome}" for outcome, count in counts if count) or "no check was run"
        verdict, style = ("passed", "bold green") if report.passed else ("not yet", "bold red")
        return [
            Text.assemble((verdict, style), f"{dot}{report.points:g}/{report.possible:g} points{dot}{words}"),
            Text(f"{report.seconds:.1f} s{dot}--seed {report.seed} draws the same inputs again", style="dim"),
        ]

    def _prose(self, text: str, style: str = "") -> None:
        for line in cut.prose(text, self._width):
            self._print(Text(line, style=style))

    def _print(self, line: Text | str = "") -> None:
        self.console.print(line)


def same_failures(checks: Sequence[Check]) -> list[list[Check]]:
    """Failed checks in order; those that failed for the very same reason stand together, so it is told once."""
    groups: dict[object, list[Check]] = {}
    for check in checks:
        if check.outcome in _FAILURES and not _is_open(check) and check.message != NOT_LOADED:
            groups.setdefault(_reason(check), []).append(check)
    return list(groups.values())


def tightest(costs: Sequence[Cost]) -> list[Cost]:
    """One cost of each name: the one that came nearest to its limit."""
    found: dict[str, Cost] = {}
    for cost in costs:
        if cost.name not in found or _room(cost) < _room(found[cost.name]):
            found[cost.name] = cost
    return list(found.values())


def _room(cost: Cost) -> float:
    if not cost.limit:
        return float("inf")
    return abs(1 - cost.value / cost.limit)


def _reason(check: Check) -> object:
    """Equal for checks that one explanation will do for: the same mistake, or the same words of the same lines."""
    if check.mistakes:
        return tuple(mistake.name for mistake in check.mistakes)
    if check.traceback or not check.got:
        return (check.message, check.traceback)
    return check.name


def _tail(check: Check) -> list[str]:
    return [f"  {check.seconds:.1f} s"] if check.seconds >= 1 else []


def _about(check: Check) -> str:
    """What stands on a check's line: what it is about, or else why it gave no verdict."""
    if check.outcome in (Outcome.BLOCKED, Outcome.NOT_MEASURED):
        return check.message if check.message.startswith("not ") else f"{check.outcome}: {check.message}"
    return check.about


def _is_open(check: Check) -> bool:
    return check.message.startswith(NOT_WRITTEN)
