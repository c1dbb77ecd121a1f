"""What is imported where: the worker never holds the judge, a numpy exercise never costs an import of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run(script: str) -> str:
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_a_numpy_exercise_never_imports_torch() -> None:
    script = """
import sys
from grader import course
from grader.judge import Judge

the_course = course.load()
exercise = the_course.exercise("11.6/standard_errors")
with Judge(the_course, kinds=["numpy"], patience=6) as judge:
    report = judge.grade(exercise, the_course.solution_path(exercise))
assert report.passed, report
print("torch" in sys.modules, "triton" in sys.modules)
"""
    assert run(script) == "False False"


def test_the_worker_does_not_import_the_judge() -> None:
    script = """
import sys
import grader.worker.forkserver, grader.worker.server, grader.worker.main
print([name for name in sys.modules if name.startswith("grader") and not name.startswith(("grader.worker"))])
"""
    assert run(script) == "['grader']"
