"""`hint`, `solution`, `init`, `reset`: help in steps, and files that are never lost."""

from __future__ import annotations

from pathlib import Path

from command_line import Desk


def test_hints_come_one_at_a_time_and_are_remembered(desk: Desk) -> None:
    assert "a nudge" in desk.grade("hint", "1.1/dot").out
    said = desk.grade("hint", "dot")
    assert "Hint 2 of 3" in said.out
    assert "a nudge" not in said.out
    assert "nearly the code" in desk.grade("hint", "dot").out
    said = desk.grade("hint", "dot")
    assert "nearly the code" in said.out
    assert "grade solution 1.1/dot" in said.out


def test_again_shows_no_new_hint_and_all_shows_all(desk: Desk) -> None:
    assert desk.grade("hint", "dot", "--again").code == 2
    desk.grade("hint", "dot")
    assert desk.grade("hint", "dot", "--again").out.count("Hint") == 1
    assert desk.grade("hint", "dot", "--all").out.count("Hint") == 3
    numbers = [one["number"] for one in desk.grade("hint", "dot", "--again", "--json").document["hints"]]
    assert numbers == [1, 2, 3]


def test_solution_asks_unless_passed(desk: Desk) -> None:
    said = desk.grade("solution", "dot", answer="n\n")
    assert said.code == 2
    assert "return float" not in said.out
    assert "3 more hints to see" in said.err
    assert "return float" in desk.grade("solution", "dot", answer="y\n").out
    assert "return float" in desk.grade("solution", "dot", "--yes").out
    assert desk.grade("solution", "dot", "--json").code == 2
    desk.grade("1.1/dot")
    assert "return float" in desk.grade("solution", "dot").out
    assert "return float" in desk.grade("solution", "dot", "--json").document["source"]


def test_solution_with_nobody_to_answer_is_not_shown(desk: Desk) -> None:
    said = desk.grade("solution", "dot", answer="")
    assert said.code in (2, 130)
    assert "return float" not in said.out


def test_init_makes_a_workspace_in_which_grade_works(desk: Desk, tmp_path: Path) -> None:
    desk.patch.chdir(tmp_path)
    said = desk.grade("init", "mine")
    assert said.code == 0
    assert "cd mine && grade" in said.out
    desk.patch.chdir(tmp_path / "mine")
    assert desk.grade("1.1/dot").code == 0
    assert desk.script.asked[0]["path"] == tmp_path / "mine/exercises/01_foundations/01_vectors/dot.py"
    assert "up to date" in desk.grade("init").out


def test_reset_keeps_what_was_written(desk: Desk) -> None:
    file = desk.file("01_foundations/01_vectors/dot.py")
    stub = file.read_text()
    file.write_text("mine = 1\n")
    said = desk.grade("reset", "1.1/dot")
    assert said.code == 0
    assert file.read_text() == stub
    backup = Path(said.out.split(" is in ")[1].strip())
    assert backup.read_text() == "mine = 1\n"
    assert desk.grade("reset", "1.1/dot", "--json").document["exercises"][0]["backup"] is None


def test_reset_of_several_asks(desk: Desk) -> None:
    file = desk.file("01_foundations/01_vectors/dot.py")
    file.write_text("mine = 1\n")
    assert desk.grade("reset", "1.1", answer="n\n").code == 2
    assert file.read_text() == "mine = 1\n"
    assert desk.grade("reset", "1.1", "--yes").code == 0
    assert "NotImplementedError" in file.read_text()
