"""Hidden tests: softmax as a running sum."""

import random

import torch

from grader.testing import (
    close,
    counting,
    equal,
    given,
    integers,
    largest_temporary,
    needs,
    points,
    require,
    sampled_from,
    tensors,
)

INF = float("inf")


def values_for(n, d, seed, dtype=torch.float32):
    return torch.randn(n, d, generator=torch.Generator().manual_seed(seed)).to(dtype)


def columns(scores):
    """A load that has the columns of `scores` and no others: slicing would forgive a block that reaches beyond n."""
    n = scores.shape[1]

    def load(i, j):
        if not 0 <= i < j <= n:
            raise IndexError(f"load({i}, {j}): there are the columns 0 to {n - 1}")
        return scores[:, i:j]

    return load


def masked_scores(rows, n, seed):
    """Scores with single -inf entries; the last row is -inf throughout."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, n, generator=generator) * 3
    scores[torch.rand(rows, n, generator=generator) < 0.3] = -INF
    scores[-1] = -INF
    return scores


def absorb_all(submission, scores, values, block, dtype=torch.float32):
    """The state after all keys, from left to right in blocks."""
    state = submission.start(scores.shape[0], values.shape[1], dtype)
    for i in range(0, scores.shape[1], block):
        state = submission.absorb(state, scores[:, i : i + block], values[i : i + block])
    return state


def softmax(scores):
    """float64 softmax, with zeros for rows of -inf only."""
    return torch.nan_to_num(scores.double().softmax(-1), nan=0.0)


def check_finished(submission, state, scores, values, rtol=1e-6):
    """out and logsumexp of the state against float64. out may cancel, so its error is measured against the values."""
    out, lse = submission.finish(state)
    accuracy = rtol * float(values.double().abs().max())
    close(out, softmax(scores) @ values.double(), rtol=rtol, atol=2 * accuracy, dtype=state.m.dtype, what="out")
    close(lse, scores.double().logsumexp(-1), rtol=rtol, atol=2 * rtol, dtype=state.m.dtype, what="logsumexp")
    blind = (scores == -INF).all(-1)
    equal(out[blind], torch.zeros_like(out[blind]), what="out of rows that saw no key")


def check_blocks(pieces, scores, block, rtol=5e-6):
    """What softmax_blocks yielded, piece by piece, against float64."""
    equal([i for i, _ in pieces], list(range(0, scores.shape[1], block)), what="where the blocks begin")
    expected = softmax(scores)
    for i, probabilities in pieces:
        close(
            probabilities,
            expected[:, i : i + block],
            rtol=rtol,
            atol=1e-30,
            dtype=scores.dtype,
            what=f"the block from column {i}",
        )


def test_worked_example(submission):
    """Scores [1, 2], then [3]: state, probabilities and logsumexp as found by hand."""
    state = submission.start(1, 3)
    state = submission.absorb(state, torch.tensor([[1.0, 2.0]]), torch.eye(3)[:2])
    close(state.m, [2.0], what="m after [1, 2]")
    close(state.l, [1.3678794], what="l after [1, 2]")
    close(state.acc, [[0.3678794, 1.0, 0.0]], what="acc after [1, 2]")
    state = submission.absorb(state, torch.tensor([[3.0]]), torch.eye(3)[2:])
    close(state.m, [3.0], what="m after [3]")
    close(state.l, [1.5032147], what="l after [3]")
    out, lse = submission.finish(state)
    close(out, [[0.0900306, 0.2447285, 0.6652410]], what="out")
    close(lse, [3.4076060], what="logsumexp")
    scores = torch.tensor([[1.0, 2.0, 3.0]])
    pieces = list(submission.softmax_blocks(columns(scores), 3, 2))
    check_blocks(pieces, scores, 2)


@points(3)
@given(
    examples=15,
    scores=tensors(rows=(1, 4), n=(1, 300)),
    d=integers(1, 8),
    block=integers(4, 400),
    seed=integers(0, 999),
    wide=sampled_from([False, True]),
)
def test_matches_float64_oracle(submission, scores, d, block, seed, wide):
    """Any scores, in blocks of any width: m, out, logsumexp and the probabilities agree with float64."""
    dtype = torch.float64 if wide else torch.float32
    scores = scores.to(dtype)
    values = values_for(scores.shape[1], d, seed, dtype)
    state = absorb_all(submission, scores, values, block, dtype)
    equal(state.m, scores.amax(-1), what="m")
    check_finished(submission, state, scores, values, 1e-12 if wide else 1e-6)
    pieces = list(submission.softmax_blocks(columns(scores), scores.shape[1], block))
    check_blocks(pieces, scores, block, 1e-12 if wide else 5e-6)


@given(examples=8, rows=integers(1, 3), n=integers(1, 60), block=integers(1, 20), seed=integers(0, 999))
def test_half_precision_is_widened(submission, rows, n, block, seed):
    """float16 scores and values give the float32 state of the same numbers."""
    scores, values = values_for(n, rows, seed, torch.float16).T, values_for(n, 5, seed + 1, torch.float16)
    state = absorb_all(submission, scores, values, block)
    check_finished(submission, state, scores, values)


@given(
    examples=10,
    rows=integers(1, 4),
    n=integers(1, 40),
    block=integers(1, 30),
    seed=integers(0, 999),
    offset=sampled_from([0, -300]),
)
def test_order_and_tree_do_not_matter(submission, rows, n, block, seed, offset):
    """Blocks in shuffled order, merged in a random tree with the empty state among them: always the same answer."""
    scores, values = values_for(n, rows, seed).T * 5 + offset, values_for(n, 4, seed + 1)
    pieces = [(scores[:, i : i + block], values[i : i + block]) for i in range(0, n, block)]
    shuffle = random.Random(seed)
    shuffle.shuffle(pieces)

    in_order = submission.start(rows, 4)
    for some_scores, some_values in pieces:
        in_order = submission.absorb(in_order, some_scores, some_values)
    check_finished(submission, in_order, scores, values, 5e-6)

    forest = [submission.absorb(submission.start(rows, 4), *piece) for piece in pieces]
    while len(forest) > 1:
        a, b = (forest.pop(shuffle.randrange(len(forest))) for _ in range(2))
        forest.append(submission.merge(a, b))
    check_finished(submission, forest[0], scores, values, 5e-6)

    empty = submission.start(rows, 4)
    for state in (submission.merge(empty, forest[0]), submission.merge(forest[0], empty)):
        for field in ("m", "l", "acc"):
            close(
                getattr(state, field),
                getattr(forest[0], field).double(),
                rtol=1e-6,
                what=f"{field} after merging with start()",
            )


@given(
    examples=15,
    rows=integers(1, 4),
    n=integers(1, 60),
    block=integers(1, 30),
    seed=integers(0, 999),
    cut=integers(0, 60),
)
def test_masked_blocks(submission, rows, n, block, seed, cut):
    """A first block, single entries and whole rows of -inf: no NaN, and blind rows give 0 and logsumexp -inf."""
    scores, values = masked_scores(rows, n, seed), values_for(n, 3, seed)
    scores[:, :block] = -INF
    state = absorb_all(submission, scores, values, block)
    check_finished(submission, state, scores, values, 5e-6)

    left, right = (
        absorb_all(submission, scores[:, part], values[part], block) for part in (slice(0, cut), slice(cut, None))
    )
    check_finished(submission, submission.merge(left, right), scores, values, 5e-6)
    check_blocks(list(submission.softmax_blocks(columns(scores), n, block)), scores, block)


@given(
    examples=12,
    scores=tensors(rows=(1, 3), n=(1, 64), values="normal"),
    offset=sampled_from([-1e4, 1e4, -120.0, 3e6]),
    block=integers(1, 80),
    seed=integers(0, 999),
)
def test_any_offset(submission, scores, offset, block, seed):
    """Scores around -10,000 or +10,000 are as good as any: only differences matter."""
    scores = scores + offset
    values = values_for(scores.shape[1], 3, seed)
    check_finished(submission, absorb_all(submission, scores, values, block), scores, values, 5e-6)
    check_blocks(list(submission.softmax_blocks(columns(scores), scores.shape[1], block)), scores, block)


def test_empty_pieces(submission):
    """The empty state as promised; a block without columns changes nothing; a matrix without columns yields nothing."""
    for dtype in (torch.float32, torch.float64):
        state = submission.start(2, 3, dtype)
        equal(state.m, torch.full((2,), -INF, dtype=dtype), what="start(...).m")
        equal(state.l, torch.zeros(2, dtype=dtype), what="start(...).l")
        equal(state.acc, torch.zeros(2, 3, dtype=dtype), what="start(...).acc")
        out, lse = submission.finish(state)
        equal(out, torch.zeros(2, 3, dtype=dtype), what="out of the empty state")
        equal(lse, torch.full((2,), -INF, dtype=dtype), what="logsumexp of the empty state")

    nothing = torch.zeros(2, 0), torch.zeros(0, 3)
    empty = submission.start(2, 3)
    some = submission.absorb(empty, torch.tensor([[1.0, -2.0], [-INF, -INF]]), torch.ones(2, 3))
    for before in (empty, some):
        after = submission.absorb(before, *nothing)
        for field in ("m", "l", "acc"):
            equal(getattr(after, field), getattr(before, field), what=f"{field} after a block without columns")

    load = counting(lambda i, j: torch.zeros(2, j - i))
    equal(list(submission.softmax_blocks(load, 0, 4)), [], what="softmax_blocks of a matrix without columns")
    equal(load.calls, 0, what="loads of a matrix without columns")


@given(examples=6, seed=integers(0, 999), lower=sampled_from([0.0, -50.0, 50.0]))
def test_no_aliasing(submission, seed, lower):
    """absorb, merge and finish leave the states they are given as they were."""
    scores, values = values_for(6, 3, seed).T, values_for(6, 2, seed)
    first = submission.absorb(submission.start(3, 2), scores, values)
    before = first.m.clone(), first.l.clone(), first.acc.clone()
    second = submission.absorb(first, scores + lower, values)
    submission.merge(first, second)
    submission.merge(second, first)
    submission.finish(first)
    for field, old in zip(("m", "l", "acc"), before, strict=True):
        equal(getattr(first, field), old, what=f"{field} of the old state")


@needs("worked_example")
@given(examples=10, rows=integers(1, 3), n=integers(1, 200), block=integers(1, 80))
def test_cost_two_passes(submission, rows, n, block):
    """softmax_blocks loads every block twice, the second time only when that block is asked for."""
    scores = values_for(n, rows, n).T
    load = counting(columns(scores))
    blocks = -(-n // block)
    pieces = submission.softmax_blocks(load, n, block)
    next(pieces)
    equal(load.calls, blocks + 1, what="loads when the first block was yielded (ceil(n / block) + 1)")
    rest = sum(1 for _ in pieces)
    equal(rest, blocks - 1, what="blocks after the first")
    equal(load.calls, 2 * blocks, what="loads in all (2 * ceil(n / block))")
    widest = max(j - i for (i, j), _ in load.arguments)
    require(widest <= block, f"no load is wider than block = {block} columns", got=widest, expected=f"at most {block}")


@needs("worked_example")
def test_cost_temporaries(submission):
    """No tensor larger than a block of scores, a block of values or the accumulator."""
    for rows, b, d, dtype in (
        (64, 32, 48, torch.float32),
        (4, 128, 64, torch.float16),
        (96, 128, 8, torch.float16),
        (128, 2, 64, torch.float32),
    ):
        state = submission.start(rows, d)
        scores, values = torch.randn(rows, b).to(dtype), torch.randn(b, d).to(dtype)
        with largest_temporary(submission) as cost:
            submission.absorb(state, scores, values)
        cost.at_most(max(rows * b, rows * d, b * d), "max(rows * b, rows * d, b * d) elements in absorb")
    scores = torch.randn(8, 4096)
    with largest_temporary(submission) as cost:
        list(submission.softmax_blocks(columns(scores), 4096, 128))
    cost.at_most(8 * 128, "rows * block elements in softmax_blocks")
