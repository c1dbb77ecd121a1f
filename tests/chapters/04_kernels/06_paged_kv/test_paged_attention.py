"""Hidden tests: writing to pages and attending over them. Oracle: float64 attention on contiguous copies."""

from dataclasses import dataclass

import torch

from grader.testing import (
    booleans,
    close,
    dispatched,
    equal,
    given,
    in_place,
    integers,
    largest_temporary,
    lists,
    points,
    require,
    sampled_from,
    tuples,
)

INF = float("inf")
NAN = float("nan")
E4M3 = torch.float8_e4m3fn
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def bits(x):
    """As integers: NaN compares equal to itself, and 0 differs from -0."""
    return x.contiguous().view(BITS[x.element_size()])


@dataclass
class Batch:
    """What paged_attention takes, and the same keys and values in contiguous float64."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_tables: torch.Tensor
    context_lens: torch.Tensor
    query_start: torch.Tensor
    keys: list
    values: list

    def arguments(self):
        return self.q, self.k_cache, self.v_cache, self.block_tables, self.context_lens, self.query_start


def batch(
    sequences,
    *,
    block_size=4,
    HK=2,
    G=2,
    D=8,
    dtype=torch.float32,
    seed=0,
    stale=0.0,
    padding=0,
    spare=2,
    q_factor=1.0,
    k_factor=1.0,
):
    """sequences: (tokens from earlier steps, new tokens) of each. `stale` fills slots without a token, `padding` the
    rest of the tables: one number, or several in turn. Tables and q are views into wider tensors, the two caches halves
    of one."""
    generator = torch.Generator().manual_seed(seed)

    def randn(*shape):
        return torch.randn(*shape, generator=generator)

    contexts = [past + new for past, new in sequences]
    needed = [-(-context // block_size) for context in contexts]
    blocks = sum(needed) + spare
    order = torch.randperm(blocks, generator=generator).to(torch.int32)
    width = max(needed) + spare
    fill = torch.tensor(padding if isinstance(padding, list) else [padding], dtype=torch.int32)
    tables = fill.repeat(len(sequences) * width)[: len(sequences) * width].view(-1, width)
    kv = torch.full((2, blocks, block_size, HK, D), stale).to(dtype)
    keys, values, used = [], [], 0
    for row, context, need in zip(tables, contexts, needed, strict=True):
        row[:need] = order[used : used + need]
        used += need
        keys.append((randn(context, HK, D) * k_factor).to(dtype))
        values.append(randn(context, HK, D).to(dtype))
        for position in range(context):
            block, offset = int(row[position // block_size]), position % block_size
            kv[0, block, offset], kv[1, block, offset] = keys[-1][position], values[-1][position]
    wide = torch.full((len(sequences), width + 3), 7, dtype=torch.int32)
    wide[:, :width] = tables
    counts = torch.tensor([0, *(new for _, new in sequences)])
    fused = randn(int(counts.sum()), HK * G + 2 * HK, D) * q_factor
    return Batch(
        q=fused.to(dtype)[:, : HK * G],
        k_cache=kv[0],
        v_cache=kv[1],
        block_tables=wide[:, :width],
        context_lens=torch.tensor(contexts, dtype=torch.int32),
        query_start=counts.cumsum(0).to(torch.int32),
        keys=[k.double() for k in keys],
        values=[v.double() for v in values],
    )


def attention(q, keys, values, scale=None):
    """float64 attention of one sequence: q (q_len, H, D) are its last positions, keys (context, HK, D)."""
    (q_len, H, D), (context, HK, _) = q.shape, keys.shape
    result = torch.zeros(q_len, H, D, dtype=torch.float64)
    for h in range(H):
        k, v = keys[:, h // (H // HK)], values[:, h // (H // HK)]
        scores = (D**-0.5 if scale is None else scale) * (q[:, h].double() @ k.T)
        for t in range(q_len):
            seen = context - q_len + t + 1
            result[t, h] = scores[t, :seen].softmax(-1) @ v[:seen]
    return result


def expected(b, scale=None):
    ends = b.query_start.tolist()
    return torch.cat(
        [attention(b.q[ends[i] : ends[i + 1]], b.keys[i], b.values[i], scale) for i in range(len(ends) - 1)]
    )


def check(submission, b, *, scale=None, rtol=1e-5, what="", **scales):
    got = submission.paged_attention(*b.arguments(), scale=scale, **scales)
    close(got, expected(b, scale), rtol=rtol, dtype=b.q.dtype, what=what)
    return got


def test_worked_example(submission):
    """One head, D = 1, blocks of 2: keys log 1, log 2, log 3 in blocks 1 and 0; weights 1/6, 2/6, 3/6."""
    k_cache = torch.tensor([[3.0, NAN], [1.0, 2.0]]).log().view(2, 2, 1, 1)
    v_cache = torch.tensor([[18.0, NAN], [6.0, 12.0]]).view(2, 2, 1, 1)
    table, context = torch.tensor([[1, 0, -1]], dtype=torch.int32), torch.tensor([3], dtype=torch.int32)
    one, two = (torch.tensor([0, n], dtype=torch.int32) for n in (1, 2))
    decode = submission.paged_attention(torch.ones(1, 1, 1), k_cache, v_cache, table, context, one)
    close(decode, [[[14.0]]], what="one query, which sees all three")
    chunk = submission.paged_attention(torch.ones(2, 1, 1), k_cache, v_cache, table, context, two)
    close(chunk, [[[10.0]], [[14.0]]], what="two queries, the first of which sees two")


@points(3)
@given(
    examples=20,
    sequences=lists(tuples(sampled_from([0, 1, 7, 15, 16, 17, 30]), sampled_from([0, 1, 1, 2, 5, 16, 17])), n=(1, 4)),
    block_size=sampled_from([1, 4, 16]),
    heads=sampled_from([(1, 1), (2, 1), (2, 4), (1, 4), (3, 2)]),
    D=sampled_from([8, 64, 5]),
    scale=sampled_from([None, 0.3, 1.0, 0.0, -0.5]),
    seed=integers(0, 999),
)
def test_matches_contiguous_attention(submission, sequences, block_size, heads, D, scale, seed):
    """Any mix of prefill chunks, decodes and empty sequences, any block size, group and scale: agrees with float64."""
    HK, G = heads
    b = batch(sequences, block_size=block_size, HK=HK, G=G, D=D, seed=seed, stale=9.0)
    # The error of a float32 score grows with its size, and exp makes it a relative error of the weight.
    check(submission, b, scale=scale, rtol=1e-5 * max(1.0, abs(scale or 0.0) * D**0.5))


@points(2)
@given(
    examples=12,
    sequences=lists(tuples(integers(0, 12), integers(0, 6)), n=(1, 3)),
    stale=sampled_from([NAN, INF, 1e30]),
    padding=sampled_from([-1, 0, 10**9, [10**9, -1, 2]]),
    block_size=sampled_from([1, 4, 8]),
    seed=integers(0, 99),
)
def test_padding_is_ignored(submission, sequences, stale, padding, block_size, seed):
    """Table entries behind the context and slots that hold no token may contain anything, NaN and 10**9 included."""
    check(submission, batch(sequences, block_size=block_size, seed=seed, stale=stale, padding=padding))


@points(2)
def test_exact_blocks(submission):
    """Contexts of 1, 2 and 3 whole blocks, and one token more or less; tables without any padding."""
    for contexts in ([8], [4, 8, 12], [3, 5, 7, 9]):
        for new in (1, 3):
            sequences = [(context - new, new) for context in contexts]
            check(submission, batch(sequences, spare=0, stale=NAN), what=f"contexts {contexts}, {new} new each")


@points(2)
@given(examples=8, block_size=sampled_from([1, 2, 4, 16]), G=sampled_from([1, 4]), seed=integers(0, 99))
def test_chunked_prefill(submission, block_size, G, seed):
    """A prompt of 9 in chunks of 3, 5 and 1, each written and attended over, equals one pass over all of it."""
    HK, D, n = 2, 8, 9
    whole = batch([(0, n)], block_size=block_size, HK=HK, G=G, D=D, seed=seed)
    result = expected(whole)
    close(submission.paged_attention(*whole.arguments()), result, rtol=1e-5, what="in one pass")
    k_cache, v_cache = torch.full_like(whole.k_cache, NAN), torch.full_like(whole.v_cache, NAN)
    table = whole.block_tables[0].tolist()
    slots = torch.tensor([table[p // block_size] * block_size + p % block_size for p in range(n)])
    done = 0
    for chunk in (3, 5, 1):
        now = slice(done, done + chunk)
        k, v = whole.keys[0][now].float(), whole.values[0][now].float()
        in_place(submission.write_kv, "k_cache", "v_cache")(k, v, k_cache, v_cache, slots[now])
        done += chunk
        got = submission.paged_attention(
            whole.q[now],
            k_cache,
            v_cache,
            whole.block_tables,
            torch.tensor([done], dtype=torch.int32),
            torch.tensor([0, chunk], dtype=torch.int32),
        )
        close(got, result[now], rtol=1e-5, what=f"positions {now.start} to {now.stop - 1}")


@points(3)
@given(
    examples=20,
    T=integers(0, 20),
    blocks=integers(1, 6),
    block_size=sampled_from([1, 3, 16]),
    padded=integers(0, 3),
    dtype=sampled_from([torch.float32, torch.float16, torch.bfloat16, E4M3]),
    seed=integers(0, 999),
)
def test_write_then_read(submission, T, blocks, block_size, padded, dtype, seed):
    """Exactly the named slots change, bit for bit, NaN and -0 included; -1 writes nothing; k and v may be views."""
    generator = torch.Generator().manual_seed(seed)
    HK, D = 2, 4
    kv = torch.randn(2, blocks, block_size, HK, D, generator=generator).to(dtype)
    kv[:, 0, 0, 0] = NAN
    fused = torch.randn(T + padded, 3 * HK, D, generator=generator)
    fused[::3, :, 0], fused[1::3, :, 1] = NAN, -0.0
    fused = fused.to(dtype)
    k, v = fused[:, HK : 2 * HK], fused[:, 2 * HK :]
    free = torch.randperm(blocks * block_size, generator=generator).tolist()
    slots = [free.pop() if i < T and free else -1 for i in range(T + padded)]
    slots = [slots[i] for i in torch.randperm(len(slots), generator=generator).tolist()]
    want = kv.clone()
    for t, slot in enumerate(slots):
        if slot >= 0:
            want[0, slot // block_size, slot % block_size] = k[t]
            want[1, slot // block_size, slot % block_size] = v[t]
    result = in_place(submission.write_kv, "k_cache", "v_cache")(
        k, v, kv[0], kv[1], torch.tensor(slots, dtype=torch.int64)
    )
    require(result is None, "write_kv returns None: it changes the caches", got=result)
    for name, got, right in (("k_cache", kv[0], want[0]), ("v_cache", kv[1], want[1])):
        # torch's scatter_ may give a NaN other bits, in slots that it was not asked to write too.
        same_numbers = torch.equal(got.float().nan_to_num(7.5), right.float().nan_to_num(7.5))
        note = " (only the bits of NaN or the sign of 0 differ: move the numbers as integers)" if same_numbers else ""
        equal(bits(got), bits(right), what=f"{name}, as bits{note}")


@points(2)
def test_sharing(submission):
    """Two sequences whose tables begin with the same blocks get what separate copies of these blocks give."""
    b = batch([(8, 3), (10, 1)], G=4, seed=5)
    shared = b.block_tables.clone()
    shared[1, :2] = shared[0, :2]
    for x in (b.keys, b.values):
        x[1][:8] = x[0][:8]
    b.block_tables = shared
    check(submission, b, what="blocks 0 and 1 shared")
    twins = batch([(6, 2)], seed=6)
    for name in ("block_tables", "context_lens"):
        setattr(twins, name, torch.cat([getattr(twins, name)] * 2))
    twins.q, twins.query_start = torch.cat([twins.q, -twins.q]), torch.tensor([0, 2, 4], dtype=torch.int32)
    twins.keys, twins.values = twins.keys * 2, twins.values * 2
    check(submission, twins, what="one table twice, other queries")


@points(2)
def test_zero_queries(submission):
    """Sequences without a query in this step, with and without a context: no rows, and no effect on the others."""
    for sequences in (
        [(5, 0), (3, 2), (0, 0), (6, 1), (9, 0)],
        [(0, 0), (0, 0), (0, 4)],
        [(8, 1), (7, 0), (0, 0), (4, 4)],
    ):
        check(submission, batch(sequences, stale=NAN, padding=-1), what=f"(earlier, new) tokens {sequences}")
    for sequences in ([(5, 0)], [(0, 0)], [(7, 0), (4, 0)]):
        check(submission, batch(sequences), what=f"no query at all, (earlier, new) tokens {sequences}")


@points(2)
def test_large_scores(submission):
    """Scores in the thousands, of both signs, stay finite; a common offset of all keys changes nothing."""
    for q_factor, scale in [(1e3, None), (2e3, -1.0)]:
        b = batch([(9, 4), (16, 1)], D=16, stale=NAN, q_factor=q_factor)
        check(submission, b, scale=scale, rtol=5e-3, what=f"q times {q_factor:g}, scale {scale}")
    b = batch([(5, 6), (30, 1)], D=16, seed=1)
    b.k_cache += 50.0
    b.keys = [k.float().add(50.0).double() for k in b.keys]
    check(submission, b, rtol=1e-3, what="keys + 50")


@points(2)
@given(
    examples=10,
    sequences=lists(tuples(integers(0, 40), integers(1, 9)), n=(1, 3)),
    dtype=sampled_from([torch.float16, torch.bfloat16]),
    G=sampled_from([1, 4]),
    seed=integers(0, 99),
)
def test_half_precision(submission, sequences, dtype, G, seed):
    """float16 and bfloat16: computed in float32, rounded once; products beyond 65504 are no trouble."""
    rtol = 1e-3 if dtype == torch.float16 else 6e-3
    b = batch(sequences, dtype=dtype, G=G, D=16, stale=NAN, seed=seed, q_factor=6.0)
    check(submission, b, rtol=rtol, what="scores about 6")
    b = batch(sequences, dtype=dtype, G=G, D=16, stale=NAN, seed=seed, q_factor=300.0, k_factor=300.0)
    check(submission, b, scale=2e-5, rtol=rtol, what="q . k about 360000, scale 2e-5")


def fp8_oracle(stored, scale):
    return stored.double() * scale.double()[:, None]


@points(3)
@given(
    examples=15,
    sequences=lists(tuples(integers(0, 20), integers(1, 6)), n=(1, 3)),
    heads=sampled_from([(1, 2), (2, 4), (3, 1)]),
    dtype=sampled_from([torch.float32, torch.float16]),
    seed=integers(0, 99),
)
def test_fp8_cache(submission, sequences, heads, dtype, seed):
    """Stored numbers times the scale of their head, which differ: exact attention over what is stored."""
    HK, G = heads
    generator = torch.Generator().manual_seed(seed)
    b = batch(sequences, HK=HK, G=G, D=16, seed=seed)
    sizes = torch.rand(2, HK, 1, generator=generator) * 1.8 + 0.2
    scales = {}
    for cache, name, rows, size in zip(
        ("k_cache", "v_cache"), ("k_scale", "v_scale"), (b.keys, b.values), sizes, strict=True
    ):
        values = getattr(b, cache) * size
        scale = values.abs().amax((0, 1, 3)) / 448
        rows[:] = [fp8_oracle((row.float() * size / scale[:, None]).to(E4M3), scale) for row in rows]
        stored = (values / scale[:, None]).to(E4M3)
        setattr(b, cache, torch.where((values == 0).all(-1, keepdim=True), torch.tensor(NAN).to(E4M3), stored))
        scales[name] = scale
    b.q = b.q.to(dtype)
    check(submission, b, rtol=1e-5 if dtype == torch.float32 else 1e-3, **scales)


@points(2)
@given(
    examples=20,
    leading=lists(integers(1, 5), n=(0, 3)),
    HK=integers(1, 4),
    D=sampled_from([1, 5, 64]),
    dtype=sampled_from([torch.float32, torch.float16, torch.bfloat16]),
    zero=booleans(),
    seed=integers(0, 999),
)
def test_quantize(submission, leading, HK, D, dtype, zero, seed):
    """One scale per head, amax / 448 (1 for zeros); every stored number is the nearest, the largest comes back."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(*leading, HK, D, generator=generator) * (10.0 ** torch.arange(HK) / 50)[:, None]
    x[..., HK - 1, :] *= 0.0 if zero else 1.0
    x = x.to(dtype)
    result = submission.quantize_kv(x)
    require(type(result) is tuple and len(result) == 2, "a tuple (stored, scale)", got=result)
    stored, scale = result
    amax = x.double().abs().amax(-1).reshape(-1, HK).amax(0)
    close(scale, torch.where(amax > 0, amax / 448, 1.0), rtol=1e-6, by="element", dtype=torch.float32, what="scale")
    equal(stored.dtype, E4M3, what="dtype of stored")
    equal(tuple(stored.shape), tuple(x.shape), what="shape of stored")
    back = fp8_oracle(stored, scale)
    require(not back.isnan().any(), "stored holds no NaN", got=stored)
    allowed = torch.maximum(x.double().abs() / 16, 2.0**-10 * scale.double()[:, None]) * (1 + 1e-4)
    excess = ((back - x.double()).abs() / allowed).max()
    require(excess <= 1, "every stored number is the nearest: error as a share of half a step", got=float(excess))
    largest = back.abs().amax(-1).reshape(-1, HK).amax(0)
    close(largest, amax, rtol=1e-6, by="element", what="the largest entry of each head, stored * scale")


