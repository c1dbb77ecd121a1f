"""Kernels watched in the interpreter: counts that are known, faults that must be named, freedoms that must bite."""

from __future__ import annotations

import copy
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from grader.testing.failure import CheckFailed
from grader.testing.kernels import KernelRun, interpreted, launches_only

EXAMPLES = Path(__file__).with_name("kernel_examples.py")
F32 = 4

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton exists for Linux only")


def line_of(text: str) -> int:
    """The line of the examples that holds a text; there must be one only."""
    found = [i for i, line in enumerate(EXAMPLES.read_text().splitlines(), 1) if text in line]
    assert len(found) == 1, (text, found)
    return found[0]


@pytest.fixture(scope="module")
def seen() -> dict[str, Any]:
    """The evidence of all examples, from one process with the interpreter switched on."""
    environment = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(EXAMPLES), "interpret"], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    evidence: dict[str, Any] = json.loads(done.stdout)
    return evidence


def run_of(*summaries: dict[str, Any]) -> KernelRun:
    run = KernelRun()
    run.fill(summaries)
    return run


class Recorded:
    """A submission whose calls have been made already."""

    def __init__(self, *summaries: dict[str, Any]) -> None:
        self.summaries = summaries
        self.options: dict[str, Any] = {}

    @contextmanager
    def measure(self, probes: dict[str, dict[str, Any]]) -> Iterator[Any]:
        self.options = probes["kernels"]
        yield SimpleNamespace(results=[{"kernels": summary} for summary in self.summaries])


class TestCounts:
    def test_one_pass_softmax(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["softmax"])
        assert [(launch.kernel, launch.grid, launch.programs) for launch in run.launches] == [
            ("softmax_kernel", (5, 1, 1), 5)
        ]
        assert run.loaded("x") == run.loaded() == run.unique_loaded("x") == 500 * F32
        assert run.stored("result") == run.stored() == run.unique_stored() == 500 * F32
        assert run.loaded("temporary") == 0
        assert run.largest_block == 128
        assert (run.dots, run.atomics, list(run.violations), run.unguarded) == (0, 0, [], {})

    def test_a_view_with_a_row_stride(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["softmax_strided"])
        assert run.loaded("x") == 500 * F32
        loads = [access for access in run.accesses if access.kind == "load"]
        assert [access.first for access in loads] == [0, 200, 400, 600, 800]  # elements from x[0, 0], in memory

    def test_matmul_reads_again_by_the_tile(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["matmul"])  # (70, 40) @ (40, 50) in blocks of (32, 32, 16): 3 x 2 tiles, 3 steps
        assert run.loaded("a") == 2 * 70 * 40 * F32
        assert run.loaded("b") == 3 * 40 * 50 * F32
        assert run.unique_loaded("a") == 70 * 40 * F32
        assert run.stored("result") == 70 * 50 * F32
        assert run.dots == 6 * 3
        assert run.dot_flops == 18 * 2 * 32 * 32 * 16
        assert {(dot.a, dot.accumulator) for dot in run.dot_list} == {("fp32", "fp32")}
        stores = [access for access in run.accesses if access.kind == "store"]
        assert [access.first for access in stores] == [32 * r * 50 + 32 * c for r in range(3) for c in range(2)]

    def test_two_views_of_one_tensor_are_told_apart(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["views"])
        assert run.loaded("q") == run.loaded("k") == run.stored("q") == run.stored("k") == 6 * 16 * F32
        assert run.launches[0].loaded == {"q": 384, "k": 384}
        assert not run.violations

    def test_in_place(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["in_place"])
        assert run.loaded("x") == run.stored("x") == 100 * F32
        assert run.stored("result") == 0  # the result is x itself
        assert not run.violations

    def test_atomics(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["histogram"])
        assert run.atomics == 100
        assert run.stored("result") == 100 * 4
        assert run.unique_stored("result") == 7 * 4
        assert not run.violations

    def test_descriptors(self, seen: dict[str, Any]) -> None:
        for case, elements in (("descriptor", 20 * 24), ("host_descriptor", 20 * 32)):
            run = run_of(seen[case])
            assert run.loaded("x") == run.stored("result") == elements * F32, case
            assert not run.violations, case

    def test_two_element_sizes_in_one_storage(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["two_types"])
        assert run.loaded("words") == 16 * 4 + 16 * 2
        assert run.unique_loaded("words") == 16 * 4

    def test_pointers_selected_or_looked_up(self, seen: dict[str, Any]) -> None:
        either, table = run_of(seen["either"]), run_of(seen["by_table"])
        assert (either.loaded("x"), either.loaded("y")) == (8 * F32, 8 * F32)
        assert (table.loaded("rows[0]"), table.loaded("rows")) == (8 * F32, 16 * F32)
        assert not either.violations
        assert not table.violations

    def test_results_that_share_a_storage(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["gap"])
        assert (run.stored("result[0]"), run.stored("result[1]"), run.stored("result")) == (80, 20, 100)
        assert run.launches[0].stored == {"result[0]": 80, "result[1]": 20}

    def test_autotuned_kernels_run_once_with_their_first_config(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["tuned"])
        assert [launch.grid for launch in run.launches] == [(4, 1, 1)]
        assert run.loaded("x") == 100 * F32

    def test_several_calls_add_up(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["softmax"], seen["softmax_strided"])
        assert run.loaded("x") == 2 * 500 * F32
        assert len(run.launches) == 2
        assert {access.launch for access in run.accesses} == {0, 1}

    def test_programs_in_random_order(self, seen: dict[str, Any]) -> None:
        order = [access.program for access in run_of(seen["batched"]).accesses if access.kind == "load"]
        assert order != sorted(order)
        assert sorted(order) == list(range(300))

    def test_the_same_in_batches(self, seen: dict[str, Any]) -> None:
        assert all(seen["batches"].values()), seen["batches"]
        assert seen["condensed"] == {"result[0] and result[1]": 100}

    def test_the_evidence_is_plain_data(self, seen: dict[str, Any]) -> None:
        assert msgpack.unpackb(msgpack.packb(seen["matmul"])) == seen["matmul"]


