"""Groups outside, steps inside; integers through tl.dot, the scale on each group's sums; one grid axis for everything."""

import torch
import triton
import triton.language as tl


@triton.jit
def _product(
    x, qw, sc, qz, y, m, n, groups_each, sm, sk,
    G: tl.constexpr, S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    part = pid % S
    tile = pid // S
    across = tl.cdiv(n, BN)
    rows = tile // across * BM + tl.arange(0, BM)
    cols = tile % across * BN + tl.arange(0, BN)
    inside = cols < n
    safe_rows = (rows % m).to(tl.int64)
    ks = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for g in range(part * groups_each, part * groups_each + groups_each):
        scale = tl.load(sc + g * n + cols, mask=inside, other=0).to(tl.float32)
        word = tl.load(qz + (g * n + cols) // 8, mask=inside, other=0)
        zero = (word >> (4 * (cols % 8))) & 15
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for first in range(g * G, (g + 1) * G, BK):
            a = tl.load(x + safe_rows[:, None] * sm + (first + ks)[None, :] * sk)
            at = (first // 8 + tl.arange(0, BK // 8))[:, None] * n + cols[None, :]
            w = tl.load(qw + at, mask=inside[None, :], other=0)
            w = tl.broadcast_to(w[:, None, :], (BK // 8, 8, BN))
            w = (tl.reshape(w, (BK, BN)) >> (4 * (ks % 8))[:, None]) & 15
            # integers from -15 to 15 are exact in float16 and bfloat16
            sums += tl.dot(a, (w - zero[None, :]).to(a.dtype))
        total += sums * scale[None, :]
    y += part.to(tl.int64) * m * n
    tl.store(y + rows[:, None].to(tl.int64) * n + cols[None, :], total.to(y.dtype.element_ty),
             mask=(rows < m)[:, None] & inside[None, :])  # fmt: skip


@triton.jit
def _add(parts, y, size, S: tl.constexpr, S2: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.arange(0, S2)
    block = tl.load(parts + s[:, None] * size + i[None, :], mask=(s < S)[:, None] & (i < size)[None, :], other=0.0)
    tl.store(y + i, tl.sum(block, 0).to(y.dtype.element_ty), mask=i < size)


def _nibbles_to_words(nibbles):
    """(..., 8) -> (...)"""
    words = torch.zeros(nibbles.shape[:-1], dtype=torch.int32)
    for i in range(8):
        words |= nibbles[..., i].to(torch.int32) << (4 * i)
    return words


def pack(codes, zeros):
    if codes.shape[0] % 8 != 0 or codes.shape[1] % 8 != 0:
        raise ValueError("not multiples of 8")
    k, n = codes.shape
    qweight = _nibbles_to_words(codes.T.reshape(n, k // 8, 8)).T
    return qweight.clone(memory_format=torch.contiguous_format), _nibbles_to_words(zeros.unflatten(1, (n // 8, 8)))


def w4a16_matmul(x, qweight, scales, qzeros, *, group, splits=1, block=None):
    m, k = x.shape
    n = scales.shape[1]
    if block:
        bm, bn, bk = block
    else:
        bm, bn, bk = 16 if m <= 16 else 32, 32, 32
    y = x.new_empty(m, n)
    parts = x.new_empty((splits, m, n), dtype=torch.float32) if splits > 1 else y
    grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn) * splits,)
    _product[grid](x, qweight, scales, qzeros, parts, m, n, k // group // splits, x.stride(0), x.stride(1),
                   G=group, S=splits, BM=bm, BN=bn, BK=bk, num_warps=2)  # fmt: skip
    if splits > 1:
        _add[(triton.cdiv(m * n, 256),)](parts, y, m * n, S=splits, S2=triton.next_power_of_2(splits), B=256)
    return y
