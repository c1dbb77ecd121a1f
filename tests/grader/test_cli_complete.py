"""Shell completion: of commands, targets and options."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from command_line import Desk


def completed(desk: Desk, *words: str) -> list[str]:
    """What bash would offer for the last word."""
    environment = os.environ | {
        "_GRADE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["grade", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "grader.cli"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    return [line.partition(",")[2] for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    "words, offered",
    [
        (["1."], ["1.1", "1.3"]),
        (["1.1/"], ["1.1/dot", "1.1/norm"]),
        (["hint", "2.1/on"], ["2.1/online_softmax"]),
        (["1.1", "onl"], ["online_softmax"]),
        (["sho"], ["show", "short"]),
        (["--sol"], ["--solution"]),
    ],
)
def test_words(desk: Desk, words: list[str], offered: list[str]) -> None:
    assert completed(desk, *words) == offered


def test_a_broken_course_completes_nothing_and_says_nothing(desk: Desk) -> None:
    (desk.root / "tracks.yaml").write_text("parts: [")
    assert completed(desk, "1.") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_snippet(desk: Desk, shell: str) -> None:
    said = desk.grade("completion", shell)
    assert said.code == 0
    assert "_GRADE_COMPLETE" in said.out
    desk.patch.setenv("SHELL", f"/bin/{shell}")
    assert f"grade completion {shell}" in desk.grade("completion").out
