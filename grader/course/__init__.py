"""The course as data: parts, chapters, exercises, tracks, and finding them by what people type. Never imports torch."""

from grader.course.catalogue import Course, load
from grader.course.errors import CourseError, NotBuiltError, TargetError
from grader.course.structure import Chapter, ChapterPage, Exercise, Limits, Part, Track
from grader.course.targets import find

__all__ = [
    "Chapter",
    "ChapterPage",
    "Course",
    "CourseError",
    "Exercise",
    "Limits",
    "NotBuiltError",
    "Part",
    "TargetError",
    "Track",
    "find",
    "load",
]
