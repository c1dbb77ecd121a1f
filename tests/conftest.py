"""Hidden tests under plain pytest: each runs against its exercise's reference solution."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader import course
from grader.course import Exercise

CHAPTERS = Path(__file__).parent / "chapters"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--isolation", default="process", choices=["process", "none"], help="where the solutions run (chapter tests)"
    )


@pytest.fixture(scope="session")
def the_course() -> course.Course:
    return course.load()


@pytest.fixture(scope="session")
def judge(the_course: course.Course, request: pytest.FixtureRequest) -> Iterator[Any]:
    from grader.judge import Judge

    with Judge(the_course, kinds=["torch"], isolation=request.config.getoption("isolation"), patience=6) as judge:
        yield judge


@pytest.fixture(scope="module")
def _module_submission(request: pytest.FixtureRequest, judge: Any, the_course: course.Course) -> Iterator[Any]:
    exercise = _exercise_of(Path(str(request.path)), the_course)
    path = the_course.solution_path(exercise)
    home = judge.home(judge.isolation)
    submission = judge.submission(exercise, path.read_text(encoding="utf-8"), str(path), home)
    submission._exercise = exercise
    yield submission
    submission.close()
    home.close()


@pytest.fixture
def submission(_module_submission: Any, judge: Any) -> Iterator[Any]:
    """The reference solution of the exercise whose tests these are, as a hidden test sees it."""
    from grader.judge import current

    current.use(_module_submission)
    _module_submission.session.allow(60 * judge.patience)
    yield _module_submission
    current.use(None)


@pytest.fixture
def rng() -> Any:
    import numpy

    return numpy.random.default_rng(0)


@pytest.fixture(autouse=True)
def _seeds(request: pytest.FixtureRequest) -> None:
    if CHAPTERS in Path(str(request.path)).parents:
        import random

        import numpy
        import torch

        random.seed(0)
        numpy.random.seed(0)
        torch.manual_seed(0)


def _exercise_of(path: Path, the_course: course.Course) -> Exercise:
    folder = path.parent.relative_to(CHAPTERS).as_posix()
    slug = path.stem.removeprefix("test_")
    chapter = next(chapter for chapter in the_course.chapters() if chapter.folder == folder)
    return the_course.exercise(f"{chapter.id}/{slug}")
