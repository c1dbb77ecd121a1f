"""Wrong programs for 7.6/token_tree, as edits of the solution."""

from grader.testing import edit

causal_mask_over_flat_order = edit("            mask[i] = mask[parent]\n", "            mask[i] = mask[i - 1]\n")

position_by_index = edit(
    "    result: list[int] = []\n    for parent in parents:\n"
    "        result.append(0 if parent < 0 else result[parent] + 1)\n"
    "    return result\n",
    "    return list(range(len(parents)))\n",
)

no_self_attention = edit(
    "    return mask\n",
    "    for i in range(n):\n        mask[i, prefix_len + i] = False\n    return mask\n",
)

judges_by_own_row = edit("tokens[node] == argmax[current]", "tokens[node] == argmax[node]")

stops_at_first_branch = edit(
    "if parents[node] == current and tokens[node] == argmax[current]:",
    "if node == list(parents).index(current) and tokens[node] == argmax[current]:",
).then(
    "    for node in range(1, len(parents)):\n        if node",
    "    for node in range(1, len(parents)):\n        if current in parents and node",
)

longest_leaf_only = edit(
    "    return accepted, argmax[current]\n",
    "    if current in parents:\n        accepted, current = [], 0\n    return accepted, argmax[current]\n",
)

keeps_tree_gaps = edit(
    "rows = [*range(prefix_len), *(prefix_len + node for node in (0, *accepted))]",
    "rows = list(range(prefix_len + 1 + len(accepted)))",
)

selects_by_own_logp = edit("value.append(value[parents[node]] + logp[node])", "value.append(logp[node])").then(
    "[-1, *(new[parents[old]] for old in kept[1:])]", "[-1, *(new.get(parents[old], -1) for old in kept[1:])]"
)
