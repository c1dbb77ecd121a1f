"""Wrong programs for 4.6/prefix_cache, as edits of the solution."""

from grader.testing import edit

block_hash_only = edit("        return parent, tuple(tokens[", '        return "any", tuple(tokens[')

whole_prompt_cached = edit("(len(tokens) - 1) // self._block_size", "len(tokens) // self._block_size")

rehashes_prefix = edit(
    "tuple(tokens[i * self._block_size : (i + 1) * self._block_size])", "tuple(tokens[: (i + 1) * self._block_size])"
)

forgets_at_zero = edit(
    "                self._queue[block] = None\n",
    "                self._queue[block] = None\n"
    "                if block in self._identity_of:\n"
    "                    del self._findable[self._identity_of.pop(block)]\n",
)

head_first_eviction = edit("in reversed(self._running.pop(seq).table)", "in self._running.pop(seq).table")

evicts_in_use = edit("            if self._counts[block] == 0:\n                del self._queue[block]\n", "")

counts_leak = (
    edit(
        "        found, identity = self._lookup(tokens, salt)\n        new =",
        "        found, identity = self._lookup(tokens, salt)\n"
        "        queued = sum(self._counts[block] == 0 for block in found)\n"
        "        for block in found:\n"
        "            if self._counts[block] == 0:\n"
        "                del self._queue[block]\n"
        "            self._counts[block] += 1\n"
        "        new =",
    )
    .then(
        "        left = len(self._queue) - sum(self._counts[block] == 0 for block in found)\n",
        "        left = len(self._queue)\n",
    )
    .then(
        "        for block in found:\n"
        "            if self._counts[block] == 0:\n"
        "                del self._queue[block]\n"
        "            self._counts[block] += 1\n"
        "        table",
        "        table",
    )
)

finds_uncomputed = edit(
    "        cached = len(found) * self._block_size\n",
    "        self.commit(seq, len(tokens))\n        cached = len(found) * self._block_size\n",
)
