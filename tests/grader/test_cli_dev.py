"""`grade dev`: stubs, and the table of proofs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import pytest
from command_line import Desk

from grader.course import Course, Exercise


def test_stubs_are_checked_and_written(desk: Desk) -> None:
    desk.grade("dev", "stubs")
    assert desk.grade("dev", "stubs", "--check").code == 0
    stub = desk.file("01_foundations/01_vectors/dot.py")
    right = stub.read_text()
    stub.write_text("mine = 1\n")
    said = desk.grade("dev", "stubs", "--check")
    assert said.code == 1
    assert "dot.py" in said.out
    assert stub.read_text() == "mine = 1\n"
    assert "1 stub written" in desk.grade("dev", "stubs").out
    assert stub.read_text() == right


class TestCheck:
    @pytest.fixture(autouse=True)
    def _proofs(self, desk: Desk) -> None:
        desk.patch.delitem(sys.modules, "grader.judge")
        from grader.judge import prove as module

        def prove(
            course: Course, exercises: Sequence[Exercise], *, jobs: int, on_proof: Callable[[module.Proof], None]
        ) -> list[module.Proof]:
            proofs = []
            for exercise in exercises:
                missed = exercise.slug == "norm"
                why = "passes every check" if missed else ""
                trials = (
                    module.Trial(exercise.id, "stub", "stub", True, "", 2, 0.1),
                    module.Trial(exercise.id, "solution", "solution, seed 1", True, "", 2, 0.5),
                    module.Trial(exercise.id, "mistake", "off_by_one", not missed, why, 2, 0.2),
                )
                proofs.append(module.Proof(exercise.id, trials, 0.8))
                on_proof(proofs[-1])
            return proofs

        desk.patch.setattr(module, "prove", prove)

    def test_a_table_and_what_is_wrong(self, desk: Desk) -> None:
        said = desk.grade("dev", "check", "1.1")
        assert said.code == 1
        assert "✓ 1.1/dot" in said.out
        assert "✗ 1.1/norm" in said.out
        assert "mistake off_by_one" in said.out
        assert "passes every check" in said.out
        assert "1 of 2 exercises proved: 6 programs judged by 12 checks" in said.out
        assert "The slowest 2" in said.out
        assert desk.grade("dev", "check", "1.1/dot").code == 0

    def test_as_json(self, desk: Desk) -> None:
        document = desk.grade("dev", "check", "--json").document
        assert document["ok"] is False
        assert [one["exercise"] for one in document["exercises"] if not one["ok"]] == ["1.1/norm"]
