"""What `grade dev check` found: a row per exercise, what is wrong, the slowest ten."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from grader.judge.prove import Proof, Trial
from grader.report import Outcome
from grader.show import cut
from grader.show.terminal import STYLE, signs_for

ROLES = ("stub", "solution", "mistake", "alternative", "trivial")
_HEADS = ("stub", "solution", "mistakes", "altern.", "trivial")
_SLOWEST = 10


class ProofView:
    """Prints rows as proofs come in, then the rest."""

    def __init__(self, console: Console, exercises: Sequence[str]) -> None:
        self._console = console
        self._signs = signs_for(console)
        self._width = min(console.width, 120)
        self._wide = max((len(exercise) for exercise in exercises), default=8)

    def head(self) -> None:
        """The head of the table."""
        cells = "".join(f"{head:>9}" for head in _HEADS)
        self._console.print(Text(f"    {'exercise':<{self._wide}}{cells}{'seconds':>9}", style="dim"))

    def row(self, proof: Proof) -> None:
        """One exercise: for each role how many programs were judged as they must be."""
        outcome = Outcome.PASSED if proof.ok else Outcome.FAILED
        line = Text(f"  {self._signs.outcome[outcome]} {proof.exercise:<{self._wide}}", style=STYLE[outcome])
        for role in ROLES:
            right, count = _tally(proof, role)
            line.append(
                f"{f'{right}/{count}' if count else self._signs.dot:>9}",
                "not bold default" if right == count else "bold red",
            )
        line.append(f"{proof.seconds:>9.1f}", style="not bold dim default")
        self._console.print(line)

    def rest(self, proofs: Sequence[Proof]) -> None:
        """What is wrong, the slowest exercises, the sum."""
        for proof in proofs:
            self._wrong(proof)
        if len(proofs) > 1:
            self._console.print()
            self._console.print(Text(f"The slowest {min(_SLOWEST, len(proofs))}", style="bold"))
            for proof in sorted(proofs, key=lambda proof: -proof.seconds)[:_SLOWEST]:
                trial = max(proof.trials, key=lambda trial: trial.seconds, default=None)
                slow = f"  {trial.role} {trial.program} {trial.seconds:.1f} s" if trial else ""
                self._console.print(f"  {proof.seconds:6.1f} s  {proof.exercise:<{self._wide}}{slow}")
        trials = [trial for proof in proofs for trial in proof.trials]
        right = sum(proof.ok for proof in proofs)
        checks = sum(trial.checks for trial in trials)
        self._console.print()
        self._console.print(
            Text(
                f"{right} of {len(proofs)} exercises proved: {len(trials)} programs judged by {checks} checks",
                style="bold green" if right == len(proofs) else "bold red",
            )
        )

    def _wrong(self, proof: Proof) -> None:
        wrong = [trial for trial in proof.trials if not trial.ok]
        if not wrong and not proof.problem:
            return
        self._console.print()
        self._console.print(Text(proof.exercise, style="bold"))
        for line in cut.prose(proof.problem, self._width - 4):
            self._console.print(f"    {line}")
        for trial in wrong:
            self._console.print(Text(f"  {self._signs.tried} {trial.role} {trial.program}", style="bold red"))
            for line in cut.fewer(cut.prose(trial.detail, self._width - 6), 12):
                self._console.print(f"      {line}")


def _tally(proof: Proof, role: str) -> tuple[int, int]:
    of_role: list[Trial] = [trial for trial in proof.trials if trial.role == role]
    return sum(trial.ok for trial in of_role), len(of_role)
