"""Hidden tests: paged decode attention as Triton kernels. Oracle: float64 attention on contiguous copies."""

from dataclasses import dataclass

import torch

from grader.testing import (
    close,
    compiled_for_sm_90,
    equal,
    given,
    integers,
    interpreted,
    launches_only,
    lists,
    points,
    require,
    sampled_from,
)

NAN = float("nan")
SPILLS = 128  # bytes per thread


@dataclass
class Step:
    """What paged_decode takes, and the same keys and values in contiguous float64."""

    q: torch.Tensor
    k_cache: torch.Tensor
    v_cache: torch.Tensor
    block_tables: torch.Tensor
    context_lens: torch.Tensor
    keys: list
    values: list

    def arguments(self):
        return self.q, self.k_cache, self.v_cache, self.block_tables, self.context_lens


def step(
    contexts, *, H=4, HK=2, D=64, block_size=16, dtype=torch.float32, seed=None, stale=NAN, padding=2**30, spare=1
):
    """Permuted blocks; `stale` in the slots that hold no token, `padding` in the tables behind the contexts. q is cut
    out of a fused tensor, the tables out of a wider one; the caches are the two halves of one."""
    generator = torch.Generator().manual_seed(torch.randint(2**31, ()).item() if seed is None else seed)

    def randn(*shape):
        return torch.randn(*shape, generator=generator).to(dtype)

    needed = [-(-context // block_size) for context in contexts]
    order = torch.randperm(sum(needed) + spare, generator=generator).to(torch.int32)
    width = max(*needed, 1) + spare
    wide = torch.full((len(contexts), width + 3), padding, dtype=torch.int32)
    kv = torch.full((2, sum(needed) + spare, block_size, HK, D), stale, dtype=dtype)
    keys, values, used = [], [], 0
    for b, (context, need) in enumerate(zip(contexts, needed, strict=True)):
        blocks = order[used : used + need]
        wide[b, :need] = blocks
        used += need
        keys.append(randn(context, HK, D))
        values.append(randn(context, HK, D))
        for position in range(context):
            block, offset = int(blocks[position // block_size]), position % block_size
            kv[0, block, offset], kv[1, block, offset] = keys[b][position], values[b][position]
    return Step(
        q=randn(len(contexts), H + 2 * HK, D)[:, :H],
        k_cache=kv[0],
        v_cache=kv[1],
        block_tables=wide[:, :width],
        context_lens=torch.tensor(contexts, dtype=torch.int32),
        keys=[k.double() for k in keys],
        values=[v.double() for v in values],
    )


def expected(s, scale=None):
    """float64, one sequence and one head at a time."""
    B, H, D = s.q.shape
    result = torch.zeros(B, H, D, dtype=torch.float64)
    for b in range(B):
        HK = s.keys[b].shape[1]
        for h in range(H):
            k, v = s.keys[b][:, h // (H // HK)], s.values[b][:, h // (H // HK)]
            if len(k):
                result[b, h] = ((D**-0.5 if scale is None else scale) * (k @ s.q[b, h].double())).softmax(0) @ v
    return result


def check(submission, s, *, rtol=None, what="", **options):
    rtol = rtol or (1e-5 if s.q.dtype == torch.float32 else 2e-3)
    got = submission.paged_decode(*s.arguments(), **options)
    close(got, expected(s, options.get("scale")), rtol=rtol, dtype=s.q.dtype, what=what)
    require(got.is_contiguous(), "the result is contiguous", got=got.stride())


def test_one_sequence(submission):
    """One sequence of 19 tokens in 3 blocks of 8, two query heads, two splits."""
    s = step([19], H=2, HK=1, block_size=8, stale=0.0, padding=0)
    with interpreted(submission, trace=False):
        check(submission, s, splits=2)


@points(3)
def test_matches_float64_oracle(submission):
    """Contexts 1, 16, 17, 130 and 200 in permuted blocks of 16, four query heads per KV head, splits not given."""
    with interpreted(submission, trace=False):
        check(submission, step([1, 16, 17, 130, 200], H=8, HK=2))


@points(2)
def test_half_precision(submission):
    """float16: contexts 1, 16, 17, 130 and 200, within 2e-3; float32 outputs until the end."""
    with interpreted(submission, trace=False):
        check(submission, step([1, 16, 17, 130, 200], H=4, HK=1, dtype=torch.float16), splits=3)
        check(submission, step([70, 8], H=6, HK=1, D=128, block_size=8, dtype=torch.float16), splits=2)


@points(2)
def test_groups(submission):
    """H = HK, six query heads a KV head with D 128 and blocks of 8, and twenty query heads on one KV head."""
    with interpreted(submission, trace=False):
        for sizes in (
            {"H": 3, "HK": 3},
            {"H": 12, "HK": 2, "D": 128, "block_size": 8},
            {"H": 20, "HK": 1, "block_size": 32},
        ):
            check(submission, step([9, 40], **sizes), splits=2, what=str(sizes))


@points(2)
@given(
    examples=10,
    contexts=lists(integers(0, 70), n=(1, 2)),
    heads=sampled_from([(1, 1), (2, 1), (4, 2), (3, 3)]),
    block_size=sampled_from([8, 16, 32, 64]),
    splits=integers(1, 5),
    scale=sampled_from([None, 0.3, 0.0, -0.1]),
    half=sampled_from([False, True]),
    seed=integers(0, 99),
)
def test_any_sizes(submission, contexts, heads, block_size, splits, scale, half, seed):
    """Any contexts, block sizes, numbers of splits and scales, 0 and negative ones included."""
    H, HK = heads
    dtype = torch.float16 if half else torch.float32
    with interpreted(submission, trace=False):
        s = step(contexts, H=H, HK=HK, block_size=block_size, dtype=dtype, seed=seed)
        check(submission, s, splits=splits, scale=scale)


@points(2)
def test_splits_do_not_matter(submission):
    """1, 2, 3, 4 and 16 splits, more than some contexts have blocks, agree with the oracle."""
    s = step([150, 20, 3], H=2, HK=1)
    with interpreted(submission, trace=False):
        for splits in (1, 2, 3, 4, 16):
            check(submission, s, splits=splits, what=f"{splits} splits")


def test_zero_context(submission):
    """A sequence with context 0 gives exactly 0, whatever its table holds, beside sequences that have keys."""
    with interpreted(submission, trace=False):
        for contexts, splits in [([0, 21, 0], 2), ([0], 1)]:
            s = step(contexts)
            got = submission.paged_decode(*s.arguments(), splits=splits)
            close(got, expected(s), rtol=1e-5, dtype=torch.float32)
            equal(got[0], torch.zeros(4, 64), what="the result for context 0")


@points(2)
def test_padding_is_ignored(submission):
    """Table entries behind the context hold 2**30 or -1, slots behind it NaN or infinity: same result."""
    with interpreted(submission, trace=False):
        for padding, stale, block_size in [(2**30, NAN, 16), (-1, float("inf"), 8), (0, NAN, 64)]:
            s = step([17, 40, 64], H=2, HK=1, block_size=block_size, padding=padding, stale=stale, spare=2)
            check(submission, s, splits=2, what=f"padding {padding}, stale {stale}")


def test_shared_blocks(submission):
    """Two sequences whose tables begin with the same two blocks."""
    s = step([40, 37])
    s.block_tables[1, :2] = s.block_tables[0, :2]
    for x in (s.keys, s.values):
        x[1][:32] = x[0][:32]
    with interpreted(submission, trace=False):
        check(submission, s, splits=2)


def test_strides(submission):
    """q with the heads outermost in memory, and block tables that are every third row of a larger tensor."""
    s = step([20, 33, 9])
    s.q = s.q.transpose(0, 1).contiguous().transpose(0, 1)
    rows = torch.full((9, s.block_tables.shape[1] + 1), 2**30, dtype=torch.int32)
    rows[::3, :-1] = s.block_tables
    s.block_tables = rows[::3, :-1]
    with interpreted(submission, trace=False) as run:
        check(submission, s, splits=2)
    launches_only(run, "q")


@points(2)
def test_large_scores(submission):
    """Scores in the thousands, of both signs and all of one sign; splits whose maxima lie far apart."""
    with interpreted(submission, trace=False):
        s = step([70, 25], H=2, HK=1)
        s.q = 1e3 * s.q
        check(submission, s, rtol=5e-3, splits=2, what="q times 1000")
        s = step([150], H=2, HK=1, stale=0.0)
        s.q = s.q + 3 * s.q.sign()
        s.keys[0] += s.q[0, 0].double() * torch.linspace(-20, 20, 150).double()[:, None, None]
        for position in range(150):
            s.k_cache[s.block_tables[0, position // 16], position % 16] = s.keys[0][position].float()
        s.keys[0] = s.keys[0].float().double()
        check(submission, s, rtol=5e-3, splits=4, what="keys that grow along a query")


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    for hostile, splits, dtype in [(True, 3, torch.float32), ("random", 2, torch.float16)]:
        s = step([21, 0, 70], H=3, HK=1, block_size=8, dtype=dtype)
        with interpreted(submission, hostile=hostile, trace=False):
            check(submission, s, splits=splits)


def test_only_the_kernel_computes(submission):
    """At most two launches; besides, the wrapper allocates and takes views: no copy of an input."""
    s = step([21, 5])
    with interpreted(submission, trace=False) as run:
        submission.paged_decode(*s.arguments(), splits=2)
    launches_only(run, "q", "k_cache", "v_cache", "block_tables")
    run.cost("launches").at_most(2, "attention over each split, and the combination")


def blank(H, HK, D, block_size, dtype):
    q = torch.zeros(2, H, D, dtype=dtype)
    k_cache = torch.zeros(8, block_size, HK, D, dtype=dtype)
    tables, contexts = torch.zeros(2, 4, dtype=torch.int32), torch.full((2,), 20, dtype=torch.int32)
    return q, k_cache, k_cache.clone(), tables, contexts


@points(2)
def test_compiles_for_sm_90(submission):
    """float16 compiles for an H100 without spills: D 128, blocks of 16, four heads a group; D 64, blocks of 8, six."""
    for sizes in [(8, 2, 128, 16), (12, 2, 64, 8)]:
        compiled = compiled_for_sm_90(submission, "paged_decode", *blank(*sizes, torch.float16))
        for launch in compiled:
            require(launch.spills <= SPILLS, f"{launch.kernel}: registers spill", got=launch.spills, expected=SPILLS)
        require(any(launch.mma or launch.wgmma for launch in compiled), "tensor cores are used", got=compiled)


def test_full_precision(submission):
    """float32 operands are not rounded to TF32: the compiled kernels hold no such instruction."""
    for launch in compiled_for_sm_90(submission, "paged_decode", *blank(4, 1, 64, 16, torch.float32)):
        require(not launch.ptx_has("tf32"), f"{launch.kernel} multiplies float32 in full precision, not in TF32")


@points(3)
def test_cost_cache_bytes(submission):
    """Each needed key and value is read exactly once: not per query head, not per split, nothing behind the context."""
    for contexts, splits, sizes in [
        ([1, 17, 100], 3, {"H": 8, "HK": 2}),
        ([64, 0, 30], 2, {"H": 6, "HK": 1, "D": 128, "block_size": 8, "dtype": torch.float16}),
    ]:
        s = step(contexts, **sizes)
        with interpreted(submission, trace=False) as run:
            submission.paged_decode(*s.arguments(), splits=splits)
        HK, D = s.k_cache.shape[2:]
        needed = sum(contexts) * HK * D * s.q.element_size()
        run.cost("loaded", "k_cache").exactly(needed, "context * HK * D elements, once")
        run.cost("loaded", "v_cache").exactly(needed, "context * HK * D elements, once")


@points(2)
def test_cost_other_bytes(submission):
    """q is read once per split at most; partial outputs and their logsumexps are stored once, and so is the result."""
    for splits, dtype in [(1, torch.float32), (4, torch.float16)]:
        s = step([40, 9], H=4, HK=2, dtype=dtype)
        with interpreted(submission, trace=False) as run:
            submission.paged_decode(*s.arguments(), splits=splits)
        B, H, D = s.q.shape
        size = s.q.element_size()
        run.cost("loaded", "q").at_most(splits * B * H * D * size, "once per split")
        run.cost("stored", "temporary").at_most(B * H * splits * (D + 1) * 4, "outputs and logsumexps in float32")
        run.cost("stored", "result").exactly(B * H * D * size, "the result, once")


@points(2)
def test_cost_programs_and_dots(submission):
    """B * HK * splits programs in the first launch; two tl.dot a tile of 16 positions or more."""
    for contexts, splits, sizes in [([33, 100], 3, {"H": 4, "HK": 2}), ([16], 1, {"H": 2, "HK": 1, "block_size": 8})]:
        s = step(contexts, **sizes)
        with interpreted(submission, trace=False) as run:
            submission.paged_decode(*s.arguments(), splits=splits)
        B, HK = len(contexts), sizes["HK"]
        equal(run.launches[0].programs, B * HK * splits, what="programs of the first launch: B * HK * splits")
        run.cost("dots").at_least(2 * B * HK, "two a tile")
        tiles = sum(-(-context // 16) + splits for context in contexts)
        run.cost("dots").at_most(2 * HK * tiles, "two a tile of at least 16 positions")
