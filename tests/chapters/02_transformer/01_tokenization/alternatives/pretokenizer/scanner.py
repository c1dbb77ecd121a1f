"""One index, one rule at a time; groups of digits counted backwards from the end."""

import unicodedata
from functools import cache

CONTRACTIONS = ("'s", "'t", "'m", "'d", "'ll", "'ve", "'re")


@cache
def kind(c):
    if c.isspace() and not "\x1c" <= c <= "\x1f":
        return "Z"
    first = unicodedata.category(c)[0]
    return first if first in "LN" else "O"


def gpt2_split(text):
    pieces = []
    i, n = 0, len(text)
    while i < n:
        if text[i] == "'":
            for c in CONTRACTIONS:
                if text.startswith(c, i):
                    pieces.append(c)
                    i += len(c)
                    break
            else:
                i = take(text, i, pieces)
        else:
            i = take(text, i, pieces)
    return pieces


def take(text, i, pieces):
    n = len(text)
    start = i
    if text[i] == " " and i + 1 < n and kind(text[i + 1]) != "Z":
        i += 1
    what = kind(text[i])
    while i < n and kind(text[i]) == what:
        i += 1
    if what == "Z" and i < n and i - start > 1:
        i -= 1
    pieces.append(text[start:i])
    return i


def byte_to_unicode():
    table = {}
    n = 0
    for b in range(256):
        c = chr(b)
        if c.isprintable() and c not in " \xa0\xad":
            table[b] = c
        else:
            table[b] = chr(256 + n)
            n += 1
    return table


def split_numbers(pieces, size, from_right):
    if size < 1:
        raise ValueError(size)
    out = []
    for p in pieces:
        space = " " if p[:1] == " " else ""
        rest = p[len(space) :]
        if rest == "" or any(kind(c) != "N" for c in rest):
            out.append(p)
            continue
        groups = []
        while rest:
            if from_right:
                groups.insert(0, rest[-size:])
                rest = rest[:-size]
            else:
                groups.append(rest[:size])
                rest = rest[size:]
        groups[0] = space + groups[0]
        out.extend(groups)
    return out


def bytes_per_token(texts, encode):
    n_bytes = n_tokens = 0
    for t in texts:
        n_bytes += len(bytes(t, "utf-8"))
        n_tokens += len(encode(t))
    try:
        return n_bytes / n_tokens
    except ZeroDivisionError:
        raise ValueError("no tokens") from None


def fertility(texts, encode):
    n_words = n_tokens = 0
    for t in texts:
        n_words += len(t.split())
        n_tokens += len(encode(t))
    if not n_words:
        raise ValueError("no words")
    return n_tokens / n_words
