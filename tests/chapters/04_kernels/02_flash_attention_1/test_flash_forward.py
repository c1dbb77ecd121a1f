"""Hidden tests: FlashAttention forward, with every byte counted."""

import torch

from grader.testing import (
    behaviour,
    booleans,
    close,
    dispatched,
    equal,
    flops,
    given,
    integers,
    largest_temporary,
    needs,
    points,
    require,
    sampled_from,
)

INF = float("inf")
PRODUCTS = {"aten.mm", "aten.bmm", "aten.addmm", "aten.baddbmm", "aten.matmul", "aten.mv", "aten.dot"}


class HBM:
    """q, k and v to be loaded, o and lse to be stored; it remembers every row that passed."""

    def __init__(self, q, k, v):
        self._inputs = {"q": q, "k": k, "v": v}
        self._stored = {"o": [], "lse": []}
        self._loads = []

    def load(self, name, start, stop):
        if name not in self._inputs:
            raise KeyError(f'there is no {name!r} to load; there are "q", "k" and "v"')
        rows = len(self._inputs[name])
        if not 0 <= start < stop <= rows:
            raise IndexError(f"load({name!r}, {start}, {stop}): {name} has the rows 0 to {rows - 1}")
        self._loads.append((name, start, stop))
        return self._inputs[name][start:stop].clone()

    def store(self, name, start, rows):
        if name not in self._stored:
            raise KeyError(f'there is no {name!r} to store; there are "o" and "lse"')
        self._stored[name].append((start, rows))

    @property
    def loaded_elements(self):
        return sum((stop - start) * self._inputs[name].shape[1] for name, start, stop in self._loads)

    @property
    def stored_elements(self):
        return sum(rows.numel() for pieces in self._stored.values() for _, rows in pieces)

    def behaviour(self):
        """What a mistake is recognised by: the traffic, and what was stored, however it was cut."""
        stored = []
        for name in ("o", "lse"):
            whole = {
                start + row: values for start, rows in self._stored[name] for row, values in enumerate(rows.double())
            }
            stored.append(torch.stack([whole[row] for row in sorted(whole)]) if whole else None)
        return self.loaded_elements, self.stored_elements, *stored

    def times_loaded(self, name):
        """How often each row was loaded."""
        times = [0] * len(self._inputs[name])
        for start, stop in (rows for loaded, *rows in self._loads if loaded == name):
            for row in range(start, stop):
                times[row] += 1
        return times

    def result(self, name):
        """What was stored, in one piece. Every row must have come exactly once."""
        q = self._inputs["q"]
        shape, dtype = (q.shape[1:], q.dtype) if name == "o" else (torch.Size(), torch.float32)
        whole, times = torch.zeros(len(q), *shape, dtype=dtype), [0] * len(q)
        for start, rows in self._stored[name]:
            require(type(rows) is torch.Tensor, f"{name} is stored as tensors", got=rows)
            require(
                rows.shape[1:] == shape and rows.ndim == 1 + len(shape),
                f"rows of {name} have the right shape",
                got=tuple(rows.shape),
                expected=("rows", *shape),
            )
            require(rows.dtype == dtype, f"{name} is stored in the right dtype", got=rows.dtype, expected=dtype)
            stop = start + len(rows)
            require(0 <= start <= stop <= len(q), f"{name} has the rows 0 to {len(q) - 1}", got=(start, stop))
            whole[start:stop] = rows
            for row in range(start, stop):
                times[row] += 1
        equal(times, [1] * len(q), what=f"how often each row of {name} was stored")
        return whole


