"""Tiled matmul: grouped order, a fused epilogue, and the space of configurations.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter
tl.dot multiplies its raw bits.
"""

# Not allowed here, in any form: torch.matmul, torch.mm, torch.nn.functional.linear, Tensor.contiguous.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def program_tile(pid: int, tiles_m: int, tiles_n: int, group: int) -> tuple[int, int]:
    """The tile (row, column) of the output that program pid computes, 0 <= pid < tiles_m * tiles_n.

    The tile rows are cut into groups of `group` rows (the last group may hold fewer) and the groups are done one after
    the other. Inside a group the tiles are numbered column by column, rows fastest: 5 x 3 tiles in groups of 2 go (0,
    0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 0), ... and end with (4, 0), (4, 1), (4, 2). Programs that run at
    the same time then need few different strips of A and B, which L2 can hold.
    """
    raise NotImplementedError("4.4/matmul_triton: write program_tile")


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
    raise NotImplementedError("4.4/matmul_triton: write matmul")


def configs(itemsize: int, *, smem: int = 232448) -> list[dict[str, int]]:
    """What an autotuner should try, given operands of `itemsize` bytes (1, 2 or 4) and `smem` bytes of shared memory.

    smem is at least 65536. Each is a dict with the keys BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, num_warps, num_stages, all
    ints >= 1. The list has at least 8, no two equal, at least one with BLOCK_M = 16 (decoding) and one with BLOCK_M *
    BLOCK_N >= 16384 (training). In every one

    * the blocks are powers of two from 16 to 4096 (tl.dot takes nothing smaller), num_warps is a power of two up to 16;
    * the operand tiles of all stages fit: (BLOCK_M * BLOCK_K + BLOCK_K * BLOCK_N) * itemsize * num_stages <= smem;
    * the accumulator fits in registers: BLOCK_M * BLOCK_N / (32 * num_warps) <= 128 values per thread.
    """
    raise NotImplementedError("4.4/matmul_triton: write configs")


def prune(options: list[dict[str, int]], m: int, n: int, k: int) -> list[dict[str, int]]:
    """The options that are not pointlessly large for an (m, k) x (k, n) product, in their order, in a new list.

    Kept is each whose BLOCK_M, BLOCK_N, BLOCK_K do not exceed max(16, next power of two) of m, n, k: a larger block
    would only compute padding. (The next power of two of 5 is 8, of 8 it is 8.) If none is left, the result holds one:
    that with the smallest BLOCK_M * BLOCK_N, the first of equals. options has at least one entry and is not changed.
    """
    raise NotImplementedError("4.4/matmul_triton: write prune")
