"""Takes each sequence out of its padding, attends, and puts the result back."""

import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_head, causal=True, bias=False):
        super().__init__()
        for name in "qkv":
            self.add_module(f"{name}_proj", nn.Linear(d_model, d_head, bias))
        self.out_proj = nn.Linear(d_head, d_model, bias)
        self.d_head, self.causal = d_head, causal

    def alone(self, x):
        scores = torch.matmul(self.q_proj(x), self.k_proj(x).T) / self.d_head**0.5
        if self.causal:
            scores = scores + torch.full_like(scores, float("-inf")).triu(1)
        return self.out_proj(torch.softmax(scores, dim=1) @ self.v_proj(x))

    def forward(self, x, key_padding_mask=None):
        if key_padding_mask is None:
            return torch.stack([self.alone(sequence) for sequence in x])
        out = torch.zeros_like(x)
        for i, real in enumerate(~key_padding_mask):
            if real.any():
                out[i, real] = self.alone(x[i, real])
        return out
