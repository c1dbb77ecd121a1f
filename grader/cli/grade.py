"""`grade TARGET...`"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from grader.cli import options
from grader.cli.errors import FAILED, INTERRUPTED, Refusal
from grader.cli.targets import Target, exercises_of

if TYPE_CHECKING:
    from grader.cli.session import Request, Result
    from grader.course import Course, Exercise
    from grader.report import Report


@click.command("run", hidden=True)
@click.argument("targets", nargs=-1, type=Target(), metavar="TARGET...")
@options.workspace
@click.option("--solution", is_flag=True, help="Grade the reference solution instead of your file.")
@options.as_json
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Also write JUnit XML.")
@click.option("--seed", type=click.IntRange(min=0), metavar="N", help="Draw the same inputs as an earlier run.")
@click.option("--check", "checks", multiple=True, metavar="NAME", help="Run only this check (repeatable).")
@click.option("-x", "--stop", is_flag=True, help="Stop at the first check that fails.")
@click.option("--debug", is_flag=True, help="Run your code in this process, so that breakpoint() works.")
@click.option(
    "--isolation",
    type=click.Choice(["process", "sandbox", "none"]),
    default="process",
    show_default=True,
    help="Where your code runs.",
)
@options.state
@click.option(
    "--patience",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    metavar="F",
    help="Multiply all time limits, on a slow machine.",
)
def run(
    targets: tuple[str, ...],
    workspace: Path | None,
    solution: bool,
    as_json: bool,
    junit: Path | None,
    seed: int | None,
    checks: tuple[str, ...],
    stop: bool,
    debug: bool,
    isolation: str,
    state: Path | None,
    patience: float,
) -> int:
    """Grade what the targets name."""
    if not targets:
        raise Refusal("nothing to grade: name a chapter, an exercise, a part, a track, next or all", "grade next")
    if debug and as_json:
        raise Refusal("--debug shares the terminal with your program, --json keeps it to itself: choose one")
    if debug and isolation == "sandbox":
        raise Refusal("--debug runs your code in this process; there is no sandbox in it")
    if junit is not None and not junit.absolute().parent.is_dir():
        raise Refusal(f"--junit: there is no folder {junit.parent}", "make it first")
    from grader.cli.desk import notices, open_desk
    from grader.cli.session import Request

    course, store = open_desk(state)
    exercises = exercises_of(course, targets, store)
    only: dict[str, list[str]] = {}
    if checks:
        from grader.cli.checks import chosen

        only = chosen(course, exercises, checks)
        exercises = [exercise for exercise in exercises if exercise.id in only]
    if not exercises:
        raise Refusal("every exercise that this names is passed already", "grade status shows them")
    request = Request(
        course=course,
        store=store,
        exercises=exercises,
        paths=_paths(course, exercises, workspace, solution),
        only=only,
        solution=solution,
        seed=seed,
        stop=stop,
        debug=debug,
        isolation="none" if debug else isolation,
        patience=patience,
    )
    result = _as_json(request) if as_json else _on_console(request)
    notices(store)
    if junit is not None:
        _write_junit(junit, result.reports)
    if result.interrupted:
        return INTERRUPTED
    return 0 if all(report.passed for report in result.reports) else FAILED


def _on_console(request: Request) -> Result:
    from grader.cli.following import following
    from grader.cli.session import judge_all
    from grader.show.console import ReportView
    from grader.show.terminal import make_console

    view = ReportView(make_console(), spinner=not request.debug)
    result = judge_all(request, view)
    if result.interrupted:
        view.interrupted(result.grading, len(result.reports))
    view.summary(result.reports)
    if not request.solution:
        view.next(following(request, result).text)
    return result


def _as_json(request: Request) -> Result:
    from grader.cli.following import following
    from grader.cli.session import judge_all
    from grader.cli.stdout import reserved
    from grader.show.json_view import dumps, grade_document
    from grader.show.progress import Progress
    from grader.show.terminal import make_console

    with reserved() as out:
        result = judge_all(request, Progress(make_console(sys.stderr)))
        document = grade_document(
            result.reports,
            partial=bool(request.only) or request.stop,
            interrupted=result.interrupted,
            following=following(request, result).exercise,
        )
        out.write(dumps(document) + "\n")
    return result


def _paths(course: Course, exercises: list[Exercise], workspace: Path | None, solution: bool) -> dict[str, Path]:
    if solution:
        return {exercise.id: course.solution_path(exercise) for exercise in exercises}
    from grader.workspace import find_workspace, submission_path

    folder = find_workspace(workspace or Path.cwd())
    paths = {exercise.id: submission_path(folder, exercise) for exercise in exercises}
    for id_, path in paths.items():
        if not path.is_file():
            raise Refusal(f"{path}: there is no such file", f"grade reset {id_} puts the stub there", "setup")
    return paths


def _write_junit(file: Path, reports: list[Report]) -> None:
    from grader.files import write_atomically
    from grader.show.junit import junit

    write_atomically(file, junit(reports))
