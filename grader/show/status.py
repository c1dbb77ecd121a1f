"""How far a learner is: bars per part and per track."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from grader.course import Course, Exercise
from grader.show.course_view import progress_words, status_head, status_line
from grader.show.standing import Standings, total
from grader.show.terminal import Signs


def part_exercises(course: Course, number: int) -> list[Exercise]:
    """The built exercises of a part."""
    chapters = course.parts[number - 1].chapters
    return [exercise for chapter in chapters if chapter.built for exercise in course.page(chapter.id).exercises]


def track_exercises(course: Course, key: str) -> list[Exercise]:
    """The built exercises of a track."""
    chapters = map(course.chapter, course.track(key).chapters)
    return [exercise for chapter in chapters if chapter.built for exercise in course.page(chapter.id).exercises]


def status_lines(course: Course, standings: Standings, width: int, signs: Signs) -> Iterator[Text]:
    """Only parts and tracks that have something built are shown: an empty bar for an unwritten part says nothing."""
    yield Text(progress_words(total(course.exercises(), standings)), style="bold")
    wide = max(len(track.key) for track in course.tracks)
    yield Text()
    yield status_head("Parts", width)
    for part in course.parts:
        if exercises := part_exercises(course, part.number):
            sum_ = total(exercises, standings)
            yield status_line(str(part.number), part.title, sum_, width, signs, wide=wide)
    yield Text()
    yield status_head("Tracks", width)
    for track in course.tracks:
        if exercises := track_exercises(course, track.key):
            yield status_line(track.key, track.title, total(exercises, standings), width, signs, wide=wide)
