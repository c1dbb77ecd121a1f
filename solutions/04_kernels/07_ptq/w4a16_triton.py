"""W4A16: a matmul whose 4-bit weights stay packed until they are in registers.

As in chapter 4.4: masks on every edge, float32 inside, programs independent of each other, and a wrapper that only
allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter tl.dot multiplies its
raw bits. It has to compile, though: both operands of tl.dot must have one dtype.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

### BEGIN SOLUTION


@triton.jit
def w4a16_kernel(
    x_ptr, qweight_ptr, scales_ptr, qzeros_ptr, out_ptr, M, N, K_PER_SPLIT, stride_xm, stride_xk,
    GROUP: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    split = tl.program_id(2)
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    col = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    row_ok = row < M
    col_ok = col < N
    step = tl.arange(0, BLOCK_K)
    word = tl.arange(0, BLOCK_K // 8)
    nibble = 4 * tl.arange(0, 8)

    acc = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for k in range(split * K_PER_SPLIT, (split + 1) * K_PER_SPLIT, BLOCK_K):
        # A step never leaves its group, so it needs one row of scales and zero-points.
        group = k // GROUP
        x = tl.load(x_ptr + row[:, None] * stride_xm + (k + step)[None, :] * stride_xk, row_ok[:, None], other=0.0)
        words = tl.load(qweight_ptr + (k // 8 + word)[:, None] * N + col[None, :], col_ok[None, :], other=0)
        scale = tl.load(scales_ptr + group * N + col, col_ok, other=0.0).to(tl.float32)
        zero = (tl.load(qzeros_ptr + group * (N // 8) + col // 8, col_ok, other=0) >> (col % 8 * 4)) & 0xF

        # (words, column) -> (words, nibble, column) -> (row of w, column): each word was loaded once and gives 8 rows.
        # >> copies the sign bit of an int32; the mask removes it.
        code = tl.reshape((words[:, None, :] >> nibble[None, :, None]) & 0xF, (BLOCK_K, BLOCK_N))
        w = ((code - zero[None, :]).to(tl.float32) * scale[None, :]).to(x.dtype)
        acc = tl.dot(x, w, acc)

    # out is y itself, or one (M, N) float32 slice per split. The store rounds to its dtype.
    out_ptr += split.to(tl.int64) * M * N
    tl.store(out_ptr + row[:, None] * N + col[None, :], acc, row_ok[:, None] & col_ok[None, :])


@triton.jit
def sum_splits_kernel(partial_ptr, y_ptr, size, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = at < size
    total = tl.zeros((BLOCK,), tl.float32)
    for split in range(SPLITS):
        total += tl.load(partial_ptr + split * size + at, ok, other=0.0)
    tl.store(y_ptr + at, total, ok)


### END SOLUTION


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
    ### BEGIN SOLUTION
    K, N = codes.shape
    if K % 8 or N % 8:
        raise ValueError(f"K = {K} and N = {N} must be multiples of 8")
    shifts = 4 * torch.arange(8, device=codes.device)
    qweight = (codes.reshape(K // 8, 8, N).long() << shifts[:, None]).sum(1)
    qzeros = (zeros.reshape(-1, N // 8, 8).long() << shifts).sum(2)
    # The upper half of the int64 is 0; dropping it keeps the 32 bits as they are, the sign bit included.
    return qweight.to(torch.int32), qzeros.to(torch.int32)
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    M, K = x.shape
    N = qweight.shape[1]
    if block is None:
        block = (16 if M <= 16 else 32 if M <= 32 else 64, 64, min(group, 64))
    block_m, block_n, block_k = block
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    out = y if splits == 1 else torch.empty((splits, M, N), dtype=torch.float32, device=x.device)
    w4a16_kernel[(triton.cdiv(M, block_m), triton.cdiv(N, block_n), splits)](
        x, qweight, scales, qzeros, out, M, N, K // splits, *x.stride(),
        GROUP=group, BLOCK_M=block_m, BLOCK_N=block_n, BLOCK_K=block_k, num_warps=4, num_stages=3,
    )  # fmt: skip
    if splits > 1:
        sum_splits_kernel[(triton.cdiv(M * N, 1024),)](out, y, M * N, SPLITS=splits, BLOCK=1024)
    return y
    ### END SOLUTION
