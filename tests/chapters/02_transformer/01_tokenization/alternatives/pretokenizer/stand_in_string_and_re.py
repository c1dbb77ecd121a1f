"""Map every character to a stand-in (class letter), run Python's re on the stand-in string, cut the text at its matches."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

_PATTERN = re.compile(r"'(?:[stmd]|ll|ve|re)| ?[stmdlvreL]+| ?N+| ?[O']+|[ W]+(?![^ W])|[ W]+")


def _stand_in(c: str) -> str:
    if c in "'stmdlvre ":
        return c
    if c.isspace() and not "\x1c" <= c <= "\x1f":
        return "W"
    kind = unicodedata.category(c)[0]
    return kind if kind in "LN" else "O"


def gpt2_split(text: str) -> list[str]:
    table = {ord(c): _stand_in(c) for c in set(text)}
    return [text[m.start() : m.end()] for m in _PATTERN.finditer(text.translate(table))]


def byte_to_unicode() -> dict[int, str]:
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    table = {}
    extra = 256
    for b in range(256):
        if b in printable:
            table[b] = chr(b)
        else:
            table[b] = chr(extra)
            extra += 1
    return table


def _is_number(c: str) -> bool:
    return unicodedata.category(c).startswith("N")


def split_numbers(pieces: list[str], size: int, from_right: bool) -> list[str]:
    if size < 1:
        raise ValueError("size must be at least 1")
    out = []
    for piece in pieces:
        space = " " if piece.startswith(" ") else ""
        digits = piece[len(space) :]
        if not digits or not all(map(_is_number, digits)):
            out.append(piece)
            continue
        first = len(digits) % size if from_right else 0
        cuts = sorted({0, *range(first, len(digits), size), len(digits)})
        groups = [digits[i:j] for i, j in pairwise(cuts)]
        groups[0] = space + groups[0]
        out += groups
    return out


def bytes_per_token(texts: list[str], encode: Callable[[str], list[int]]) -> float:
    n_bytes = sum(len(t.encode("utf-8")) for t in texts)
    n_tokens = sum(len(encode(t)) for t in texts)
    if n_tokens == 0:
        raise ValueError("no tokens")
    return n_bytes / n_tokens


def fertility(texts: list[str], encode: Callable[[str], list[int]]) -> float:
    n_words = sum(len(t.split()) for t in texts)
    n_tokens = sum(len(encode(t)) for t in texts)
    if n_words == 0:
        raise ValueError("no words")
    return n_tokens / n_words
