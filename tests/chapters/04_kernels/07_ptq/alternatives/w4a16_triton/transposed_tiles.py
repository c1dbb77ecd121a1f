"""Weights as the left operand (a decode tile is narrow), transposed at the end; strides passed for every tensor."""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_t(
    x_ptr, q_ptr, s_ptr, z_ptr, o_ptr, M, N, K,
    x0, x1, q0, q1, s0, s1, z0, z1, o0, o1, o2,
    group: tl.constexpr, parts: tl.constexpr, bm: tl.constexpr, bn: tl.constexpr, bk: tl.constexpr,
):  # fmt: skip
    n = tl.program_id(0) * bn + tl.arange(0, bn)
    m = tl.program_id(1) * bm + tl.arange(0, bm)
    part = tl.program_id(2)
    n_mask = n < N
    m_mask = m < M
    lane = tl.arange(0, 8) * 4
    steps = K // parts // bk
    acc = tl.zeros((bn, bm), tl.float32)
    for i in range(steps):
        k0 = (part * steps + i) * bk
        g = k0 // group
        packed = tl.load(
            q_ptr + n[:, None] * q1 + (k0 // 8 + tl.arange(0, bk // 8))[None, :] * q0, mask=n_mask[:, None], other=0
        )
        codes = ((packed[:, :, None] >> lane[None, None, :]) & 0xF).reshape(bn, bk)
        # one word of zero-points for 8 columns
        zword = tl.load(z_ptr + g * z0 + (tl.program_id(0) * (bn // 8) + tl.arange(0, bn // 8)) * z1,
                        mask=tl.program_id(0) * (bn // 8) + tl.arange(0, bn // 8) < N // 8, other=0)  # fmt: skip
        zeros = ((zword[:, None] >> lane[None, :]) & 0xF).reshape(bn)
        s = tl.load(s_ptr + g * s0 + n * s1, mask=n_mask, other=0.0)
        w = (codes - zeros[:, None]).to(tl.float32) * s[:, None].to(tl.float32)
        xt = tl.load(x_ptr + m[None, :] * x0 + (k0 + tl.arange(0, bk))[:, None] * x1, mask=m_mask[None, :], other=0.0)
        acc = tl.dot(w.to(xt.dtype), xt, acc)
    o = o_ptr + part * o0 + m[:, None] * o1 + n[None, :] * o2
    tl.store(o, tl.trans(acc), mask=m_mask[:, None] & n_mask[None, :])


@triton.jit
def reduce_rows(p_ptr, y_ptr, N, stride_part, parts, B: tl.constexpr):
    row = tl.program_id(0)
    for start in range(0, N, B):
        c = start + tl.arange(0, B)
        t = tl.load(p_ptr + row * N + c, mask=c < N, other=0.0)
        for p in range(1, parts):
            t += tl.load(p_ptr + p * stride_part + row * N + c, mask=c < N, other=0.0)
        tl.store(y_ptr + row * N + c, t.to(y_ptr.dtype.element_ty), mask=c < N)


def pack(codes, zeros):
    k, n = codes.shape
    if k % 8 or n % 8:
        raise ValueError("K and N have to be multiples of 8")
    c = np.ascontiguousarray(codes.numpy(), dtype=np.uint32).reshape(k // 8, 8, n)
    z = np.ascontiguousarray(zeros.numpy(), dtype=np.uint32).reshape(len(zeros), n // 8, 8)
    place = np.uint32(16) ** np.arange(8, dtype=np.uint32)
    qweight = (c * place[None, :, None]).sum(1, dtype=np.uint32)
    qzeros = np.bitwise_or.reduce(z << np.arange(0, 32, 4, dtype=np.uint32), axis=-1)
    return torch.from_numpy(qweight.view(np.int32)), torch.from_numpy(qzeros.view(np.int32))


def w4a16_matmul(x, qweight, scales, qzeros, *, group, splits=1, block=None):
    (m, k), n = x.shape, qweight.size(1)
    bm, bn, bk = block or (min(128, max(16, triton.next_power_of_2(m))), 64, min(group, 128))
    result = torch.empty(m, n, dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(n, bn), triton.cdiv(m, bm), splits)
    if splits == 1:
        target, strides = result, (0, n, 1)
    else:
        target, strides = torch.empty(splits, m, n, dtype=torch.float32, device=x.device), (m * n, n, 1)
    matmul_t[grid](
        x, qweight, scales, qzeros, target, m, n, k, *x.stride(), *qweight.stride(), *scales.stride(),
        *qzeros.stride(), *strides, group=group, parts=splits, bm=bm, bn=bn, bk=bk,
    )  # fmt: skip
    if splits > 1:
        reduce_rows[(m,)](target, result, n, m * n, splits, B=128)
    return result
