"""Kernels whose traffic and faults are known, run by test_kernels_*.py in processes of their own.

python kernel_examples.py interpret > evidence.json      (TRITON_INTERPRET=1)
python kernel_examples.py compile > evidence.json
"""

from __future__ import annotations

import ctypes
import json
import sys
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def softmax_kernel(x, y, n, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    value = tl.load(x + row * stride + column, mask=column < n, other=float("-inf"))
    power = tl.exp(value - tl.max(value, 0))
    tl.store(y + row * n + column, power / tl.sum(power, 0), mask=column < n)


def softmax(x: Tensor) -> Tensor:
    y = torch.empty(x.shape)
    rows, n = x.shape
    softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=triton.next_power_of_2(n))
    return y


@triton.jit
def unmasked_kernel(x, y, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + offset)  # reads past x
    tl.store(y + offset, value)  # writes past y


def unmasked(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    unmasked_kernel[(triton.cdiv(x.numel(), 64),)](x, y, BLOCK=64)
    return y


@triton.jit
def wild_kernel(x, y):
    tl.store(y, tl.load(x - 1_000_000_000))  # reads far away
    tl.store(y + 1_000_000_000, 1.0)
    tl.atomic_add(y + 5, 1.0)
    tl.atomic_cas(y.to(tl.pointer_type(tl.int32)) + 7, 0, 1)


def wild(x: Tensor) -> Tensor:
    y = torch.zeros(2)
    wild_kernel[(1,)](x, y)
    return y


@triton.jit
def no_other_kernel(x, y, n, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    value = tl.load(x + offset, mask=offset < n)  # no other
    tl.store(y, tl.sum(value, 0))


def sum_without_other(x: Tensor) -> Tensor:
    y = torch.empty(1, dtype=x.dtype)
    no_other_kernel[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return y


@triton.jit
def zero_other_kernel(x, y, n, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    tl.store(y, tl.sum(tl.load(x + offset, mask=offset < n, other=0.0), 0))
    # A mask that leaves nothing, with a scalar zero: Triton's interpreter drops this `other` on its way.
    tl.store(y, tl.load(y) + tl.load(x, mask=n < 0, other=0))


def sum_with_other(x: Tensor) -> Tensor:
    y = torch.empty(1, dtype=x.dtype)
    zero_other_kernel[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return y


@triton.jit
def last_kernel(x, y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.sum(tl.load(x + offset, mask=offset < n, other=0.0), 0)
    tl.store(y, total)  # every program stores here


def races_on_one_element(x: Tensor) -> Tensor:
    y = torch.zeros(1)
    last_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def chain_kernel(x, y, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    offset = pid * BLOCK + tl.arange(0, BLOCK)
    before = tl.load(y + pid * BLOCK - 1, mask=pid > 0, other=0.0)  # the neighbour's result
    value = tl.cumsum(tl.load(x + offset, mask=offset < n, other=0.0), 0) + before
    tl.store(y + offset, value, mask=offset < n)  # stores the result


def chained_scan(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    chain_kernel[(triton.cdiv(x.numel(), 32),)](x, y, x.numel(), BLOCK=32)
    return y


@triton.jit
def in_place_kernel(x, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + offset, 2.0 * tl.load(x + offset, mask=offset < n, other=0.0), mask=offset < n)


def double_(x: Tensor) -> Tensor:
    in_place_kernel[(triton.cdiv(x.numel(), 32),)](x, x.numel(), BLOCK=32)
    return x


@triton.jit
def transpose_kernel(x, y, m, n, TURN: tl.constexpr, B: tl.constexpr):
    row = tl.program_id(0) * B + tl.arange(0, B)
    column = tl.program_id(1) * B + tl.arange(0, B)
    tile = tl.load(x + row[:, None] * n + column[None, :], mask=(row < m)[:, None] & (column < n)[None, :])
    if TURN:
        mask = (column < n)[:, None] & (row < m)[None, :]
        tl.store(y + column[:, None] * m + row[None, :], tl.trans(tile), mask=mask)
    else:
        for i in tl.static_range(0, B):
            one = tl.sum(tl.where(tl.arange(0, B)[:, None] == i, tile, 0.0), 0)
            at = tl.program_id(0) * B + i
            tl.store(y + column * m + at, one, mask=(column < n) & (at < m))


def transpose(x: Tensor, turn: bool = True) -> Tensor:
    m, n = x.shape
    y = torch.empty((n, m), dtype=x.dtype)
    transpose_kernel[(triton.cdiv(m, 32), triton.cdiv(n, 32))](x, y, m, n, TURN=turn, B=32)
    return y


@triton.jit
def matmul_kernel(a, b, c, M, N, K, sa, sb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tiles_n = tl.cdiv(N, BN)
    rm = tl.program_id(0) // tiles_n * BM + tl.arange(0, BM)
    rn = tl.program_id(0) % tiles_n * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        rk = start + tl.arange(0, BK)
        ta = tl.load(a + rm[:, None] * sa + rk[None, :], mask=(rm < M)[:, None] & (rk < K)[None, :], other=0.0)
        tb = tl.load(b + rk[:, None] * sb + rn[None, :], mask=(rk < K)[:, None] & (rn < N)[None, :], other=0.0)
        acc = tl.dot(ta, tb, acc, input_precision="ieee")
    tl.store(c + rm[:, None] * N + rn[None, :], acc.to(c.dtype.element_ty), mask=(rm < M)[:, None] & (rn < N)[None, :])


def matmul(a: Tensor, b: Tensor, block: tuple[int, int, int] = (32, 32, 16), **options: int) -> Tensor:
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype)
    bm, bn, bk = block
    grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn),)
    matmul_kernel[grid](a, b, c, m, n, k, a.stride(0), b.stride(0), BM=bm, BN=bn, BK=bk, **options)
    return c


@triton.jit
def histogram_kernel(x, counts, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offset < n
    tl.atomic_add(counts + tl.load(x + offset, mask=inside, other=0), 1, mask=inside)


def histogram(x: Tensor, bins: int) -> Tensor:
    counts = torch.zeros(bins, dtype=torch.int32)
    histogram_kernel[(triton.cdiv(x.numel(), 32),)](x, counts, x.numel(), BLOCK=32)
    return counts


@triton.jit
def ticket_kernel(x, partial, counter, y, programs, BLOCK: tl.constexpr, P: tl.constexpr):
    pid = tl.program_id(0)
    tl.store(partial + pid, tl.sum(tl.load(x + pid * BLOCK + tl.arange(0, BLOCK)), 0))
    if tl.atomic_add(counter, 1) == programs - 1:  # the last one to arrive sees all partial sums
        tl.store(y, tl.sum(tl.load(partial + tl.arange(0, P)), 0))


def ticket_sum(x: Tensor) -> Tensor:
    programs = x.numel() // 32
    partial, counter, y = torch.empty(programs), torch.zeros(1, dtype=torch.int32), torch.empty(1)
    ticket_kernel[(programs,)](x, partial, counter, y, programs, BLOCK=32, P=programs)
    return y


@triton.jit
def descriptor_kernel(x, y, m, n, B: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [B, B])
    target = tl.make_tensor_descriptor(y, [m, n], [n, 1], [B, B])
    row, column = tl.program_id(0) * B, tl.program_id(1) * B
    target.store([row, column], source.load([row, column]))


def copy_by_descriptor(x: Tensor, rows: int | None = None) -> Tensor:
    m, n = x.shape
    y = torch.empty_like(x)
    descriptor_kernel[(triton.cdiv(m, 16), triton.cdiv(n, 16))](x, y, rows or m, n, B=16)
    return y


@triton.jit
def host_descriptor_kernel(source, target, B: tl.constexpr):
    row = tl.program_id(0) * B
    target.store([row, 0], source.load([row, 0]))


def copy_by_host_descriptor(x: Tensor) -> Tensor:
    from triton.tools.tensor_descriptor import TensorDescriptor

    y = torch.empty_like(x)
    blocks = [16, x.shape[1]]
    host_descriptor_kernel[(triton.cdiv(x.shape[0], 16),)](
        TensorDescriptor.from_tensor(x, blocks), TensorDescriptor.from_tensor(y, blocks), B=16
    )
    return y


@triton.jit
def rope_kernel(q, k, stride, D: tl.constexpr):
    offset = tl.program_id(0) * stride + tl.arange(0, D)
    tl.store(q + offset, -tl.load(q + offset))
    tl.store(k + offset, 3.0 * tl.load(k + offset))


def rotate_(q: Tensor, k: Tensor) -> None:
    rope_kernel[(q.shape[0],)](q, k, q.stride(0), D=q.shape[1])


@triton.jit
def gap_kernel(y, n, BLOCK: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + offset, 1.0, mask=offset < n)


def leaves_a_gap(n: int, m: int) -> tuple[Tensor, Tensor]:
    both = torch.empty(2, n)
    gap_kernel[(1,)](both, m, BLOCK=64)
    return both[0], both[1]


@triton.autotune([triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64}, num_warps=8)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(x, y, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    offset = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y + offset, tl.load(x + offset) + 1.0)
    else:
        tl.store(y + offset, tl.load(x + offset, mask=offset < n, other=0.0) + 1.0, mask=offset < n)


def tuned(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    tuned_kernel[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


def busy_wrapper(x: Tensor) -> Tensor:
    scaled = torch.zeros(4).fill_(1.0)
    x = x.reshape(x.shape[0], -1).transpose(0, 1).contiguous().view(-1)  # copies x
    return (softmax(x[None]) * scaled[0])[0]


@triton.jit
def torch_inside_kernel(x, y, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    torch.ones(3) + 1  # torch in a kernel
    tl.store(y + offset, tl.load(x + offset))


def torch_inside(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    torch_inside_kernel[(1,)](x, y, BLOCK=x.numel())
    return y


@triton.jit
def bytes_kernel(words, halves, y, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    low = tl.load(halves + 2 * offset).to(tl.int32)
    tl.store(y + offset, low + tl.load(words + offset))


def one_storage_two_types(words: Tensor) -> Tensor:
    y = torch.empty_like(words)
    bytes_kernel[(1,)](words, words.view(torch.int16), y, BLOCK=words.numel())
    return y


@triton.jit
def select_kernel(x, y, z, n: tl.constexpr):
    offset = tl.arange(0, n)
    tl.store(z + offset, tl.load(tl.where(offset % 2 == 0, x + offset, y + offset)))


def either_of_two(x: Tensor, y: Tensor) -> Tensor:
    z = torch.empty_like(x)
    select_kernel[(1,)](x, y, z, n=x.numel())
    return z


@triton.jit
def table_kernel(table, z, n: tl.constexpr):
    row = tl.load(table + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    tl.store(z + tl.program_id(0) * n + tl.arange(0, n), tl.load(row + tl.arange(0, n)))


def by_table(rows: list[Tensor]) -> Tensor:
    z = torch.empty(len(rows), rows[0].numel())
    table_kernel[(len(rows),)](torch.tensor([row.data_ptr() for row in rows]), z, n=rows[0].numel())
    return z


@triton.jit
def strays_kernel(x, z, far):
    tl.store(z, tl.load(x + far))  # into another tensor


def strays(x: Tensor, y: Tensor) -> Tensor:
    z = torch.zeros(1)
    strays_kernel[(1,)](x, z, (y.data_ptr() - x.data_ptr()) // 4)
    return z


@triton.jit
def copy_kernel(x, y, n, BLOCK: tl.constexpr):
    offset = tl.arange(0, BLOCK)
    tl.store(y + offset, tl.load(x + offset, mask=offset < n, other=0.0), mask=offset < n)


def copied(x: Tensor, y: Tensor) -> Tensor:
    copy_kernel[(1,)](x, y, x.numel(), BLOCK=triton.next_power_of_2(x.numel()))
    return y


TABLE = torch.arange(16.0)
NUMPY_TABLE = TABLE.numpy()


def constants(x: Tensor) -> Tensor:
    """Tables from before the call, a table made in it, memory filled by torch: all harmless."""
    y = torch.zeros(3, 16)
    copied(TABLE, y[0])
    copied(torch.tensor([0.5] * 16), y[1])
    copied(x, y[2])
    return y


def written_after(x: Tensor) -> Tensor:
    y = copied(x, torch.empty_like(x))
    np.copyto(np.ctypeslib.as_array((ctypes.c_float * 16).from_address(y.data_ptr())), 2.0)
    return y


def written_before(x: Tensor) -> Tensor:
    made = torch.empty_like(x)
    ctypes.memset(made.data_ptr(), 0x41, 64)  # nothing that the memory held before
    return copied(made, torch.empty_like(x))


def argument_written(x: Tensor) -> Tensor:
    ctypes.memset(x.data_ptr(), 0, 4)
    return copied(x, torch.empty_like(x))


def table_written(x: Tensor) -> Tensor:
    NUMPY_TABLE[1] += 1.0
    return copied(TABLE, torch.empty_like(x))


def through_numpy(x: Tensor) -> Tensor:
    y = copied(x, torch.empty_like(x))
    y.numpy()[:] = 2.0
    return y


def copy_of_the_hosts(x: Tensor) -> Tensor:
    values = bytearray((ctypes.c_char * 64).from_address(x.data_ptr()))
    return copied(torch.frombuffer(values, dtype=torch.float32), torch.empty_like(x))


def result_of_the_hosts(x: Tensor) -> Tensor:
    copied(x, torch.empty_like(x))
    return torch.frombuffer(bytearray(64), dtype=torch.float32)


def nothing_stored(x: Tensor) -> Tensor:
    copied(x, torch.empty_like(x))
    return torch.full_like(x, 3.0)


def many_values_from_python(x: Tensor) -> Tensor:
    copied(x, torch.empty_like(x))
    return copied(torch.tensor([1.0] * 300), torch.empty(300))


def work_in_the_grid(x: Tensor) -> Tensor:
    y = torch.empty_like(x)
    copy_kernel[lambda meta: (1, int(x.sum()) * 0 + 1)](x, y, 16, BLOCK=16)
    return y


@triton.jit
def breaks_kernel(x, n):
    for i in range(n):
        if i > 3:
            break  # refused


@triton.jit
def mixed_dot(a, b):
    return tl.dot(a, b)  # refused


@triton.jit
def mixed_kernel(x, B: tl.constexpr):
    offset = tl.arange(0, B)[:, None] * B + tl.arange(0, B)[None, :]
    a = tl.load(x + offset)
    tl.store(x + offset, mixed_dot(a, a.to(tl.float32)))


@triton.jit
def optional_kernel(x, bias, scale, flag, n: tl.constexpr):
    offset = tl.arange(0, n)
    value = tl.load(x + offset).to(tl.float32) * scale
    if bias is not None:
        value += tl.load(bias + offset)
    if flag:
        tl.store(x + offset, value.to(x.dtype.element_ty))


def watched(call: Any, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    from grader.worker.kernels.interpret import record

    with record(arguments, filename=__file__, **options) as watch:
        result = call(**arguments)
    watch.name_results({"result": result})
    return watch.summary()


def interpret() -> dict[str, Any]:
    from grader.worker.kernels.interpret import record
    from grader.worker.kernels.selftest import selftest

    selftest()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(5, 100, generator=generator)
    flat = torch.randn(100, generator=generator)
    square = torch.randn(70, 45, generator=generator)
    qkv = torch.randn(6, 3, 16, generator=generator)
    a, b = torch.randn(70, 40, generator=generator), torch.randn(40, 50, generator=generator)
    seen: dict[str, Any] = {
        "softmax": watched(softmax, {"x": x}),
        "softmax_strided": watched(softmax, {"x": torch.randn(5, 200, generator=generator)[:, 20:120]}),
        "unmasked": watched(unmasked, {"x": flat}),
        "wild": watched(wild, {"x": flat}),
        "no_other": watched(sum_without_other, {"x": flat}),
        "race": watched(races_on_one_element, {"x": flat}),
        "neighbour": watched(chained_scan, {"x": flat}),
        "in_place": watched(double_, {"x": flat.clone()}, order="reverse"),
        "transpose": watched(transpose, {"x": square}),
        "transpose_by_columns": watched(transpose, {"x": square, "turn": False}),
        "matmul": watched(matmul, {"a": a, "b": b}),
        "histogram": watched(histogram, {"x": torch.arange(100) % 7, "bins": 7}),
        "ticket": watched(ticket_sum, {"x": torch.ones(128)}),
        "descriptor": watched(copy_by_descriptor, {"x": torch.randn(20, 24)}),
        "descriptor_too_tall": watched(copy_by_descriptor, {"x": torch.randn(20, 24), "rows": 30}),
        "host_descriptor": watched(copy_by_host_descriptor, {"x": torch.randn(20, 32)}),
        "views": watched(rotate_, {"q": qkv[:, 0], "k": qkv[:, 1]}),
        "gap": watched(leaves_a_gap, {"n": 20, "m": 25}),
        "tuned": watched(tuned, {"x": torch.zeros(100)}),
        "busy": watched(busy_wrapper, {"x": square}),
        "torch_inside": watched(torch_inside, {"x": torch.ones(16)}),
        "two_types": watched(one_storage_two_types, {"words": torch.arange(16, dtype=torch.int32)}),
        "either": watched(either_of_two, {"x": torch.ones(16), "y": torch.ones(16)}),
        "by_table": watched(by_table, {"rows": [torch.ones(8), torch.ones(8)]}),
        "strays": watched(strays, {"x": torch.ones(16), "y": torch.ones(16)}),
        **{
            call.__name__: watched(call, {"x": torch.ones(16)})
            for call in (
                constants,
                written_after,
                written_before,
                argument_written,
                table_written,
                through_numpy,
                copy_of_the_hosts,
                result_of_the_hosts,
                nothing_stored,
                many_values_from_python,
                work_in_the_grid,
            )
        },
        "batched": watched(softmax, {"x": torch.ones(300, 1)}, order="random", seed=5),
    }
    seen["values"] = values = {}
    for name, call, argument in (
        ("sum_without_other", sum_without_other, flat),
        ("sum_with_other", sum_with_other, flat),
        ("int_sum_without_other", sum_without_other, torch.ones(100, dtype=torch.int32)),
        ("chained_scan", chained_scan, flat),
        ("softmax", softmax, x),
        ("ticket_sum", ticket_sum, torch.ones(128)),
    ):
        plain = call(argument)
        with record({"x": argument}, order="reverse", hostile=True):
            hostile = call(argument)
        values[name] = [plain.double().flatten().tolist(), [repr(v) for v in hostile.double().flatten().tolist()]]
    with record({}, hostile=True):
        values["new"] = [
            repr(torch.empty(1, dtype=kind).double().item())
            for kind in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int8, torch.float8_e4m3fn)
        ]
        values["new_ways"] = [
            bool(t.isnan().all())
            for t in (
                torch.empty(3), torch.empty_like(x), x.new_empty(4), torch.empty_strided((2, 2), (1, 3)),
                torch.empty(4).view(2, 2), torch.Tensor(3),
            )
        ]  # fmt: skip
    values["rolled_back"] = [repr(v) for v in torch.zeros(2).tolist()]

    def again() -> dict[str, Any]:
        cases = {
            "softmax": (softmax, {"x": x}), "race": (races_on_one_element, {"x": flat}),
            "neighbour": (chained_scan, {"x": flat}),
            "two_types": (one_storage_two_types, {"words": torch.arange(64)}),
            "histogram": (histogram, {"x": torch.arange(100) % 7, "bins": 7}),
            "gap": (leaves_a_gap, {"n": 20, "m": 25}),
            "matmul": (matmul, {"a": a, "b": b}),
        }  # fmt: skip
        return {name: watched(call, arguments, order="reverse") for name, (call, arguments) in cases.items()}

    from grader.worker.kernels import interpret

    at_once = again()
    interpret.BATCH = 40
    in_batches = again()
    seen["batches"] = {name: at_once[name] == in_batches[name] for name in at_once}
    interpret.MOST_KEPT_CELLS = 0
    seen["condensed"] = again()["gap"]["launches"][0]["stored"]
    seen["modules"] = "torch._dynamo" in sys.modules
    return seen


def compiled() -> dict[str, Any]:
    from grader.worker.kernels.compile import compile_launches

    half = torch.zeros(4096, 4096, dtype=torch.float16)
    options = {"num_warps": 4, "num_stages": 3}
    small = torch.zeros(256)
    cases = {
        "matmul": lambda: matmul(half, half, (128, 128, 64), **options),
        "softmax": lambda: softmax(torch.zeros(4, 4096)),
        "softmax_again": lambda: (softmax(torch.zeros(4, 4096)), softmax(torch.zeros(4, 4096))),
        "transpose": lambda: transpose(torch.zeros(100, 230, dtype=torch.int16)),
        "tuned": lambda: tuned(torch.zeros(100)),
        "descriptor": lambda: copy_by_host_descriptor(torch.zeros(32, 32)),
        "break": lambda: breaks_kernel[(1,)](small, 7),
        "mixed": lambda: mixed_kernel[(1,)](small.half(), B=16),
        "optional": lambda: [
            optional_kernel[(2, 3)](torch.zeros(64, dtype=kind), bias, 1.5, True, n=64)
            for kind in (torch.bfloat16, torch.float8_e4m3fn)
            for bias in (None, small)
        ],
    }
    return {name: compile_launches(call, filename=__file__) for name, call in cases.items()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps({"interpret": interpret, "compile": compiled}[sys.argv[1]]()))
