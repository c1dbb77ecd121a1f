"""The whole course: where its files are, its parts and tracks, and the page of each built chapter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from grader.course.chapter_yaml import read_page
from grader.course.errors import CourseError, near
from grader.course.structure import Chapter, ChapterPage, Exercise, Part, Track
from grader.course.tracks_yaml import read_tracks

VARIABLE = "LLM_BY_HAND_COURSE"


@dataclass(frozen=True)
class Course:
    """All parts, chapters and tracks. The chapter.yaml of a chapter is read when its page is first asked for."""

    root: Path
    """Holds tracks.yaml, exercises/, solutions/ and tests/chapters/."""
    parts: tuple[Part, ...]
    tracks: tuple[Track, ...]
    _pages: dict[str, ChapterPage] = field(default_factory=dict, repr=False, compare=False)
    _checked: set[str] = field(default_factory=set, repr=False, compare=False)

    @cached_property
    def _chapters(self) -> dict[str, Chapter]:
        return {chapter.id: chapter for part in self.parts for chapter in part.chapters}

    def chapters(self) -> Iterator[Chapter]:
        """Every chapter in course order, built or not."""
        yield from self._chapters.values()

    def chapter(self, chapter_id: str) -> Chapter:
        """The chapter with this id ("4.2")."""
        if chapter_id not in self._chapters:
            raise CourseError(f"there is no chapter {chapter_id}{near(chapter_id, list(self._chapters))}")
        return self._chapters[chapter_id]

    def track(self, key: str) -> Track:
        """The track with this key ("gpu")."""
        for track in self.tracks:
            if track.key == key:
                return track
        keys = [track.key for track in self.tracks]
        raise CourseError(f"there is no track {key!r}{near(key, keys) or '; the tracks are ' + ', '.join(keys)}")

    def page(self, chapter_id: str) -> ChapterPage:
        """What a built chapter says about itself; the files of its exercises are known to be there afterwards."""
        page = self.draft(chapter_id)
        for exercise in page.exercises:
            self.check_files(exercise)
        return page

    def draft(self, chapter_id: str) -> ChapterPage:
        """The page of a chapter that may still be in the making: some of its exercises' files may be missing."""
        if chapter_id not in self._pages:
            chapter = self.chapter(chapter_id)
            if not chapter.built:
                raise CourseError(f"{chapter.id} {chapter.title} is not built yet")
            self._pages[chapter_id] = read_page(self.root / "exercises" / chapter.folder / "chapter.yaml", chapter)
        return self._pages[chapter_id]

    def exercises(self) -> Iterator[Exercise]:
        """Every exercise of every built chapter, in course order."""
        for chapter in self.chapters():
            if chapter.built:
                yield from self.page(chapter.id).exercises

    def exercise(self, exercise_id: str) -> Exercise:
        """The exercise with this id ("4.2/online_softmax")."""
        chapter_id, _, slug = exercise_id.partition("/")
        exercises = self.draft(chapter_id).exercises
        for exercise in exercises:
            if exercise.slug == slug:
                self.check_files(exercise)
                return exercise
        slugs = [exercise.slug for exercise in exercises]
        raise CourseError(f"there is no exercise {slug!r} in {chapter_id}{near(slug, slugs)}")

    def stub_path(self, exercise: Exercise) -> Path:
        """The file that a learner starts from."""
        return self.root / "exercises" / exercise.file

    def solution_path(self, exercise: Exercise) -> Path:
        """The reference solution, from which the stub is made."""
        return self.root / "solutions" / exercise.file

    def tests_path(self, exercise: Exercise) -> Path:
        """The hidden tests."""
        return self.root / "tests" / "chapters" / exercise.folder / f"test_{exercise.slug}.py"

    def mistakes_path(self, exercise: Exercise) -> Path:
        """The wrong programs, as edits of the solution."""
        return self.root / "tests" / "chapters" / exercise.folder / "mistakes" / f"{exercise.slug}.py"

    def alternatives(self, exercise: Exercise) -> list[Path]:
        """Right programs written another way."""
        return sorted(
            (self.root / "tests" / "chapters" / exercise.folder / "alternatives" / exercise.slug).glob("*.py")
        )

    def check_files(self, exercise: Exercise) -> None:
        """Stub, solution and hidden tests are there. Raises CourseError."""
        if exercise.id in self._checked:
            return
        wanted = (
            (self.solution_path(exercise), "the solution", "write it"),
            (self.stub_path(exercise), "the stub", "`grade dev stubs` makes it from the solution"),
            (self.tests_path(exercise), "the hidden tests", "write them"),
        )
        for path, what, remedy in wanted:
            if not path.is_file():
                raise CourseError(f"{path}: {exercise.id} lacks {what}; {remedy}, or take it out of chapter.yaml")
        self._checked.add(exercise.id)


def load(root: Path | None = None) -> Course:
    """The course in a folder: by default the one that LLM_BY_HAND_COURSE names, else the one this package came with.

    Raises CourseError if tracks.yaml is missing or wrong.
    """
    root = root or _default_root()
    parts, tracks = read_tracks(root)
    return Course(root, parts, tracks)


def _default_root() -> Path:
    if named := os.environ.get(VARIABLE):
        if not (Path(named) / "tracks.yaml").is_file():
            raise CourseError(f"{VARIABLE} is {named}, and there is no tracks.yaml in it; unset it or name a course")
        return Path(named).resolve()
    package = Path(__file__).resolve().parent.parent
    installed = package / "_course"  # in a wheel the course travels inside the package
    return installed if installed.is_dir() else package.parent
