"""Finding exercises by what people type: "4.2", "4.2/online_softmax", "online_softmax", "4", "gpu", "next", "all"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from grader.course.catalogue import Course
from grader.course.errors import NotBuiltError, TargetError, near
from grader.course.structure import Chapter, Exercise, Part, Track
from grader.course.tracks_yaml import RESERVED

# 4.2, 04.2, 4/2, 4-2, each with an exercise after a slash or without
_CHAPTER = re.compile(r"0*(\d+)[./-]0*(\d+)(?:/(.+))?")
# 4, 04, 04_kernels, each with something after a slash or without
_PART = re.compile(r"0*(\d+)(?:_[a-z_0-9]*)?(?:/(.+))?")
# 04_kernels/02_flash_attention_1/online_softmax, as the shell completes paths
_FOLDERS = re.compile(r"0*(\d+)_[a-z0-9_]+/0*(\d+)_[a-z0-9_]+(?:/(.+))?")


def find(
    course: Course, target: str, *, done: Callable[[str], bool] = lambda exercise_id: False, track: str | None = None
) -> list[Exercise]:
    """The exercises that a target names, in the order of the course or of the track.

    "next" is the first exercise that is not `done` (by its id) in course order, or along `track` if one is given; it
    is an empty list when all are done. "gpu/next" and "4.2/next" look there only.
    Raises TargetError with near matches, NotBuiltError if nothing of what was asked for is built yet, and CourseError
    if a file of the course is wrong.
    """
    typed = target
    target = _normal(target)
    if not target:
        raise TargetError("no target; name a chapter (4.2), an exercise (4.2/online_softmax), a track, next or all")
    if target == "next":
        return _first_open(course, _along(course, track), done)
    head, slash, last = target.rpartition("/")
    if slash and last == "next":
        return [exercise for exercise in find(course, head) if not done(exercise.id)][:1]
    if target == "all":
        return list(course.exercises())
    for one in course.tracks:
        if target == one.key:
            return _of_track(course, one)
    if match := _FOLDERS.fullmatch(target) or _CHAPTER.fullmatch(target):
        part, number, slug = match.groups()
        return _of_chapter(course, _chapter(course, int(part), int(number)), slug)
    if match := _PART.fullmatch(target):
        return _of_part(course, _part(course, int(match[1])), match[2])
    return _by_name(course, target, typed.strip())


def _normal(target: str) -> str:
    """What was typed without what doesn't matter: case, hyphens, .py, ./ and the path up to exercises/."""
    target = target.strip().replace("\\", "/").lower()
    for top in ("exercises/", "solutions/"):
        before, found, after = target.rpartition(top)
        if found and (not before or before.endswith("/")):
            target = after
    target = target.removeprefix("./").rstrip("/").removesuffix(".py")
    return target if re.match(r"0*\d+-", target) else target.replace("-", "_")


def _along(course: Course, track: str | None) -> Iterable[Chapter]:
    return course.chapters() if track is None else map(course.chapter, course.track(track).chapters)


def _first_open(course: Course, chapters: Iterable[Chapter], done: Callable[[str], bool]) -> list[Exercise]:
    for chapter in chapters:
        if chapter.built:
            for exercise in course.page(chapter.id).exercises:
                if not done(exercise.id):
                    return [exercise]
    return []


def _of_track(course: Course, track: Track) -> list[Exercise]:
    chapters = [course.chapter(chapter_id) for chapter_id in track.chapters]
    exercises = [exercise for c in chapters if c.built for exercise in course.page(c.id).exercises]
    if not exercises:
        raise NotBuiltError(f"no chapter of the track {track.key} is built yet{_built_so_far(course)}")
    return exercises


def _part(course: Course, number: int) -> Part:
    if not 1 <= number <= len(course.parts):
        raise TargetError(f"there is no part {number}; the parts are 1 to {len(course.parts)}")
    return course.parts[number - 1]


