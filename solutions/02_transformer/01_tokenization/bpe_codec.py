"""Byte-level BPE at work: encode text and bytes, decode, and decode a stream."""

from __future__ import annotations

import codecs
import heapq
import re
from collections.abc import Callable, Iterable, Iterator

### BEGIN SOLUTION
from itertools import pairwise


def _merge(symbols: list[int], merges: dict[tuple[int, int], tuple[int, int]]) -> list[int]:
    """Merges adjacent pairs, lowest rank first, then leftmost; `merges` says pair -> (rank, id of the merged token).

    A linked list of symbols and a heap of (rank, position of the left symbol), so that no merge looks at the whole
    piece.
    """
    # None is a symbol that is gone, or the end: no merge has it. The list is a ring that begins and ends there.
    ring: list[int | None] = [*symbols, None]
    after = [*range(1, len(ring)), 0]
    before = [len(ring) - 1, *range(len(ring) - 1)]

    heap = [(merges[pair][0], left) for left, pair in enumerate(pairwise(symbols)) if pair in merges]
    heapq.heapify(heap)
    while heap:
        rank, left = heapq.heappop(heap)
        right = after[left]
        # Out of date if one of the two has been merged with another neighbour meanwhile.
        found = merges.get((ring[left], ring[right]))
        if found is None or found[0] != rank:
            continue
        ring[left], ring[right] = found[1], None
        after[left] = after[right]
        before[after[right]] = left
        for start in (before[left], left):
            pair = ring[start], ring[after[start]]
            if pair in merges:
                heapq.heappush(heap, (merges[pair][0], start))
    return [symbol for symbol in ring if symbol is not None]


### END SOLUTION


def whole(text: str) -> list[str]:
    """The plainest split: the whole text as one piece (none, if it is empty)."""
    return [text] if text else []


