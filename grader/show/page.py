"""The page of a chapter, rendered: its README.md between a head and its exercises."""

from __future__ import annotations

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from grader.course import Chapter, ChapterPage
from grader.show.course_view import exercise_line
from grader.show.standing import Standings
from grader.show.terminal import signs_for, text_width


def show_page(console: Console, chapter: Chapter, page: ChapterPage, readme: str, standings: Standings) -> None:
    """Print the page."""
    width = text_width(console)
    console.print(Markdown(readme, hyperlinks=False), width=width, soft_wrap=False)
    console.print()
    facts = [page.level]
    if chapter.prereqs:
        facts.append(f"builds on {', '.join(chapter.prereqs)}")
    if page.sources:
        facts.append(", ".join(page.sources))
    console.print(Text("; ".join(facts), style="dim"), soft_wrap=False, width=width)
    console.print()
    wide = max(len(exercise.slug) for exercise in page.exercises)
    for exercise in page.exercises:
        console.print(exercise_line(exercise, standings, width, signs_for(console), wide))
