"""Hidden tests: where the KV memory goes. Oracles: a bitmap of slots, a row of numbered blocks, traces by hand."""

import math

from grader.testing import equal, given, integers, lists, points, raises, require, sampled_from, tuples

POLICIES = ("max", "pow2", "exact")

WORKED = [
    ("start", "a", 3, 5),
    ("start", "b", 6, 10),
    ("start", "c", 2, 4),
    ("token", "a"),
    ("token", "b"),
    ("finish", "a"),
    ("start", "d", 9, 14),
    ("token", "c"),
    ("token", "b"),
]

FIELDS = ("used", "reserved", "internal", "free", "largest_free", "refused", "refused_fragmented", "preempted")


def same(report, *expected, what=""):
    """A report against its fields in order; whole numbers, numpy's too."""
    got = {name: getattr(report, name) for name in FIELDS}
    equal(got, dict(zip(FIELDS, expected, strict=True)), what)


def conserved(report, capacity, what):
    total = report.used + report.reserved + report.internal + report.free
    equal(total, capacity, f"{what}: used + reserved + internal + free")


def trace(steps, longest):
    """A valid trace from any numbers: requests start, grow up to their final length, and finish early or late."""
    events, room, started = [], {}, 0
    for kind, a, b in steps:
        name = list(room)[a % len(room)] if room else None
        if kind < 4 or name is None:
            final = 1 + a % longest
            prompt = max(1, final - b)
            events.append(("start", started, prompt, final))
            room[started] = final - prompt
            started += 1
        elif kind < 8 and room[name]:
            events.append(("token", name))
            room[name] -= 1
        else:
            events.append(("finish", name))
            del room[name]
    return events


def bitmap(events, capacity, policy, max_len):
    """The report of an allocator that looks at every slot, from 0."""
    owner = [None] * capacity
    tokens, finals = {}, {}
    refused = fragmented = 0
    for kind, name, *lengths in events:
        if kind == "start":
            prompt, final = lengths
            size = max_len if policy == "max" else final
            while policy == "pow2" and size & (size - 1):
                size += 1
            places = (i for i in range(capacity - size + 1) if not any(x is not None for x in owner[i : i + size]))
            place = next(places, None)
            if place is None:
                refused += 1
                fragmented += owner.count(None) >= size
            else:
                owner[place : place + size] = [name] * size
                tokens[name], finals[name] = prompt, final
        elif name in tokens and kind == "token":
            tokens[name] += 1
        elif name in tokens:
            owner = [None if x == name else x for x in owner]
            del tokens[name], finals[name]
    longest = run = 0
    for x in owner:
        run = run + 1 if x is None else 0
        longest = max(longest, run)
    used, final = sum(tokens.values()), sum(finals.values())
    free = owner.count(None)
    return used, final - used, capacity - free - final, free, longest, refused, fragmented, 0


