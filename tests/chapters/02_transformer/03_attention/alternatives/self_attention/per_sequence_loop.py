"""A Python loop over the batch: the real tokens are gathered, attended without any padding, and scattered back."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SelfAttention(nn.Module):
    def __init__(self, d_model: int, d_head: int, causal: bool = True, bias: bool = False):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_head, bias=bias)
        self.k_proj = nn.Linear(d_model, d_head, bias=bias)
        self.v_proj = nn.Linear(d_model, d_head, bias=bias)
        self.out_proj = nn.Linear(d_head, d_model, bias=bias)
        self.causal = causal

    def _one(self, x: Tensor) -> Tensor:
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        up = torch.float64 if x.dtype == torch.float64 else torch.float32
        s = (q.to(up) * q.shape[-1] ** -0.5) @ k.to(up).T
        if self.causal:
            s = s + torch.full_like(s, float("-inf")).triu(1)
        w = torch.exp(s - torch.logsumexp(s, -1, keepdim=True))
        return self.out_proj((w @ v.to(up)).to(x.dtype))

    def forward(self, x: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        if key_padding_mask is None:
            return torch.stack([self._one(seq) for seq in x])
        rows = []
        for seq, pad in zip(x, key_padding_mask):
            keep = (~pad).nonzero()[:, 0]
            out = torch.zeros_like(seq)
            if len(keep):
                out = out.index_copy(0, keep, self._one(seq[keep]))
            else:
                out = out + 0 * seq.masked_fill(pad[:, None], 0)
            rows.append(out)
        return torch.stack(rows)
