"""FlashAttention backward in Triton, without atomics: bit-identical from run to run.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter
tl.dot multiplies its raw bits.
"""

# Not allowed here, in any form: torch.nn.functional.scaled_dot_product_attention, torch.autograd.grad, torch.softmax,
# torch.matmul.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


def flash_attention_backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    o: Tensor,
    lse: Tensor,
    do: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """(dq, dk, dv): the gradients of sum(o * do) for o, lse = flash_attention(q, k, v, causal=..., scale=...).

    q, o and do (B, H, N, D), k and v (B, HK, M, D), in one dtype (float32, float16 or bfloat16); lse (B, H, N) float32,
    the natural logsumexp of each row. All sizes >= 1, H a multiple of HK, D 32, 64 or 128. All are contiguous except
    do, of which only the last dimension is. scale: any number; D ** -0.5 if None. Returns new contiguous tensors in the
    inputs' dtype; dk and dv have HK heads: query head h reads KV head h // (H // HK), and a KV head collects the sum
    over its group.

    The weights are rebuilt from the lse that is given, P = exp(scale * q k^T - lse); no row is normalised anew. Then

        delta = rowsum(o * do)          in float32
        dv = P^T do          dP = do v^T          dS = P * (dP - delta)
        dq = scale * dS k          dk = scale * dS^T q

    (arXiv:2307.08691, with scale * q k^T as S). causal: row i sees the keys j <= i + M - N. A row that sees no key has
    lse = -inf: its dq is 0 and it adds nothing to dk and dv.

    Three launches. One stores delta. One gives a tile of block_n keys of a KV head to each program, which loops over
    the query heads of the group and over the query tiles of block_m rows that can see it, and keeps dk and dv in
    registers. One gives a tile of block_m queries to each program, which loops over the key tiles that it can see and
    keeps dq. Nothing is added with atomics, so the result does not depend on the order of the programs, not by a bit.
    Sums stay in float32; P and dS are rounded to the inputs' dtype for the products; float32 is multiplied in full
    precision (input_precision="ieee"). Errors are at most 1e-5 in float32 and 3e-3 in float16, relative to the value or
    to the rms of the tensor if that is larger; where dP - delta cancels, the rounding of dP in float32 is allowed too.
    block_m and block_n, powers of two >= 16, are used as given; None leaves the choice to you.

    Cost. A (query tile, key tile) pair is visited if some row of the one sees some key of the other. All launches
    together use at most seven tl.dot per visited pair and head, and load at most 1.15 times (2 * (block_m + block_n) *
    D elements per visited pair and head, plus twice q, k, v, o and do). dq, dk and dv are stored once; besides them
    only one float32 per query row is stored. float16 with D 64 and blocks (64, 64) compiles for sm_90 (an H100) with at
    most 128 bytes of spilled registers per thread; with D 128 and blocks of your choice it compiles within 232448 bytes
    of shared memory.
    """
    raise NotImplementedError("4.4/flash_backward_triton: write flash_attention_backward")
