"""64x64 tiles with tl.trans; exclusive scan by loading the left neighbour; block sums scanned exclusively."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _transpose_kernel(x_ptr, out_ptr, m, n, sm, sn, T: tl.constexpr):
    rows = tl.program_id(0).to(tl.int64) * T + tl.arange(0, T)
    cols = tl.program_id(1).to(tl.int64) * T + tl.arange(0, T)
    tile = tl.load(
        x_ptr + rows[:, None] * sm + cols[None, :] * sn,
        mask=(rows[:, None] < m) & (cols[None, :] < n),
        other=0,
    )
    tl.store(
        out_ptr + cols[:, None] * m + rows[None, :],
        tl.trans(tile),
        mask=(cols[:, None] < n) & (rows[None, :] < m),
    )


@triton.jit
def _sum_kernel(x_ptr, sums_ptr, n, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    offs = pid * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n, other=0).to(sums_ptr.dtype.element_ty)
    tl.store(sums_ptr + pid, tl.sum(x, axis=0))


@triton.jit
def _scan_kernel(x_ptr, before_ptr, y_ptr, n, EXCLUSIVE: tl.constexpr, OFFSETS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    i = tl.arange(0, BLOCK)
    offs = pid * BLOCK + i
    mask = offs < n
    if EXCLUSIVE:
        # the element to the left within the block, 0 for the first
        x = tl.load(x_ptr + offs - 1, mask=mask & (i > 0), other=0)
    else:
        x = tl.load(x_ptr + offs, mask=mask, other=0)
    y = tl.cumsum(x.to(y_ptr.dtype.element_ty), axis=0)
    if OFFSETS:
        y += tl.load(before_ptr + pid)
    tl.store(y_ptr + offs, y, mask=mask)


def transpose(x: Tensor) -> Tensor:
    """The transpose, written out: x (m, n) -> a new contiguous (n, m) tensor, bit for bit.

    m, n >= 1, any strides (x may itself be transposed, or a slice with a step), any dtype of 1, 2 or 4 bytes.

    A GPU moves memory in runs of neighbouring bytes. A program that reads a row reads neighbours, but writes a column,
    every element into its own 32-byte sector. So move square tiles: read a tile with neighbours along the axis that is
    contiguous in x, turn it on chip, and write it with neighbours along the rows of the result.

    Cost: one launch; x is read once and the result written once. Where x has an axis of stride 1 and m and n are
    multiples of 128, the addresses of every load and of every store hold runs of at least 32 consecutive elements along
    one axis of the block. No block is larger than 16384 elements.
    """
    m, n = x.shape
    out = torch.empty((n, m), dtype=x.dtype, device=x.device)
    bits = {1: torch.int8, 2: torch.int16, 4: torch.int32}[x.element_size()]
    T = 64
    grid = (triton.cdiv(m, T), triton.cdiv(n, T))
    _transpose_kernel[grid](x.view(bits), out.view(bits), m, n, x.stride(0), x.stride(1), T=T)
    return out


def cumsum(x: Tensor, *, exclusive: bool = False, block: int = 1024) -> Tensor:
    """Prefix sums over all programs: y[i] = x[0] + ... + x[i].

    x (n,) contiguous, float16, float32 or int32. Returns (n,) float32, or int32 for int32. Sums are kept in the dtype
    of the result from the start: float16 is widened when it is loaded, int32 is exact. exclusive=True: y[i] is the sum
    of x[:i], so y[0] is 0. block: the elements that one program handles, a power of two >= 64, used as given at every
    level. n = 0 gives an empty tensor.

    Programs cannot wait for each other, so the work is cut at launches (reduce, then scan):

        1. one program per block stores the sum of its block;
        2. the ceil(n / block) block sums are scanned by this very function, however many there are;
        3. one program per block scans its block and adds the sum of all blocks before it.

    Up to one block a single launch does everything. Error in float32: at most 5e-6 times the running sum of |x|.

    Cost: a level of n elements with more than one block takes two launches of ceil(n / block) programs; the last level,
    at most `block` elements, takes one. x is read twice and the result written once, about three moves per element,
    where scanning first and fixing up later takes four: for n >= 5000 and the default block, at most 2.1 times the
    bytes of a float32 x are loaded and at most 1.05 times the bytes of the result stored, levels included.
    """
    n = x.numel()
    y = torch.empty(n, dtype=torch.int32 if x.dtype == torch.int32 else torch.float32, device=x.device)
    if n == 0:
        return y
    blocks = triton.cdiv(n, block)
    warps = min(16, max(1, block // 256))
    if blocks == 1:
        _scan_kernel[(1,)](x, x, y, n, EXCLUSIVE=exclusive, OFFSETS=False, BLOCK=block, num_warps=warps)
        return y
    sums = torch.empty(blocks, dtype=y.dtype, device=x.device)
    _sum_kernel[(blocks,)](x, sums, n, BLOCK=block, num_warps=warps)
    before = cumsum(sums, exclusive=True, block=block)
    _scan_kernel[(blocks,)](x, before, y, n, EXCLUSIVE=exclusive, OFFSETS=True, BLOCK=block, num_warps=warps)
    return y
