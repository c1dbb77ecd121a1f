"""The course proves itself: every exercise's stub, solution, mistakes, alternatives and trivial answers are judged."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path

from grader.course import Course, CourseError, Exercise, load
from grader.judge import trivial
from grader.judge.checks import has_failed
from grader.judge.hosts import can_fork
from grader.judge.judge import Judge
from grader.judge.wrong_programs import wrong_programs
from grader.report import Check, Outcome, Report
from grader.stubs import derived_stub

SEEDS = (1, 2)
"""The solution is judged with each of these, others with the first; fixed, so that a proof can be repeated."""


@dataclass(frozen=True)
class Trial:
    """One program judged, and whether the verdict was what it must be."""

    exercise: str
    role: str
    """"stub", "solution", "mistake", "alternative" or "trivial"."""
    program: str
    ok: bool
    detail: str
    """What went wrong; for a mistake that was named, the check that named it."""
    checks: int
    seconds: float
    seconds_of_checks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Proof:
    """All trials of one exercise."""

    exercise: str
    trials: tuple[Trial, ...]
    seconds: float
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every verdict was right."""
        return not self.problem and all(trial.ok for trial in self.trials)


def prove(
    course: Course,
    exercises: Sequence[Exercise],
    *,
    jobs: int = 2,
    patience: float = 3.0,
    seeds: Sequence[int] = SEEDS,
    on_proof: Callable[[Proof], None] | None = None,
) -> list[Proof]:
    """One proof for each exercise, in the order given; `on_proof` is told of each as it is done.

    `seeds` are those of the solution; without any it is left out.
    """
    kinds = {exercise.kind for exercise in exercises}
    arguments = [(str(course.root), exercise.id, tuple(kinds), patience, tuple(seeds)) for exercise in exercises]
    found: dict[str, Proof] = {}
    if jobs == 1 or len(exercises) == 1:
        for argument in arguments:
            _note(_prove_one(*argument), found, on_proof)
    else:
        context = multiprocessing.get_context("fork" if can_fork() else "spawn")
        with ProcessPoolExecutor(
            max_workers=jobs, mp_context=context, initializer=_open, initargs=arguments[0]
        ) as pool:
            for future in as_completed([pool.submit(_prove_one, *argument) for argument in arguments]):
                _note(future.result(), found, on_proof)
    return [found[exercise.id] for exercise in exercises]


def _note(proof: Proof, found: dict[str, Proof], on_proof: Callable[[Proof], None] | None) -> None:
    found[proof.exercise] = proof
    if on_proof is not None:
        on_proof(proof)


_judges: list[Judge] = []


def _open(root: str, exercise_id: str, kinds: tuple[str, ...], patience: float, seeds: tuple[int, ...]) -> Judge:
    """The judge of this process; it lives as long as the process, so that workers stay warm."""
    if not _judges:
        _judges.append(Judge(load(Path(root)), kinds=kinds, patience=patience))
    return _judges[0]


def _prove_one(root: str, exercise_id: str, kinds: tuple[str, ...], patience: float, seeds: tuple[int, ...]) -> Proof:
    judge = _open(root, exercise_id, kinds, patience, seeds)
    began = time.monotonic()
    exercise = judge.course.exercise(exercise_id)
    try:
        right = [
            _stub(judge, exercise),
            *(_right(judge, exercise, "solution", judge.course.solution_path(exercise), seed) for seed in seeds),
            *(_right(judge, exercise, "alternative", path, SEEDS[0]) for path in judge.course.alternatives(exercise)),
        ]
        usual = right[-1].seconds_of_checks
        trials = [*right, *_mistakes(judge, exercise, usual), *_trivial(judge, exercise, usual)]
        return Proof(exercise_id, tuple(trials), time.monotonic() - began)
    except CourseError as error:
        return Proof(exercise_id, (), time.monotonic() - began, str(error))


