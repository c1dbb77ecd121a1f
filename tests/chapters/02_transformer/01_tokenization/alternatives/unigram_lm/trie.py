"""A trie of the pieces; sums as logsumexp over lists; forward from the left, backward from the right."""

import math


def make_trie(logp):
    root = {}
    for piece, score in logp.items():
        node = root
        for c in piece:
            node = node.setdefault(c, {})
        node[""] = score
    return root


def matches(text, start, trie):
    """(end, score) of every piece that begins here."""
    node = trie
    for end in range(start, len(text)):
        node = node.get(text[end])
        if node is None:
            return
        if "" in node:
            yield end + 1, node[""]


def logsumexp(values):
    top = max(values, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(sum(math.exp(v - top) for v in values))


def walk(text, trie, unk_logp=None, skip_whole=False):
    n = len(text)
    best = [None] * n + [(0.0, n)]
    for start in reversed(range(n)):
        options = []
        known = False
        for end, score in matches(text, start, trie):
            known = known or end == start + 1
            if best[end] is not None and not (skip_whole and end - start == n):
                options.append((score + best[end][0], end))
        if not known and unk_logp is not None and best[start + 1] is not None:
            options.append((unk_logp + best[start + 1][0], start + 1))
        if options:
            best[start] = max(options)
    if best[0] is None:
        return None
    pieces, at = [], 0
    while at < n:
        pieces.append(text[at : best[at][1]])
        at = best[at][1]
    return pieces, best[0][0]


def viterbi(text, logp, unk_logp=None):
    found = walk(text, make_trie(logp), unk_logp)
    if found is None:
        raise ValueError("no segmentation")
    return found


def counts_of(text, trie):
    n = len(text)
    edges = [list(matches(text, start, trie)) for start in range(n)]
    arriving = [[] for _ in range(n + 1)]
    forward = [0.0] + [-math.inf] * n
    for i in range(n + 1):
        if i:
            forward[i] = logsumexp(arriving[i])
        if i < n:
            for end, score in edges[i]:
                arriving[end].append(forward[i] + score)
    backward = [-math.inf] * n + [0.0]
    for i in reversed(range(n)):
        backward[i] = logsumexp([score + backward[end] for end, score in edges[i]])
    if forward[n] == -math.inf:
        raise ValueError("no segmentation")
    counts = {}
    for i in range(n):
        for end, score in edges[i]:
            share = math.exp(forward[i] + score + backward[end] - forward[n])
            counts[text[i:end]] = counts.get(text[i:end], 0.0) + share
    return counts, forward[n]


def expected_counts(text, logp):
    counts, total = counts_of(text, make_trie(logp))
    return {**dict.fromkeys(logp, 0.0), **counts}, total


def em_step(words, logp):
    trie = make_trie(logp)
    sums = dict.fromkeys(logp, 0.0)
    likelihood = 0.0
    for word, n in words.items():
        counts, total = counts_of(word, trie)
        likelihood += n * total
        for piece, c in counts.items():
            sums[piece] += n * c
    whole = sum(sums.values())
    return {piece: math.log(c / whole) for piece, c in sums.items() if c >= 1e-12}, likelihood


def prune(words, logp, keep):
    trie = make_trie(logp)
    uses = dict.fromkeys(logp, 0)
    for word, n in words.items():
        found = walk(word, trie)
        if found is None:
            raise ValueError(f"no segmentation of {word}")
        for piece in found[0]:
            uses[piece] += n
    order = []
    for piece in logp:
        if len(piece) > 1:
            without = walk(piece, trie, skip_whole=True)
            order.append((-math.inf if without is None else -uses[piece] * (logp[piece] - without[1]), piece))
    kept = {piece for piece in logp if len(piece) == 1}
    for _, piece in sorted(order):
        if len(kept) >= keep:
            break
        kept.add(piece)
    scale = sum(math.exp(logp[piece]) for piece in kept)
    return {piece: math.log(math.exp(logp[piece]) / scale) for piece in kept}
