"""Transpose by loading at turned addresses; a scan whose block sums are scanned by one looping program."""

import torch
import triton
import triton.language as tl


@triton.jit
def _turn(x, y, m, n, sm, sn, BM: tl.constexpr, BN: tl.constexpr):
    tiles = tl.cdiv(m, BM)
    pid = tl.program_id(0)
    r = (pid % tiles) * BM + tl.arange(0, BM)
    c = (pid // tiles) * BN + tl.arange(0, BN)
    inside = (c[:, None] < n) & (r[None, :] < m)
    block = tl.load(x + c[:, None] * sn + r[None, :] * sm, inside)
    tl.store(y + c[:, None] * m + r[None, :], block, inside)


def transpose(x):
    m, n = x.shape
    y = x.new_empty(n, m)
    _turn[(triton.cdiv(m, 32) * triton.cdiv(n, 128),)](x, y, m, n, *x.stride(), BM=32, BN=128)
    return y


@triton.jit
def _totals(x, totals, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0).to(totals.dtype.element_ty)
    tl.store(totals + tl.program_id(0), tl.sum(v))


@triton.jit
def _offsets(totals, offsets, count, B: tl.constexpr):
    carry = tl.sum(tl.zeros((B,), totals.dtype.element_ty))
    for start in range(0, count, B):
        i = start + tl.arange(0, B)
        v = tl.load(totals + i, i < count, 0)
        tl.store(offsets + i, carry + tl.cumsum(v, 0) - v, i < count)
        carry += tl.sum(v)


@triton.jit
def _scan(x, offsets, y, n, EXCLUSIVE: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + i, i < n, 0).to(y.dtype.element_ty)
    s = tl.cumsum(v, 0)
    if EXCLUSIVE:
        s -= v
    tl.store(y + i, s + tl.load(offsets + tl.program_id(0)), i < n)


def cumsum(x, *, exclusive=False, block=1024):
    n = x.shape[0]
    dtype = torch.int32 if x.dtype == torch.int32 else torch.float32
    y = torch.empty(n, dtype=dtype, device=x.device)
    if n == 0:
        return y
    blocks = triton.cdiv(n, block)
    offsets = torch.zeros(blocks, dtype=dtype, device=x.device)
    if blocks > 1:
        totals = torch.empty_like(offsets)
        _totals[(blocks,)](x, totals, n, B=block)
        _offsets[(1,)](totals, offsets, blocks, B=block)
    _scan[(blocks,)](x, offsets, y, n, EXCLUSIVE=exclusive, B=block)
    return y
