"""Two pointwise fusions: bias-GELU, and RoPE in place.

Four rules hold for every Triton exercise of this chapter.

1. Any size is allowed: mask whatever hangs over the edge of a tensor, on loads and on stores. A lane that is masked off
   holds nothing defined unless the load has an `other`.
2. Values are widened to float32 when they are loaded, and rounded to the tensor's own dtype when they are stored.
   float32 results then err by about 1e-6 at most, relative to max(|x + bias|, |result|) where digits cancel, float16
   results by 5e-4, one rounding.
3. The programs of one launch run in any order and do not see each other's results.
4. The wrapper checks, allocates, takes views and launches. It computes nothing with torch and copies no input.

Kernels run in Triton's interpreter, which is forgiving, and must also compile for sm_90 (an H100), with at most 128
bytes of spilled registers per thread: a block is as large as its program's threads can hold. To run a script of your
own without a GPU, set the environment variable TRITON_INTERPRET=1 before it imports triton. The interpreter computes
bfloat16 wrongly (it truncates, and multiplies raw bits in tl.dot), so bfloat16 is for a GPU: grade does not run it.

Your kernels go anywhere in this file, above the function that launches them.
"""

# Not allowed here, in any form: torch.nn.functional.gelu, torch.erf, torch.cat, Tensor.contiguous.

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor


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
    raise NotImplementedError("4.4/pointwise_triton: write bias_gelu")


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
    raise NotImplementedError("4.4/pointwise_triton: write rope_")
