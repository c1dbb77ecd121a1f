"""Nodes that know their neighbours; special tokens found by scanning; a stream decoder by hand."""

import heapq
from itertools import pairwise


class Node:
    __slots__ = ("id", "next", "place", "prev")

    def __init__(self, id, place):
        self.id = id
        self.place = place
        self.prev = self.next = None


class BPETokenizer:
    def __init__(self, vocab, merges, special_tokens=None, split=lambda t: [t] if t else []):
        self.vocab = {**vocab}
        self.id_of = {v: k for k, v in vocab.items()}
        self.rank = {}
        for r, (a, b) in enumerate(merges):
            self.rank[self.id_of[a], self.id_of[b]] = r
        self.product = [self.id_of[a + b] for a, b in merges]
        self.split = split
        self.special = {}
        for token in special_tokens or ():
            raw = token.encode("utf-8")
            if raw in self.id_of:
                self.special[token] = self.id_of[raw]
            else:
                self.special[token] = max(self.vocab) + 1
                self.vocab[self.special[token]] = raw
        self.by_length = sorted(self.special, key=len, reverse=True)

    def encode(self, text):
        ids = []
        start = i = 0
        while i < len(text):
            for token in self.by_length:
                if text.startswith(token, i):
                    ids.extend(self.encode_ordinary(text[start:i]))
                    ids.append(self.special[token])
                    i += len(token)
                    start = i
                    break
            else:
                i += 1
        return ids + self.encode_ordinary(text[start:])

    def encode_ordinary(self, text):
        return [i for piece in self.split(text) for i in self.merge(piece.encode("utf-8"))]

    def encode_bytes(self, data):
        try:
            return self.encode_ordinary(data.decode("utf-8"))
        except UnicodeDecodeError as e:
            # The valid part first, the offending bytes one by one, then the rest.
            good, bad, rest = data[: e.start], data[e.start : e.end], data[e.end :]
            return self.encode_ordinary(good.decode()) + [self.id_of[bytes([b])] for b in bad] + self.encode_bytes(rest)

    def encode_iterable(self, chunks):
        return (i for chunk in chunks for i in self.encode(chunk))

    def decode_bytes(self, ids):
        out = bytearray()
        for i in ids:
            if i not in self.vocab:
                raise ValueError(f"unknown id {i}")
            out += self.vocab[i]
        return bytes(out)

    def decode(self, ids):
        return str(self.decode_bytes(ids), "utf-8", "replace")

    def merge(self, data):
        if not data:
            return []
        nodes = [Node(self.id_of[data[k : k + 1]], k) for k in range(len(data))]
        for a, b in pairwise(nodes):
            a.next, b.prev = b, a
        queue = []

        def push(node):
            if node is not None and node.next is not None:
                r = self.rank.get((node.id, node.next.id))
                if r is not None:
                    heapq.heappush(queue, (r, node.place, node.id, node.next.id))

        for node in nodes:
            push(node)
        while queue:
            r, place, left_id, right_id = heapq.heappop(queue)
            node = nodes[place]
            other = node.next
            if node.id != left_id or other is None or other.id != right_id:
                continue
            node.id = self.product[r]
            node.next = other.next
            if other.next is not None:
                other.next.prev = node
            other.id = other.next = None
            push(node.prev)
            push(node)
        ids = []
        node = nodes[0]
        while node is not None:
            ids.append(node.id)
            node = node.next
        return ids


class StreamDecoder:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.kept = b""

    def push(self, token_id):
        data = self.kept + self.tokenizer.decode_bytes([token_id])
        # Up to three bytes at the end may be the beginning of a character.
        for back in range(1, min(3, len(data)) + 1):
            lead = data[-back]
            if lead >= 0xC0:
                try:
                    data[-back:].decode("utf-8")
                except UnicodeDecodeError as e:
                    if e.reason == "unexpected end of data":
                        self.kept = data[-back:]
                        return data[:-back].decode("utf-8", "replace")
                break
            if lead < 0x80:
                break
        self.kept = b""
        return data.decode("utf-8", "replace")

    def finish(self):
        text, self.kept = self.kept.decode("utf-8", "replace"), b""
        return text
