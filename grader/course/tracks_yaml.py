"""Reading tracks.yaml: every part and chapter, and the guided tracks."""

from __future__ import annotations

from pathlib import Path

from grader.course.errors import near
from grader.course.structure import Chapter, Part, Track
from grader.course.yaml_table import Table, read

RESERVED = ("all", "next")
"""Words that `grade` understands by itself: no track and no exercise may be called so."""


def read_tracks(root: Path) -> tuple[tuple[Part, ...], tuple[Track, ...]]:
    """The parts with their chapters, and the tracks, in the file's order. Raises CourseError."""
    whole = read(root / "tracks.yaml")
    whole.only(["parts", "tracks"])
    parts: list[Part] = []
    for table in whole.tables("parts", named_by="number"):
        parts.append(_part(table, number=len(parts) + 1, exercises=root / "exercises"))
    _check_prereqs(whole, {chapter.id: chapter for part in parts for chapter in part.chapters})
    known = [chapter.id for part in parts for chapter in part.chapters]
    tracks: list[Track] = []
    for table in whole.tables("tracks", named_by="key"):
        track = _track(table, known)
        if any(track.key == other.key for other in tracks):
            raise table.fault("this key is there twice")
        tracks.append(track)
    return tuple(parts), tuple(tracks)


def _part(table: Table, number: int, exercises: Path) -> Part:
    table.only(["number", "title", "slug", "chapters"])
    if table.whole("number") != number:
        raise table.fault(f"number must be {number}: parts are numbered in their order")
    slug = table.slug("slug")
    chapters: list[Chapter] = []
    for entry in table.tables("chapters", named_by="id"):
        entry.only(["id", "slug", "title", "prereqs"])
        index = len(chapters) + 1
        chapter_id = entry.text("id")
        if any(chapter_id == earlier.id for earlier in chapters):
            raise entry.fault("this id is there twice")
        if chapter_id != f"{number}.{index}":
            raise entry.fault(f'id must be "{number}.{index}": chapters are numbered in their order')
        chapter_slug = entry.slug("slug")
        if any(chapter_slug == earlier.slug for earlier in chapters):
            raise entry.fault(f"slug {chapter_slug} is there twice in this part")
        folder = f"{number:02}_{slug}/{index:02}_{chapter_slug}"
        chapters.append(
            Chapter(
                id=chapter_id,
                number=index,
                part=number,
                slug=chapter_slug,
                title=entry.text("title"),
                prereqs=entry.texts("prereqs"),
                folder=folder,
                built=(exercises / folder / "chapter.yaml").is_file(),
            )
        )
    return Part(number, table.text("title"), slug, tuple(chapters))


def _track(table: Table, known: list[str]) -> Track:
    table.only(["key", "title", "about", "chapters"])
    key = table.slug("key")
    if key in RESERVED:
        raise table.fault(f"a track can't be called {key}: `grade {key}` has a meaning of its own")
    chapters = table.texts("chapters")
    for chapter in chapters:
        if chapter not in known:
            raise table.fault(f"there is no chapter {chapter}{near(chapter, known)}")
        if chapters.count(chapter) > 1:
            raise table.fault(f"chapter {chapter} is there twice")
    return Track(key, table.text("title"), table.text("about"), chapters)


def _check_prereqs(whole: Table, chapters: dict[str, Chapter]) -> None:
    """Every prerequisite is a chapter, and none leads back to where it started."""
    for chapter in chapters.values():
        for prereq in chapter.prereqs:
            if prereq not in chapters:
                raise whole.fault(f"chapter {chapter.id}: there is no prereq {prereq}{near(prereq, list(chapters))}")
    settled: set[str] = set()
    for start in chapters:
        path = [start]
        untried = [iter(chapters[start].prereqs)]
        while path:
            step = next((prereq for prereq in untried[-1] if prereq not in settled), None)
            if step is None:
                settled.add(path.pop())
                untried.pop()
            elif step in path:
                circle = [*path[path.index(step) :], step]
                raise whole.fault(f"prereqs in a circle: {' needs '.join(circle)}; take one of them out")
            else:
                path.append(step)
                untried.append(iter(chapters[step].prereqs))
