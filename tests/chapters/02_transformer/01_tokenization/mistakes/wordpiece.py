"""Wrong programs for 2.1/wordpiece, as edits of the solution."""

from grader.testing import edit

_UNKNOWN = """        else:
            return [unk]
    return pieces
"""

partial_unk = edit(
    _UNKNOWN,
    """        else:
            pieces.append(unk)
            return pieces
    return pieces
""",
)

shortest_match = edit("for end in range(farthest, start, -1):", "for end in range(start + 1, farthest + 1):")

prefix_forgotten = edit('word[start:end] if start == 0 else "##" + word[start:end]', "word[start:end]")

viterbi_instead_of_greedy = edit(
    """    pieces = []
    start = 0
    while start < len(word):
""",
    """    best = {len(word): []}
    for start in range(len(word) - 1, -1, -1):
        for end in range(len(word), start, -1):
            piece = word[start:end] if start == 0 else "##" + word[start:end]
            if piece in vocab and end in best and (start not in best or len(best[end]) + 1 < len(best[start])):
                best[start] = [piece, *best[end]]
    if 0 not in best:
        return [unk]
    return best[0]
    while start < len(word):
""",
)

bpe_score = edit("Fraction(count, pieces[a] * pieces[b])", "Fraction(count)")

score_ignores_word_counts = edit(
    "            pieces[piece] += count\n        for pair in pairwise(word):\n            pairs[pair] += count\n",
    "            pieces[piece] += 1\n        for pair in pairwise(word):\n            pairs[pair] += 1\n",
)

float_scores = edit(
    "-scores[pair], -pairs[pair], pair", "-(pairs[pair] / pieces[pair[0]] / pieces[pair[1]]), -pairs[pair], pair"
).then("scores, pairs = pair_scores(words), _counts(words)[1]", "pieces, pairs = _counts(words)")

strips_hashes = edit("vocab.append(best[0] + best[1][2:])", 'vocab.append(best[0] + best[1].lstrip("#"))')

ignores_max_piece = edit(
    "farthest = len(word) if max_piece is None else min(len(word), start + max_piece)", "farthest = len(word)"
)
