"""Byte-level BPE at work: encode text and bytes, decode, and decode a stream."""

# Not allowed here, in any form: tokenizers, tiktoken, sentencepiece, transformers.

from __future__ import annotations

import codecs
import heapq
import re
from collections.abc import Callable, Iterable, Iterator


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
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.__init__")

    def encode(self, text: str) -> list[int]:
        """Token ids of a text in which special tokens count.

        From left to right each special token, the longest where several fit, becomes its one id; what stands between
        them is encoded as `encode_ordinary` would, each stretch by itself. Special tokens are literal text, whatever
        characters they hold. UnicodeEncodeError for a lone surrogate.
        """
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.encode")

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
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.encode_ordinary")

    def encode_bytes(self, data: bytes) -> list[int]:
        """Token ids of any bytes, UTF-8 or not, without special tokens: `decode_bytes` gives exactly `data` back.

        For valid UTF-8 the same ids as encode_ordinary of the text. For other data any ids that give `data` back will
        do.
        """
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.encode_bytes")

    def encode_iterable(self, chunks: Iterable[str]) -> Iterator[int]:
        """Token ids of a stream of texts, each encoded by itself, as `encode` would; for files that do not fit in
        memory.

        Lazy: a chunk is taken from `chunks` only when the ids of all earlier ones have been handed out.
        """
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.encode_iterable")

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """The tokens' bytes, one after the other, special tokens included. ValueError for an id that does not exist."""
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.decode_bytes")

    def decode(self, ids: Iterable[int]) -> str:
        """The text. A token may hold part of a character, so bytes are joined before they are read as UTF-8; what is no
        UTF-8 becomes U+FFFD as in bytes.decode(errors="replace"). ValueError for an id that does not exist."""
        raise NotImplementedError("2.1/bpe_codec: write BPETokenizer.decode")


class StreamDecoder:
    """Turns ids into text one at a time, as a chat shows it, and never shows half a character."""

    def __init__(self, tokenizer: BPETokenizer):
        """Decodes the ids of this tokenizer."""
        raise NotImplementedError("2.1/bpe_codec: write StreamDecoder.__init__")

    def push(self, token_id: int) -> str:
        """The characters that this token completes, perhaps none (""). Bytes that may still become a character are kept
        back; others come out as U+FFFD, now or with a later push. ValueError for an id that does not exist.

        All pushes and `finish`, joined, are what `decode` makes of all the ids.
        """
        raise NotImplementedError("2.1/bpe_codec: write StreamDecoder.push")

    def finish(self) -> str:
        """What was kept back, as U+FFFD; "" if nothing was."""
        raise NotImplementedError("2.1/bpe_codec: write StreamDecoder.finish")
