"""Causal self-attention as a module, for batches of unequal length."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    """One attention head with its projections: every token of a sequence asks, and the tokens before it answer."""

    def __init__(self, d_model: int, d_head: int, causal: bool = True, bias: bool = False):
        """Four submodules, by these names, each with or without a bias:

            q_proj, k_proj, v_proj    nn.Linear(d_model, d_head, bias=bias)
            out_proj                  nn.Linear(d_head, d_model, bias=bias)

        The state dict holds their weights (and biases) and nothing else: no mask of some maximal length, so that
        sequences may be as long as they like.
        """
        ### BEGIN SOLUTION
        super().__init__()
        self.causal = causal
        self.q_proj = nn.Linear(d_model, d_head, bias=bias)
        self.k_proj = nn.Linear(d_model, d_head, bias=bias)
        self.v_proj = nn.Linear(d_model, d_head, bias=bias)
        self.out_proj = nn.Linear(d_head, d_model, bias=bias)
        ### END SOLUTION

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        """out_proj(softmax(q k^T / sqrt(d_head)) v) with q = q_proj(x), k = k_proj(x), v = v_proj(x).

        x                 (B, T, d_model), B and T at least 1, in the module's dtype (float64, float32 or bfloat16)
        key_padding_mask  (B, T) bool, True = this position is padding (torch's convention for this argument; the
                          opposite of a bool attn_mask's). Padding may stand on the right, on the left or anywhere,
                          and a whole sequence may be padding. None: no padding.

        Query t attends to key s if s is not padding and, where causal, s <= t (itself included).

        Returns (B, T, d_model) in x's dtype, exactly 0 at padding positions, out_proj's bias or not. What must hold:

        - position t depends on nothing after t if causal: the gradient there is exactly 0;
        - without causal and padding, permuting the tokens permutes the outputs;
        - what stands in x at padding positions (any finite numbers, 1e4 say) changes no output at the real ones, and
          receives a gradient of exactly 0;
        - a padded batch gives for each sequence what that sequence gives alone;
        - all outputs and gradients are finite, also where a padded query has no key left, and for scores of +-3e4
          in bfloat16.

        Accuracy, relative to F.scaled_dot_product_attention in float64 and to a row's size: 1e-10 in float64, 1e-4 in
        float32, 4e-2 in bfloat16; also where scores reach +-3e4.
        """
        ### BEGIN SOLUTION
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5

        t = x.shape[1]
        allowed = torch.ones(t, t, dtype=torch.bool, device=x.device)
        if self.causal:
            allowed = allowed.tril()
        if key_padding_mask is not None:
            allowed = allowed & ~key_padding_mask[:, None, :]

        # The smallest finite number, not -inf: a row with nothing allowed becomes uniform instead of NaN, in the
        # gradient too. Only padding has such rows, since a real token sees itself, and padding is zeroed below.
        scores = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32))

        out = self.out_proj(weights.to(v.dtype) @ v)
        if key_padding_mask is not None:
            out = out.masked_fill(key_padding_mask[:, :, None], 0.0)
        return out
        ### END SOLUTION
