"""Wrong programs for 4.6/block_manager, as edits of the solution."""

from grader.testing import edit

copies_always = edit("copied = writes_to_last and self._counts[table[-1]] > 1", "copied = writes_to_last")

never_copies = edit("copied = writes_to_last and self._counts[table[-1]] > 1", "copied = False and writes_to_last")

count_not_dropped = edit("            self._give_up(shared)\n", "")

copies_full_block = edit(
    "copied = writes_to_last and self._counts[table[-1]] > 1", "copied = bool(table) and self._counts[table[-1]] > 1"
)

partial_failure = (
    edit(
        "        if copied + new > len(self._free):\n"
        '            raise OutOfBlocks(f"{copied + new} blocks needed, {len(self._free)} free")\n',
        "",
    )
    .then(
        "    def _take(self) -> int:\n",
        '    def _take(self) -> int:\n        if not self._free:\n            raise OutOfBlocks("none free")\n',
    )
    .then(
        "        table += [self._take() for _ in range(new)]\n",
        "        for _ in range(new):\n            table.append(self._take())\n",
    )
)

free_without_count = edit(
    "        self._counts[block] -= 1\n        if self._counts[block] == 0:\n            self._free.append(block)\n",
    "        self._counts[block] -= 1\n        self._free.append(block)\n",
)

ceil_off_by_one = edit("return -(-tokens // self._block_size)", "return tokens // self._block_size + 1")

fork_aliases_table = edit("self._tables[child] = list(table)", "self._tables[child] = table")
