"""The course on the terminal: what there is (list, tracks) and how far you are (status)."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from grader.course import Chapter, Course, Exercise, Part, Track
from grader.show import cut
from grader.show.standing import Standings, Sum, total
from grader.show.terminal import Signs, bar

_BAR = 12


def chapter_lines(
    course: Course, chapter: Chapter, standings: Standings, width: int, signs: Signs, wide: int = 0
) -> Iterator[Text]:
    """A chapter and, where it is built, its exercises; `wide`: the column of their names."""
    if not chapter.built:
        yield _cut(Text(f"{chapter.id:>5} {chapter.title}", style="dim"), width)
        return
    yield _cut(Text(f"{chapter.id:>5} {chapter.title}", style="bold"), width)
    exercises = course.page(chapter.id).exercises
    wide = max(wide, *(len(exercise.slug) for exercise in exercises))
    for exercise in exercises:
        yield exercise_line(exercise, standings, width, signs, wide)


def exercise_line(exercise: Exercise, standings: Standings, width: int, signs: Signs, wide: int) -> Text:
    """One exercise: passed, begun or open; name, title, minutes, points."""
    standing = standings.get(exercise.id)
    if standing is None:
        sign, style, points = signs.dot, "", f"{exercise.points:g}"
    else:
        sign, style = (signs.passed, "green") if standing.passed else (signs.tried, "yellow")
        points = f"{standing.points:g}/{standing.possible:g}"
    head = f"     {sign} {exercise.slug:<{wide}}"
    tail = f"{exercise.minutes:>4} min {points:>6} pt"
    room = width - len(head) - len(tail) - 2
    line = Text(head, style=style)
    if room >= 12:
        line.append(f"  {_short(exercise.title, room):<{room}}", style="default")
    line.append(tail, style="dim default")
    return line


def part_line(part: Part) -> Text:
    """The head of a part."""
    return Text(f"{part.number:>2}  {part.title}", style="bold underline")


def track_lines(course: Course, track: Track, standings: Standings, width: int, signs: Signs) -> Iterator[Text]:
    """A track: what it leads to, how far it is built, how far you are, its chapters."""
    chapters = [course.chapter(id_) for id_ in track.chapters]
    built = [chapter for chapter in chapters if chapter.built]
    yield Text.assemble((track.key, "bold cyan"), "  ", (track.title, "bold"))
    yield from (Text(line, style="dim") for line in _lines(track.about, width))
    sum_ = total((e for chapter in built for e in course.page(chapter.id).exercises), standings)
    yield from map(Text, _lines(f"{len(built)} of {len(chapters)} chapters built; {progress_words(sum_)}", width))
    for chapter in chapters:
        yield _cut(Text(f"  {chapter.id:>5}  {chapter.title}", style="" if chapter.built else "dim"), width)


def status_head(title: str, width: int) -> Text:
    """Over status lines."""
    return Text.assemble((title, "bold"), (f"{'passed':>8}{'points':>11}".rjust(width - len(title)), "dim"))


def status_line(key: str, name: str, sum_: Sum, width: int, signs: Signs, *, wide: int) -> Text:
    """A bar of points, the exercises passed, the points."""
    tail = f"{f'{sum_.passed}/{sum_.exercises}':>8}{f'{sum_.points:g}/{sum_.possible:g}':>11}"
    room = width - wide - _BAR - len(tail) - 6
    style = "green" if sum_.exercises and sum_.passed == sum_.exercises else "yellow" if sum_.points else "dim"
    line = Text(f"  {key:<{wide}}  ")
    if room >= 12:
        line.append(f"{_short(name, room):<{room}}  ")
    return line.append(bar(sum_.share, _BAR, signs), style=style).append(tail, style="dim")


def progress_words(sum_: Sum) -> str:
    """`3 of 14 exercises passed, 2 begun, 40/180 points`."""
    if not sum_.exercises:
        return "no exercise is built yet"
    begun = f", {sum_.tried} begun" if sum_.tried else ""
    return f"{sum_.passed} of {sum_.exercises} exercises passed{begun}, {sum_.points:g}/{sum_.possible:g} points"


def _lines(text: str, width: int) -> list[str]:
    return [f"  {line}" for line in cut.prose(text, width - 2)]


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def _cut(line: Text, width: int) -> Text:
    line.truncate(width, overflow="ellipsis")
    return line
