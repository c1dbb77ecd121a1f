"""Manual scores in float32 at least, masked_fill with -inf, rows of padded queries opened; x zeroed at padding."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    def __init__(self, d_model: int, d_head: int, causal: bool = True, bias: bool = False):
        super().__init__()
        self.causal = causal
        self.q_proj = nn.Linear(d_model, d_head, bias=bias)
        self.k_proj = nn.Linear(d_model, d_head, bias=bias)
        self.v_proj = nn.Linear(d_model, d_head, bias=bias)
        self.out_proj = nn.Linear(d_head, d_model, bias=bias)

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        b, t, _ = x.shape
        if key_padding_mask is not None:
            x = x.masked_fill(key_padding_mask[..., None], 0)
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        work = torch.promote_types(x.dtype, torch.float32)
        s = q.to(work) @ k.to(work).transpose(1, 2) / q.shape[-1] ** 0.5
        forbid = torch.zeros(1, t, t, dtype=torch.bool, device=x.device)
        if self.causal:
            forbid = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)[None]
        if key_padding_mask is not None:
            forbid = (forbid | key_padding_mask[:, None, :]) & ~key_padding_mask[:, :, None]
        p = s.masked_fill(forbid, -torch.inf).softmax(-1)
        y = self.out_proj((p @ v.to(work)).to(x.dtype))
        if key_padding_mask is not None:
            y = y.masked_fill(key_padding_mask[..., None], 0)
        return y
