"""Words as lists of ids; only the pairs beside a merge are touched; buckets of equal count instead of one heap."""

import heapq
from collections import Counter, defaultdict
from itertools import pairwise


def train_bpe(text, vocab_size, special_tokens, split):
    if vocab_size < 256 + len(special_tokens) or "" in special_tokens or len(special_tokens) != len({*special_tokens}):
        raise ValueError("bad arguments")

    pieces = Counter()
    for chunk in chunks_between(text, special_tokens):
        pieces.update(split(chunk))
    words = [(list(piece.encode()), n) for piece, n in pieces.items()]

    vocab = [bytes([i]) for i in range(256)]
    count = Counter()
    places = defaultdict(set)
    for w, (ids, n) in enumerate(words):
        for pair in pairwise(ids):
            count[pair] += n
            places[pair].add(w)
    buckets = defaultdict(set)
    for pair, n in count.items():
        buckets[n].add(pair)
    levels = [-n for n in buckets]
    heapq.heapify(levels)

    def move(pair, difference):
        buckets[count[pair]].discard(pair)
        count[pair] += difference
        n = count[pair]
        if n > 0:
            if not buckets[n]:
                heapq.heappush(levels, -n)
            buckets[n].add(pair)

    merges = []
    while len(vocab) + len(special_tokens) < vocab_size:
        while levels and not buckets[-levels[0]]:
            heapq.heappop(levels)
        if not levels:
            break
        best = max(buckets[-levels[0]], key=lambda pair: (vocab[pair[0]], vocab[pair[1]]))
        a, b = best
        new = len(vocab)
        vocab.append(vocab[a] + vocab[b])
        merges.append((vocab[a], vocab[b]))
        for w in sorted(places.pop(best)):
            ids, n = words[w]
            out = []
            i = 0
            while i < len(ids):
                if ids[i] != a or i + 1 == len(ids) or ids[i + 1] != b:
                    out.append(ids[i])
                    i += 1
                    continue
                # The left neighbour is the symbol already written: `new` itself if two occurrences touch.
                if out:
                    before = (b, a) if out[-1] == new else (out[-1], a)
                    move(before, -n)
                    move((out[-1], new), n)
                    places[out[-1], new].add(w)
                # The right one is taken care of from its own side if it is merged, too.
                if i + 2 < len(ids) and not (ids[i + 2] == a and i + 3 < len(ids) and ids[i + 3] == b):
                    move((b, ids[i + 2]), -n)
                    move((new, ids[i + 2]), n)
                    places[new, ids[i + 2]].add(w)
                move(best, -n)
                out.append(new)
                i += 2
            words[w] = (out, n)

    vocab += [token.encode() for token in special_tokens]
    return dict(enumerate(vocab)), merges


def chunks_between(text, special_tokens):
    """Scans for special tokens by hand."""
    longest_first = sorted(special_tokens, key=len)[::-1]
    first_letters = {token[0] for token in special_tokens}
    start = i = 0
    while i < len(text):
        if text[i] in first_letters:
            token = next((t for t in longest_first if text.startswith(t, i)), None)
            if token is not None:
                yield text[start:i]
                i += len(token)
                start = i
                continue
        i += 1
    yield text[start:]
