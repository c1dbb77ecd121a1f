"""FlashAttention forward in one Triton kernel: causal, grouped-query, any lengths.

As everywhere in this chapter: any size, masks on every edge, float32 inside, programs independent of each other, and a
wrapper that only allocates, takes views and launches. bfloat16 cannot be tried without a GPU: in the interpreter
tl.dot multiplies its raw bits.
"""

# Not allowed here, in any form: torch.nn.functional.scaled_dot_product_attention, torch.softmax, torch.matmul,
# Tensor.contiguous, torch.repeat_interleave.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
    raise NotImplementedError("4.4/flash_forward_triton: write flash_attention")
