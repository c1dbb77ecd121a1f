"""Hints on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from grader.course import Exercise
from grader.show import cut
from grader.show.terminal import text_width


def show_hints(console: Console, exercise: Exercise, hints: Sequence[tuple[int, str]]) -> None:
    """Print numbered hints and what is left."""
    count = len(exercise.hints)
    console.print(Text.assemble((exercise.id, "bold"), f"  {exercise.title}"))
    for number, text in hints:
        console.print()
        console.print(Text(f"Hint {number} of {count}", style="bold cyan"))
        for line in cut.prose(text, text_width(console) - 2):
            console.print(f"  {line}")
    console.print()
    last = hints[-1][0]
    if last < count:
        console.print(Text(f"the next one: grade hint {exercise.id}", style="dim"))
    else:
        console.print(Text(f"that was the last; the solution: grade solution {exercise.id}", style="dim"))
