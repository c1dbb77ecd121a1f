"""`grade` from end to end with the real judge, on one exercise of the small course."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import Desk

HIDDEN = '''
"""Hidden tests."""
import numpy as np
from grader.testing import close, needs


def test_example(submission):
    """One and two make three."""
    close(submission.dot(np.array([1.0, 2.0])), 3.0)


@needs("example")
def test_empty(submission):
    """Nothing makes nothing."""
    close(submission.dot(np.array([])), 0.0)
'''

MISTAKES = """
from grader.testing import edit

off_by_one = edit("x.sum()", "x[1:].sum()")
"""


@pytest.fixture
def file(desk: Desk) -> Path:
    """The learner's file of 1.1/dot, with real hidden tests behind it."""
    desk.patch.delitem(sys.modules, "grader.judge")
    tests = desk.root / "tests/chapters/01_foundations/01_vectors"
    (tests / "test_dot.py").write_text(HIDDEN)
    (tests / "mistakes").mkdir(exist_ok=True)
    (tests / "mistakes/dot.py").write_text(MISTAKES)
    return desk.file("01_foundations/01_vectors/dot.py")


def solution(desk: Desk) -> str:
    return (desk.root / "solutions/01_foundations/01_vectors/dot.py").read_text()


def test_a_stub_is_a_list_of_what_will_be_checked(desk: Desk, file: Path) -> None:
    said = desk.grade("1.1/dot")
    assert said.code == 1
    assert "· example" in said.out
    assert "– empty" in said.out
    assert "not written yet: dot" in said.out
    assert "because" not in said.out


def test_a_right_program_passes(desk: Desk, file: Path) -> None:
    file.write_text(solution(desk))
    said = desk.grade("1.1/dot")
    assert said.code == 0
    assert "passed · 10/10 points · 2 passed" in said.out


def test_a_known_mistake_is_named(desk: Desk, file: Path) -> None:
    file.write_text(solution(desk).replace("x.sum()", "sum(x[1:])"))
    said = desk.grade("1.1/dot")
    assert said.code == 1
    assert "Looks like: Starts at one." in said.out


def test_a_traceback_shows_the_learners_line(desk: Desk, file: Path) -> None:
    file.write_text(solution(desk).replace("x.sum()", "x.total()"))
    said = desk.grade("1.1/dot")
    assert "because     AttributeError" in said.out
    assert "your code   dot.py, line 9, in dot" in said.out
    assert "return float(x.total())" in said.out


def test_a_file_that_cannot_be_loaded_is_told_once(desk: Desk, file: Path) -> None:
    file.write_text("def dot(x:\n")
    said = desk.grade("1.1/dot")
    assert said.code == 1
    assert said.out.count("could not be loaded") == 1
    assert "SyntaxError" in said.out
    assert "dot.py, line 1" in said.out


def test_what_is_printed_is_shown_and_stays_out_of_the_document(desk: Desk, file: Path) -> None:
    file.write_text(solution(desk).replace("return float", "print('hello')\n    return 1 + float"))
    assert "│ hello" in desk.grade("1.1/dot").out
    document = desk.grade("1.1/dot", "--json").document
    assert document["reports"][0]["checks"][0]["output"] == "hello\n"
