"""bias_gelu on 2-D tiles with one bias row per tile, implicit casts; RoPE loops over single heads of q then k, sign as a number."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _gelu_tile(x_ptr, bias_ptr, y_ptr, rows, n, BR: tl.constexpr, BC: tl.constexpr):
    r = tl.program_id(0) * BR + tl.arange(0, BR)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    inside = (r[:, None] < rows) & (c[None, :] < n)
    offs = r[:, None].to(tl.int64) * n + c[None, :]
    bias = tl.load(bias_ptr + c, mask=c < n).to(tl.float32)
    v = tl.load(x_ptr + offs, mask=inside).to(tl.float32) + bias[None, :]
    phi = 0.5 * (1 + tl.erf(v / tl.sqrt(2.0)))
    tl.store(y_ptr + offs, v * phi, mask=inside)


@triton.jit
def _rope_tok(q_ptr, k_ptr, cos_ptr, sin_ptr, sq, sk, hq, h_all, half, sign, B: tl.constexpr):
    t = tl.program_id(0).to(tl.int64)
    for start in range(0, half, B):
        i = start + tl.arange(0, B)
        ok = i < half
        cos = tl.load(cos_ptr + t * half + i, mask=ok)
        sin = tl.load(sin_ptr + t * half + i, mask=ok) * sign
        for h in range(h_all):
            if h < hq:
                p = q_ptr + t * sq + h * 2 * half + i
            else:
                p = k_ptr + t * sk + (h - hq) * 2 * half + i
            a = tl.load(p, mask=ok).to(tl.float32)
            b = tl.load(p + half, mask=ok).to(tl.float32)
            tl.store(p, a * cos - b * sin, mask=ok)
            tl.store(p + half, b * cos + a * sin, mask=ok)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """gelu(x + bias) in one pass over x.

    x (..., n) contiguous, with any number of leading axes; bias (n,) contiguous, in x's dtype: float32, float16 or
    bfloat16. Returns a new tensor of x's shape and dtype. An empty x (any size 0) gives an empty tensor without a
    launch.

    With v = x + bias in float32, gelu(v) = v * Phi(v) = 0.5 * v * (1 + erf(v / sqrt(2))): the exact form, not the tanh
    approximation, which is off by up to 5e-4 (arXiv:1606.08415).

    Cost: one launch. x is read once and the result written once, nothing else is written. The bias is small and stays
    in cache: a program may read the entries that it needs again, but all programs together read at most one bias entry
    per element of x. No block is larger than 16384 elements, and there are at most max(64, elements / 256) programs: a
    program has enough to do to be worth its start.
    """
    y = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    if y.numel() == 0:
        return y
    n = x.shape[-1]
    rows = x.numel() // n
    bc = min(1024, triton.next_power_of_2(n))
    br = min(triton.next_power_of_2(rows), 2048 // bc)
    grid = (triton.cdiv(rows, br), triton.cdiv(n, bc))
    _gelu_tile[grid](x, bias, y, rows, n, BR=br, BC=bc, num_warps=8)
    return y


def rope_(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, *, inverse: bool = False) -> None:
    """Rotates queries and keys by their positions, in place (arXiv:2104.09864), in one launch for all tokens.

    q (tokens, HQ, D) and k (tokens, HK, D) in one dtype (float32, float16 or bfloat16), D even and otherwise arbitrary,
    tokens >= 1. Their last two dimensions are contiguous, the stride from token to token is arbitrary: q and k may be
    views into one fused (tokens, (HQ + 2 * HK) * D) tensor that also holds v, and v must not change by a bit.
    cos and sin (tokens, D // 2), float32, contiguous: row t belongs to token t and is the same for all its heads.

    The convention is the half-split one (GPT-NeoX, Hugging Face): with a = x[..., : D // 2] and b = x[..., D // 2 :],

        a' = a * cos - b * sin
        b' = b * cos + a * sin

    computed in float32. inverse=True rotates back, which is the same rotation with every sin negated; since rotations
    are orthogonal that is also the backward pass.

    Cost: one launch; q and k are read once and written once; cos and sin are read at most twice each, not once per
    head. No block is larger than 16384 elements, and there are at most max(64, tokens) programs.
    """
    tokens, heads_q, d = q.shape
    _rope_tok[(tokens,)](
        q,
        k,
        cos,
        sin,
        q.stride(0),
        k.stride(0),
        heads_q,
        heads_q + k.shape[1],
        d // 2,
        -1.0 if inverse else 1.0,
        B=min(1024, triton.next_power_of_2(d // 2)),
    )
