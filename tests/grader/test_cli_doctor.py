"""`grade doctor`: it tries what it reports, in processes of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import Desk

from grader import doctor
from grader.doctor import Finding, State

FINE = Finding("python", State.FINE, "3.13")
ABSENT = Finding("gpu", State.ABSENT, "none", "kernels are not timed")
BROKEN = Finding("torch", State.BROKEN, "not installed", "pip install torch")


def finds(desk: Desk, *findings: Finding) -> None:
    def examine(*places: Path | None) -> Iterator[Finding]:
        yield from findings

    desk.patch.setattr(doctor, "examine", examine)


def test_something_absent_is_no_fault(desk: Desk) -> None:
    finds(desk, FINE, ABSENT)
    said = desk.grade("doctor")
    assert said.code == 0
    assert "○ gpu" in said.out
    assert "kernels are not timed" in said.out


def test_something_broken_is_2(desk: Desk) -> None:
    finds(desk, FINE, BROKEN)
    said = desk.grade("doctor", "--json")
    assert said.code == 2
    assert said.document["works"] is False
    assert said.document["findings"][1] == {
        "name": "torch",
        "state": "broken",
        "value": "not installed",
        "meaning": "pip install torch",
    }


def test_a_torch_that_crashes_or_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    crashed = SimpleNamespace(stdout="", stderr="Illegal instruction", returncode=-4)
    assert "Illegal instruction" in doctor._tried(lambda *a, **k: crashed)["torch_error"]

    def hang(*arguments: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("python", 1)

    assert "no answer" in doctor._tried(hang)["torch_error"]


def test_it_never_imports_torch_itself() -> None:
    program = """
import sys
from grader import doctor
names = {finding.name for finding in doctor.examine()}
assert {"python", "torch", "triton", "gpu", "bubblewrap", "isolation", "progress", "workspace", "course"} <= names
print([name for name in ("torch", "triton") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
