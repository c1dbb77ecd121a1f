"""Python source on the terminal: coloured for people, as it is for pipes."""

from __future__ import annotations

from rich.console import Console


def show_source(console: Console, source: str) -> None:
    """Print it."""
    if not console.is_terminal:
        console.print(source, end="")
        return
    from rich.syntax import Syntax

    console.print(Syntax(source, "python", theme="ansi_dark", background_color="default"), soft_wrap=False)
