"""Wrong programs for 2.1/bpe_codec, as edits of the solution."""

from grader.testing import edit

longest_match = edit(
    "            ids = _merge([self._byte_ids[byte] for byte in data], self._merges)\n",
    """            known = {token: i for i, token in self._vocab.items()}
            longest = max(map(len, known))
            ids = []
            start = 0
            while start < len(data):
                end = min(len(data), start + longest)
                while data[start:end] not in known:
                    end -= 1
                ids.append(known[data[start:end]])
                start = end
""",
)

left_to_right_single_pass = edit.function(
    "_merge",
    """
def _merge(symbols, merges):
    symbols = list(symbols)
    at = 0
    while at < len(symbols) - 1:
        pair = symbols[at], symbols[at + 1]
        if pair in merges:
            symbols[at : at + 2] = [merges[pair][1]]
        else:
            at += 1
    return symbols
""",
)

quadratic_merging = edit.function(
    "_merge",
    """
def _merge(symbols, merges):
    symbols = list(symbols)
    while True:
        best = None
        for at in range(len(symbols) - 1):
            found = merges.get((symbols[at], symbols[at + 1]))
            if found is not None and (best is None or found[0] < best[0]):
                best = (found[0], at, found[1])
        if best is None:
            return symbols
        symbols[best[1] : best[1] + 2] = [best[2]]
""",
)

specials_as_text = edit("        if self._specials is None:\n", "        if True:\n")

forged_specials = edit(
    """        for piece in self._split(text):
            result += self._encode_piece(piece.encode())
""",
    """        for part in self._specials.split(text) if self._specials else [text]:
            if part in self._special_ids:
                result.append(self._special_ids[part])
                continue
            for piece in self._split(part):
                result += self._encode_piece(piece.encode())
""",
)

shorter_special_first = edit(
    "longest_first = sorted(self._special_ids, key=len, reverse=True)", "longest_first = list(self._special_ids)"
)

specials_as_pattern = edit('"|".join(map(re.escape, longest_first))', '"|".join(longest_first)')

decodes_token_by_token = edit(
    'return self.decode_bytes(ids).decode("utf-8", errors="replace")',
    'return "".join(self.decode_bytes([i]).decode("utf-8", errors="replace") for i in ids)',
)

lossy_bytes = edit('data.decode("utf-8", "surrogateescape")', 'data.decode("utf-8", "replace")')

mutates_vocab = edit("self._vocab = dict(vocab)", "self._vocab = vocab")

stream_of_halves = edit(
    "return self._decoder.decode(self._tokenizer.decode_bytes([token_id]))",
    "return self._tokenizer.decode([token_id])",
)

reads_everything_first = edit(
    """        for chunk in chunks:
            yield from self.encode(chunk)
""",
    """        for chunk in list(chunks):
            yield from self.encode(chunk)
""",
)