class TestLayout:
    def test_a_turned_tile_has_runs_on_both_sides(self, seen: dict[str, Any]) -> None:
        full = [access for access in run_of(seen["transpose"]).accesses if access.elements == 32 * 32]
        assert {access.kind for access in full} == {"load", "store"}
        assert all(access.longest_run == 32 and access.shape == (32, 32) for access in full)
        assert all(access.sectors <= access.ideal_sectors + 32 for access in full)

    def test_stores_by_columns_waste_sectors(self, seen: dict[str, Any]) -> None:
        stores = [a for a in run_of(seen["transpose_by_columns"]).accesses if a.kind == "store" and a.elements == 32]
        assert all(access.longest_run == 1 for access in stores)
        assert all(access.sectors == 32 and access.ideal_sectors == 4 for access in stores)


class TestFaults:
    def test_reads_and_writes_past_the_end(self, seen: dict[str, Any]) -> None:
        read, written = line_of("# reads past x"), line_of("# writes past y")
        assert run_of(seen["unmasked"]).violations.out_of_bounds == (
            f"line {read}: tl.load reads 28 elements past the end of `x` (first in program 1)",
            f"line {written}: tl.store writes 28 elements past the end of `result` (first in program 1)",
        )

    def test_wild_addresses_do_not_hurt(self, seen: dict[str, Any]) -> None:
        said = run_of(seen["wild"]).violations.out_of_bounds
        assert len(said) == 4
        assert said[0].startswith(
            f"line {line_of('# reads far away')}: tl.load reads 1 element before the start of `x`"
        )
        assert "an atomic changes 1 element past the end of `result`" in said[2]
        assert "an atomic changes" in said[3]
        assert seen["values"]["rolled_back"] == ["0.0", "0.0"]

    def test_into_another_tensor(self, seen: dict[str, Any]) -> None:
        (said,) = run_of(seen["strays"]).violations.out_of_bounds
        assert said.startswith(f"line {line_of('# into another tensor')}: tl.load reads 1 element ")
        assert "of `x`" in said
        assert run_of(seen["strays"]).loaded("y") == 0

    def test_a_descriptor_larger_than_its_tensor(self, seen: dict[str, Any]) -> None:
        said = run_of(seen["descriptor_too_tall"]).violations.out_of_bounds
        assert "a descriptor load reads 240 elements past the end of `x`" in said[0]
        assert "a descriptor store writes 240 elements past the end of `result`" in said[1]

    def test_two_programs_store_one_element(self, seen: dict[str, Any]) -> None:
        line = line_of("# every program stores here")
        assert run_of(seen["race"]).violations.races == (
            f"line {line}: programs 0 and 3 of last_kernel both store to `result[0]`: on a GPU either may come last",
        )

    def test_reading_the_neighbours_result(self, seen: dict[str, Any]) -> None:
        (said,) = run_of(seen["neighbour"]).violations.races
        reads, stores = line_of("# the neighbour's result"), line_of("# stores the result")
        assert said.startswith(
            f"line {reads}: program 1 of chain_kernel reads `result[31]` (and 2 more elements), "
            f"which program 0 stores in the same launch (line {stores})"
        )

    def test_synchronised_by_an_atomic(self, seen: dict[str, Any]) -> None:
        assert not run_of(seen["ticket"]).violations

    def test_elements_that_nobody_wrote(self, seen: dict[str, Any]) -> None:
        assert run_of(seen["gap"]).violations.never_written == (
            "15 of 20 elements of `result[1]` were never written (the first is `result[1][5]`)",
        )

    def test_lanes_without_other(self, seen: dict[str, Any]) -> None:
        assert run_of(seen["no_other"]).unguarded == {line_of("# no other"): 28}