@points(2)
def test_cost_write_operations(submission):
    """write_kv takes as many torch operations for 300 tokens as for 6, and makes no larger tensor than k and v."""
    counts = []
    for T in (6, 300):
        HK, D, block_size = 2, 4, 16
        caches = torch.zeros(2, 40, block_size, HK, D)
        k, v, slots = torch.randn(T, HK, D), torch.randn(T, HK, D), torch.randperm(40 * block_size)[:T]
        slots[1::3] = -1
        write = in_place(submission.write_kv, "k_cache", "v_cache")
        with dispatched(submission) as cost:
            write(k, v, caches[0], caches[1], slots)
        counts.append(cost)
        with largest_temporary(submission, unit="bytes") as cost:
            write(k, v, caches[0], caches[1], slots)
        cost.at_most(4 * 2 * T * HK * D, "k and v together: the caches are not copied")
    counts[1].exactly(counts[0].value, "as for 6 tokens")


@points(2)
def test_cost_operations(submission):
    """paged_attention: at most 100 torch operations a sequence and 100 besides, for contexts of 5 as of 2000."""
    for sequences, block_size in (
        ([(4, 1)], 1),
        ([(1999, 1)], 4),
        ([(300, 5), (0, 700), (90, 0)], 1),
        ([(40, 1)] * 12, 1),
    ):
        b = batch(sequences, block_size=block_size, HK=1, D=4)
        with dispatched(submission) as cost:
            submission.paged_attention(*b.arguments())
        cost.at_most(100 * len(sequences) + 100, f"100 for each of {len(sequences)} sequences and 100 besides")


@points(2)
def test_cost_largest_tensor(submission):
    """No tensor is larger than q, the scores of a sequence, or its keys and values; keys are not repeated per head."""
    for sequences, G, spare in (
        ([(255, 1)], 4, 3),
        ([(20, 1), (30, 1), (25, 1)], 1, 200),
        ([(64, 40), (10, 1)], 2, 3),
        ([(9, 1)] * 30, 4, 3),
    ):
        HK, D, block_size = 2, 8, 4
        b = batch(sequences, block_size=block_size, HK=HK, G=G, D=D, spare=spare)
        with largest_temporary(submission, unit="bytes") as cost:
            submission.paged_attention(*b.arguments())
        limit = b.q.numel()
        for past, new in sequences:
            padded = -(-(past + new) // block_size) * block_size
            limit = max(limit, HK * G * new * padded, 2 * padded * HK * D)
        cost.at_most(4 * limit, "float32 numbers: those of q, H * q_len * padded, or 2 * padded * HK * D")
