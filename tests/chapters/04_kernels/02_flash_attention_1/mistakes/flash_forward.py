"""Wrong programs, as edits of the solution."""

from grader.testing import edit

no_rescale = edit("acc = acc * rescale[:, None] + p @ v", "acc = acc + p @ v")

normalises_every_tile = (
    edit("l = l * rescale + p.sum(dim=1)", "old_l, l = l * rescale, l * rescale + p.sum(dim=1)")
    .then("o = acc / torch.where(l > 0, l, 1.0)[:, None]", "o = acc")
    .then(
        "acc = acc * rescale[:, None] + p @ v",
        "acc = (acc * old_l[:, None] + p @ v) / torch.where(l > 0, l, 1.0)[:, None]",
    )
)

top_left_mask = edit("return max(0, q_stop + m - n) if causal else m", "return min(q_stop, m) if causal else m").then(
    "key > query + (m - n)", "key > query"
)

masked_rows_nan = edit("o = acc / torch.where(l > 0, l, 1.0)[:, None]", "o = acc / l[:, None]")

loads_masked_tiles = edit("return max(0, q_stop + m - n) if causal else m", "return m")

ragged_keys_join = edit(
    "s = q @ k.T\n",
    "k = torch.nn.functional.pad(k, (0, 0, 0, block_k - len(k)))\n"
    "            v = torch.nn.functional.pad(v, (0, 0, 0, block_k - len(v)))\n"
    "            s = q @ k.T\n",
).then("torch.arange(j, j_stop)", "torch.arange(j, j + block_k)")

half_accumulators = edit(
    "peak = new_peak\n",
    "peak, l, acc = new_peak.to(out_dtype).float(), l.to(out_dtype).float(), acc.to(out_dtype).float()\n",
)

lse_base_two = edit(
    'hbm.store("lse", i, peak + torch.log(l))', 'hbm.store("lse", i, (peak + torch.log(l)) * 1.4426950408889634)'
)

scale_zero_is_default = edit("scale = d**-0.5 if scale is None else scale", "scale = scale or d**-0.5")
