"""Wrong programs, as edits of the solution."""

from grader.testing import edit

gathers_padding = (
    edit("blocks = block_tables[b, : -(-context // block_size)]", "blocks = block_tables[b]")
    .then("k_cache.index_select(0, blocks).flatten(0, 1)", "k_cache[blocks].flatten(0, 1)")
    .then("v_cache.index_select(0, blocks).flatten(0, 1)", "v_cache[blocks].flatten(0, 1)")
)

block_too_many = edit("-(-context // block_size)]", "context // block_size + 1]")

top_left_causal = edit("torch.arange(context - q_len, context)", "torch.arange(q_len)")

all_last_position = edit("torch.arange(context) > position", "torch.arange(context) > context + 0 * position")

token_loop = (
    edit(
        "    k_cache.view(-1, *k_cache.shape[2:])[slots] = k[real]\n"
        "    v_cache.view(-1, *v_cache.shape[2:])[slots] = v[real]\n",
        "    for slot, key, value in zip(slots.tolist(), k[real], v[real]):\n"
        "        k_cache[slot // k_cache.shape[1], slot % k_cache.shape[1]] = key\n"
        "        v_cache[slot // v_cache.shape[1], slot % v_cache.shape[1]] = value\n",
    )
    .then("k_cache.index_select(0, blocks).flatten(0, 1)", "torch.cat([k_cache[i] for i in blocks.tolist()])")
    .then("v_cache.index_select(0, blocks).flatten(0, 1)", "torch.cat([v_cache[i] for i in blocks.tolist()])")
)

writes_padding = (
    edit("    slots = slots[real]\n", "")
    .then("[slots] = k[real]", "[slots] = k")
    .then("[slots] = v[real]", "[slots] = v")
)

head_modulo = (
    edit("unflatten(1, (HK, H // HK))  # (q_len, HK, G, D)", "unflatten(1, (H // HK, HK)).transpose(1, 2)")
    .then("scores.softmax(-1), v).flatten(1, 2)", "scores.softmax(-1), v).transpose(1, 2).flatten(1, 2)")
)  # fmt: skip

nan_times_zero = (
    edit("k_cache.index_select(0, blocks).flatten(0, 1)[:context]", "k_cache.index_select(0, blocks).flatten(0, 1)")
    .then("v_cache.index_select(0, blocks).flatten(0, 1)[:context]", "v_cache.index_select(0, blocks).flatten(0, 1)")
    .then("torch.arange(context) > position", "torch.arange(len(k)) > position")
)

scale_after_softmax = edit(
    "k, v = k * k_scale[:, None], v * v_scale[:, None]", "v = v * v_scale[:, None] * k_scale[:, None]"
)

scales_forgotten = edit("k, v = k * k_scale[:, None], v * v_scale[:, None]", "pass")

one_scale_for_all = edit("amax = x.abs().amax(-1).reshape(-1, x.shape[-2]).amax(0)", "amax = x.abs().amax()").then(
    "torch.where(amax > 0, amax / E4M3_MAX, 1.0)",
    "torch.where(amax > 0, amax / E4M3_MAX, 1.0).expand(x.shape[-2]).contiguous()",
)

scale_zero_is_default = edit("scale = D**-0.5 if scale is None else scale", "scale = scale or D**-0.5")

no_max = edit("scores.softmax(-1)", "scores.exp() / scores.exp().sum(-1, keepdim=True)")

half_scores = edit("scores.softmax(-1)", "scores.to(q.dtype).softmax(-1).float()")

keys_per_query_head = (
    edit("k_cache.index_select(0, blocks).flatten(0, 1)[:context].float()",
         "k_cache.index_select(0, blocks).flatten(0, 1)[:context].float()"
         ".repeat_interleave(H // HK, 1)")
    .then("v_cache.index_select(0, blocks).flatten(0, 1)[:context].float()",
          "v_cache.index_select(0, blocks).flatten(0, 1)[:context].float()"
          ".repeat_interleave(H // HK, 1)")
    .then("k, v = k * k_scale[:, None], v * v_scale[:, None]",
          "k = k * k_scale.repeat_interleave(H // HK)[:, None]\n"
          "            v = v * v_scale.repeat_interleave(H // HK)[:, None]")
    .then("unflatten(1, (HK, H // HK))", "unflatten(1, (H, 1))")
)  # fmt: skip
