"""One run of the judge over the exercises that were asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.course import Course, Exercise
from grader.progress import Store
from grader.report import Report
from grader.show.progress import Progress


@dataclass(frozen=True)
class Request:
    """What to grade, and how."""

    course: Course
    store: Store
    exercises: Sequence[Exercise]
    paths: Mapping[str, Path]
    """The file of each exercise, by its id."""
    only: Mapping[str, Sequence[str]]
    """The checks to run, by exercise id; empty: all of them."""
    solution: bool
    seed: int | None
    stop: bool
    debug: bool
    isolation: str
    patience: float

    @property
    def kept(self) -> bool:
        """Whether reports are kept as attempts: the learner's own code, in a process of its own."""
        return not (self.solution or self.debug)


@dataclass
class Result:
    """What came of it. Reports that were ready when Ctrl-C came are there and kept."""

    reports: list[Report] = field(default_factory=list)
    grading: str = ""
    """The exercise that was being graded when the run was interrupted."""
    interrupted: bool = False


def judge_all(request: Request, progress: Progress) -> Result:
    """Grade each exercise in turn, keep the attempts, tell `progress`."""
    result = Result()
    try:
        with progress:
            from grader.judge import Judge  # hypothesis and perhaps torch: the spinner is up by now

            kinds = {exercise.kind for exercise in request.exercises}
            with Judge(request.course, isolation=request.isolation, kinds=kinds, patience=request.patience) as judge:
                for exercise in request.exercises:
                    path = request.paths[exercise.id]
                    result.grading = exercise.id
                    progress.begin(exercise.id, exercise.title, str(path))
                    report = judge.grade(
                        exercise,
                        path,
                        seed=request.seed,
                        only=request.only.get(exercise.id, ()),
                        stop_at_first=request.stop,
                        on_check=progress.check,
                        on_start=progress.start,
                        debugging=request.debug,
                    )
                    result.reports.append(report)
                    result.grading = ""
                    if request.kept:
                        request.store.add(report, whole=not request.only)
                    progress.end(report)
                    if request.stop and not report.passed:
                        break
    except KeyboardInterrupt:
        result.interrupted = True
    return result