class TestHostile:
    @pytest.mark.parametrize("name", ["sum_without_other", "int_sum_without_other", "chained_scan"])
    def test_bites(self, seen: dict[str, Any], name: str) -> None:
        plain, hostile = seen["values"][name]
        assert [repr(value) for value in plain] != hostile

    @pytest.mark.parametrize("name", ["sum_with_other", "softmax", "ticket_sum"])
    def test_spares_the_right(self, seen: dict[str, Any], name: str) -> None:
        plain, hostile = seen["values"][name]
        assert [repr(value) for value in plain] == hostile

    def test_new_memory_is_spoilt(self, seen: dict[str, Any]) -> None:
        assert seen["values"]["new"] == ["nan", "nan", "nan", f"{0x5A5A5A5A}.0", "90.0", "nan"]
        assert seen["values"]["new_ways"] == [True] * 6


class TestWrapper:
    def test_harmless(self, seen: dict[str, Any]) -> None:
        for case in ("softmax", "gap", "histogram", "tuned", "host_descriptor", "views"):
            launches_only(run_of(seen[case]), *(name for name in ("x", "q", "k") if name in seen[case]["names"]))

    def test_a_copy_of_an_argument_is_named_first(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed) as failure:
            launches_only(run_of(seen["busy"]), "x")
        line = line_of("# copies x")
        assert f"but it does more: line {line}: aten.clone on `x`, 3,150 new elements; " in failure.value.message
        assert "aten.mul" in failure.value.message
        assert "fill_" not in failure.value.message

    def test_torch_inside_a_kernel(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match=f"inside a kernel.*line {line_of('# torch in a kernel')}"):
            launches_only(run_of(seen["torch_inside"]))

    def test_constants_and_torchs_own_fills_are_harmless(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["constants"])
        launches_only(run, "x")
        assert not run.violations

    @pytest.mark.parametrize(
        ("case", "whose"),
        [
            ("written_after", "`result`"),
            ("written_before", "a temporary tensor"),
            ("argument_written", "`x`"),
            ("table_written", "a temporary tensor"),
            ("through_numpy", "`result`"),
        ],
    )
    def test_memory_that_host_code_writes(self, seen: dict[str, Any], case: str, whose: str) -> None:
        (said,) = run_of(seen[case]).violations.host_writes
        assert said.startswith(f"{whose} was changed by host code")
        with pytest.raises(CheckFailed, match="changed by host code"), interpreted(Recorded(seen[case])):
            pass

    def test_memory_that_the_host_brings_in(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match="a tensor over host memory"):
            launches_only(run_of(seen["copy_of_the_hosts"]))
        of_the_hosts = Recorded(seen["result_of_the_hosts"])
        with pytest.raises(CheckFailed, match="`result` is memory of the host's"), interpreted(of_the_hosts):
            pass
        with pytest.raises(CheckFailed, match=r"aten.lift_fresh, 300 new elements"):
            launches_only(run_of(seen["many_values_from_python"]))

    def test_values_that_go_to_the_host(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match=f"line {line_of('y.numpy()[:] = 2.0')}: Tensor.numpy"):
            launches_only(run_of(seen["through_numpy"]))

    def test_kernels_that_do_not_do_the_work(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match="no kernel stored anything in `result`"):
            launches_only(run_of(seen["nothing_stored"]))
        with pytest.raises(CheckFailed, match="no kernel loaded anything from `x`"):
            launches_only(run_of(seen["table_written"]), "x")
        with pytest.raises(CheckFailed, match="no kernel was launched"):
            launches_only(run_of({**seen["softmax"], "launches": []}))

    def test_work_in_a_function_that_gives_the_grid(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match=f"line {line_of('int(x.sum())')}: aten.sum on `x`"):
            launches_only(run_of(seen["work_in_the_grid"]))

    def test_watching_does_not_import_torchs_compiler(self, seen: dict[str, Any]) -> None:
        assert not seen["modules"]


