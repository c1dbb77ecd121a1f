"""Several narrow rows per program; wide rows with one scalar maximum and sum instead of one per lane."""

import torch
import triton
import triton.language as tl

NEG: tl.constexpr = tl.constexpr(float("-inf"))


@triton.jit
def _narrow(x, y, rows, n, stride, R: tl.constexpr, B: tl.constexpr):
    r = (tl.program_id(0) * R + tl.arange(0, R))[:, None]
    c = tl.arange(0, B)[None, :]
    inside = (r < rows) & (c < n)
    v = tl.load(x + r * stride + c, inside, NEG).to(tl.float32)
    top = tl.max(v, axis=1, keep_dims=True)
    top = tl.where(top == NEG, 0.0, top)
    e = tl.exp2((v - top) * 1.4426950408889634)
    total = tl.sum(e, axis=1, keep_dims=True)
    tl.store(y + r * n + c, e / tl.maximum(total, 1e-30), inside)


@triton.jit
def _wide(x, y, n, stride, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    top = tl.max(tl.full((B,), NEG, tl.float32))
    total = tl.sum(tl.zeros((B,), tl.float32))
    for i in range(tl.cdiv(n, B)):
        v = tl.load(x + r * stride + i * B + c, i * B + c < n, NEG).to(tl.float32)
        higher = tl.maximum(top, tl.max(v))
        base = tl.where(higher == NEG, 0.0, higher)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(v - base))
        top = higher
    base = tl.where(top == NEG, 0.0, top)
    total = tl.where(total == 0.0, 1.0, total)
    for i in range(tl.cdiv(n, B)):
        v = tl.load(x + r * stride + i * B + c, i * B + c < n, NEG).to(tl.float32)
        tl.store(y + r * n + i * B + c, tl.exp(v - base) / total, i * B + c < n)


def softmax(x):
    rows, n = x.shape
    y = x.new_empty(rows, n)
    if n > 8192:
        _wide[(rows,)](x, y, n, x.stride(0), B=8192, num_warps=16)
    else:
        width = triton.next_power_of_2(n)
        together = max(1, 2048 // width)
        _narrow[(triton.cdiv(rows, together),)](x, y, rows, n, x.stride(0), R=together, B=width, num_warps=8)
    return y


@triton.jit
def _gradient(y, dy, dx, n, B: tl.constexpr, ONCE: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * n + tl.arange(0, B)
    end = tl.program_id(0).to(tl.int64) * n + n
    p = tl.load(y + at, at < end, 0.0).to(tl.float32)
    g = tl.load(dy + at, at < end, 0.0).to(tl.float32)
    if ONCE:
        tl.store(dx + at, p * g - p * tl.sum(p * g), at < end)
    else:
        s = tl.sum(p * g)
        for i in range(1, tl.cdiv(n, B)):
            j = at + i * B
            s += tl.sum(tl.load(y + j, j < end, 0.0).to(tl.float32) * tl.load(dy + j, j < end, 0.0).to(tl.float32))
        for i in range(tl.cdiv(n, B)):
            j = at + i * B
            p = tl.load(y + j, j < end, 0.0).to(tl.float32)
            g = tl.load(dy + j, j < end, 0.0).to(tl.float32)
            tl.store(dx + j, p * (g - s), j < end)


def softmax_backward(y, dy):
    dx = torch.empty_like(y)
    rows, n = y.shape
    width = min(triton.next_power_of_2(n), 8192)
    _gradient[(rows,)](y, dy, dx, n, B=width, ONCE=n <= width, num_warps=16)
    return dx
