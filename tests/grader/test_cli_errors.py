"""Errors: one or two lines, exit code 2, never a traceback; a document where --json was asked for."""

from __future__ import annotations

import sys

import pytest
from command_line import Desk

from grader.cli.root import COMMANDS
from grader.course import load


@pytest.mark.parametrize(
    "arguments, told",
    [
        (["onlin_softmax"], "no exercise 'onlin_softmax'; did you mean online_softmax?"),
        (["1.2"], "1.2 Matrices is not built yet; next on this track (short): 2.1 Attention"),
        (["9.9"], "no part 9"),
        (["lst"], "did you mean grade list?"),
        (["list", "--jsn"], "--json"),
        (["list", "nothing_like_it"], "no exercise"),
        (["tracks", "shrt"], "did you mean short?"),
        (["hint"], "Missing argument"),
        (["hint", "1.1"], "1.1 names 2 exercises, one is needed"),
        (["show", "all"], "names 3 chapters"),
        (["completion", "tcsh"], "tcsh"),
    ],
)
def test_message_names_what_is_near(desk: Desk, arguments: list[str], told: str) -> None:
    said = desk.grade(*arguments)
    assert said.code == 2
    assert told in said.err
    assert said.out == ""
    assert 1 <= len(said.err.splitlines()) <= 2


def test_the_same_as_a_document(desk: Desk) -> None:
    said = desk.grade("onlin_softmax", "--json")
    assert said.code == 2
    assert said.err == ""
    assert said.document["error"]["kind"] == "usage"
    assert "did you mean online_softmax?" in said.document["error"]["message"]


def test_a_broken_course_is_a_set_up_error(desk: Desk) -> None:
    (desk.root / "tracks.yaml").write_text("parts: [")
    said = desk.grade("list", "--json")
    assert said.code == 2
    assert said.document["error"]["kind"] == "setup"
    assert "tracks.yaml" in said.document["error"]["message"]


def test_a_fault_of_the_grader_is_told_without_traceback_unless_asked_for(desk: Desk) -> None:
    def fail(exercise: str) -> None:
        raise ZeroDivisionError("oops")

    desk.script.during = fail
    said = desk.grade("1.1/dot")
    assert said.code == 2
    assert "ZeroDivisionError: oops" in said.err
    assert "LLM_BY_HAND_TRACEBACK=1" in said.err
    assert "Traceback" not in said.err
    desk.patch.setenv("LLM_BY_HAND_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        desk.grade("1.1/dot")


def test_a_state_folder_that_cannot_be_written(desk: Desk) -> None:
    (desk.root / "file").write_text("")
    said = desk.grade("1.1/dot", "--state", "file/below")
    assert said.code == 2
    assert "--state DIR keeps it elsewhere" in said.err


def test_a_damaged_progress_file_is_moved_aside_and_told(desk: Desk) -> None:
    desk.state.mkdir()
    (desk.state / "progress.db").write_bytes(b"this is no database" * 100)
    said = desk.grade("status")
    assert said.code == 0
    assert "was damaged" in said.err


def test_no_target_is_called_like_a_command() -> None:
    course = load()
    taken = {track.key for track in course.tracks} | {chapter.slug for chapter in course.chapters()}
    assert not taken & set(COMMANDS)


def test_help_and_version(desk: Desk) -> None:
    assert desk.grade("--version").out.startswith("llm-by-hand ")
    said = desk.grade("-h")
    assert said.code == 0
    for word in ("4.2/online_softmax", "--solution", "doctor", "Exit codes"):
        assert word in said.out
    assert desk.grade("1.1", "--help").code == 0


def test_reading_only_the_head_is_no_error(desk: Desk) -> None:
    import subprocess

    done = subprocess.run(
        f"{sys.executable} -m grader.cli list --all | head -1", shell=True, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