def _of_part(course: Course, part: Part, slug: str | None) -> list[Exercise]:
    built = [chapter for chapter in part.chapters if chapter.built]
    if not built:
        raise NotBuiltError(
            f"no chapter of part {part.number}, {part.title}, is built yet{_built_so_far(course)}",
            [(None, chapter) for chapter in course.chapters() if chapter.built],
        )
    if slug is not None:
        return _named(course, slug, built, f"part {part.number}")
    return [exercise for chapter in built for exercise in course.page(chapter.id).exercises]


def _chapter(course: Course, part_number: int, number: int) -> Chapter:
    part = _part(course, part_number)
    if not 1 <= number <= len(part.chapters):
        raise TargetError(
            f"there is no chapter {part_number}.{number}; those of part {part_number} are "
            f"{part.chapters[0].id} to {part.chapters[-1].id}"
        )
    return part.chapters[number - 1]


def _of_chapter(course: Course, chapter: Chapter, slug: str | None) -> list[Exercise]:
    if not chapter.built:
        raise not_built(course, chapter)
    if slug is not None:
        return _named(course, slug, [chapter], chapter.id)
    return list(course.page(chapter.id).exercises)


def _named(course: Course, slug: str, chapters: Sequence[Chapter], where: str) -> list[Exercise]:
    slug = slug.replace("-", "_")
    exercises = [exercise for chapter in chapters for exercise in course.draft(chapter.id).exercises]
    for exercise in exercises:
        if exercise.slug == slug:
            course.check_files(exercise)
            return [exercise]
    slugs = [exercise.slug for exercise in exercises]
    offer = near(slug, slugs) or f"; its exercises are {', '.join(slugs)}"
    raise TargetError(f"no exercise {slug!r} in {where}{offer}")


def _by_name(course: Course, name: str, typed: str) -> list[Exercise]:
    """An exercise's slug, or else a chapter's."""
    exercises = [exercise for c in course.chapters() if c.built for exercise in course.draft(c.id).exercises]
    matches = [exercise for exercise in exercises if exercise.slug == name]
    if len(matches) == 1:
        course.check_files(matches[0])
        return matches
    if matches:
        raise TargetError(f"{name} is in two chapters; say which: {' or '.join(e.id for e in matches)}")
    chapters = [chapter for chapter in course.chapters() if chapter.slug == name]
    if len(chapters) == 1:
        return _of_chapter(course, chapters[0], None)
    if chapters:
        raise TargetError(f"{name} is more than one chapter; say which: {' or '.join(c.id for c in chapters)}")
    words = [*RESERVED, *(track.key for track in course.tracks), *(c.slug for c in course.chapters() if c.built)]
    known = [exercise.slug for exercise in exercises] + words
    offer = near(name, known) or "; `grade list` shows all"
    raise TargetError(f"no exercise {typed!r}{offer}")


def not_built(course: Course, chapter: Chapter) -> NotBuiltError:
    """The error for a chapter that is only planned: it says where to go on instead."""
    holding = [track for track in course.tracks if chapter.id in track.chapters]
    following: list[tuple[Track | None, Chapter]] = []
    offers: list[str] = []
    for one in holding:
        later = map(course.chapter, one.chapters[one.chapters.index(chapter.id) + 1 :])
        if after := next((other for other in later if other.built), None):
            following.append((one, after))
            offers.append(f"({one.key}): {after.id} {after.title}")
    said = f"{chapter.id} {chapter.title} is not built yet"
    if offers:
        return NotBuiltError(f"{said}; next on this track {' or '.join(offers)}", following)
    why = f"; nothing later on {' or '.join(one.key for one in holding)} is built" if holding else ""
    built = [(None, other) for other in course.chapters() if other.built]
    return NotBuiltError(f"{said}{why}{_built_so_far(course)}", built)


def _built_so_far(course: Course) -> str:
    built = [chapter.id for chapter in course.chapters() if chapter.built]
    if len(built) > 12:
        return "; `grade list` shows what is built"
    return f"; built so far: {', '.join(built)}" if built else "; no chapter is built so far"
