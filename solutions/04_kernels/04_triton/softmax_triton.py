"""Row softmax, forward and backward, for rows that fit on chip and for rows that do not.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. Every launch must compile for sm_90 (an H100), with at most 128
bytes of spilled registers per thread.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

### BEGIN SOLUTION

NARROW = 8192  # the widest row that one program keeps in its registers
WIDE_BLOCK = 4096


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n, stride_xr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    col = tl.arange(0, BLOCK)
    col_ok = col < n
    x = tl.load(x_ptr + row * stride_xr + col, mask=col_ok, other=float("-inf")).to(tl.float32)
    m = tl.max(x, 0)
    m = tl.where(m == float("-inf"), 0.0, m)  # a row of -inf: exp(-inf - 0) is 0, exp(-inf + inf) would be NaN
    e = tl.exp(x - m)
    l = tl.sum(e, 0)
    tl.store(y_ptr + row * n + col, e / tl.where(l > 0, l, 1.0), mask=col_ok)


@triton.jit
def wide_softmax_kernel(x_ptr, y_ptr, n, stride_xr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_ptr += row * stride_xr
    y_ptr += row * n
    # Every lane keeps its own maximum and sum; they meet once, after the loop.
    m = tl.full((BLOCK,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + col, mask=col < n, other=float("-inf")).to(tl.float32)
        new_m = tl.maximum(m, x)
        safe = tl.where(new_m == float("-inf"), 0.0, new_m)
        l = l * tl.exp(m - safe) + tl.exp(x - safe)
        m = new_m
    row_m = tl.max(m, 0)
    row_m = tl.where(row_m == float("-inf"), 0.0, row_m)
    row_l = tl.sum(l * tl.exp(m - row_m), 0)
    scale = 1.0 / tl.where(row_l > 0, row_l, 1.0)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + col, mask=col < n, other=float("-inf")).to(tl.float32)
        tl.store(y_ptr + col, tl.exp(x - row_m) * scale, mask=col < n)


@triton.jit
def backward_kernel(y_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * n
    col = tl.arange(0, BLOCK)
    col_ok = col < n
    y = tl.load(y_ptr + start + col, mask=col_ok, other=0.0).to(tl.float32)
    dy = tl.load(dy_ptr + start + col, mask=col_ok, other=0.0).to(tl.float32)
    tl.store(dx_ptr + start + col, y * (dy - tl.sum(y * dy, 0)), mask=col_ok)


@triton.jit
def wide_backward_kernel(y_ptr, dy_ptr, dx_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    y_ptr += row * n
    dy_ptr += row * n
    dx_ptr += row * n
    lane_dots = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        lane_dots += y * dy
    dot = tl.sum(lane_dots, 0)
    for start in range(0, n, BLOCK):
        col = start + tl.arange(0, BLOCK)
        y = tl.load(y_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + col, mask=col < n, other=0.0).to(tl.float32)
        tl.store(dx_ptr + col, y * (dy - dot), mask=col < n)


def narrow_shape(n: int) -> dict[str, int]:
    """The block that holds a row, and about 16 elements of it per thread."""
    block = triton.next_power_of_2(n)
    return {"BLOCK": block, "num_warps": min(16, max(1, block // 512))}


### END SOLUTION


def softmax(x: Tensor) -> Tensor:
    """Softmax of each row.

    x (rows, n), float32, float16 or bfloat16, n from 1 to 262144. The last dimension is contiguous; the stride from row
    to row is arbitrary (x may be a slice of columns) and x is read in place. Returns a new contiguous tensor of x's
    shape and dtype.

        y[i] = exp(x[i] - m) / l      m = max over the row      l = sum over the row of exp(x[i] - m)

    Entries may be -inf and get weight 0; a row of nothing but -inf gives zeros. Logits may be as large as +-1e4.
    Against float64, errors are at most 3e-6 in float32 and 2e-3 in float16, relative to the value or to the rms of its
    row if that is larger.

    Cost: one launch. A row of up to 8192 elements fits on chip: it is read once and written once. A wider row, a
    vocabulary, does not: m and l are found together in one pass (the online normaliser of arXiv:1805.02867) and a
    second pass writes: at most two reads, one write. No block is larger than 32768 elements.
    """
    ### BEGIN SOLUTION
    rows, n = x.shape
    y = torch.empty((rows, n), dtype=x.dtype, device=x.device)
    if n <= NARROW:
        softmax_kernel[(rows,)](x, y, n, x.stride(0), **narrow_shape(n))
    else:
        wide_softmax_kernel[(rows,)](x, y, n, x.stride(0), BLOCK=WIDE_BLOCK, num_warps=8)
    return y
    ### END SOLUTION


def softmax_backward(y: Tensor, dy: Tensor) -> Tensor:
    """The gradient that reaches x through y = softmax(x), given dy, the gradient of the loss by y.

    y and dy (rows, n), contiguous, in one dtype (float32, float16 or bfloat16), n from 1 to 262144. Returns dx, a new
    tensor of y's shape and dtype. From dy_i / dx_j = y_i * (1{i = j} - y_j) follows, row by row,

        dx = y * (dy - sum(y * dy))

    with errors of at most 1e-5 in float32 and 2e-3 in float16 (relative, as above; where dy - sum cancels, 1e-6 of the
    largest y * dy is allowed too).

    Cost: one launch. Rows of up to 8192 elements: y and dy are read once, dx is written once. Wider rows: y and dy are
    read at most twice each, dx is written once. No block is larger than 32768 elements.
    """
    ### BEGIN SOLUTION
    rows, n = y.shape
    dx = torch.empty_like(y)
    if n <= NARROW:
        backward_kernel[(rows,)](y, dy, dx, n, **narrow_shape(n))
    else:
        wide_backward_kernel[(rows,)](y, dy, dx, n, BLOCK=WIDE_BLOCK, num_warps=8)
    return dx
    ### END SOLUTION
