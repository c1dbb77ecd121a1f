"""W4A16: a matmul whose 4-bit weights stay packed until they are in registers.

As in chapter 4.4: masks on every edge, float32 inside, programs independent of each other, and a wrapper that only
allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter tl.dot multiplies its
raw bits. It has to compile, though: both operands of tl.dot must have one dtype.
"""

# Not allowed here, in any form: torch.matmul, torch.mm, torch.nn.functional.linear, Tensor.contiguous.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def pack(codes: Tensor, zeros: Tensor) -> tuple[Tensor, Tensor]:
    """4-bit codes, eight to a word.

    codes (K, N) and zeros (K // g, N) hold integers 0 .. 15 in any integer dtype (uint8, int32 or int64, say), any
    strides. ValueError unless K and N are multiples of 8.

    Returns (qweight, qzeros), both int32 and contiguous. Weights are packed along K: qweight (K // 8, N), bits 4i .. 4i
    + 3 of qweight[r, n] are codes[8r + i, n], i = 0 .. 7. Zero-points are packed along N: qzeros (K // g, N // 8), bits
    4i .. 4i + 3 of qzeros[b, c] are zeros[b, 8c + i]. So codes 0, 1, ..., 7 one below the other become 0x76543210, and
    an eighth code of 8 or more sets the sign bit: the int32 is negative. torch.stack, or zeros and |=, give contiguous
    results; .contiguous() is refused here too.
    """
    raise NotImplementedError("4.7/w4a16_triton: write pack")


def w4a16_matmul(
    x: Tensor,
    qweight: Tensor,
    scales: Tensor,
    qzeros: Tensor,
    *,
    group: int,
    splits: int = 1,
    block: tuple[int, int, int] | None = None,
) -> Tensor:
    """x w with w[k, n] = (code[k, n] - zero[k // group, n]) * scales[k // group, n], never written to memory.

    x (M, K) float16 or bfloat16, M >= 1, any strides: views are read where they lie. qweight (K // 8, N) and qzeros (K
    // group, N // 8) int32 as pack makes them, scales (K // group, N) float16, all three contiguous; N is a multiple of
    8. group is 32, 64 or 128 and divides K. The zero-point is subtracted as it is stored (old GPTQ files store it minus
    1). Returns a new contiguous (M, N) tensor in x's dtype.

    A program expands a block_k x block_n tile of w in registers: each word is loaded once and shifted out into 8 rows;
    code - zero times scale is rounded to x's dtype, and tl.dot adds up in float32 (if you prefer, a group's sums are
    scaled afterwards, and the zero-point may be taken off them afterwards too). Errors are at most 3e-3 in float16,
    relative to the value or to the rms of its row if that is larger.

    splits divides K // group. A decode step (M <= 16) has few output tiles, so K is cut into `splits` equal parts, each
    with programs of its own: the first launch writes a float32 (M, N) per split, a second adds them, always in the same
    order, and rounds once. So results are bit-equal from run to run, whatever the order of programs, and splits agree
    among each other to 1e-3.

    block = (block_m, block_n, block_k), powers of two >= 16 with block_k <= group, is used as given. None: yours to
    choose, for any M, N and group.

    Cost: one launch for splits = 1, else two. With a block given, the first has ceil(M / block_m) * ceil(N / block_n) *
    splits programs. It loads every byte of qweight exactly ceil(M / block_m) times (a kernel that fetches a word for
    each of its 8 rows moves 8 times that), scales at most 2 * ceil(M / block_m) * ceil(group / block_k) times their
    bytes and qzeros at most 16 * ceil(M / block_m) * ceil(group / block_k) times: a lane per column may ask for its own
    word. Without one, M <= 16 loads every byte of qweight once. No block has more than 16384 elements, for blocks given
    with block_m * block_n, block_n * block_k and block_m * block_k within that. The wrapper makes tensors of M * N and
    splits * M * N elements at most, and stores no more. For M = 16, N = K = 4096, group 128 and your own blocks it
    compiles for sm_90 (an H100), in float16 and bfloat16, with at most 128 bytes of spilled registers per thread and
    with tensor cores (mma or wgmma).
    """
    raise NotImplementedError("4.7/w4a16_triton: write w4a16_matmul")
