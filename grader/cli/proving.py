"""Running `grade dev check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from grader.cli.errors import FAILED
from grader.course import find, load


def prove_and_show(targets: Sequence[str], jobs: int, *, as_json: bool) -> int:
    """Prove what the targets name and show it; 1 if something is not as it must be."""
    from grader.judge.prove import Proof, prove
    from grader.show.proof import ProofView
    from grader.show.terminal import make_console
    from grader.show.waiting import Waiting

    course = load()
    exercises = list({exercise.id: exercise for target in targets for exercise in find(course, target)}.values())
    console = make_console(sys.stderr if as_json else sys.stdout)
    view = ProofView(console, [exercise.id for exercise in exercises])
    done = 0

    def told(proof: Proof) -> None:
        nonlocal done
        done += 1
        waiting.now(_state(done, len(exercises)))
        if not as_json:
            view.row(proof)

    if not as_json:
        view.head()
    with Waiting(console, _state(0, len(exercises))) as waiting:
        proofs = prove(course, exercises, jobs=jobs, on_proof=told)
    if as_json:
        from grader.show.documents import proof_document
        from grader.show.json_view import dumps

        click.echo(dumps(proof_document(proofs)))
    else:
        view.rest(proofs)
    return 0 if all(proof.ok for proof in proofs) else FAILED


def _state(done: int, count: int) -> str:
    return f"{done} of {count} exercises proved"
