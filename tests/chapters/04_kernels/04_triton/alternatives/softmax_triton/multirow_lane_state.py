"""One kernel for both widths (constexpr branch), several narrow rows a program, per-lane running max and sum, base 2, blocks of 8192."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def _shape(n: int) -> tuple[int, int]:
    """(columns, rows) of a block: narrow rows share a program."""
    b = min(8192, triton.next_power_of_2(n))
    return b, max(1, 1024 // b)


@triton.jit
def _softmax(x_ptr, y_ptr, rows, n, stride, R: tl.constexpr, B: tl.constexpr, ONE: tl.constexpr):
    LOG2E: tl.constexpr = 1.4426950408889634
    r = (tl.program_id(0) * R + tl.arange(0, R))[:, None]
    c = tl.arange(0, B)[None, :]
    x_ptr += r.to(tl.int64) * stride + c
    y_ptr += r.to(tl.int64) * n + c
    if ONE:
        ok = (r < rows) & (c < n)
        x = tl.load(x_ptr, mask=ok, other=-float("inf")).to(tl.float32)
        m = tl.maximum(tl.max(x, 1, keep_dims=True), -3.0e38)
        e = tl.exp2((x - m) * LOG2E)
        tl.store(y_ptr, e / tl.maximum(tl.sum(e, 1, keep_dims=True), 1e-30), mask=ok)
    else:
        # a running maximum and a running sum for each lane; lanes are joined once at the end
        m = tl.full([R, B], -3.0e38, tl.float32)
        l = tl.zeros([R, B], tl.float32)
        for j in range(0, n, B):
            x = tl.load(x_ptr + j, mask=(r < rows) & (c + j < n), other=-float("inf")).to(tl.float32)
            new = tl.maximum(m, x)
            l = l * tl.exp2((m - new) * LOG2E) + tl.exp2((x - new) * LOG2E)
            m = new
        top = tl.max(m, 1, keep_dims=True)
        total = tl.maximum(tl.sum(l * tl.exp2((m - top) * LOG2E), 1, keep_dims=True), 1e-30)
        for j in range(0, n, B):
            ok = (r < rows) & (c + j < n)
            x = tl.load(x_ptr + j, mask=ok, other=-float("inf")).to(tl.float32)
            tl.store(y_ptr + j, tl.exp2((x - top) * LOG2E) / total, mask=ok)


@triton.jit
def _grad(y_ptr, dy_ptr, dx_ptr, rows, n, R: tl.constexpr, B: tl.constexpr, ONE: tl.constexpr):
    r = (tl.program_id(0) * R + tl.arange(0, R))[:, None]
    c = tl.arange(0, B)[None, :]
    at = r.to(tl.int64) * n + c
    if ONE:
        ok = (r < rows) & (c < n)
        y = tl.load(y_ptr + at, mask=ok, other=0).to(tl.float32)
        g = tl.load(dy_ptr + at, mask=ok, other=0).to(tl.float32)
        tl.store(dx_ptr + at, y * (g - tl.sum(y * g, 1, keep_dims=True)), mask=ok)
    else:
        dot = tl.zeros([R, B], tl.float32)
        for j in range(0, n, B):
            ok = (r < rows) & (c + j < n)
            y = tl.load(y_ptr + at + j, mask=ok, other=0).to(tl.float32)
            dot += y * tl.load(dy_ptr + at + j, mask=ok, other=0).to(tl.float32)
        s = tl.sum(dot, 1, keep_dims=True)
        # from right to left: the last chunks may still be in cache
        for k in range(0, tl.cdiv(n, B)):
            j = (tl.cdiv(n, B) - 1 - k) * B
            ok = (r < rows) & (c + j < n)
            y = tl.load(y_ptr + at + j, mask=ok, other=0).to(tl.float32)
            g = tl.load(dy_ptr + at + j, mask=ok, other=0).to(tl.float32)
            tl.store(dx_ptr + at + j, y * (g - s), mask=ok)


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
    rows, n = x.shape
    y = x.new_empty(rows, n)
    b, r = _shape(n)
    _softmax[(triton.cdiv(rows, r),)](x, y, rows, n, x.stride(0), R=r, B=b, ONE=n <= b, num_warps=8)
    return y


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
    rows, n = y.shape
    dx = torch.empty_like(y)
    b, r = _shape(n)
    _grad[(triton.cdiv(rows, r),)](y, dy, dx, rows, n, R=r, B=b, ONE=n <= b, num_warps=8)
    return dx
