"""-inf through torch.where: its backward pass drops the NaN of rows without keys, so nan_to_num is enough."""

import math

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_head, causal=True, bias=False):
        super().__init__()
        self.q_proj = nn.Linear(d_model, d_head, bias=bias)
        self.k_proj = nn.Linear(d_model, d_head, bias=bias)
        self.v_proj = nn.Linear(d_model, d_head, bias=bias)
        self.out_proj = nn.Linear(d_head, d_model, bias=bias)
        self.is_causal = causal

    def forward(self, x, key_padding_mask=None):
        b, n, _ = x.shape
        if key_padding_mask is None:
            key_padding_mask = torch.zeros(b, n, dtype=torch.bool)
        position = torch.arange(n)
        allowed = ~key_padding_mask.unsqueeze(1).expand(b, n, n)
        if self.is_causal:
            allowed = torch.logical_and(allowed, position[:, None] >= position[None, :])
        q, k = self.q_proj(x), self.k_proj(x)
        scores = torch.einsum("bid,bjd->bij", q, k) / math.sqrt(q.size(-1))
        scores = torch.where(allowed, scores, torch.tensor(-torch.inf, dtype=scores.dtype))
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1))
        out = self.out_proj(torch.einsum("bij,bjd->bid", weights, self.v_proj(x)))
        return torch.where(key_padding_mask.unsqueeze(-1), torch.zeros((), dtype=out.dtype), out)
