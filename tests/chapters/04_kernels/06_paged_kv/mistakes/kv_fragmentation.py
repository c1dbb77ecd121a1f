"""Wrong programs for 4.6/kv_fragmentation, as edits of the solution."""

from grader.testing import edit

merges_forgotten = edit(
    "        i = bisect(self._free, (start, length))\n",
    "        i = bisect(self._free, (start, length))\n        self._free.insert(i, (start, length))\n        return\n",
)

best_fit = edit(
    "        for i, (start, length) in enumerate(self._free):\n            if length >= size:",
    "        for i, (start, length) in sorted(enumerate(self._free), key=lambda extent: extent[1][1]):\n"
    "            if length >= size:",
)

k_only = edit("else 2 * kv_heads * head_dim", "else kv_heads * head_dim")

reserve_counts_as_waste = edit("reserved=sum(run.final - run.tokens for run in runs)", "reserved=0").then(
    "internal=sum(run.size - run.final for run in runs)", "internal=sum(run.size - run.tokens for run in runs)"
)

fragmented_counts_all = edit("fragmented += size <= extents.total", "fragmented += 1")

block_at_boundary = (
    edit("elif tokens[name] % block:", "elif (tokens[name] + 1) % block:")
    .then("free_blocks += -(-tokens.pop(name) // block)", "free_blocks += tokens.pop(name) // block + 1")
    .then("need = -(-lengths[0] // block)", "need = lengths[0] // block + 1")
    .then(
        "free_blocks += tokens.pop(name) // block\n            preempted",
        "free_blocks += tokens.pop(name) // block + 1\n            preempted",
    )
)

preempt_leaks = edit("            free_blocks += tokens.pop(name) // block\n", "            del tokens[name]\n")
