"""Wrong programs for 2.3/self_attention, as edits of the solution."""

from grader.testing import edit

mask_polarity = edit(
    "allowed = allowed & ~key_padding_mask[:, None, :]", "allowed = allowed & key_padding_mask[:, None, :]"
)

mask_on_queries_only = edit(
    "        if key_padding_mask is not None:\n            allowed = allowed & ~key_padding_mask[:, None, :]\n", ""
)

triu_diagonal_zero = edit("allowed = allowed.tril()", "allowed = allowed.tril(-1)")

softmax_of_all_minus_inf = edit("torch.finfo(scores.dtype).min", 'float("-inf")')

scale_by_d_model = edit("q.shape[-1] ** -0.5", "x.shape[-1] ** -0.5")

bias_at_padding = edit(
    "        out = self.out_proj(weights.to(v.dtype) @ v)\n"
    "        if key_padding_mask is not None:\n"
    "            out = out.masked_fill(key_padding_mask[:, :, None], 0.0)\n"
    "        return out\n",
    "        out = weights.to(v.dtype) @ v\n"
    "        if key_padding_mask is not None:\n"
    "            out = out.masked_fill(key_padding_mask[:, :, None], 0.0)\n"
    "        return self.out_proj(out)\n",
)

buffer_of_fixed_size = edit(
    "        self.out_proj = nn.Linear(d_head, d_model, bias=bias)\n",
    "        self.out_proj = nn.Linear(d_head, d_model, bias=bias)\n"
    '        self.register_buffer("mask", torch.ones(1024, 1024, dtype=torch.bool).tril())\n',
).then(
    "        allowed = torch.ones(t, t, dtype=torch.bool, device=x.device)\n"
    "        if self.causal:\n"
    "            allowed = allowed.tril()\n",
    "        allowed = self.mask[:t, :t] if self.causal else torch.ones_like(self.mask[:t, :t])\n",
)
