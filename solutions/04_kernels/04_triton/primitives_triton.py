"""Two classics of every GPU course: the tiled transpose and the device-wide prefix sum.

As everywhere in this chapter: any size, masks on every edge, programs independent of each other, and a wrapper that
only allocates, takes views and launches. Every launch must compile for sm_90 (an H100), with at most 128 bytes of
spilled registers per thread. In the interpreter tl.associative_scan is ten times as slow as tl.cumsum.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


### BEGIN SOLUTION
@triton.jit
def transpose_kernel(x_ptr, y_ptr, m, n, stride_xm, stride_xn, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    col = tl.program_id(1).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    ok = (row < m)[:, None] & (col < n)[None, :]
    tile = tl.load(x_ptr + row[:, None] * stride_xm + col[None, :] * stride_xn, mask=ok)
    tl.store(y_ptr + col[:, None] * m + row[None, :], tl.trans(tile), mask=tl.trans(ok))


@triton.jit
def block_sums_kernel(x_ptr, sums_ptr, n, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i - SHIFT, mask=(i >= SHIFT) & (i < n), other=0).to(sums_ptr.dtype.element_ty)
    tl.store(sums_ptr + pid, tl.sum(x, 0))


@triton.jit
def scan_kernel(x_ptr, before_ptr, y_ptr, n, HAS_BEFORE: tl.constexpr, SHIFT: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    i = pid.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i - SHIFT, mask=(i >= SHIFT) & (i < n), other=0).to(y_ptr.dtype.element_ty)
    y = tl.cumsum(x, 0)
    if HAS_BEFORE:
        # Entry pid - 1 of the scanned block sums is the sum of all blocks before this one.
        y += tl.load(before_ptr + pid - 1, mask=pid > 0, other=0)
    tl.store(y_ptr + i, y, mask=i < n)


### END SOLUTION


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
    ### BEGIN SOLUTION
    m, n = x.shape
    y = torch.empty((n, m), dtype=x.dtype, device=x.device)
    block = 64
    transpose_kernel[(triton.cdiv(m, block), triton.cdiv(n, block))](x, y, m, n, x.stride(0), x.stride(1), BLOCK=block)
    return y
    ### END SOLUTION


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
    ### BEGIN SOLUTION
    n = x.numel()
    y = torch.empty(n, dtype=torch.int32 if x.dtype == torch.int32 else torch.float32, device=x.device)
    if n == 0:
        return y
    # An exclusive scan is the inclusive scan of x moved one place to the right, with a 0 in front.
    shift = int(exclusive)
    programs = triton.cdiv(n, block)
    if programs == 1:
        scan_kernel[(1,)](x, None, y, n, HAS_BEFORE=False, SHIFT=shift, BLOCK=block)
        return y
    sums = torch.empty(programs, dtype=y.dtype, device=x.device)
    block_sums_kernel[(programs,)](x, sums, n, SHIFT=shift, BLOCK=block)
    scan_kernel[(programs,)](x, cumsum(sums, block=block), y, n, HAS_BEFORE=True, SHIFT=shift, BLOCK=block)
    return y
    ### END SOLUTION