def numbered_blocks(events, capacity, block):
    """(report, number of running requests) of a pool of numbered blocks, filled slot by slot."""
    pool = set(range(capacity // block))
    tables, tokens = {}, {}
    refused = preempted = 0
    for kind, name, *lengths in events:
        if kind == "start":
            need = math.ceil(lengths[0] / block)
            if need > len(pool):
                refused += 1
                continue
            tables[name] = [pool.pop() for _ in range(need)]
            tokens[name] = lengths[0]
        elif name in tables:
            starved = kind == "token" and tokens[name] == len(tables[name]) * block and not pool
            if kind == "finish" or starved:
                pool.update(tables.pop(name))
                del tokens[name]
                preempted += starved
            else:
                if tokens[name] == len(tables[name]) * block:
                    tables[name].append(pool.pop())
                tokens[name] += 1
    used = sum(tokens.values())
    owned = sum(map(len, tables.values())) * block
    return (used, 0, owned - used, capacity - owned, len(pool) * block, refused, 0, preempted), len(tables)


@points(2)
def test_bytes_worked(submission):
    """Llama-3-8B: 131072 bytes per token in bf16, 524288 with 32 KV heads; MLA 512 + 64 with 61 layers: 70272."""
    equal(submission.kv_bytes_per_token(32, kv_heads=8, head_dim=128), 131072, "GQA, 8 KV heads")
    equal(submission.kv_bytes_per_token(32, kv_heads=32, head_dim=128), 524288, "MHA, 32 heads")
    equal(submission.kv_bytes_per_token(61, latent=512, rope_dim=64), 70272, "MLA")
    equal(submission.kv_bytes_per_token(28, kv_heads=1, head_dim=72, itemsize=1), 4032, "MQA in 8 bits")
    equal(submission.kv_bytes_per_token(3, kv_heads=2, head_dim=5, itemsize=4), 240, "float32")
    equal(submission.kv_bytes_per_token(7, kv_heads=128, head_dim=192, latent=96, itemsize=4), 2688, "MLA with heads")


@points(3)
def test_trace_worked(submission):
    """A trace of nine events in 32 slots, by hand: max, pow2, exact, and paging with blocks of 4."""
    same(submission.contiguous(WORKED, 32, "max", 16), 17, 7, 8, 0, 0, 1, 0, 0, what="max")
    same(submission.contiguous(WORKED, 32, "pow2", 16), 11, 3, 6, 12, 8, 1, 0, 0, what="pow2")
    same(submission.contiguous(WORKED, 32, "exact", 16), 11, 3, 0, 18, 13, 1, 1, 0, what="exact")
    same(submission.paged(WORKED, 32, 4), 20, 0, 4, 8, 8, 0, 0, 0, what="paged")
    same(submission.contiguous([], 9, "max", 16), 0, 0, 0, 9, 9, 0, 0, 0, what="nothing happened")
    same(submission.paged([], 9, 4), 0, 0, 0, 9, 8, 0, 0, 0, what="paged, nothing happened")


def test_lowest_extent_first(submission):
    """Of two free extents that are long enough the lower one is taken, though the higher one fits better."""
    events = [("start", name, size, size) for name, size in (("a", 6), ("b", 1), ("c", 3), ("d", 1))]
    events += [("finish", "a"), ("finish", "c"), ("start", "e", 2, 3)]
    same(submission.contiguous(events, 11, "exact", 11), 4, 1, 0, 6, 3, 0, 0, 0, what="3 of 6 or 3 of 3 slots")
    # What e left of the lower extent is used before the higher one, too.
    events += [("start", "f", 1, 3), ("start", "g", 3, 3)]
    same(submission.contiguous(events, 11, "exact", 11), 8, 3, 0, 0, 0, 0, 0, 0, what="and then 3 and 3")


def test_neighbours_merge(submission):
    """Freed extents are one with their free neighbours, on the left, on the right and on both sides."""
    start = [("start", name, 2, 3) for name in "abcd"]
    for order, longest in (("ab", 6), ("ba", 6), ("bd", 3), ("acb", 9), ("cab", 9), ("dcba", 12), ("bdac", 12)):
        events = start + [("finish", name) for name in order]
        left = 4 - len(order)
        expected = (2 * left, left, 0, 12 - 3 * left, longest, 0, 0, 0)
        same(submission.contiguous(events, 12, "exact", 5), *expected, what=f"finished in the order {order}")
    # The free rest behind everything is a neighbour as well.
    events = [("start", "a", 4, 4), ("finish", "a"), ("start", "b", 6, 7)]
    same(submission.contiguous(events, 7, "exact", 8), 6, 1, 0, 0, 0, 0, 0, 0, what="a gives back, b takes all")


def test_refusals_by_hand(submission):
    """What a refusal was for is judged by the run that the policy asks for; power-of-two runs may exceed max_len."""
    events = [*[("start", name, 2, 2) for name in "abc"], ("finish", "a"), ("finish", "c"), ("start", "d", 1, 4)]
    same(submission.contiguous(events, 6, "exact", 6), 2, 0, 0, 4, 2, 1, 1, 0, what="4 slots of 2 + 2 free ones")
    events += [("start", "e", 1, 5), ("token", "d"), ("finish", "e")]
    same(submission.contiguous(events, 6, "exact", 6), 2, 0, 0, 4, 2, 2, 1, 0, what="5 slots of 4 free ones")
    events = [("start", 0, 4, 4), ("start", 1, 1, 1), ("start", 2, 3, 3)]
    same(submission.contiguous(events, 8, "pow2", 8), 5, 0, 0, 3, 3, 1, 0, 0, what="3 -> 4 slots of 3 free ones")
    same(
        submission.contiguous([(*events[2][:2], 2, 5)], 9, "pow2", 6), 2, 3, 3, 1, 1, 0, 0, 0, what="5 -> 8, max_len 6"
    )
    same(submission.contiguous(events, 12, "max", 5), 5, 0, 5, 2, 2, 1, 0, 0, what="5 slots each, 12 in all")


@points(3)
@given(
    steps=lists(tuples(integers(0, 9), integers(0, 30), integers(0, 9)), max_size=30),
    capacity=integers(0, 60),
    longest=integers(1, 20),
    block=integers(1, 9),
    examples=30,
)
def test_slots_are_conserved(submission, steps, capacity, longest, block):
    """used + reserved + internal + free = capacity after every prefix of random traces, under all policies."""
    events = trace(steps, longest)
    prefixes = [events[:n] for n in range(len(events) + 1)]
    for policy in POLICIES:
        calls = [((prefix, capacity, policy, longest), {}) for prefix in prefixes]
        for prefix, report in zip(prefixes, submission.many("contiguous", calls), strict=True):
            conserved(report, capacity, f"{policy}, after {prefix[-1:]}")
    calls = [((prefix, capacity, block), {}) for prefix in prefixes]
    for prefix, report in zip(prefixes, submission.many("paged", calls), strict=True):
        conserved(report, capacity, f"paging, after {prefix[-1:]}")


@points(4)
@given(
    steps=lists(tuples(integers(0, 9), integers(0, 30), integers(0, 9)), max_size=40),
    capacity=integers(0, 80),
    policy=sampled_from(POLICIES),
    longest=integers(1, 20),
    more=integers(0, 5),
    examples=70,
)
def test_extents_match_a_bitmap(submission, steps, capacity, policy, longest, more):
    """Random traces: every field as a slot-by-slot bitmap that is scanned from 0 has it."""
    events = trace(steps, longest)
    got = submission.contiguous(events, capacity, policy, longest + more)
    same(got, *bitmap(events, capacity, policy, longest + more))


@points(2)
def test_long_traces(submission, rng):
    """24 traces of 250 events in a nearly full memory: all fields, contiguous and paged."""
    for round_ in range(24):
        steps = [(int(a), int(b), int(c)) for a, b, c in rng.integers(0, (10, 1000, 8), size=(250, 3))]
        longest = (7, 16, 23)[round_ % 3]
        events = trace(steps, longest)
        if round_ % 2:
            capacity, policy = 40 + 7 * round_, POLICIES[round_ % 3]
            got = submission.contiguous(events, capacity, policy, longest + 3)
            same(got, *bitmap(events, capacity, policy, longest + 3), what=policy)
        else:
            capacity, block = 30 + 5 * round_, (1, 4, 5, 16)[round_ // 2 % 4]
            got = submission.paged(events, capacity, block)
            same(got, *numbered_blocks(events, capacity, block)[0], what="paged")


@points(3)
@given(
    steps=lists(tuples(integers(0, 9), integers(0, 30), integers(0, 9)), max_size=40),
    capacity=integers(0, 80),
    longest=integers(1, 20),
    block=integers(1, 17),
    examples=60,
)
def test_paging_wastes_little(submission, steps, capacity, longest, block):
    """Random traces: at most (block - 1) slots wasted per running request; every field as numbered blocks have it."""
    events = trace(steps, longest)
    got = submission.paged(events, capacity, block)
    expected, running = numbered_blocks(events, capacity, block)
    same(got, *expected)
    limit = (block - 1) * running
    require(got.internal <= limit, "internal waste", got=got.internal, expected=f"at most {limit}")


@points(2)
def test_preemption_frees(submission):
    """A token without a free block preempts its request; its blocks serve the next start, its events do nothing."""
    full = [("start", "a", 4, 9), ("start", "b", 3, 9), ("token", "b")]
    same(submission.paged(full, 8, 4), 8, 0, 0, 0, 0, 0, 0, 0, what="8 of 8 slots")
    preempted = [*full, ("token", "a")]
    same(submission.paged(preempted, 8, 4), 4, 0, 0, 4, 4, 0, 0, 1, what="a needs a block and there is none")
    after = [*preempted, ("token", "a"), ("finish", "a")]
    same(submission.paged(after, 8, 4), 4, 0, 0, 4, 4, 0, 0, 1, what="events of a preempted id")
    next_start = [*after, ("start", "c", 2, 2)]
    same(submission.paged(next_start, 8, 4), 6, 0, 2, 0, 0, 0, 0, 1, what="c gets a's block")
    refused = [*next_start, ("start", "d", 1, 2), ("token", "d"), ("finish", "d"), ("finish", "b")]
    same(submission.paged(refused, 8, 4), 2, 0, 2, 4, 4, 1, 0, 1, what="d is refused, then b finishes")
    # A request whose own blocks are all there are preempts itself, and 3 slots are no whole block.
    alone = [("start", 7, 7, 20), *[("token", 7)] * 2, ("start", 8, 8, 8)]
    same(submission.paged(alone, 11, 4), 8, 0, 0, 3, 0, 0, 0, 1, what="7 outgrows the memory, 8 takes it")


@points(2)
def test_max_sequences_worked(submission):
    """16 GiB at 131072 bytes per token, lengths of 4096, block 16: 32; the first that does not fit ends it."""
    equal(submission.max_sequences(16 << 30, 131072, [4096] * 40, 16), 32)
    equal(submission.max_sequences(16 << 30, 131072, [4096] * 31, 16), 31, "fewer than would fit")
    equal(submission.max_sequences(16 << 30, 131072, [4097] * 40, 16), 31, "one token more each")
    equal(submission.max_sequences((16 << 30) - 1, 131072, (4096,) * 40, 16), 31, "one byte less")
    equal(submission.max_sequences(1000, 10, [20, 1, 60, 1, 1], 16), 2, "60 tokens do not fit, nobody passes them")
    equal(submission.max_sequences(1000, 10, [96], 16), 1, "six whole blocks")
    equal(submission.max_sequences(1000, 10, [97], 16), 0, "room for 100 tokens, but for 6 blocks only")
    equal(submission.max_sequences(0, 10, [1], 16), 0, "no memory")
    equal(submission.max_sequences(1000, 10, [], 16), 0, "nobody there")
    equal(submission.max_sequences(3 * 10**20 - 1, 10**20, [1, 1, 1], 1), 2, "a number beyond float64")


def test_bad_input_raises(submission):
    """ValueError: a final beyond max_len under each policy, and a policy of another name."""
    for policy in POLICIES:
        same(submission.contiguous([("start", 0, 1, 8)], 8, policy, 8), 1, 7, 0, 0, 0, 0, 0, 0, what="final = max_len")
        with raises(ValueError):
            submission.contiguous([("start", 0, 1, 2), ("start", 1, 1, 9)], 100, policy, 8)
    with raises(ValueError):
        submission.contiguous([("start", 0, 1, 2)], 100, "best", 8)
