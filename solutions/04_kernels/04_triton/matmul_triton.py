"""Tiled matmul: grouped order, a fused epilogue, and the space of configurations.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter
tl.dot multiplies its raw bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

### BEGIN SOLUTION

SHARED_MEMORY = 232448  # bytes that one program may use on an H100 or H200


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    HAS_BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    # The same arithmetic as program_tile.
    pid = tl.program_id(0)
    per_group = GROUP * tl.cdiv(N, BLOCK_N)
    first_row = pid // per_group * GROUP
    height = tl.minimum(tl.cdiv(M, BLOCK_M) - first_row, GROUP)
    tile_row = first_row + pid % per_group % height
    tile_col = pid % per_group // height

    row = tile_row.to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tile_col.to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    step = tl.arange(0, BLOCK_K)
    row_ok = row < M
    col_ok = col < N
    a_ptrs = a_ptr + row[:, None] * stride_am + step[None, :] * stride_ak
    b_ptrs = b_ptr + step[:, None] * stride_bk + col[None, :] * stride_bn

    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(0, K, BLOCK_K):
        step_ok = step < K - k
        a = tl.load(a_ptrs, mask=row_ok[:, None] & step_ok[None, :], other=0.0)
        b = tl.load(b_ptrs, mask=step_ok[:, None] & col_ok[None, :], other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_ptrs += BLOCK_K * stride_ak
        b_ptrs += BLOCK_K * stride_bk

    # Bias and activation see the float32 accumulator; the only rounding to c's dtype is the store's.
    if HAS_BIAS:
        acc += tl.load(bias_ptr + col, mask=col_ok, other=0.0).to(tl.float32)[None, :]
    if ACTIVATION == "relu":
        acc = tl.maximum(acc, 0.0)
    elif ACTIVATION == "silu":
        acc = acc * tl.sigmoid(acc)
    tl.store(c_ptr + row[:, None] * stride_cm + col[None, :] * stride_cn, acc, mask=row_ok[:, None] & col_ok[None, :])


### END SOLUTION


def program_tile(pid: int, tiles_m: int, tiles_n: int, group: int) -> tuple[int, int]:
    """The tile (row, column) of the output that program pid computes, 0 <= pid < tiles_m * tiles_n.

    The tile rows are cut into groups of `group` rows (the last group may hold fewer) and the groups are done one after
    the other. Inside a group the tiles are numbered column by column, rows fastest: 5 x 3 tiles in groups of 2 go (0,
    0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0), ... and end with (4, 0), (4, 1), (4, 2). Programs that run at
    the same time then need few different strips of A and B, which L2 can hold.
    """
    ### BEGIN SOLUTION
    per_group = group * tiles_n
    first_row = pid // per_group * group
    height = min(tiles_m - first_row, group)
    return first_row + pid % per_group % height, pid % per_group // height
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    (M, K), (inner, N) = a.shape, b.shape
    if inner != K:
        raise ValueError(f"a is {M} x {K}, b is {inner} x {N}: the inner sizes differ")
    if activation not in ("", "relu", "silu"):
        raise ValueError(f'activation is "", "relu" or "silu", not {activation!r}')
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    block_m, block_n, block_k = block
    stage_bytes = (block_m + block_n) * block_k * a.element_size()
    matmul_kernel[(triton.cdiv(M, block_m) * triton.cdiv(N, block_n),)](
        a, b, bias, c, M, N, K, *a.stride(), *b.stride(), *c.stride(), HAS_BIAS=bias is not None, ACTIVATION=activation,
        BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, GROUP=group,
        num_warps=8 if block_m * block_n >= 128 * 128 else 4, num_stages=max(1, min(4, SHARED_MEMORY // stage_bytes)),
    )  # fmt: skip
    return c
    ### END SOLUTION


def configs(itemsize: int, *, smem: int = 232448) -> list[dict[str, int]]:
    """What an autotuner should try, given operands of `itemsize` bytes (1, 2 or 4) and `smem` bytes of shared memory.

    smem is at least 65536. Each is a dict with the keys BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, num_stages, all
    ints >= 1. The list has at least 8, no two equal, at least one with BLOCK_M = 16 (decoding) and one with BLOCK_M *
    BLOCK_N >= 16384 (training). In every one

    * the blocks are powers of two from 16 to 4096 (tl.dot takes nothing smaller), num_warps is a power of two up to 16;
    * the operand tiles of all stages fit: (BLOCK_M * BLOCK_K + BLOCK_K * BLOCK_N) * itemsize * num_stages <= smem;
    * the accumulator fits in registers: BLOCK_M * BLOCK_N / (32 * num_warps) <= 128 values per thread.
    """
    ### BEGIN SOLUTION
    tiles = [(16, 64), (16, 128), (32, 64), (64, 64), (64, 128), (128, 64), (128, 128), (128, 256), (256, 128)]
    found = []
    for block_m, block_n, block_k in [(m, n, k) for m, n in tiles for k in (32, 64)]:
        num_warps = 8 if block_m * block_n >= 128 * 128 else 4
        stage_bytes = (block_m + block_n) * block_k * itemsize
        num_stages = min(4, smem // stage_bytes)
        # One stage overlaps nothing: a tile that leaves no room for two is not worth a trial.
        if num_stages >= 2 and block_m * block_n <= 128 * 32 * num_warps:
            found.append({
                "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k, "GROUP_M": 8,
                "num_warps": num_warps, "num_stages": num_stages,
            })  # fmt: skip
    return found
    ### END SOLUTION


def prune(options: list[dict[str, int]], m: int, n: int, k: int) -> list[dict[str, int]]:
    """The options that are not pointlessly large for an (m, k) x (k, n) product, in their order, in a new list.

    Kept is each whose BLOCK_M, BLOCK_N, BLOCK_K do not exceed max(16, next power of two) of m, n, k: a larger block
    would only compute padding. (The next power of two of 5 is 8, of 8 it is 8.) If none is left, the result holds one:
    that with the smallest BLOCK_M * BLOCK_N, the first of equals. options has at least one entry and is not changed.
    """
    ### BEGIN SOLUTION
    limits = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k}
    kept = [
        option
        for option in options
        if all(option[key] <= max(16, triton.next_power_of_2(size)) for key, size in limits.items())
    ]
    return kept or [min(options, key=lambda option: option["BLOCK_M"] * option["BLOCK_N"])]
    ### END SOLUTION
