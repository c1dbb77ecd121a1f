"""Make the picture in the README, docs/grade.svg, from a real run of `grade` on a program with a real mistake.

python scripts/make_readme_svg.py [EXERCISE [MISTAKE]]
"""

from __future__ import annotations

import io
import os
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from grader.course import load
from grader.judge import Judge
from grader.judge.wrong_programs import wrong_programs
from grader.show.console import ReportView
from grader.workspace import init, submission_path

PICTURE = Path(__file__).parents[1] / "docs" / "grade.svg"
SEED = 4


def main(exercise_id: str = "4.2/online_softmax", mistake: str = "nan_from_masked") -> None:
    """Grade `exercise_id` with a known mistake in a fresh workspace, and keep what the terminal showed."""
    course = load()
    exercise = course.exercise(exercise_id)
    console = Console(record=True, width=96, file=io.StringIO(), force_terminal=True, markup=False, highlight=False)
    with tempfile.TemporaryDirectory() as folder, Judge(course, kinds={exercise.kind}, patience=10) as judge:
        os.chdir(folder)
        init(course, Path())
        path = submission_path(Path.cwd(), exercise)
        path.write_text(wrong_programs(course, exercise)[mistake], encoding="utf-8")
        view = ReportView(console, spinner=False)
        console.print(f"$ grade {exercise.id}", style="bold")
        view.begin(exercise.id, exercise.title, str(path))
        view.end(judge.grade(exercise, path, seed=SEED, on_check=view.check))
    PICTURE.write_text(console.export_svg(title="grade", theme=MONOKAI, unique_id="grade"), encoding="utf-8")
    print(PICTURE)


if __name__ == "__main__":
    main(*sys.argv[1:])
