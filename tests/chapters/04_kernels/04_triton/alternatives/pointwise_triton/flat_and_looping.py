"""bias_gelu over flat indices with a modulo; rope_ with blocks of tokens and a loop over heads."""

import torch
import triton
import triton.language as tl


@triton.jit
def _gelu(x, b, out, n, size, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    inside = i < size
    v = tl.load(x + i, inside) + 0.0
    v = v.to(tl.float32) + tl.load(b + i % n, inside).to(tl.float32)
    cdf = 0.5 + 0.5 * tl.erf(v / 1.4142135623730951)
    tl.store(out + i, (v * cdf).to(out.dtype.element_ty), inside)


def bias_gelu(x, bias):
    out = torch.empty_like(x)
    size = x.numel()
    if size:
        _gelu[(triton.cdiv(size, 512),)](x, bias, out, bias.shape[0], size, B=512)
    return out


@triton.jit
def _rope(q, k, cos, sin, q_stride, k_stride, tokens, sign, HQ: tl.constexpr, HK: tl.constexpr, HALF: tl.constexpr,
          T: tl.constexpr, P: tl.constexpr):  # fmt: skip
    t = tl.program_id(0) * T + tl.arange(0, T)[:, None]
    p = tl.arange(0, P)[None, :]
    inside = (t < tokens) & (p < HALF)
    c = tl.load(cos + t * HALF + p, inside)
    s = tl.load(sin + t * HALF + p, inside) * sign
    for h in range(HQ + HK):
        here = q + t * q_stride + h * 2 * HALF + p
        if h >= HQ:
            here = k + t * k_stride + (h - HQ) * 2 * HALF + p
        a = tl.load(here, inside).to(tl.float32)
        b = tl.load(here + HALF, inside).to(tl.float32)
        tl.store(here, a * c - b * s, inside)
        tl.store(here + HALF, a * s + b * c, inside)


def rope_(q, k, cos, sin, *, inverse=False):
    tokens, heads, d = q.shape
    rows = 4
    _rope[(triton.cdiv(tokens, rows),)](
        q, k, cos, sin, q.stride(0), k.stride(0), tokens, -1.0 if inverse else 1.0, HQ=heads, HK=k.shape[1],
        HALF=d // 2, T=rows, P=triton.next_power_of_2(d // 2),
    )  # fmt: skip
