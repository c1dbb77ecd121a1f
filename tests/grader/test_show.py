"""The console view: one block per failure, short, pasteable, and safe against what a program prints."""

from __future__ import annotations

import ast
import io
import threading
import time
from dataclasses import replace

import pytest
from command_line import FAILED, PASSED
from rich.console import Console

from grader.report import Check, Cost, Mistake, Outcome, Report
from grader.show import cut
from grader.show.console import ReportView, same_failures
from grader.show.failure import MOST_LINES, failure_block
from grader.show.terminal import ASCII, UNICODE, bar, make_console, signs_for
from grader.show.waiting import Waiting

LONG_CALL = (
    "submission.absorb(submission.State(m=torch.tensor([1.0, 2.0]), l=torch.tensor([0.5, 0.25]), "
    'acc=torch.tensor([[1.0, 2.0], [3.0, 4.0]])), torch.tensor([[1.0, float("-inf")], [3.0, 4.0]]), name="a, b, c")'
)


def report(*checks: Check, problem: str = "", output: str = "") -> Report:
    return Report("4.2/x", "About x", "torch", "x.py", checks, 7, "process", 0.5, problem, output)


def shown(*checks: Check, width: int = 80, problem: str = "", output: str = "") -> str:
    out = io.StringIO()
    view = ReportView(make_console(out, width=width))
    view.begin("4.2/x", "About x", "x.py")
    for check in checks:
        view.check(check)
    view.end(report(*checks, problem=problem, output=output))
    return out.getvalue()


class TestBlock:
    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_is_never_longer_than_25_lines_nor_wider_than_the_terminal(self, width: int) -> None:
        words = "Rows of many words that say what this is about and then go on. " * 20
        lines = "a line of the program\n" * 60
        check = Check(
            "huge",
            words,
            Outcome.FAILED,
            0,
            3,
            message=words,
            call=LONG_CALL * 10,
            got="[" + "1.0, " * 400 + "]",
            expected=lines,
            where=words,
            traceback=lines,
            output=lines,
            mistakes=(Mistake("a", words), Mistake("b", words)),
            costs=tuple(Cost(f"cost {at}", 1e9, 1) for at in range(5)),
        )
        block = failure_block(check, "4.2/x", width, UNICODE, also=["another"] * 30)
        assert len(block) <= MOST_LINES
        assert max(len(line.plain) for line in block) <= width
        for label in ("about", "because", "call", "got", "expected", "where", "Looks like:", "your code", "next"):
            assert any(line.plain.startswith(f"  {label}") for line in block), label

    def test_says_nothing_about_what_is_not_known(self) -> None:
        block = failure_block(Check("x", "", Outcome.FAILED, 0, 1, message="wrong"), "4.2/x", 80, UNICODE)
        assert [line.plain.split()[0] for line in block] == ["✗", "because", "next"]

    def test_a_check_that_raised_offers_the_debugger(self) -> None:
        check = replace(FAILED, traceback="x.py, line 3, in f\n    return 1 / 0")
        block = failure_block(check, "4.2/x", 80, UNICODE)
        assert block[-1].plain.strip() == "grade 4.2/x --check any_offset --debug"


class TestCall:
    def test_broken_code_is_the_same_code(self) -> None:
        for width in (40, 47, 66, 200):
            lines = cut.code(LONG_CALL, width)
            assert ast.dump(ast.parse("\n".join(lines))) == ast.dump(ast.parse(LONG_CALL))

    def test_strings_are_not_broken(self) -> None:
        assert cut.code('f("a, b, c, d, e, f", 1)', 12) == ["f(", '    "a, b, c, d, e, f",', "    1)"]

    def test_cut_in_the_middle_says_where_the_rest_is(self) -> None:
        assert cut.fewer(list("abcdefgh"), 4) == ["a", "b", "… 5 more lines, --json shows all", "h"]


