"""Fixtures of several test files."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import Desk, Script, scripted
from small_course import write_course


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    """A desk with the small course checked out, nothing tried yet, and a scripted judge."""
    root = write_course(tmp_path / "course")
    for file in (root / "tests" / "chapters").rglob("test_*.py"):
        file.write_text(
            "def test_worked_example(submission):\n    pass\n\n\ndef test_any_offset(submission):\n    pass\n"
        )
    state = tmp_path / "state"
    script = Script()
    monkeypatch.setenv("LLM_BY_HAND_COURSE", str(root))
    monkeypatch.setenv("LLM_BY_HAND_STATE", str(state))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("LLM_BY_HAND_TRACEBACK", raising=False)
    monkeypatch.setitem(sys.modules, "grader.judge", scripted(script))
    monkeypatch.chdir(root)
    return Desk(root, state, script, capsys, monkeypatch)
