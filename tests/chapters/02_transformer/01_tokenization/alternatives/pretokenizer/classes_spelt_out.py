"""The published pattern itself, with \\p{L}, \\p{N} and \\s written out as ranges for re."""

import re
import sys
import unicodedata
from itertools import groupby


def _class(wanted):
    ranges = []
    for member, codes in groupby(range(sys.maxunicode + 1), key=lambda code: wanted(chr(code))):
        codes = list(codes)
        if member:
            ranges.append(f"\\U{codes[0]:08x}-\\U{codes[-1]:08x}")
    return "".join(ranges)


L = _class(lambda c: unicodedata.category(c)[0] == "L")
N = _class(lambda c: unicodedata.category(c)[0] == "N")
S = _class(lambda c: c.isspace() and c not in "\x1c\x1d\x1e\x1f")

PATTERN = re.compile(f"'s|'t|'re|'ve|'m|'ll|'d| ?[{L}]+| ?[{N}]+| ?[^{S}{L}{N}]+|[{S}]+(?![^{S}])|[{S}]+")
NUMBER = re.compile(f" ?[{N}]+")


def gpt2_split(text):
    return PATTERN.findall(text)


def byte_to_unicode():
    bs = list(range(ord("!"), ord("~") + 1)) + list(range(ord("¡"), ord("¬") + 1)) + list(range(ord("®"), ord("ÿ") + 1))
    cs = bs[:]
    for b in range(256):
        if b not in bs:
            bs.append(b)
            cs.append(256 + len(bs) - 188 - 1)
    return dict(zip(bs, map(chr, cs), strict=True))


def split_numbers(pieces, size, from_right):
    if size <= 0:
        raise ValueError("size")
    result = []
    for piece in pieces:
        if not NUMBER.fullmatch(piece):
            result.append(piece)
            continue
        digits = piece.lstrip(" ")
        if from_right:
            parts = [part[::-1] for part in re.findall(f".{{1,{size}}}", digits[::-1])][::-1]
        else:
            parts = re.findall(f".{{1,{size}}}", digits)
        result += [piece[: -len(digits)] + parts[0], *parts[1:]]
    return result


def bytes_per_token(texts, encode):
    tokens = [len(encode(text)) for text in texts]
    if sum(tokens) == 0:
        raise ValueError("the texts have no tokens")
    return len("".join(texts).encode()) / sum(tokens)


def fertility(texts, encode):
    words = sum(len(text.split()) for text in texts)
    if words < 1:
        raise ValueError("the texts have no words")
    return sum(len(list(encode(text))) for text in texts) / words