class TestView:
    def test_the_same_failure_is_told_once(self) -> None:
        failed = replace(FAILED, got="", message="ZeroDivisionError: x", traceback="line 3", mistakes=())
        out = shown(failed, replace(failed, name="other"), replace(failed, name="third", message="different"))
        assert out.count("because     ZeroDivisionError: x") == 1
        assert "also in     other" in out
        assert out.count("because     different") == 1

    def test_so_is_the_same_mistake(self) -> None:
        out = shown(FAILED, replace(FAILED, name="other", message="NaN", got="nan"))
        assert out.count("Looks like: Starts at one.") == 1
        assert "also in     other" in out

    def test_only_the_first_three_are_explained(self) -> None:
        checks = [replace(FAILED, name=f"check_{at}", mistakes=()) for at in range(6)]
        out = shown(*checks)
        assert out.count("because") == 3
        assert "check_3, check_4, check_5" in out
        assert "grade 4.2/x --check check_3" in out

    def test_a_stub_is_one_line_and_no_wall(self) -> None:
        stub = replace(FAILED, got="", expected="", where="", call="", output="", mistakes=())
        names = ("start", "start", "absorb")
        checks = [replace(stub, name=f"check_{at}", message=f"not written yet: {n}") for at, n in enumerate(names)]
        out = shown(*checks)
        assert "because" not in out
        assert "not written yet: start, absorb" in out

    def test_a_half_written_file_explains_what_is_written(self) -> None:
        out = shown(FAILED, replace(FAILED, name="later", message="not written yet: absorb"))
        assert out.count("because") == 1
        assert "not written yet: absorb" in out

    def test_a_file_that_does_not_load_is_explained_once(self) -> None:
        check = Check("a", "", Outcome.FAILED, 0, 1, message="not run: the file could not be loaded")
        out = shown(check, replace(check, name="b"), problem="SyntaxError: '(' was never closed\nx.py, line 3")
        assert "could not be loaded" in out
        assert "'(' was never closed" in out
        assert out.count("not run: the file could not be loaded") == 0

    def test_paths_in_tracebacks_are_names(self) -> None:
        trace = '  File "/home/me/my course/exercises/x.py", line 3, in f\n    return 1 / 0'
        out = shown(replace(FAILED, traceback=trace))
        assert "  your code   x.py, line 3, in f\n                return 1 / 0\n" in out

    def test_of_many_costs_the_tightest_of_each_name_is_shown(self) -> None:
        costs = (Cost("flops", 10, 100), Cost("flops", 90, 100), Cost("calls", 2, 2, "exactly"), Cost("calls", 0, 0))
        out = shown(replace(PASSED, costs=costs))
        assert "flops 90, at most 100" in out
        assert "calls 2, exactly 2" in out
        assert "flops 10" not in out

    def test_blocked_and_not_measured_say_why_on_their_line(self) -> None:
        blocked = Check("b", "about", Outcome.BLOCKED, 0, 1, message="not run until a passes")
        unmeasured = Check("c", "about", Outcome.NOT_MEASURED, 0, 1, message="no GPU")
        out = shown(blocked, unmeasured)
        assert "not run until a passes" in out
        assert "not measured: no GPU" in out

    def test_a_program_cannot_draw_a_verdict(self) -> None:
        out = shown(replace(FAILED, output="\x1b[2J\x1b[32mpassed\x1b[0m\r✓ all\x07", message="\x9b31m"))
        assert not any(sign in out for sign in "\x1b\x07\r\x9b")
        assert "\\x1b[32mpassed" in out

    def test_markup_in_a_message_is_text(self) -> None:
        assert "list[int] [bold]x[/bold] [/]" in shown(replace(FAILED, message="list[int] [bold]x[/bold] [/]"))

    def test_groups_keep_their_order(self) -> None:
        a, b = replace(FAILED, name="a", mistakes=()), replace(FAILED, name="b")
        assert [[check.name for check in group] for group in same_failures([PASSED, b, a])] == [["b"], ["a"]]


class TestTerminal:
    def test_ascii_where_the_encoding_has_no_signs(self) -> None:
        out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        console = make_console(out, width=80)
        assert signs_for(console) is ASCII
        view = ReportView(console)
        view.check(PASSED)
        view.end(report(replace(FAILED, about="α ≤ β → …"), PASSED))
        out.flush()
        text = out.buffer.getvalue().decode("ascii")  # type: ignore[attr-defined]
        assert "? <= ? -> ..." in text
        assert "x any_offset -" in text

    def test_no_colour_on_a_pipe_nor_with_NO_COLOR(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert "\x1b" not in shown(PASSED, FAILED)
        monkeypatch.setenv("NO_COLOR", "1")
        console = Console(file=io.StringIO(), force_terminal=True)
        assert console.no_color

    def test_a_bar_is_full_only_when_all_is_done(self) -> None:
        assert bar(0.999, 10, ASCII) == "#########."
        assert bar(0.001, 10, ASCII) == "#........."
        assert bar(0, 10, ASCII) == ".........."
        assert bar(1, 10, ASCII) == "##########"


class TestWaiting:
    def test_a_spinner_names_what_takes_long_and_goes_away(self) -> None:
        out = io.StringIO()
        with Waiting(Console(file=out, force_terminal=True, width=80), "starting", after=0.05) as waiting:
            waiting.now("4.2/x: slow_check")
            time.sleep(0.5)
            waiting.now("done")
        assert "4.2/x: slow_check" in out.getvalue()
        assert "starting" not in out.getvalue()
        assert threading.active_count() == 1 or not any(t.name == "spinner" for t in threading.enumerate())

    def test_nothing_on_a_pipe_nor_under_a_debugger(self) -> None:
        for terminal, shown in ((False, True), (True, False)):
            out = io.StringIO()
            with Waiting(Console(file=out, force_terminal=terminal), "starting", shown=shown, after=0.01):
                time.sleep(0.25)
            assert out.getvalue() == ""