def _stub(judge: Judge, exercise: Exercise) -> Trial:
    """The stub fails every check kindly: by saying what is not written yet."""
    stub = derived_stub(judge.course, exercise)
    committed = judge.course.stub_path(exercise).read_text(encoding="utf-8")
    report = judge.grade_source(exercise, stub, judge.course.stub_path(exercise), seed=SEEDS[0])
    unkind = [check for check in report.checks if not _is_kind(check)]
    detail = ""
    if committed != stub:
        detail = "the stub is not what the solution's markers give; run `grade dev stubs`"
    elif report.problem:
        detail = f"cannot be loaded: {report.problem}"
    elif report.passed:
        detail = "passes"
    elif unkind:
        detail = f"{unkind[0].name}: {unkind[0].outcome}: {unkind[0].message}"
    return _trial(exercise, "stub", "stub", report, detail)


def _is_kind(check: Check) -> bool:
    if check.outcome in (Outcome.BLOCKED, Outcome.NOT_MEASURED):
        return True
    return check.outcome is Outcome.FAILED and check.message.startswith("not written yet")


def _right(judge: Judge, exercise: Exercise, role: str, path: Path, seed: int) -> Trial:
    name = path.stem if role == "alternative" else f"solution, seed {seed}"
    report = judge.grade(exercise, path, seed=seed, diagnose=False)
    bad = [check for check in report.checks if has_failed(check)]
    detail = report.problem
    if bad and not detail:
        first = bad[0]
        detail = "; ".join(
            filter(None, (f"{first.name}: {first.message}", first.where, first.call[:300], first.traceback))
        )
    return _trial(exercise, role, name, report, detail)


def _mistakes(judge: Judge, exercise: Exercise, usual_seconds: Mapping[str, float]) -> list[Trial]:
    trials = []
    for name, source in wrong_programs(judge.course, exercise).items():
        path = Path(f"/mistakes/{exercise.slug}/{name}.py")
        report = judge.grade_source(
            exercise,
            source,
            path,
            seed=SEEDS[0],
            explain=(name,),
            stop_when=_names_something,
            usual_seconds=usual_seconds,
        )
        failed = [c for c in report.checks if c.outcome in (Outcome.FAILED, Outcome.ERROR)]
        named = [c for c in failed if c.mistakes]
        if report.problem:
            detail = f"cannot be loaded: {report.problem}"
        elif not failed:
            detail = "passes every check"
        elif not named:
            detail = f"fails {', '.join(c.name for c in failed)} but is not named"
        else:
            detail = ""
        trials.append(_trial(exercise, "mistake", name, report, detail))
    return trials


def _names_something(check: Check) -> bool:
    return bool(check.mistakes)


def _trivial(judge: Judge, exercise: Exercise, usual_seconds: Mapping[str, float]) -> list[Trial]:
    """No trivial answer passes, unless it changed nothing and so is the solution itself."""
    solution = judge.course.solution_path(exercise).read_text(encoding="utf-8")
    trials: list[Trial] = []
    numbers = True
    for answer in trivial.ALL:
        if answer.of_numbers and not numbers:
            continue
        path = Path(f"/trivial/{exercise.slug}/{answer.name}.py")
        spoilt: list[bool] = []
        report = judge.grade_source(
            exercise,
            answer.apply(solution),
            path,
            seed=SEEDS[0],
            diagnose=False,
            stop_when=has_failed,
            usual_seconds=usual_seconds,
            at_end=lambda submission, spoilt=spoilt: spoilt.append(trivial.has_spoilt(submission)),  # type: ignore[misc]
        )
        if report.passed and not any(spoilt):
            # Where zeros change nothing, results hold no numbers, and the other spoilers of numbers are idle too.
            numbers = numbers and answer is not trivial.ALL[0]
            continue
        detail = f"passes every check ({answer.about})" if report.passed else ""
        trials.append(_trial(exercise, "trivial", answer.name, report, detail))
    return trials


def _trial(exercise: Exercise, role: str, program: str, report: Report, detail: str) -> Trial:
    times = {check.name: check.seconds for check in report.checks}
    return Trial(exercise.id, role, program, not detail, detail, len(report.checks), report.seconds, times)
