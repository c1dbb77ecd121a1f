"""Raw codes in the dot; zero-points are taken off afterwards, through the sums of x over the group."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor


def pack(codes: Tensor, zeros: Tensor) -> tuple[Tensor, Tensor]:
    def along_first(a: np.ndarray) -> np.ndarray:
        word = np.zeros((a.shape[0] // 8, a.shape[1]), np.uint32)
        for i in range(8):
            word |= a[i::8].astype(np.uint32) << np.uint32(4 * i)
        return word.view(np.int32)

    if codes.shape[0] % 8 or codes.shape[1] % 8:
        raise ValueError("K and N have to be multiples of 8")
    qweight = along_first(codes.numpy())
    qzeros = np.ascontiguousarray(along_first(zeros.T.numpy()).T)
    return torch.from_numpy(qweight), torch.from_numpy(qzeros)


@triton.jit
def _kernel(
    x_ptr,
    w_ptr,
    s_ptr,
    z_ptr,
    y_ptr,
    M,
    N,
    stride_m,
    stride_k,
    groups,
    GROUP: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
):
    row = (tl.program_id(1) * BM + tl.arange(0, BM)).to(tl.int64)
    col = tl.program_id(0) * BN + tl.arange(0, BN)
    zcol = tl.program_id(0) * (BN // 8) + tl.arange(0, BN // 8)
    z_id = tl.program_id(2)
    nib = tl.arange(0, 8) * 4
    total = tl.zeros((BM, BN), tl.float32)
    for g in range(z_id * groups, z_id * groups + groups):
        dots = tl.zeros((BM, BN), tl.float32)
        sums = tl.zeros((BM,), tl.float32)
        for k in range(g * GROUP, (g + 1) * GROUP, BK):
            kk = (k + tl.arange(0, BK)).to(tl.int64)
            x = tl.load(x_ptr + row[:, None] * stride_m + kk[None, :] * stride_k, mask=row[:, None] < M, other=0.0)
            r = k // 8 + tl.arange(0, BK // 8)
            words = tl.load(w_ptr + r.to(tl.int64)[:, None] * N + col[None, :], mask=col[None, :] < N, other=0)
            c = tl.reshape((words[:, None, :] >> nib[None, :, None]) & 15, (BK, BN))
            dots = tl.dot(x, c.to(x.dtype), dots)
            sums += tl.sum(x.to(tl.float32), axis=1)
        zw = tl.load(z_ptr + g * (N // 8) + zcol, mask=zcol < N // 8, other=0)
        zero = tl.reshape((zw[:, None] >> nib[None, :]) & 15, (BN,)).to(tl.float32)
        scale = tl.load(s_ptr + g * N + col, mask=col < N, other=0.0).to(tl.float32)
        total += (dots - sums[:, None] * zero[None, :]) * scale[None, :]
    at = (z_id * M + row)[:, None] * N + col[None, :]
    tl.store(y_ptr + at, total.to(y_ptr.dtype.element_ty), mask=(row[:, None] < M) & (col[None, :] < N))


@triton.jit
def _combine(p_ptr, y_ptr, n, SPLITS: tl.constexpr, PAD: tl.constexpr, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    s = tl.arange(0, PAD)
    v = tl.load(
        p_ptr + s[:, None].to(tl.int64) * n + i[None, :], mask=(s[:, None] < SPLITS) & (i[None, :] < n), other=0.0
    )
    tl.store(y_ptr + i, tl.sum(v, axis=0).to(y_ptr.dtype.element_ty), mask=i < n)


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
    m, n = x.size(0), qweight.size(1)
    bm, bn, bk = block if block is not None else (16 if m <= 16 else 32, 32, group)
    y = torch.empty(m, n, dtype=x.dtype, device=x.device)
    p = torch.empty(splits, m, n, dtype=torch.float32, device=x.device) if splits > 1 else y
    _kernel[(triton.cdiv(n, bn), triton.cdiv(m, bm), splits)](
        x,
        qweight,
        scales,
        qzeros,
        p,
        m,
        n,
        x.stride(0),
        x.stride(1),
        x.size(1) // group // splits,
        GROUP=group,
        BM=bm,
        BN=bn,
        BK=bk,
    )
    if splits > 1:
        pad = triton.next_power_of_2(splits)
        b = max(1, min(256, 16384 // pad))
        _combine[(triton.cdiv(m * n, b),)](p, y, m * n, SPLITS=splits, PAD=pad, B=b)
    return y
