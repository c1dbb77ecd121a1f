"""Judging: a submission in, a report out."""

from __future__ import annotations

import ast
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

from grader.course import Course, Exercise
from grader.judge import checks, current, debug
from grader.judge.collect import HiddenTest, collect
from grader.judge.diagnosis import Diagnosis
from grader.judge.errors import ForbiddenUsed, OutOfTime, SubmissionError, WorkerDied
from grader.judge.hosts import Home, Hosts
from grader.judge.proxies import ANY
from grader.judge.session import Session
from grader.judge.submission import Submission
from grader.judge.versions import versions
from grader.report import Check, Outcome, Report

LOAD_SECONDS = 20.0
"""For importing the submission's file, with what it imports itself."""

COMPILER_PROCESSES = 8

COMPILE_SECONDS = 60.0
"""For compiling the launches of one call for sm_90."""


class Judge:
    """Judges submissions. Open it before reading anything secret: that is when the worker's pristine parent is forked.

    >>> with Judge(course.load(), kinds={"torch"}) as judge:
    ...     report = judge.grade(exercise, Path("exercises/04_kernels/02_flash_attention_1/online_softmax.py"))
    """

    def __init__(
        self, course: Course, *, isolation: str = "process", kinds: Iterable[str] = (), patience: float = 1.0
    ) -> None:
        self.course = course
        self.isolation = isolation
        self.patience = patience
        self._hosts = Hosts(kinds)
        self._tests: dict[str, list[HiddenTest]] = {}

    def __enter__(self) -> Judge:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends every process that was started."""
        self._hosts.close()

    def tests(self, exercise: Exercise) -> list[HiddenTest]:
        """The hidden tests of an exercise."""
        if exercise.id not in self._tests:
            self._tests[exercise.id] = collect(self.course, exercise)
        return self._tests[exercise.id]

    def grade(
        self,
        exercise: Exercise,
        path: Path,
        *,
        seed: int | None = None,
        only: Sequence[str] = (),
        stop_at_first: bool = False,
        on_check: Callable[[Check], None] | None = None,
        on_start: Callable[[str], None] | None = None,
        debugging: bool = False,
        diagnose: bool = True,
    ) -> Report:
        """The report on a file. `seed` replays an earlier run; `only` names checks to run (and what they need)."""
        return self.grade_source(
            exercise,
            path.read_text(encoding="utf-8", errors="replace"),
            path,
            seed=seed,
            only=only,
            stop_when=checks.has_failed if stop_at_first else None,
            on_check=on_check,
            on_start=on_start,
            debugging=debugging,
            diagnose=diagnose,
        )

    def grade_source(
        self,
        exercise: Exercise,
        source: str,
        path: Path,
        *,
        seed: int | None = None,
        only: Sequence[str] = (),
        stop_when: Callable[[Check], bool] | None = None,
        on_check: Callable[[Check], None] | None = None,
        on_start: Callable[[str], None] | None = None,
        at_end: Callable[[Submission], None] | None = None,
        debugging: bool = False,
        diagnose: bool = True,
        explain: Sequence[str] = (),
        usual_seconds: Mapping[str, float] | None = None,
    ) -> Report:
        """The report on a program given as text; `path` is the name that its tracebacks show.

        `explain` limits the mistakes that a failure is compared with. With `usual_seconds` of the checks quick ones run
        first: for who stops at the first failure.
        """
        began = time.monotonic()
        isolation = "none" if debugging else self.isolation
        home = self.home(isolation)
        submission = self.submission(exercise, source, str(path), home)
        made: list[Check] = []
        problem = output = ""
        unavailable = checks.unavailable(exercise)
        try:
            if not unavailable:
                try:
                    output = submission.session.output()
                except (SubmissionError, ForbiddenUsed, OutOfTime, WorkerDied) as error:
                    problem = checks.load_problem(error, path)
                    output = getattr(error, "output", "")
            # Drawn after the submission was loaded, so that nothing in it can depend on the seed.
            seed = secrets.randbits(31) if seed is None else seed
            tests = _quick_first(_selected(self.tests(exercise), only), usual_seconds or {})
            total = sum(test.weight for test in self.tests(exercise))
            current.use(submission)
            deadline = began + exercise.limits.exercise_seconds * self.patience
            with Diagnosis(self, exercise, seed, explain) as diagnosis:
                for test in tests:
                    possible = exercise.points * test.weight / total
                    if on_start is not None:
                        on_start(test.name)
                    if problem:
                        check = checks.not_run(test, possible, Outcome.FAILED, "not run: the file could not be loaded")
                    elif unavailable:
                        check = checks.not_run(test, possible, Outcome.NOT_MEASURED, unavailable)
                    else:
                        check = checks.run(test, submission, exercise, made, possible, seed, deadline, self.patience)
                        failure = checks.last_failure()
                        if diagnose and check.outcome is Outcome.FAILED and failure is not None:
                            named = diagnosis.name(test, submission, failure)
                            check = replace(check, mistakes=named)
                            current.use(submission)
                    made.append(check)
                    if on_check is not None:
                        on_check(check)
                    if stop_when is not None and stop_when(check):
                        break
                if at_end is not None:
                    at_end(submission)
                made = diagnosis.ranked(made)
        finally:
            current.use(None)
            submission.close()
            home.close()
        return Report(
            exercise=exercise.id,
            title=exercise.title,
            kind=exercise.kind,
            path=str(path),
            checks=tuple(made),
            seed=seed,
            isolation=isolation,
            seconds=time.monotonic() - began,
            problem=problem,
            output=output,
            versions=versions(),
        )

    def home(self, isolation: str) -> Home:
        """A place for one submission's workers."""
        return Home(self._hosts, isolation)

    def submission(self, exercise: Exercise, source: str, filename: str, home: Home) -> Submission:
        """A program as tests see it. Its worker is started when it is first used."""
        return Submission(
            lambda: self._session(exercise, source, filename, home),
            lambda name, args, kwargs: self._compile(exercise, source, filename, home, name, args, kwargs),
        )

    def _session(self, exercise: Exercise, source: str, filename: str, home: Home) -> Session:
        options = _options(exercise, source, filename, exercise.kind)
        seconds = LOAD_SECONDS * self.patience
        if home.isolation == "none":
            session = debug.session(options)
        else:
            imports = _slow_imports(self.course.solution_path(exercise))
            session = Session.open(home.start(exercise.kind, exercise.limits, imports), options, seconds)
        session.side.parameter_names.update(_parameter_names(self.course.stub_path(exercise)))
        session.side.operators = _operators(self.course.solution_path(exercise))
        return session

    def _compile(
        self, exercise: Exercise, source: str, filename: str, home: Home, name: str, args: Any, kwargs: Any
    ) -> list[dict[str, Any]]:
        """Runs a call in a worker without Triton's interpreter, where each launch is compiled instead."""
        if home.isolation == "none":
            home = self.home("process")
        options = _options(exercise, source, filename, "compile")
        seconds = LOAD_SECONDS * self.patience
        # The compiler runs ptxas, which is a process of its own.
        limits = replace(exercise.limits, processes=COMPILER_PROCESSES)
        session = Session.open(home.start("compile", limits), options, seconds)
        try:
            session.allow(COMPILE_SECONDS * self.patience)
            found: list[dict[str, Any]] = session.compile(name, args, kwargs)
            return found
        finally:
            session.close()


