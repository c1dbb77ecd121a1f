"""The first piece is looked up as it stands, even if it looks like ##a (BERT's own code); plain loops, training recounts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from fractions import Fraction
from itertools import pairwise


def wordpiece_encode(
    word: str, vocab: Container[str], unk: str = "[UNK]", max_chars: int = 100, max_piece: int | None = None
) -> list[str]:
    if len(word) > max_chars:
        return [unk]
    pieces = []
    start = 0
    while start < len(word):
        end = len(word) if max_piece is None else min(len(word), start + max_piece)
        while end > start:
            piece = word[start:end]
            if start > 0:
                piece = "##" + piece
                fits = piece in vocab
            else:
                fits = piece in vocab
            if fits:
                break
            end -= 1
        else:
            return [unk]
        pieces.append(piece)
        start = end
    return pieces


def wordpiece_decode(pieces: list[str]) -> str:
    text = ""
    for i, piece in enumerate(pieces):
        if piece.startswith("##"):
            text += piece[2:]
        elif i == 0:
            text += piece
        else:
            text += " " + piece
    return text


def _counts(words):
    single, double = Counter(), Counter()
    for word, n in words.items():
        for p in word:
            single[p] += n
        for pair in pairwise(word):
            double[pair] += n
    return single, double


def pair_scores(words: dict[tuple[str, ...], int]) -> dict[tuple[str, str], Fraction]:
    single, double = _counts(words)
    return {(a, b): Fraction(n, single[a] * single[b]) for (a, b), n in double.items()}


def train_wordpiece(word_counts: dict[str, int], vocab_size: int) -> list[str]:
    words = {(w[0], *("##" + c for c in w[1:])): n for w, n in word_counts.items()}
    vocab = sorted({p for w in words for p in w})
    while len(vocab) < vocab_size:
        scores = pair_scores(words)
        if not scores:
            break
        _, double = _counts(words)
        a, b = min(scores, key=lambda p: (-scores[p], -double[p], p))
        new = a + b[2:]
        vocab.append(new)
        merged = Counter()
        for word, n in words.items():
            out = []
            i = 0
            while i < len(word):
                if word[i : i + 2] == (a, b):
                    out.append(new)
                    i += 2
                else:
                    out.append(word[i])
                    i += 1
            merged[tuple(out)] += n
        words = merged
    return vocab
