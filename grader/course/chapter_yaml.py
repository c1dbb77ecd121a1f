"""Reading the chapter.yaml of one built chapter."""

from __future__ import annotations

from pathlib import Path

from grader.course.structure import KINDS, LEVELS, Chapter, ChapterPage, Exercise, Limits
from grader.course.tracks_yaml import RESERVED
from grader.course.yaml_table import SLUG, Table, read

HINTS = 3


def read_page(file: Path, chapter: Chapter) -> ChapterPage:
    """The page of a chapter, which must agree with what tracks.yaml says of it. Raises CourseError."""
    table = read(file)
    table.only(["id", "title", "level", "outcome", "prereqs", "sources", "exercises"])
    for key, expected in (("id", chapter.id), ("title", chapter.title)):
        if table.text(key) != expected:
            raise table.fault(f"{key} is {table.text(key)!r}, tracks.yaml says {expected!r}; make them equal")
    prereqs = table.texts("prereqs")
    if set(prereqs) != set(chapter.prereqs):
        here, there = ", ".join(prereqs) or "none", ", ".join(chapter.prereqs) or "none"
        raise table.fault(f"prereqs are {here}; tracks.yaml says {there}; make them equal")
    exercises: list[Exercise] = []
    for entry in table.tables("exercises", named_by="slug"):
        exercise = _exercise(entry, chapter)
        if any(exercise.slug == earlier.slug for earlier in exercises):
            raise entry.fault("this slug is there twice")
        exercises.append(exercise)
    if not exercises:
        raise table.fault("exercises is empty; a chapter has at least one")
    return ChapterPage(
        id=chapter.id,
        title=chapter.title,
        level=table.one_of("level", LEVELS),
        outcome=" ".join(table.text("outcome").split()),
        prereqs=prereqs,
        sources=table.texts("sources"),
        exercises=tuple(exercises),
    )


def _exercise(table: Table, chapter: Chapter) -> Exercise:
    table.only(
        ["slug", "title", "kind", "minutes", "points", "hints", "mistakes"], optional=["forbid", "limits", "gpu"]
    )
    slug = table.slug("slug")
    if slug in RESERVED:
        raise table.fault(f"an exercise can't be called {slug}: `grade {slug}` has a meaning of its own")
    hints = table.texts("hints")
    if len(hints) != HINTS:
        raise table.fault(f"{len(hints)} hints, exactly {HINTS} expected: a nudge, the approach, nearly the code")
    return Exercise(
        id=f"{chapter.id}/{slug}",
        slug=slug,
        title=table.text("title"),
        kind=table.one_of("kind", KINDS),
        minutes=table.whole("minutes", least=1),
        points=table.number("points"),
        chapter=chapter.id,
        folder=chapter.folder,
        forbid=table.texts("forbid") if "forbid" in table else (),
        hints=hints,
        mistakes=_mistakes(table.table("mistakes")),
        gpu=tuple(_gpu(entry) for entry in table.tables("gpu", named_by="shape")) if "gpu" in table else (),
        limits=_limits(table.table("limits")) if "limits" in table else Limits(),
    )


def _mistakes(table: Table) -> dict[str, str]:
    names = table.keys()
    if not names:
        raise table.fault("none is listed; write at least one wrong program, with its diagnosis")
    diagnoses: dict[str, str] = {}
    for name in names:
        if not SLUG.fullmatch(name):
            raise table.fault(f"the name {name!r} must be lower case words joined by underscores")
        diagnoses[name] = " ".join(table.text(name).split())
    return diagnoses


def _gpu(table: Table) -> dict[str, str]:
    table.only(["shape", "target"])
    return {"shape": table.text("shape"), "target": table.text("target")}


def _limits(table: Table) -> Limits:
    table.only([], optional=["check_seconds", "exercise_seconds", "memory_mib", "processes", "output_kib"])
    default = Limits()
    return Limits(
        check_seconds=table.number("check_seconds") if "check_seconds" in table else default.check_seconds,
        exercise_seconds=table.number("exercise_seconds") if "exercise_seconds" in table else default.exercise_seconds,
        memory_mib=table.whole("memory_mib", least=64) if "memory_mib" in table else default.memory_mib,
        processes=table.whole("processes") if "processes" in table else default.processes,
        output_kib=table.whole("output_kib", least=1) if "output_kib" in table else default.output_kib,
    )
