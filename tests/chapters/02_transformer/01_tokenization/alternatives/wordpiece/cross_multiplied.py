"""Scores compared as products of integers; words as lists; the longest match by shrinking the rest."""

from collections import defaultdict
from fractions import Fraction
from functools import cmp_to_key


def wordpiece_encode(word, vocab, unk="[UNK]", max_chars=100, max_piece=None):
    if len(word) > max_chars:
        return [unk]
    out = []
    prefix = ""
    while word:
        size = len(word)
        if max_piece is not None and size > max_piece:
            size = max_piece
        while size and prefix + word[:size] not in vocab:
            size -= 1
        if not size:
            return [unk]
        out.append(prefix + word[:size])
        word = word[size:]
        prefix = "##"
    return out


def wordpiece_decode(pieces):
    text = ""
    for i, piece in enumerate(pieces):
        if piece[:2] == "##":
            text += piece[2:]
        else:
            text += (" " if i else "") + piece
    return text


def tally(words):
    single, double = defaultdict(int), defaultdict(int)
    for pieces, n in words:
        for i, piece in enumerate(pieces):
            single[piece] += n
            if i:
                double[pieces[i - 1], piece] += n
    return single, double


def pair_scores(words):
    single, double = tally(words.items())
    return {p: Fraction(n) / single[p[0]] / single[p[1]] for p, n in double.items()}


def train_wordpiece(word_counts, vocab_size):
    words = [([c if i == 0 else "##" + c for i, c in enumerate(w)], n) for w, n in word_counts.items()]
    vocab = sorted(set().union(*(pieces for pieces, _ in words)))
    while len(vocab) < vocab_size:
        single, double = tally(words)
        if not double:
            break

        def better(p, q, single=single, double=double):
            left = double[p] * single[q[0]] * single[q[1]]
            right = double[q] * single[p[0]] * single[p[1]]
            if left != right:
                return right - left
            if double[p] != double[q]:
                return double[q] - double[p]
            return -1 if p < q else 1

        a, b = sorted(double, key=cmp_to_key(better))[0]
        joined = a + b.removeprefix("##")
        vocab.append(joined)
        for pieces, _ in words:
            i = 0
            while i + 1 < len(pieces):
                if pieces[i] == a and pieces[i + 1] == b:
                    pieces[i : i + 2] = [joined]
                i += 1
    return vocab
