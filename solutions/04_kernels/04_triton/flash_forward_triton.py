"""FlashAttention forward in one Triton kernel: causal, grouped-query, any lengths.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter
tl.dot multiplies its raw bits.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


### BEGIN SOLUTION
@triton.jit
def flash_forward_kernel(
    q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, N, M, scale, H, group,
    stride_qb, stride_qh, stride_qn, stride_kb, stride_kh, stride_km, stride_vb, stride_vh, stride_vm,
    CAUSAL: tl.constexpr, D: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    tile = tl.program_id(0)
    head = tl.program_id(1)
    batch = (head // H).to(tl.int64)
    q_head = (head % H).to(tl.int64)
    kv_head = q_head // group
    row = tile * BLOCK_M + tl.arange(0, BLOCK_M)
    row_ok = row < N
    col = tl.arange(0, BLOCK_N)
    d = tl.arange(0, D)
    q_ptr += batch * stride_qb + q_head * stride_qh
    k_ptr += batch * stride_kb + kv_head * stride_kh
    v_ptr += batch * stride_vb + kv_head * stride_vh

    # Row i sees keys 0 .. i + M - N: the last query sees the last key.
    offset = M - N
    end = M
    if CAUSAL:
        end = tl.maximum(0, tl.minimum(M, (tile + 1) * BLOCK_M + offset))

    q = tl.load(q_ptr + row[:, None].to(tl.int64) * stride_qn + d[None, :], mask=row_ok[:, None], other=0.0)
    m = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    l = tl.zeros((BLOCK_M,), tl.float32)
    acc = tl.zeros((BLOCK_M, D), tl.float32)
    scale_log2 = scale * 1.4426950408889634  # scores in base 2: exp(s) = exp2(s * log2(e))
    for start in range(0, end, BLOCK_N):
        key = start + col
        key_ok = key < M
        key64 = key.to(tl.int64)
        k = tl.load(k_ptr + key64[None, :] * stride_km + d[:, None], mask=key_ok[None, :], other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale_log2
        visible = key_ok[None, :]
        if CAUSAL:
            visible = visible & (key[None, :] <= row[:, None] + offset)
        s = tl.where(visible, s, float("-inf"))
        new_m = tl.maximum(m, tl.max(s, 1))
        safe = tl.where(new_m == float("-inf"), 0.0, new_m)  # exp2(-inf - 0) is 0; -inf + inf would be NaN
        p = tl.exp2(s - safe[:, None])
        factor = tl.exp2(m - safe)
        l = l * factor + tl.sum(p, 1)
        v = tl.load(v_ptr + key64[:, None] * stride_vm + d[None, :], mask=key_ok[:, None], other=0.0)
        acc = tl.dot(p.to(v.dtype), v, acc * factor[:, None], input_precision="ieee")
        m = new_m

    seen = l > 0
    l = tl.where(seen, l, 1.0)
    at = head.to(tl.int64) * N + row
    tl.store(o_ptr + at[:, None] * D + d[None, :], acc / l[:, None], mask=row_ok[:, None])
    lse = tl.where(seen, (m + tl.log2(l)) * 0.6931471805599453, float("-inf"))  # back to base e
    tl.store(lse_ptr + at, lse, mask=row_ok)


### END SOLUTION


def flash_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(scale * q k^T) v without the N x M matrix, and the logsumexp of each row (arXiv:2307.08691).

    q (B, H, N, D), k and v (B, HK, M, D), in one dtype (float32, float16 or bfloat16), all sizes >= 1, H a multiple of
    HK, D 32, 64 or 128. The last dimension is contiguous, the other strides are free: transposed views and slices of a
    fused tensor are read where they lie. scale: any number; D ** -0.5 if None. Returns o (B, H, N, D), contiguous, in
    q's dtype, and lse (B, H, N), float32, the natural logarithm of the sum of exp(scale * q . k) over the visible keys.

    Query head h reads KV head h // (H // HK). causal: row i sees the keys j <= i + M - N (aligned bottom right: the
    last query sees the last key). A row that sees no key gives o = 0 and lse = -inf.

    One launch: a program owns block_m queries of one head, loads them once, and walks the key tiles that they can see,
    block_n keys at a time, with the online softmax. Maximum, sum and accumulator stay in float32; the weights are
    rounded to v's dtype for the product with v; float32 inputs are multiplied in full precision
    (input_precision="ieee"). Hardware computes 2**x, so scores are kept in base 2: log2(e) goes into the scale. block_m
    and block_n, powers of two >= 16, are used as given; None leaves the choice to you. Errors of o are at most 1e-5 in
    float32 and 2e-3 in float16, relative to the value or to the rms of its row if that is larger, 5e-3 where scores run
    to thousands; lse errs by 1e-5.

    Cost: ceil(N / block_m) * B * H programs. q is read once, o and lse are written once. A query tile visits the key
    tiles up to the last key that its last row can see; each visited tile costs two tl.dot and reads its keys and values
    (those that exist) once: 2 * D * min(M, visible keys rounded up to block_n) elements per query tile and query head.
    No block is larger than max(block_m * block_n, block_m * D, block_n * D) elements. float16 with blocks (128, 64) and
    D 64 or 128 compiles for sm_90 within 232448 bytes of shared memory, and with wgmma.
    """
    ### BEGIN SOLUTION
    (B, H, N, D), (HK, M) = q.shape, k.shape[1:3]
    block_m = block_m or (128 if q.element_size() == 2 else 64)
    block_n = block_n or (64 if q.element_size() == 2 else 32)
    o = torch.empty((B, H, N, D), dtype=q.dtype, device=q.device)
    lse = torch.empty((B, H, N), dtype=torch.float32, device=q.device)
    flash_forward_kernel[(triton.cdiv(N, block_m), B * H)](
        q, k, v, o, lse, N, M, D**-0.5 if scale is None else scale, H, H // HK,
        *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], CAUSAL=causal, D=D, BLOCK_M=block_m, BLOCK_N=block_n,
        num_warps=8 if block_m * D >= 128 * 128 else 4, num_stages=3 if D * q.element_size() <= 256 else 2,
    )  # fmt: skip
    return o, lse
    ### END SOLUTION