def inputs(n, m, d, seed, dtype=torch.float32, factor=1.0):
    """q, k and v as HBM.random of the stub makes them."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(rows, d, generator=generator) for rows in (n, m, m))
    return (q * factor).to(dtype), k.to(dtype), v.to(dtype)


def run(submission, q, k, v, **options):
    """Runs flash_forward and returns the memory."""
    hbm = HBM(q, k, v)
    result = submission.flash_forward(hbm, len(q), len(k), q.shape[1], **options)
    behaviour(hbm.behaviour())
    require(result is None, "flash_forward returns None: its results go to hbm", got=result)
    return hbm


def dense(q, k, v, causal=False, scale=None):
    """o and lse in float64, with the whole matrix of scores."""
    q, k, v = q.double(), k.double(), v.double()
    n, m, d = len(q), len(k), q.shape[1]
    scores = (d**-0.5 if scale is None else scale) * (q @ k.T)
    if causal:
        i, j = torch.arange(n)[:, None], torch.arange(m)
        scores = scores.masked_fill(j > i + m - n, -INF)
    return torch.nan_to_num(scores.softmax(-1), nan=0.0) @ v, scores.logsumexp(-1)


def check_dense(hbm, o, lse, rtol, by="row"):
    close(hbm.result("o"), o, rtol=rtol, by=by, dtype=hbm.result("o").dtype, what="o")
    close(hbm.result("lse"), lse, rtol=1e-6, atol=1e-4, dtype=torch.float32, what="lse")


def visited_keys(n, m, block_q, block_k, causal):
    """Key rows loaded by all query tiles: by looking at every pair of tiles, and every pair of rows in it."""
    total = 0
    for i in range(0, n, block_q):
        last_query = min(i + block_q, n) - 1
        for j in range(0, m, block_k):
            if not causal or j <= last_query + m - n:  # the tile's first key is the easiest to see
                total += min(j + block_k, m) - j
    return total


@points(3)
@given(
    examples=20,
    n=integers(1, 150),
    m=integers(1, 150),
    d=sampled_from([16, 64, 5]),
    block_q=integers(9, 160),
    block_k=integers(9, 160),
    half=booleans(),
    scale=sampled_from([None, 0.3, 1.0, 0.0]),
    seed=integers(0, 999),
)
def test_matches_float64_oracle(submission, n, m, d, block_q, block_k, half, scale, seed):
    """Any sizes, blocks that divide neither, float32 and float16, any scale: o and lse agree with float64 attention."""
    q, k, v = inputs(n, m, d, seed, torch.float16 if half else torch.float32)
    hbm = run(submission, q, k, v, block_q=block_q, block_k=block_k, scale=scale)
    check_dense(hbm, *dense(q, k, v, scale=scale), rtol=2e-3 if half else 5e-5)


@points(3)
@given(
    examples=12,
    n=integers(1, 70),
    m=integers(1, 70),
    block_q=integers(4, 80),
    block_k=integers(4, 80),
    half=booleans(),
    seed=integers(0, 999),
)
def test_causal_both_ways(submission, n, m, block_q, block_k, half, seed):
    """Causal with fewer, as many and more queries than keys; rows that see no key are exactly 0, their lse -inf."""
    for queries, keys in ((n, m), (m, n), (n, n)):
        q, k, v = inputs(queries, keys, 8, seed, torch.float16 if half else torch.float32)
        hbm = run(submission, q, k, v, block_q=block_q, block_k=block_k, causal=True)
        check_dense(hbm, *dense(q, k, v, causal=True), rtol=2e-3 if half else 5e-5)
        blind = max(0, queries - keys)
        equal(hbm.result("o")[:blind], torch.zeros(blind, 8, dtype=q.dtype), what="o of rows that see no key")
        equal(hbm.result("lse")[:blind], torch.full((blind,), -INF), what="lse of rows that see no key")


def test_blocks_are_irrelevant(submission):
    """n = 20, m = 23: tiles of one row, odd tiles and tiles larger than everything give the same answer."""
    q, k, v = inputs(20, 23, 12, 0)
    for causal in (True, False):
        expected = dense(q, k, v, causal=causal)
        for block_q, block_k in ((1, 1), (7, 5), (64, 16), (1000, 1000)):
            if block_q == 1 and not causal:
                continue  # 900 loads; the causal case covers it
            hbm = run(submission, q, k, v, block_q=block_q, block_k=block_k, causal=causal)
            check_dense(hbm, *expected, rtol=1e-5)


@given(examples=12, n=integers(1, 60), m=integers(1, 60), half=booleans(), causal=booleans(), seed=integers(0, 999))
def test_large_scores(submission, n, m, half, causal, seed):
    """Queries a thousand times as large: everything stays finite and near the oracle."""
    q, k, v = inputs(n, m, 16, seed, torch.float16 if half else torch.float32, factor=1e3)
    hbm = run(submission, q, k, v, block_q=16, block_k=12, causal=causal)
    o, lse = dense(q, k, v, causal=causal)
    close(hbm.result("o"), o, rtol=5e-3, by="tensor", dtype=q.dtype, what="o")
    close(hbm.result("lse"), lse, rtol=1e-4, by="tensor", atol=1e-2, what="lse")


@given(
    examples=10,
    n=integers(1, 40),
    m=integers(1, 40),
    block_q=integers(2, 16),
    block_k=integers(9, 50),
    causal=booleans(),
)
def test_every_row_stored_once(submission, n, m, block_q, block_k, causal):
    """Each row of o and of lse is stored exactly once, and each row of q is loaded exactly once."""
    hbm = run(submission, *inputs(n, m, 4, 0), block_q=block_q, block_k=block_k, causal=causal)
    hbm.result("o")
    hbm.result("lse")
    equal(hbm.times_loaded("q"), [1] * n, what="how often each row of q was loaded")


@points(2)
@given(
    examples=15,
    n=integers(1, 60),
    m=integers(1, 60),
    d=integers(1, 9),
    block_q=integers(3, 70),
    block_k=integers(3, 70),
    causal=booleans(),
)
def test_traffic_as_predicted(submission, n, m, d, block_q, block_k, causal):
    """flash_elements is what hbm counts, and both are what the tiles say."""
    expected = n * d + 2 * d * visited_keys(n, m, block_q, block_k, causal), n * d + n
    options = {"block_q": block_q, "block_k": block_k, "causal": causal}
    equal(submission.flash_elements(n, m, d, **options), expected, what="flash_elements")
    hbm = run(submission, *inputs(n, m, d, 0), **options)
    equal((hbm.loaded_elements, hbm.stored_elements), expected, what="(loaded, stored) as counted by hbm")


def test_worked_numbers(submission):
    """The table of the chapter page, two small cases counted by hand, and the paper's blocks."""
    large = {"block_q": 128, "block_k": 128}
    equal(submission.flash_elements(4096, 4096, 128, **large), (34078720, 528384))
    equal(submission.flash_elements(4096, 4096, 128, **large, causal=True), (17825792, 528384))
    equal(submission.standard_elements(4096, 4096, 128), (35127296, 34078720))
    equal(submission.standard_elements(3, 5, 2), (6 + 10 + 15 + 15 + 10, 15 + 15 + 6))
    equal(submission.flash_elements(6, 6, 2, block_q=2, block_k=3, causal=True), (72, 18))
    equal(submission.flash_elements(9, 5, 2, block_q=2, block_k=4, causal=True), (70, 27))
    equal(submission.fa1_blocks(25000, 64), (64, 98))
    equal(submission.fa1_blocks(8192, 64), (32, 32))
    equal(submission.fa1_blocks(8193, 64), (33, 33))
    equal(submission.fa1_blocks(4 * 10**20 + 1, 1), (1, 10**20 + 1))


