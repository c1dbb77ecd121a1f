"""The memory as a bytearray, one byte a slot: a run of free slots is found as a run of zero bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2


@dataclass(frozen=True)
class Report:
    used: int
    reserved: int
    internal: int
    free: int
    largest_free: int
    refused: int
    refused_fragmented: int
    preempted: int


def kv_bytes_per_token(layers, *, kv_heads=0, head_dim=0, latent=0, rope_dim=0, itemsize=2):
    per_layer = kv_heads * head_dim * 2
    if latent > 0:
        per_layer = latent + rope_dim
    return per_layer * itemsize * layers


def contiguous(events: Sequence[tuple], capacity: int, policy: str, max_len: int) -> Report:
    memory = bytearray(capacity)
    live = {}
    counters = {"refused": 0, "refused_fragmented": 0}
    for event in events:
        match event:
            case ("start", name, prompt, final):
                if final > max_len:
                    raise ValueError("final > max_len")
                if policy == "max":
                    size = max_len
                elif policy == "pow2":
                    size = 2 ** ceil(log2(final))
                elif policy == "exact":
                    size = final
                else:
                    raise ValueError(policy)
                at = memory.find(bytes(size))
                if at == -1:
                    counters["refused"] += 1
                    if memory.count(0) >= size:
                        counters["refused_fragmented"] += 1
                    continue
                memory[at : at + size] = b"\1" * size
                live[name] = {"at": at, "size": size, "have": prompt, "final": final}
            case ("token", name):
                if name in live:
                    live[name]["have"] += 1
            case ("finish", name):
                if name in live:
                    gone = live.pop(name)
                    memory[gone["at"] : gone["at"] + gone["size"]] = bytes(gone["size"])
    used = reserved = internal = 0
    for request in live.values():
        used += request["have"]
        reserved += request["final"] - request["have"]
        internal += request["size"] - request["final"]
    longest = max(map(len, bytes(memory).split(b"\1")))
    return Report(used, reserved, internal, memory.count(0), longest, preempted=0, **counters)


def paged(events: Sequence[tuple], capacity: int, block: int) -> Report:
    blocks = capacity // block
    have = {}
    refused = preempted = 0

    def owned():
        return sum(ceil(n / block) for n in have.values())

    for event in events:
        name = event[1]
        if event[0] == "start":
            have[name] = event[2]
            if owned() > blocks:
                del have[name]
                refused += 1
        elif name in have and event[0] == "finish":
            have.pop(name)
        elif name in have:
            have[name] += 1
            if owned() > blocks:
                have.pop(name)
                preempted += 1
    used = sum(have.values())
    return Report(
        used,
        0,
        owned() * block - used,
        capacity - owned() * block,
        (blocks - owned()) * block,
        refused,
        0,
        preempted,
    )


def max_sequences(memory: int, bytes_per_token: int, lengths: Sequence[int], block: int) -> int:
    left = memory
    admitted = 0
    for length in lengths:
        whole = (length + block - 1) // block * block
        left -= whole * bytes_per_token
        if left < 0:
            break
        admitted += 1
    return admitted