class BPETokenizer:
    """A trained byte-level BPE, as `train_bpe` returns it or GPT-2 ships it."""

    def __init__(
        self,
        vocab: dict[int, bytes],
        merges: list[tuple[bytes, bytes]],
        special_tokens: list[str] | None = None,
        split: Callable[[str], list[str]] = whole,
    ):
        """
        vocab           id -> bytes; holds all 256 single bytes (not always as ids 0 to 255) and the result of every
                        merge. No two ids have the same bytes.
        merges          (left bytes, right bytes); the index in the list is the merge's rank. No pair occurs twice.
        special_tokens  distinct, not empty. One whose UTF-8 bytes are in vocab has that id; the others get the ids
                        after vocab's largest one, in the given order.
        split           cuts a text into pieces; no merge crosses from one piece into the next

        The arguments are not changed.
        """
        ### BEGIN SOLUTION
        self._vocab = dict(vocab)
        self._split = split
        ids = {token: i for i, token in vocab.items()}
        self._byte_ids = [ids[bytes([byte])] for byte in range(256)]
        self._merges = {(ids[left], ids[right]): (rank, ids[left + right]) for rank, (left, right) in enumerate(merges)}
        self._known: dict[bytes, list[int]] = {}

        self._special_ids: dict[str, int] = {}
        next_id = max(vocab) + 1
        for token in special_tokens or []:
            content = token.encode()
            if content not in ids:
                ids[content] = next_id
                self._vocab[next_id] = content
                next_id += 1
            self._special_ids[token] = ids[content]
        # An alternation takes the first that fits, so the longest comes first. The group keeps the specials in the
        # split.
        longest_first = sorted(self._special_ids, key=len, reverse=True)
        self._specials = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None
        ### END SOLUTION

    def encode(self, text: str) -> list[int]:
        """Token ids of a text in which special tokens count.

        From left to right each special token, the longest where several fit, becomes its one id; what stands between
        them is encoded as `encode_ordinary` would, each stretch by itself. Special tokens are literal text, whatever
        characters they hold. UnicodeEncodeError for a lone surrogate.
        """
        ### BEGIN SOLUTION
        if self._specials is None:
            return self.encode_ordinary(text)
        result = []
        for part in self._specials.split(text):
            if part in self._special_ids:
                result.append(self._special_ids[part])
            else:
                result += self.encode_ordinary(part)
        return result
        ### END SOLUTION

    def encode_ordinary(self, text: str) -> list[int]:
        """Token ids of a text in which special tokens are nothing special: what a user typed must not forge one.

        Each piece of split(text) becomes its UTF-8 bytes, one symbol each. Then, as long as some adjacent pair is among
        the merges, the pair of lowest rank is merged; of several occurrences the leftmost. A merge takes a pair of
        symbols, not any two that spell the same bytes, and neither the longest nor the first that fits, but the one
        that was learnt first: with the merges bc, ab, ab + c and bc + d, in this order, "abcd" becomes a, bcd.

        The work for a piece of n bytes must grow about as n log n, since a piece may be long (base64, DNA, a row of
        dashes): from 400 to 800 bytes the executed lines grow at most 2.4 times, and a piece of 50,000 bytes is
        done within the time limit. UnicodeEncodeError for a lone surrogate.
        """
        ### BEGIN SOLUTION
        result = []
        for piece in self._split(text):
            result += self._encode_piece(piece.encode())
        return result
        ### END SOLUTION

    def encode_bytes(self, data: bytes) -> list[int]:
        """Token ids of any bytes, UTF-8 or not, without special tokens: `decode_bytes` gives exactly `data` back.

        For valid UTF-8 the same ids as encode_ordinary of the text. For other data any ids that give `data` back will
        do.
        """
        ### BEGIN SOLUTION
        # Stray bytes become lone surrogates, and come back from them as the bytes that they were.
        result = []
        for piece in self._split(data.decode("utf-8", "surrogateescape")):
            result += self._encode_piece(piece.encode("utf-8", "surrogateescape"))
        return result
        ### END SOLUTION

    def encode_iterable(self, chunks: Iterable[str]) -> Iterator[int]:
        """Token ids of a stream of texts, each encoded by itself, as `encode` would; for files that do not fit in
        memory.

        Lazy: a chunk is taken from `chunks` only when the ids of all earlier ones have been handed out.
        """
        ### BEGIN SOLUTION
        for chunk in chunks:
            yield from self.encode(chunk)
        ### END SOLUTION

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The tokens' bytes, one after the other, special tokens included. ValueError for an id that does not exist."""
        ### BEGIN SOLUTION
        try:
            return b"".join([self._vocab[i] for i in ids])
        except KeyError as error:
            raise ValueError(f"no token has the id {error.args[0]}") from None
        ### END SOLUTION

    def decode(self, ids: Iterable[int]) -> str:
        """The text. A token may hold part of a character, so bytes are joined before they are read as UTF-8; what is no
        UTF-8 becomes U+FFFD as in bytes.decode(errors="replace"). ValueError for an id that does not exist."""
        ### BEGIN SOLUTION
        return self.decode_bytes(ids).decode("utf-8", errors="replace")
        ### END SOLUTION

    ### BEGIN SOLUTION
    def _encode_piece(self, data: bytes) -> list[int]:
        """The ids of one piece. Words come again and are remembered; long lines are not, they would fill the memory."""
        ids = self._known.get(data)
        if ids is None:
            ids = _merge([self._byte_ids[byte] for byte in data], self._merges)
            if len(data) <= 64 and len(self._known) < 100_000:
                self._known[data] = ids
        return ids

    ### END SOLUTION


class StreamDecoder:
    """Turns ids into text one at a time, as a chat shows it, and never shows half a character."""

    def __init__(self, tokenizer: BPETokenizer):
        """Decodes the ids of this tokenizer."""
        ### BEGIN SOLUTION
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        ### END SOLUTION

    def push(self, token_id: int) -> str:
        """The characters that this token completes, perhaps none (""). Bytes that may still become a character are kept
        back; others come out as U+FFFD, now or with a later push. ValueError for an id that does not exist.

        All pushes and `finish`, joined, are what `decode` makes of all the ids.
        """
        ### BEGIN SOLUTION
        return self._decoder.decode(self._tokenizer.decode_bytes([token_id]))
        ### END SOLUTION

    def finish(self) -> str:
        """What was kept back, as U+FFFD; "" if nothing was."""
        ### BEGIN SOLUTION
        return self._decoder.decode(b"", final=True)
        ### END SOLUTION