@needs("blocks_are_irrelevant")
def test_cost_largest_tensor(submission):
    """Nothing is larger than a tile of scores, of queries or of keys: no n x m matrix, in no dtype."""
    for dtype in (torch.float32, torch.float16):
        for (n, m, d), (block_q, block_k), causal in (
            ((80, 150, 8), (16, 24), False),
            ((150, 70, 40), (16, 24), True),
            ((33, 100, 64), (8, 20), True),
        ):
            q, k, v = inputs(n, m, d, 0, dtype)
            with largest_temporary(submission) as cost:
                run(submission, q, k, v, block_q=block_q, block_k=block_k, causal=causal)
            cost.at_most(max(block_q * block_k, block_q * d, block_k * d), "one tile of scores, queries or keys")


@needs("blocks_are_irrelevant")
def test_cost_divides_once(submission):
    """Per key tile acc is rescaled and added to, no more: dividing by l, and the like, stands outside the loop."""
    n, m, d, block_q, block_k = 64, 240, 40, 16, 24
    q, k, v = inputs(n, m, d, 0)
    with dispatched(submission) as cost:
        run(submission, q, k, v, block_q=block_q, block_k=block_k)
    query_tiles, key_tiles = n // block_q, m // block_k
    results = cost.count(lambda name, numel: numel == block_q * d and name not in PRODUCTS)
    results.at_most(
        2 * query_tiles * key_tiles + 6 * query_tiles,
        "(block_q, d) results that are no products: 2 a visited tile, 6 a query tile",
    )


@points(2)
@needs("blocks_are_irrelevant")
def test_cost_two_products_a_tile(submission):
    """4 * block_q * block_k * d FLOPs for each visited tile; tiles above the diagonal cost nothing."""
    d, block_q, block_k = 24, 16, 20
    for n, m, causal in ((64, 100, False), (64, 100, True), (100, 64, True), (128, 128, True)):
        q, k, v = inputs(n, m, d, 0)
        with flops(submission) as cost:
            run(submission, q, k, v, block_q=block_q, block_k=block_k, causal=causal)
        tiles = sum(
            not causal or j <= min(i + block_q, n) - 1 + m - n
            for i in range(0, n, block_q)
            for j in range(0, m, block_k)
        )
        cost.at_most(4 * block_q * block_k * d * tiles, f"two products in each of {tiles} visited tiles")
