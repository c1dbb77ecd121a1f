"""Proof at start that the hooks see what they should, on a kernel whose counts are known.

Triton's interpreter is not a public interface. If a release moves something, this says so in one sentence, instead of
verdicts that rest on counts of nothing.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
import triton
import triton.language as tl

from grader.worker.kernels.interpret import KernelEvidenceUnavailable, prepare, record

N, BLOCK = 28, 16


@triton.jit  # type: ignore[untyped-decorator]
def _probe(x, y, last, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    pid = tl.program_id(0)
    offset = pid * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n)
    square = value[:, None] + tl.zeros((BLOCK, BLOCK), tl.float32)
    value += tl.sum(tl.dot(square, square, input_precision="ieee"), 1) * 0.0
    tl.store(y + offset, value)
    tl.store(last, pid)


def selftest() -> None:
    """Raises KernelEvidenceUnavailable if a count is not what it must be."""
    try:
        prepare()
        faults = [f"{what}: {got!r} instead of {expected!r}" for what, got, expected in _observe() if got != expected]
    except KernelEvidenceUnavailable:
        raise
    except Exception as error:
        faults = [f"{type(error).__name__}: {error}"]
    if faults:
        raise KernelEvidenceUnavailable(f"kernel evidence unavailable with triton {triton.__version__}: {faults[0]}")


def _observe() -> list[tuple[str, Any, Any]]:
    """(what, seen, known) for one launch of the probe: two programs in reverse, the second with four lanes too many."""
    x = torch.arange(N, dtype=torch.float32)
    last = torch.zeros(1, dtype=torch.int32)
    with record({"x": x, "last": last}, filename=__file__, order="reverse", hostile=True) as watch:
        y = torch.empty_like(x)
        _probe[(2,)](x, y, last, N, BLOCK=BLOCK)
    watch.name_results({"result": y})
    seen = watch.summary()
    source, start = inspect.getsourcelines(_probe.fn)
    store = start + next(i for i, line in enumerate(source) if "tl.store(y" in line)
    launch = seen["launches"][0]
    return [
        ("launches", (len(seen["launches"]), launch["kernel"], launch["programs"]), (1, "_probe", 2)),
        ("order of programs", [row[1] for row in seen["accesses"]["rows"] if row[2] == "load"], [1, 0]),
        ("bytes loaded", seen["loaded"], {"x": 4 * N}),
        ("bytes stored", seen["stored"], {"result": 4 * N, "last": 8}),
        ("undefined lanes", [lanes for _, lanes in seen["unguarded"]], [2 * BLOCK - N]),
        ("out of bounds", [s[: s.index(" (")] for s in seen["out_of_bounds"]],
         [f"line {store}: tl.store writes 4 elements past the end of `result`"]),
        ("races", len(seen["races"]), 1),
        ("dots", seen["dots"], [[1, BLOCK, BLOCK, BLOCK, "fp32", "fp32", "fp32", 2]]),
        ("largest block", seen["largest_block"], [BLOCK, BLOCK]),
        ("never written", seen["never_written"], []),
        # 0 * NaN is NaN: undefined lanes reach the whole last block, and nothing else.
        ("values", (y[:BLOCK].tolist(), bool(y[BLOCK:].isnan().all())), (list(map(float, range(BLOCK))), True)),
    ]  # fmt: skip
