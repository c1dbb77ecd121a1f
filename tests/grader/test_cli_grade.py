"""`grade TARGET...`: what is judged, kept, shown and returned."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from command_line import FAILED, PASSED, Desk

from grader.progress import open_store
from grader.report import Outcome


def test_all_passed_is_0_and_names_the_next_exercise(desk: Desk) -> None:
    said = desk.grade("1.1/dot")
    assert said.code == 0
    assert "1.1/dot" in said.out
    assert "passed · 10/10 points" in said.out
    assert "next: 1.1/norm" in said.out
    assert said.err == ""


def test_a_failure_is_1_and_explained_in_the_same_order_always(desk: Desk) -> None:
    desk.script.checks["1.1/dot"] = (PASSED, FAILED)
    said = desk.grade("dot")
    assert said.code == 1
    labels = ["about", "because", "call", "got", "expected", "where", "Looks like:", "printed", "next"]
    block = said.out[said.out.index("✗ any_offset ─") :]
    places = [block.index(f"  {label}") for label in labels]
    assert places == sorted(places)
    assert "grade hint 1.1/dot" in block
    assert "not yet · 4/10 points · 1 passed, 1 failed" in said.out


def test_options_reach_the_judge(desk: Desk) -> None:
    desk.grade("1.1", "--seed", "5", "-x", "--isolation", "sandbox", "--patience", "2")
    assert [asked["exercise"] for asked in desk.script.asked] == ["1.1/dot", "1.1/norm"]
    asked = desk.script.asked[0]
    assert asked["seed"] == 5
    assert asked["stop_at_first"]
    assert asked["isolation"] == "sandbox"
    assert asked["patience"] == 2
    assert asked["kinds"] == {"numpy"}
    assert asked["path"] == desk.file("01_foundations/01_vectors/dot.py")


def test_the_solution_is_graded_from_its_own_place_and_never_kept(desk: Desk) -> None:
    said = desk.grade("1.1/dot", "--solution")
    assert said.code == 0
    assert desk.script.asked[0]["path"] == desk.root / "solutions/01_foundations/01_vectors/dot.py"
    assert open_store(desk.state).attempts("1.1/dot") == []


def test_debugging_is_not_an_attempt(desk: Desk) -> None:
    desk.grade("1.1/dot", "--debug")
    assert desk.script.asked[0]["debugging"]
    assert open_store(desk.state).attempts("1.1/dot") == []


def test_attempts_are_kept(desk: Desk) -> None:
    desk.script.checks["1.1/dot"] = (PASSED, FAILED)
    desk.grade("1.1/dot")
    del desk.script.checks["1.1/dot"]
    desk.grade("1.1/dot")
    assert [attempt.passed for attempt in open_store(desk.state).attempts("1.1/dot")] == [False, True]


def test_some_checks_alone_do_not_pass_an_exercise(desk: Desk) -> None:
    said = desk.grade("1.1/dot", "--check", "worked_example")
    assert said.code == 0
    assert "now all of its checks: grade 1.1/dot" in said.out
    assert desk.script.asked[0]["only"] == ["worked_example"]
    assert not open_store(desk.state).passed("1.1/dot")


def test_check_names_have_near_matches(desk: Desk) -> None:
    said = desk.grade("1.1/dot", "--check", "worked_exmple")
    assert said.code == 2
    assert "no check 'worked_exmple'; did you mean worked_example?" in said.err
    said = desk.grade("1.1/dot", "--check", "zzz")
    assert "the checks are worked_example, any_offset" in said.err


def test_stop_ends_at_the_first_exercise_that_fails(desk: Desk) -> None:
    desk.script.checks["1.1/dot"] = (FAILED,)
    desk.grade("1.1", "-x")
    assert [asked["exercise"] for asked in desk.script.asked] == ["1.1/dot"]


def test_next_moves_on(desk: Desk) -> None:
    for _ in range(5):
        desk.grade("next")
    assert [asked["exercise"] for asked in desk.script.asked] == [
        "1.1/dot",
        "1.1/norm",
        "1.3/roofline",
        "2.1/roofline",
        "2.1/online_softmax",
    ]
    said = desk.grade("next")
    assert said.code == 2
    assert "passed already" in said.err


def test_several_exercises_end_in_a_summary(desk: Desk) -> None:
    desk.script.checks["1.1/norm"] = (PASSED, FAILED)
    said = desk.grade("1.1")
    assert said.code == 1
    assert "1 of 2 exercises passed, 14/20 points" in said.out
    assert "grade 1.1/norm" in said.out.splitlines()[-1]


def test_costs_are_shown_on_passes(desk: Desk) -> None:
    assert "largest temporary 512, at most 1,024 (two blocks per row)" in desk.grade("1.1/dot").out


def test_a_target_that_is_named_twice_is_graded_once(desk: Desk) -> None:
    desk.grade("1.1/dot", "dot", "1.1")
    assert [asked["exercise"] for asked in desk.script.asked] == ["1.1/dot", "1.1/norm"]


def test_a_missing_file_is_told_before_anything_is_graded(desk: Desk) -> None:
    desk.grade("init", "mine")
    (desk.root / "mine/exercises/01_foundations/01_vectors/norm.py").unlink()
    said = desk.grade("1.1/norm", "--workspace", "mine")
    assert said.code == 2
    assert "grade reset 1.1/norm puts the stub there" in said.err
    assert desk.script.asked == []


def test_json_is_one_document_and_nothing_else(desk: Desk) -> None:
    desk.script.checks["1.1/dot"] = (PASSED, FAILED, replace(FAILED, name="gpu", outcome=Outcome.NOT_MEASURED))
    desk.script.during = lambda exercise: print("noise")
    said = desk.grade("1.1/dot", "--json")
    assert said.code == 1
    assert said.document["schema"] == "llm-by-hand/grade/1"
    summary = said.document["summary"]
    assert summary["checks"] == {"passed": 1, "failed": 1, "blocked": 0, "not measured": 1, "error": 0}
    assert (summary["points"], summary["possible"], summary["passed"]) == (4, 10, False)
    assert summary["next"] == "1.1/dot"
    assert said.document["reports"][0]["checks"][1]["mistakes"] == [
        {"name": "off_by_one", "diagnosis": "Starts at one."}
    ]
    assert said.document["versions"]["python"]
    assert "noise" in said.err


def test_interrupted_run_is_130_and_keeps_what_was_finished(desk: Desk) -> None:
    def interrupt(exercise: str) -> None:
        if exercise == "1.1/norm":
            os.kill(os.getpid(), signal.SIGINT)

    # A run started in the background inherits that Ctrl-C is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        desk.script.during = interrupt
        said = desk.grade("1.1")
    finally:
        signal.signal(signal.SIGINT, before)
    assert said.code == 130
    told = " ".join(said.out.split())
    assert "interrupted while 1.1/norm was being graded" in told
    assert "1 exercise finished before and kept" in told
    assert open_store(desk.state).passed("1.1/dot")
    said = desk.grade("1.1", "--json")
    assert said.code == 130
    assert said.document["summary"]["interrupted"] is True
    assert [report["exercise"] for report in said.document["reports"]] == ["1.1/dot"]


def test_junit_counts_blocked_as_failed_and_not_measured_as_skipped(desk: Desk) -> None:
    outcomes = [Outcome.FAILED, Outcome.BLOCKED, Outcome.ERROR, Outcome.NOT_MEASURED]
    checks = [replace(FAILED, name=str(outcome), outcome=outcome, got="\x00\x1b") for outcome in outcomes]
    desk.script.checks["1.1/dot"] = (PASSED, *checks)
    desk.grade("1.1/dot", "--junit", "out.xml")
    root = ElementTree.parse("out.xml").getroot()
    counts = {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "5", "failures": "2", "errors": "1", "skipped": "1"}
    case = root.findall("testsuite/testcase")[1]
    assert case.get("classname") == "1.1/dot"
    assert "looks like: Starts at one." in (case[0].text or "")


@pytest.mark.parametrize(
    "arguments, word",
    [
        (["--json"], "nothing to grade"),
        (["1.1", "--debug", "--json"], "choose one"),
        (["1.1", "--debug", "--isolation", "sandbox"], "no sandbox"),
        (["1.1", "--junit", "no/such/folder/x.xml"], "no folder"),
        (["1.1", "--seed", "minus"], "--seed"),
        (["1.1", "--isolation", "jail"], "sandbox"),
        (["1.1", "--workspace", "/"], "no workspace"),
        (["-x", "list"], "list is a command and comes first"),
    ],
)
def test_wrong_use_is_2_and_told_in_words(desk: Desk, arguments: list[str], word: str) -> None:
    said = desk.grade(*arguments)
    assert said.code == 2
    told = said.document["error"]["message"] if "--json" in arguments else said.err
    assert word in told
    assert len(said.err.splitlines()) <= 4
    assert "Traceback" not in said.err
