"""`grade` alone: what to do now."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text


def welcome() -> None:
    """Print the exercise to do next and the commands that lead through it."""
    from grader.cli.desk import notices, open_desk, standings
    from grader.course import find
    from grader.show.course_view import progress_words
    from grader.show.standing import total
    from grader.show.terminal import make_console, nearby, say
    from grader.workspace import WorkspaceError, find_workspace, submission_path

    course, store = open_desk(None)
    known = standings(store)
    notices(store)
    open_ones = find(course, "next", done=lambda id_: id_ in known and known[id_].passed)
    console = make_console()
    console.print(Text.assemble(("LLMs by Hand", "bold"), f"   {progress_words(total(course.exercises(), known))}"))
    console.print()
    if not open_ones:
        say(console, "Every exercise that is built is passed: see grade status, and grade list --all for the plan.")
        return
    one = open_ones[0]
    try:
        place = nearby(str(submission_path(find_workspace(Path.cwd()), one)))
    except WorkspaceError:
        place = "your file; make a folder for your work first: grade init my-course"
    console.print(Text.assemble("Next: ", (one.id, "bold"), f"  {one.title}"))
    console.print(Text(f"      {one.minutes} minutes, {one.points:g} points", style="dim"))
    console.print()
    for verb, what in (
        ("read", f"grade show {one.chapter}"),
        ("edit", place),
        ("check", f"grade {one.id}"),
        ("stuck?", f"grade hint {one.id}"),
    ):
        console.print(Text.assemble((f"  {verb:<8}", "dim"), (what, "cyan")))
    console.print()
    say(console, "grade list shows every exercise, grade tracks the guided ways, grade --help the rest", "dim")
