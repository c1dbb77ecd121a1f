"""Launches compiled for sm_90 without a GPU: resources, instructions, refusals with the learner's line."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from grader.testing.failure import CheckFailed
from grader.testing.kernels import CompiledLaunch, compiled_for_sm_90

EXAMPLES = Path(__file__).with_name("kernel_examples.py")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton exists for Linux only")


def line_of(text: str) -> int:
    """The line of the examples that ends in a text."""
    lines = EXAMPLES.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(text))


class Compiled:
    """A submission whose launches have been compiled already."""

    def __init__(self, compiled: dict[str, Any]) -> None:
        self.compiled = compiled

    def compile(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[dict[str, Any]]:
        launches: list[dict[str, Any]] = self.compiled[name]
        return launches


@pytest.fixture(scope="module")
def submission(tmp_path_factory: pytest.TempPathFactory) -> Any:
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    environment |= {"OMP_NUM_THREADS": "1", "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("kernels"))}
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(EXAMPLES), "compile"],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Compiled(json.loads(done.stdout))


def test_matmul_uses_the_tensor_cores(submission: Any) -> None:
    (launch,) = compiled_for_sm_90(submission, "matmul")
    assert isinstance(launch, CompiledLaunch)
    assert (launch.kernel, launch.grid, launch.num_warps, launch.num_stages) == ("matmul_kernel", (1024, 1, 1), 4, 3)
    assert launch.wgmma
    assert not launch.mma
    assert launch.ptx_has("m64n128k16")
    assert launch.ptx_has("cp.async")
    assert launch.spills == 0
    assert 100 < launch.registers <= 255
    assert 65536 <= launch.shared <= 232448
    assert launch.load_widths == (16,)


def test_softmax_loads_wide(submission: Any) -> None:
    (launch,) = compiled_for_sm_90(submission, "softmax")
    assert launch.load_widths == launch.store_widths == (16,)
    assert not launch.wgmma
    assert not launch.ptx_has("wgmma")
    again = compiled_for_sm_90(submission, "softmax_again")
    assert again == [launch, launch]


def test_sizes_that_are_no_multiple_load_by_the_element(submission: Any) -> None:
    (launch,) = compiled_for_sm_90(submission, "transpose")  # 100 x 230 int16
    assert launch.load_widths == (2,)


def test_every_configuration_is_compiled(submission: Any) -> None:
    launches = compiled_for_sm_90(submission, "tuned")
    assert [launch.grid for launch in launches] == [(4, 1, 1), (2, 1, 1)]
    assert [launch.num_warps for launch in launches] == [4, 8]
    assert launches[1].config.startswith("BLOCK: 64")


def test_descriptors_become_bulk_copies(submission: Any) -> None:
    (launch,) = compiled_for_sm_90(submission, "descriptor")
    assert launch.ptx_has("cp.async.bulk.tensor")
    assert launch.load_widths == ()


def test_bfloat16_float8_and_absent_arguments(submission: Any) -> None:
    launches = compiled_for_sm_90(submission, "optional")
    assert [launch.load_widths for launch in launches] == [(2,), (2, 4), (1,), (1, 4)]
    assert launches[0].grid == (2, 3, 1)


def test_what_the_interpreter_forgives_is_refused(submission: Any) -> None:
    with pytest.raises(CheckFailed, match="does not compile") as failure:
        compiled_for_sm_90(submission, "break")
    assert f"breaks_kernel: line {line_of('break  # refused')}: unsupported AST node type: Break" in str(failure.value)
    with pytest.raises(CheckFailed) as failure:
        compiled_for_sm_90(submission, "mixed")
    line = line_of("return tl.dot(a, b)  # refused")
    assert f"mixed_kernel: line {line}: Both operands must be same dtype" in str(failure.value)


def test_no_launch_is_no_kernel(submission: Any) -> None:
    with pytest.raises(CheckFailed, match="launched no kernel"):
        compiled_for_sm_90(Compiled({"f": []}), "f")  # type: ignore[arg-type]
