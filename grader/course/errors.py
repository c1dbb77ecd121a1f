"""What can be wrong with the course's files, or with what somebody typed."""

from __future__ import annotations

from collections.abc import Sequence

from grader.course.structure import Chapter, Track


class CourseError(Exception):
    """A file of the course is wrong. The message names the file, the place and what to do."""


class TargetError(Exception):
    """What was typed names no exercise. The message offers near matches."""


class NotBuiltError(TargetError):
    """The chapters asked for are in the course's plan, but have no exercises yet."""

    def __init__(self, message: str, following: Sequence[tuple[Track | None, Chapter]] = ()) -> None:
        super().__init__(message)
        self.following = tuple(following)
        """Where to go instead: the next built chapter on each track that holds the chapter (None: in course order)."""


def near(word: str, known: Sequence[str]) -> str:
    """ "; did you mean x?" for the nearest of the known words, or nothing."""
    from difflib import get_close_matches  # slow to import, and needed only when something is wrong

    matches = get_close_matches(word, known, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(matches)}?" if matches else ""