class TestInterpreted:
    def test_filled_after_the_block(self, seen: dict[str, Any]) -> None:
        with interpreted(Recorded(seen["softmax"])) as run, pytest.raises(RuntimeError, match="after the"):
            _ = run.launches
        assert run.programs == 5

    def test_options(self, seen: dict[str, Any]) -> None:
        submission = Recorded(seen["softmax"])
        for hostile, order in ((False, "forward"), (True, "reverse"), ("random", "random")):
            with interpreted(submission, hostile=hostile):  # type: ignore[arg-type]
                pass
            assert (submission.options["order"], submission.options["hostile"]) == (order, bool(hostile))

    def test_a_stray_address_fails_the_check(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match="past the end of `x`"), interpreted(Recorded(seen["unmasked"])):
            pass
        with interpreted(Recorded(seen["unmasked"]), violations="report") as run:
            pass
        assert len(run.violations.out_of_bounds) == 2

    def test_it_is_the_reason_of_a_wrong_value(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed) as failure, interpreted(Recorded(seen["race"])):
            raise CheckFailed("value 3 is wrong", got="3", expected="4")
        assert "both store to" in failure.value.message
        assert (failure.value.got, failure.value.expected) == ("3", "4")

    def test_other_failures_stay_as_they_are(self, seen: dict[str, Any]) -> None:
        with pytest.raises(CheckFailed, match="value 3 is wrong"), interpreted(Recorded(seen["softmax"])):
            raise CheckFailed("value 3 is wrong")

    def test_costs(self, seen: dict[str, Any]) -> None:
        run = run_of(seen["matmul"])
        assert (run.cost("loaded", "a").name, run.cost("loaded", "a").value) == ("bytes loaded from a", 22400)
        run.cost("stored", "result").exactly(70 * 50 * F32, "once")
        run.cost("launches").exactly(1, "one launch")
        run.cost("programs").at_most(6, "one program for each tile")
        with pytest.raises(CheckFailed, match=r"tl\.dot"):
            run.cost("dots").at_most(17, "one for each tile and step")

    def test_what_was_not_launched_cost_nothing_and_is_no_success(self, seen: dict[str, Any]) -> None:
        nothing = {**seen["softmax"], "launches": []}
        with pytest.raises(CheckFailed, match="no kernel was launched"):
            run_of(nothing).cost("loaded", "x").at_most(0)
        run_of(nothing).cost("launches").exactly(0, "an empty input needs none")
        with pytest.raises(RuntimeError, match="no call was made"), interpreted(Recorded()):
            pass

    def test_unknown_names_are_the_authors_mistake(self, seen: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="no tensor 'y'; there are x, result"):
            run_of(seen["softmax"]).loaded("y")
        with pytest.raises(ValueError, match="no cost 'bytes'"):
            run_of(seen["softmax"]).cost("bytes")

    def test_too_many_accesses_to_list(self, seen: dict[str, Any]) -> None:
        cut = copy.deepcopy(seen["softmax"])
        cut["accesses"]["cut"] = True
        with pytest.raises(RuntimeError, match="smaller size"):
            _ = run_of(cut).accesses


def test_says_why_there_is_no_evidence() -> None:
    code = (
        "import grader.worker.kernels.selftest as s\n"
        "try: s.selftest()\n"
        "except s.KernelEvidenceUnavailable as e: print(e)\n"
        "import os; os.environ['TRITON_INTERPRET'] = '1'\n"
        "try: s.selftest()\n"
        "except s.KernelEvidenceUnavailable as e: print(e)\n"
    )
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    first, second = done.stdout.splitlines()
    assert first == "kernel evidence needs TRITON_INTERPRET=1 before triton is imported"
    assert second.startswith("kernel evidence unavailable with triton 3.")
