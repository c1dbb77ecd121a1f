"""Rows and columns wrap around with % (as in Triton's tutorial), masks only on K, acc += tl.dot, bias None as constexpr, hand-written configs."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _mm(
    a,
    b,
    out,
    bias,
    m,
    n,
    k,
    a0,
    a1,
    b0,
    b1,
    group,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ACT: tl.constexpr,
):
    tm = tl.cdiv(m, BM)
    tn = tl.cdiv(n, BN)
    pid = tl.program_id(0)
    g = pid // (group * tn)
    size = tl.minimum(tm - g * group, group)
    i = g * group + (pid - g * group * tn) % size
    j = (pid - g * group * tn) // size
    r = i * BM + tl.arange(0, BM)
    c = j * BN + tl.arange(0, BN)
    # rows and columns over the edge wrap around: they are read, computed and never stored
    r_in = (r % m).to(tl.int64)
    c_in = (c % n).to(tl.int64)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(k, BK)):
        kk = (step * BK + tl.arange(0, BK)).to(tl.int64)
        x = tl.load(a + r_in[:, None] * a0 + kk[None, :] * a1, mask=kk[None, :] < k, other=0.0)
        y = tl.load(b + kk[:, None] * b0 + c_in[None, :] * b1, mask=kk[:, None] < k, other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    if bias is not None:
        acc += tl.load(bias + c_in)[None, :].to(tl.float32)
    if ACT == 1:
        acc = tl.where(acc > 0, acc, 0.0)
    elif ACT == 2:
        acc = acc / (1.0 + tl.exp(-acc))
    tl.store(out + r[:, None].to(tl.int64) * n + c[None, :], acc, mask=(r[:, None] < m) & (c[None, :] < n))


def program_tile(pid: int, tiles_m: int, tiles_n: int, group: int) -> tuple[int, int]:
    """The tile (row, column) of the output that program pid computes, 0 <= pid < tiles_m * tiles_n.

    The tile rows are cut into groups of `group` rows (the last group may hold fewer) and the groups are done one after
    the other. Inside a group the tiles are numbered column by column, rows fastest: 5 x 3 tiles in groups of 2 go (0,
    0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0), ... and end with (4, 0), (4, 1), (4, 2). Programs that run at
    the same time then need few different strips of A and B, which L2 can hold.
    """
    for top in range(0, tiles_m, group):
        rows = min(group, tiles_m - top)
        if pid < rows * tiles_n:
            column, row = divmod(pid, rows)
            return top + row, column
        pid -= rows * tiles_n
    raise ValueError("pid is too large")


def matmul(
    a: Tensor,
    b: Tensor,
    *,
    bias: Tensor | None = None,
    activation: str = "",
    block: tuple[int, int, int] = (64, 64, 32),
    group: int = 8,
) -> Tensor:
    """activation(a @ b + bias), one output tile per program.

    a (M, K) and b (K, N) in one dtype (float32, float16 or bfloat16), M, N, K >= 1, any strides: transposed views and
    slices are read where they lie. bias (N,), contiguous, in the same dtype, or None. activation: "" (none), "relu" or
    "silu" (x * sigmoid(x)). Returns a new contiguous (M, N) tensor in a's dtype. ValueError if the two K differ or the
    activation has another name.

    block = (block_m, block_n, block_k), powers of two >= 16, is used as given: program pid computes the block_m x
    block_n tile that program_tile names for `group`, over ceil(K / block_k) steps. The accumulator is float32; bias and
    activation are applied to it before the result is rounded to a's dtype. float32 inputs are multiplied in full
    precision: input_precision="ieee", since the default rounds them to TF32. Errors are at most 1e-5 in float32 and
    2e-3 in float16, relative to the value or to the rms of its row if that is larger.

    Cost: one launch with a one-dimensional grid of ceil(M / block_m) * ceil(N / block_n) programs; each does one tl.dot
    per step. Sizes that are multiples of the blocks load exactly ceil(N / block_n) * M * K elements of a and ceil(M /
    block_m) * K * N of b, and store M * N. For float16 with block (128, 128, 64) the kernel compiles for sm_90 (an
    H100) with at most 128 bytes of spilled registers per thread, within 232448 bytes of shared memory, and with wgmma,
    Hopper's tensor-core instruction (num_warps and num_stages are yours to choose).
    """
    m, k = a.shape
    if b.shape[0] != k:
        raise ValueError("inner sizes differ")
    codes = {"": 0, "relu": 1, "silu": 2}
    if activation not in codes:
        raise ValueError(activation)
    n = b.shape[1]
    out = a.new_empty(m, n)
    _mm[(triton.cdiv(m, block[0]) * triton.cdiv(n, block[1]),)](
        a,
        b,
        out,
        bias,
        m,
        n,
        k,
        a.stride(0),
        a.stride(1),
        b.stride(0),
        b.stride(1),
        group,
        *block,
        codes[activation],
        num_warps=8,
        num_stages=3,
    )
    return out


def configs(itemsize: int, *, smem: int = 232448) -> list[dict[str, int]]:
    """What an autotuner should try, given operands of `itemsize` bytes (1, 2 or 4) and `smem` bytes of shared memory.

    smem is at least 65536. Each is a dict with the keys BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, num_stages, all
    ints >= 1. The list has at least 8, no two equal, at least one with BLOCK_M = 16 (decoding) and one with BLOCK_M *
    BLOCK_N >= 16384 (training). In every one

    * the blocks are powers of two from 16 to 4096 (tl.dot takes nothing smaller), num_warps is a power of two up to 16;
    * the operand tiles of all stages fit: (BLOCK_M * BLOCK_K + BLOCK_K * BLOCK_N) * itemsize * num_stages <= smem;
    * the accumulator fits in registers: BLOCK_M * BLOCK_N / (32 * num_warps) <= 128 values per thread.
    """
    result = []
    for bm, bn, bk, warps in (
        (16, 32, 128, 2),
        (16, 64, 64, 4),
        (16, 128, 32, 4),
        (32, 32, 64, 4),
        (32, 128, 32, 4),
        (64, 32, 32, 4),
        (64, 64, 32, 4),
        (64, 64, 64, 8),
        (128, 32, 32, 4),
        (128, 64, 32, 8),
        (64, 128, 32, 8),
        (128, 128, 16, 4),
        (128, 128, 32, 8),
        (256, 64, 16, 8),
    ):
        stages = min(5, smem // ((bm + bn) * bk * itemsize))
        if stages:
            result.append(
                dict(
                    BLOCK_M=bm, BLOCK_N=bn, BLOCK_K=bk, GROUP_M=1 if bm == 16 else 8, num_warps=warps, num_stages=stages
                )
            )
    return result


def prune(options: list[dict[str, int]], m: int, n: int, k: int) -> list[dict[str, int]]:
    """The options that are not pointlessly large for an (m, k) x (k, n) product, in their order, in a new list.

    Kept is each whose BLOCK_M, BLOCK_N, BLOCK_K do not exceed max(16, next power of two) of m, n, k: a larger block
    would only compute padding. (The next power of two of 5 is 8, of 8 it is 8.) If none is left, the result holds one:
    that with the smallest BLOCK_M * BLOCK_N, the first of equals. options has at least one entry and is not changed.
    """

    def power(x):
        return max(16, 1 << (x - 1).bit_length())

    good = []
    for option in options:
        if option["BLOCK_M"] <= power(m) and option["BLOCK_N"] <= power(n) and option["BLOCK_K"] <= power(k):
            good.append(option)
    if not good:
        best = options[0]
        for option in options[1:]:
            if option["BLOCK_M"] * option["BLOCK_N"] < best["BLOCK_M"] * best["BLOCK_N"]:
                best = option
        good.append(best)
    return good