def _options(exercise: Exercise, source: str, filename: str, kind: str) -> dict[str, Any]:
    return {
        "filename": filename,
        "source": source,
        "module": exercise.slug,
        "kind": kind,
        "forbid": list(exercise.forbid) if kind != "compile" else [],
        "output_kib": exercise.limits.output_kib,
    }


def _selected(tests: list[HiddenTest], only: Sequence[str]) -> list[HiddenTest]:
    """The named tests and those that they build on, in order."""
    if not only:
        return tests
    wanted = set(only)
    for test in reversed(tests):
        if test.name in wanted:
            wanted.update(test.needs)
    return [test for test in tests if test.name in wanted]


def _quick_first(tests: list[HiddenTest], usual_seconds: Mapping[str, float]) -> list[HiddenTest]:
    """By the time that they take; what a test builds on still comes before it. Without times, in their own order."""
    times: dict[str, float] = {}
    for test in tests:
        own = usual_seconds.get(test.name, 0.0)
        times[test.name] = max([own, *(times.get(need, 0.0) for need in test.needs)])
    return sorted(tests, key=lambda test: times[test.name])


@cache
def _slow_imports(solution: Path) -> tuple[str, ...]:
    """Modules that the solution needs and that take seconds to load: submissions will need them too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(solution.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("scipy."))
        elif isinstance(node, ast.ImportFrom) and node.module == "scipy":
            found.update(f"scipy.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("scipy."):
            found.add(str(node.module))
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == "torch.optim":
            found.add("torch._dynamo")  # every optimizer imports it when it is made
    return tuple(sorted(found))


@cache
def _operators(solution: Path) -> dict[str, frozenset[str]]:
    """The special methods of each class of the solution; ANY where a base class may bring more."""
    found: dict[str, frozenset[str]] = {}
    for node in ast.parse(solution.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
            continue
        names = {statement.name for statement in node.body if isinstance(statement, ast.FunctionDef)}
        for statement in node.body:
            if isinstance(statement, ast.Assign):  # __radd__ = __add__
                names.update(target.id for target in statement.targets if isinstance(target, ast.Name))
        for base in node.bases:
            written = ast.unparse(base)
            names |= found.get(written, frozenset() if written.endswith(("Module", "Function")) else frozenset({ANY}))
        found[node.name] = frozenset(names)
    return found


@cache
def _parameter_names(stub: Path) -> dict[str, list[str]]:
    """Parameters of each function of the stub, for messages that name an argument."""
    names: dict[str, list[str]] = {}
    try:
        tree = ast.parse(stub.read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return names
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found = [argument.arg for argument in [*node.args.posonlyargs, *node.args.args]]
            names[node.name] = found[1:] if found[:1] == ["self"] else found
    return names
