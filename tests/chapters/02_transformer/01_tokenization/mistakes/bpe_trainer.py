"""Wrong programs for 2.1/bpe_trainer, as edits of the solution."""

from grader.testing import edit

recounts_every_merge = edit.function(
    "train_bpe",
    """
def train_bpe(text, vocab_size, special_tokens, split):
    if vocab_size < 256 + len(special_tokens):
        raise ValueError("too small")
    if "" in special_tokens or len(set(special_tokens)) < len(special_tokens):
        raise ValueError("special tokens")
    words = {}
    for piece, count in _count_pieces(text, special_tokens, split).items():
        words[tuple(bytes([byte]) for byte in piece.encode())] = count
    merges = []
    while 256 + len(merges) + len(special_tokens) < vocab_size:
        pairs = Counter()
        for word, count in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        rewritten = {}
        for word, count in words.items():
            symbols, at = [], 0
            while at < len(word):
                if word[at : at + 2] == best:
                    symbols.append(best[0] + best[1])
                    at += 2
                else:
                    symbols.append(word[at])
                    at += 1
            rewritten[tuple(symbols)] = count
        words = rewritten
    tokens = [bytes([byte]) for byte in range(256)] + [left + right for left, right in merges]
    return dict(enumerate(tokens + [token.encode() for token in special_tokens])), merges
""",
)

scans_all_words = edit("for index in words_with.pop(best):", "for index in range(len(words)):")

smallest_pair_on_ties = edit(
    "return -pair_counts[pair], orders[ord(left)], orders[ord(right)], pair",
    "return -pair_counts[pair], tokens[ord(left)], tokens[ord(right)], pair",
)

stale_heap_entries = edit(
    """        if -count != pair_counts[best]:
            if pair_counts[best] > 0:
                heapq.heappush(heap, heap_entry(best))
            continue
""",
    "",
)

overlap_double_merge = edit(
    "            words[index] = words[index].replace(best, new)\n",
    """            old = words[index]
            for at in reversed(range(len(old) - 1)):
                if old[at : at + 2] == best:
                    words[index] = words[index][:at] + new + words[index][at + 2 :]
""",
)

neighbour_counts_wrong = edit(
    """            for pair in _pairs(words[index]):
                pair_counts[pair] -= word_counts[index]
            words[index] = words[index].replace(best, new)
            for pair in _pairs(words[index]):
                pair_counts[pair] += word_counts[index]
                if new in pair:
                    words_with[pair].add(index)
                    born.add(pair)
""",
    """            old, count = words[index], word_counts[index]
            at = old.find(best)
            while at >= 0:
                pair_counts[best] -= count
                changes = []
                if at > 0:
                    changes.append((old[at - 1 : at + 1], old[at - 1] + new))
                if at + 2 < len(old):
                    changes.append((old[at + 1 : at + 3], new + old[at + 2]))
                for gone, come in changes:
                    pair_counts[gone] -= count
                    pair_counts[come] += count
                    words_with[come].add(index)
                    born.add(come)
                at = old.find(best, at + 2)
            words[index] = old.replace(best, new)
""",
)

merges_across_pretokens = edit("counts.update(split(chunk))", 'counts["".join(split(chunk))] += 1')

works_on_characters = (
    edit('words = [piece.encode().decode("latin-1") for piece in pieces]', "words = list(pieces)")
    .then(
        "tokens = [bytes([byte]) for byte in range(256)]",
        "tokens = {ord(char): char.encode() for word in words for char in word}",
    )
    .then(
        "orders = [_descending(token) for token in tokens]",
        "orders = {code: _descending(token) for code, token in tokens.items()}",
    )
    .then("len(tokens) + len(special_tokens) < vocab_size", "256 + len(merges) + len(special_tokens) < vocab_size")
    .then("new = chr(len(tokens))", "new = chr(0xF0000 + len(merges))")
    .then("tokens.append(left + right)", "tokens[ord(new)] = left + right")
    .then("orders.append(_descending(left + right))", "orders[ord(new)] = _descending(left + right)")
    .then(
        "dict(enumerate(tokens + [token.encode() for token in special_tokens]))",
        "dict(enumerate([bytes([byte]) for byte in range(256)] + [left + right for left, right in merges]"
        " + [token.encode() for token in special_tokens]))",
    )
)

unweighted_words = edit("word_counts = list(pieces.values())", "word_counts = [1] * len(pieces)")

shorter_special_first = edit("sorted(special_tokens, key=len, reverse=True)", "special_tokens")

special_tokens_as_pattern = edit('"|".join(map(re.escape, longest_first))', '"|".join(longest_first)')

stops_at_single_pairs = edit(
    "        left, right = (tokens[ord(symbol)] for symbol in best)\n",
    "        if count == -1:\n            break\n        left, right = (tokens[ord(symbol)] for symbol in best)\n",
)
