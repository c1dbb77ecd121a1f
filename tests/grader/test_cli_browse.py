"""`grade`, `list`, `tracks`, `show`, `status`: what there is and how far you are."""

from __future__ import annotations

from command_line import FAILED, PASSED, Desk


def test_grade_alone_says_what_to_do(desk: Desk) -> None:
    said = desk.grade()
    assert said.code == 0
    for line in ("Next: 1.1/dot", "grade show 1.1", "exercises/01_foundations/01_vectors/dot.py", "grade hint 1.1/dot"):
        assert line in said.out
    assert said.err == ""


def test_grade_alone_outside_a_workspace_says_how_to_make_one(desk: Desk) -> None:
    desk.patch.chdir("/")
    assert "grade init my-course" in desk.grade().out


def test_list_shows_what_is_passed_and_begun(desk: Desk) -> None:
    desk.grade("1.1/dot")
    desk.script.checks["1.1/norm"] = (PASSED, FAILED)
    desk.grade("1.1/norm")
    said = desk.grade("list")
    assert said.code == 0
    lines = {line.split()[1]: line for line in said.out.splitlines() if " min " in line}
    assert "✓" in lines["dot"]
    assert "10/10" in lines["dot"]
    assert "✗" in lines["norm"]
    assert "4/10" in lines["norm"]
    assert "·" in lines["online_softmax"]
    assert "Matrices" not in said.out
    assert "Matrices" in desk.grade("list", "--all").out


def test_list_of_one_chapter(desk: Desk) -> None:
    said = desk.grade("list", "1.1")
    assert "dot" in said.out
    assert "online_softmax" not in said.out


def test_list_as_json(desk: Desk) -> None:
    desk.grade("1.1/dot")
    document = desk.grade("list", "--json").document
    assert document["schema"] == "llm-by-hand/list/1"
    assert [chapter["id"] for chapter in document["chapters"]] == ["1.1", "1.3", "2.1"]
    dot, norm = document["chapters"][0]["exercises"]
    assert dot["best"] == {"passed": True, "points": 10, "possible": 10}
    assert norm["best"] is None


def test_tracks(desk: Desk) -> None:
    said = desk.grade("tracks")
    assert "short  The Short Way" in said.out
    assert "2 of 3 chapters built" in said.out
    document = desk.grade("tracks", "short", "--json").document
    assert [chapter["built"] for chapter in document["tracks"][0]["chapters"]] == [True, False, True]


def test_show_renders_the_page_with_its_exercises(desk: Desk) -> None:
    page = desk.root / "exercises/01_foundations/01_vectors/README.md"
    page.write_text("# Vectors\n\nA *dot* product, with `code`:\n\n- one\n- two\n")
    desk.grade("1.1/dot")
    said = desk.grade("show", "1.1")
    assert said.code == 0
    assert "A dot product, with code:" in said.out
    assert "✓ dot" in said.out
    assert "· norm" in said.out
    assert desk.grade("show", "1.1/dot").out == said.out
    assert desk.grade("show", "1.1", "--json").document["readme"].startswith("# Vectors")


def test_status_counts_honestly(desk: Desk) -> None:
    desk.grade("1.1/dot")
    desk.script.checks["1.1/norm"] = (PASSED, FAILED)
    desk.grade("1.1/norm")
    said = desk.grade("status")
    assert "1 of 5 exercises passed, 1 begun, 14/50 points" in said.out
    document = desk.grade("status", "--json").document
    assert document["total"] == {"exercises": 5, "passed": 1, "begun": 1, "points": 14, "possible": 50}
    assert [part["passed"] for part in document["parts"]] == [1, 0]
    assert document["tracks"][1] == {
        "key": "planned",
        "title": "Not Yet",
        "exercises": 0,
        "passed": 0,
        "begun": 0,
        "points": 0,
        "possible": 0,
    }


def test_a_narrow_terminal_is_never_overrun(desk: Desk) -> None:
    desk.patch.setenv("COLUMNS", "60")
    desk.script.checks["1.1/dot"] = (PASSED, FAILED)
    desk.grade("1.1/dot")
    for arguments in (["list", "--all"], ["tracks"], ["status"], ["show", "1.1"], ["1.1"], ["hint", "1.1/dot"]):
        for line in desk.grade(*arguments).out.splitlines():
            assert len(line) <= 60, line
