"""A min segment tree over positions holds the pair ranks (leftmost minimum at the root), symbols are ids; specials scanned by hand; UTF-8 hold-back by trying the last one to three bytes."""

from __future__ import annotations


def whole(text):
    """The plainest split: the whole text as one piece (none, if it is empty)."""
    return [text] if text else []


INF = (float("inf"), -1)


class BPETokenizer:
    def __init__(self, vocab, merges, special_tokens=None, split=whole):
        self.vocab = dict(vocab)
        self.split = split
        ids = {b: i for i, b in vocab.items()}
        self.byte_id = [ids[bytes([b])] for b in range(256)]
        self.table = {}
        for rank, (left, right) in enumerate(merges):
            if left in ids and right in ids:
                self.table[ids[left], ids[right]] = rank, ids[left + right]
        self.special = {}
        free = max(vocab) + 1
        for s in special_tokens or ():
            raw = s.encode()
            if raw not in ids:
                self.vocab[free] = raw
                self.special[s] = free
                free += 1
            else:
                self.special[s] = ids[raw]
        self.lengths = sorted({len(s) for s in self.special}, reverse=True)

    def encode(self, text):
        ids = []
        start = i = 0
        while i < len(text):
            for n in self.lengths:
                token = text[i : i + n]
                if token in self.special:
                    ids += self.encode_ordinary(text[start:i])
                    ids.append(self.special[token])
                    i += n
                    start = i
                    break
            else:
                i += 1
        return ids + self.encode_ordinary(text[start:])

    def encode_ordinary(self, text):
        if not text:
            return []
        ids = []
        for piece in self.split(text):
            ids += self._piece(piece.encode("utf-8"))
        return ids

    def _piece(self, data):
        sym = [self.byte_id[b] for b in data]
        n = len(sym)
        if n < 2:
            return sym
        nxt = list(range(1, n + 1))
        prv = list(range(-1, n - 1))
        size = 1
        while size < n:
            size *= 2
        tree = [INF] * (2 * size)
        for i in range(n - 1):
            hit = self.table.get((sym[i], sym[i + 1]))
            if hit:
                tree[size + i] = (hit[0], i)
        for v in range(size - 1, 0, -1):
            tree[v] = min(tree[2 * v], tree[2 * v + 1])

        def refresh(i):
            hit = None
            if sym[i] is not None and nxt[i] < n:
                hit = self.table.get((sym[i], sym[nxt[i]]))
            v = size + i
            tree[v] = (hit[0], i) if hit else INF
            while v > 1:
                v //= 2
                tree[v] = min(tree[2 * v], tree[2 * v + 1])

        while tree[1] != INF:
            i = tree[1][1]
            j = nxt[i]
            sym[i] = self.table[sym[i], sym[j]][1]
            sym[j] = None
            nxt[i] = nxt[j]
            if nxt[i] < n:
                prv[nxt[i]] = i
            refresh(j)
            refresh(i)
            if prv[i] >= 0:
                refresh(prv[i])
        return [s for s in sym if s is not None]

    def encode_bytes(self, data):
        try:
            return self.encode_ordinary(data.decode())
        except UnicodeDecodeError:
            return [self.byte_id[b] for b in data]

    def encode_iterable(self, chunks):
        for chunk in chunks:
            for i in self.encode(chunk):
                yield i

    def decode_bytes(self, ids):
        out = bytearray()
        for i in ids:
            if i not in self.vocab:
                raise ValueError(f"unknown id {i}")
            out += self.vocab[i]
        return bytes(out)

    def decode(self, ids):
        return str(self.decode_bytes(ids), "utf-8", "replace")


def _held(data: bytes) -> int:
    """How many of the last bytes may still become a character: the longest unfinished one."""
    for n in (3, 2, 1):
        if n <= len(data):
            tail = data[-n:]
            try:
                tail.decode()
            except UnicodeDecodeError as e:
                if e.reason == "unexpected end of data" and e.start == 0:
                    return n
    return 0


class StreamDecoder:
    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.buffer = b""

    def push(self, token_id):
        data = self.buffer + self.tokenizer.decode_bytes([token_id])
        cut = len(data) - _held(data)
        self.buffer = data[cut:]
        return data[:cut].decode("utf-8", "replace")

    def finish(self):
        rest, self.buffer = self.buffer, b""
        return rest.decode("utf-8", "replace")
