"""Hidden tests: a tiled matmul with grouped order and a fused epilogue, and its configuration space."""

import copy

import torch

from grader.testing import (
    close,
    compiled_for_sm_90,
    equal,
    given,
    integers,
    interpreted,
    launches_only,
    points,
    raises,
    require,
    sampled_from,
)

SMEM = 232448
SPILLS = 128  # bytes per thread
BLOCKS = ("BLOCK_M", "BLOCK_N", "BLOCK_K")
KEYS = {*BLOCKS, "GROUP_M", "num_warps", "num_stages"}
ACTIVATIONS = {"": lambda c: c, "relu": torch.relu, "silu": torch.nn.functional.silu}


def operands(m, n, k, dtype=torch.float32):
    return torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)


def check_matmul(submission, a, b, *, bias=None, activation="", **options):
    """Float32 sums of k products err by some 1e-7 of their typical size, wherever the epilogue leaves them."""
    product = a.double() @ b.double()
    expected = ACTIVATIONS[activation](product + (0.0 if bias is None else bias.double()))
    rtol = 1e-5 if a.dtype == torch.float32 else 2e-3
    atol = rtol * float(product.pow(2).mean().sqrt()) if activation else 0.0
    c = submission.matmul(a, b, bias=bias, activation=activation, **options)
    close(c, expected, rtol=rtol, atol=atol, dtype=a.dtype)
    return c


def grouped_order(tiles_m, tiles_n, group):
    """Every tile in order, by walking the groups."""
    order = []
    for first in range(0, tiles_m, group):
        for column in range(tiles_n):
            order += [(row, column) for row in range(first, min(first + group, tiles_m))]
    return order


def next_power_of_2(n):
    power = 1
    while power < n:
        power *= 2
    return power


@points(3)
def test_matches_float64_oracle(submission):
    """Sizes that no block divides, float32 and float16, agree with the float64 product."""
    with interpreted(submission, trace=False):
        for m, n, k in [(1, 1, 1), (200, 170, 150), (64, 64, 64), (33, 257, 70)]:
            for dtype in (torch.float32, torch.float16):
                c = check_matmul(submission, *operands(m, n, k, dtype))
                require(c.is_contiguous(), "the result is contiguous", got=c.stride())


@points(2)
def test_any_strides(submission):
    """Transposed operands, columns of larger tensors and steps are read where they lie."""
    a, b = operands(70, 50, 90)
    with interpreted(submission, trace=False) as run:
        check_matmul(submission, a.T.contiguous().T, b, block=(32, 32, 32))
        check_matmul(submission, a, b.T.contiguous().T, block=(32, 32, 32))
        check_matmul(submission, torch.randn(70, 200)[:, 20:110], torch.randn(90, 80)[:, 30:], block=(32, 32, 32))
        check_matmul(submission, torch.randn(140, 180)[::2, ::2], torch.randn(180, 50)[1::2], block=(32, 32, 32))
    launches_only(run, "a", "b")


@points(2)
@given(
    m=integers(1, 100),
    n=integers(1, 100),
    k=integers(1, 100),
    block=sampled_from([(16, 32, 16), (32, 64, 64), (128, 64, 32), (32, 16, 32)]),
    group=sampled_from([1, 3, 8]),
    activation=sampled_from(["", "relu", "silu"]),
    examples=20,
)
def test_blocks_and_groups(submission, m, n, k, block, group, activation):
    """Any block and any group give the same product, for any size."""
    a, b = operands(m, n, k)
    with interpreted(submission, trace=False):
        check_matmul(submission, a, b, bias=torch.randn(n), activation=activation, block=block, group=group)


@points(2)
def test_fused_epilogue(submission):
    """Bias and activation act on the float32 accumulator: 2049 + (-2048) is 1 in float16 too."""
    one = torch.ones(1, 1, dtype=torch.float16)
    a, b = torch.tensor([[2048.0, 1.0]], dtype=torch.float16), torch.ones(2, 1, dtype=torch.float16)
    bias = torch.tensor([-2048.0], dtype=torch.float16)
    with interpreted(submission, trace=False):
        for activation in ("", "relu"):
            equal(
                submission.matmul(a, b, bias=bias, activation=activation), one, what=f"{activation or 'no'} activation"
            )
        for dtype in (torch.float32, torch.float16):
            a, b = operands(40, 70, 50, dtype)
            for activation in ACTIVATIONS:
                check_matmul(submission, a, b, bias=5 * torch.randn(70).to(dtype), activation=activation)
                check_matmul(submission, a, b, activation=activation)


def test_bad_arguments(submission):
    """Inner sizes that differ and unknown activations raise ValueError."""
    with raises(ValueError):
        submission.matmul(torch.zeros(4, 5), torch.zeros(6, 4))
    for activation in ("gelu", "ReLU", "none"):
        with raises(ValueError):
            submission.matmul(torch.zeros(4, 5), torch.zeros(5, 4), activation=activation)


@points(2)
def test_wide_accumulator(submission):
    """4096 and 1024 times 1/32 are 4128, in float16 too: a float16 accumulator stays at 4096."""
    a = torch.full((2, 1056), 1 / 32, dtype=torch.float16)
    a[:, 0], a[:, 1:32] = 4096.0, 0.0
    b = torch.ones(1056, 3, dtype=torch.float16)
    with interpreted(submission, trace=False):
        for block in [(64, 64, 32), (16, 16, 16)]:
            equal(submission.matmul(a, b, block=block), torch.full((2, 3), 4128.0, dtype=torch.float16))


@given(tiles_m=integers(1, 12), tiles_n=integers(1, 12), group=integers(1, 14))
def test_program_tile(submission, tiles_m, tiles_n, group):
    """Grouped order by program_tile is grouped order by walking the groups: every tile once."""
    calls = [((pid, tiles_m, tiles_n, group), {}) for pid in range(tiles_m * tiles_n)]
    equal(submission.many("program_tile", calls), grouped_order(tiles_m, tiles_n, group))


@points(2)
def test_order_is_grouped(submission):
    """The first store of each program lies in the tile that grouped order names; 16 programs touch 4 + 4 strips."""
    first = [submission.program_tile(pid, 8, 8, 4) for pid in range(16)]
    equal((len({row for row, _ in first}), len({column for _, column in first})), (4, 4), what="strips of A and B")
    for m, n, group in [(80, 48, 2), (112, 64, 3), (64, 96, 8), (48, 48, 1)]:
        a, b = operands(m, n, 16)
        with interpreted(submission) as run:
            submission.matmul(a, b, block=(16, 16, 16), group=group)
        order = grouped_order(m // 16, n // 16, group)
        stores = {}
        for access in run.accesses:
            if access.kind == "store" and access.name == "result":
                stores.setdefault(access.program, access.first)
        tiles = [divmod(stores[pid], n) if pid in stores else None for pid in range(len(order))]
        tiles = [(tile[0] // 16, tile[1] // 16) if tile else None for tile in tiles]
        equal(tiles, order, what=f"tiles of programs 0, 1, ... for {m // 16} x {n // 16} tiles in groups of {group}")


@points(2)
def test_configs_are_legal(submission):
    """Eight or more, no two equal, small and large tiles, and every one within shared memory and registers."""
    for itemsize in (1, 2, 4):
        for smem in (None, 232448, 101376, 65536):
            found = submission.configs(itemsize) if smem is None else submission.configs(itemsize, smem=smem)
            require(type(found) is list and all(type(c) is dict for c in found), "a list of dicts", got=found)
            require(len(found) >= 8, "at least 8", got=len(found), expected=8)
            for config in found:
                equal(set(config), KEYS, what="keys")
                require(all(type(v) is int and v >= 1 for v in config.values()), "values are ints >= 1", got=config)
                for key in BLOCKS:
                    legal = 16 <= config[key] <= 4096 and config[key] & (config[key] - 1) == 0
                    require(legal, f"{key} is a power of two from 16 to 4096", got=config)
                warps = config["num_warps"]
                require(warps in (1, 2, 4, 8, 16), "num_warps is a power of two up to 16", got=config)
                m, n, k = (config[key] for key in BLOCKS)
                bytes_needed = (m * k + k * n) * itemsize * config["num_stages"]
                require(
                    bytes_needed <= (smem or SMEM), "stages fit in shared memory", got=config, expected=smem or SMEM
                )
                require(m * n <= 128 * 32 * warps, "at most 128 accumulator values per thread", got=config)
            require(len({tuple(sorted(c.items())) for c in found}) == len(found), "no two are equal", got=found)
            require(any(c["BLOCK_M"] == 16 for c in found), "one has BLOCK_M = 16", got=found)
            require(any(c["BLOCK_M"] * c["BLOCK_N"] >= 16384 for c in found), "one has a large tile", got=found)


@given(
    m=integers(1, 300),
    n=sampled_from([1, 5, 16, 17, 64, 100, 128, 4096]),
    k=integers(1, 200),
    blocks=sampled_from([(16, 16, 16), (16, 64, 32), (64, 16, 32), (32, 128, 64), (128, 128, 64), (256, 64, 32)]),
)
def test_prune(submission, m, n, k, blocks):
    """Blocks that exceed max(16, next power of two) of a size go; the smallest stays if all would."""
    last = (16, 16, 16) if m % 2 else (128, 32, 128)
    shapes = [blocks, (128, 256, 64), (64, 64, 32), (32, 128, 32), (64, 64, 16), last]
    options = [
        dict(zip(BLOCKS, shape, strict=True), GROUP_M=i + 1, num_warps=4, num_stages=2)
        for i, shape in enumerate(shapes)
    ]
    limits = [max(16, next_power_of_2(size)) for size in (m, n, k)]
    expected = [o for o in options if all(o[key] <= limit for key, limit in zip(BLOCKS, limits, strict=True))]
    if not expected:
        smallest = min(o["BLOCK_M"] * o["BLOCK_N"] for o in options)
        expected = [next(o for o in options if o["BLOCK_M"] * o["BLOCK_N"] == smallest)]
    given_options = copy.deepcopy(options)
    equal(submission.prune(given_options, m, n, k), expected)
    equal(given_options, options, what="options afterwards")


def test_prune_of_configs(submission):
    """For 5 x 4096 x 4096, exactly the configs with BLOCK_M = 16 are left."""
    for itemsize in (1, 2, 4):
        found = submission.configs(itemsize)
        equal(submission.prune(found, 5, 4096, 4096), [c for c in found if c["BLOCK_M"] == 16])


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    a, b = operands(70, 90, 50)
    for hostile in (True, "random"):
        with interpreted(submission, hostile=hostile, trace=False):
            check_matmul(submission, a, b, bias=torch.randn(90), activation="silu", block=(32, 32, 32), group=2)


def test_only_the_kernel_computes(submission):
    """The wrapper allocates, takes views and launches: no torch arithmetic, no copy of an operand."""
    a, b = operands(40, 50, 60)
    with interpreted(submission, trace=False) as run:
        submission.matmul(a.T.contiguous().T, b, bias=torch.randn(50), activation="relu")
    launches_only(run, "a", "b", "bias")


@points(2)
def test_compiles_for_sm_90(submission):
    """float16 in blocks of (128, 128, 64) compiles for an H100: no spills, shared memory fits, wgmma is used."""
    a, b = torch.zeros(4096, 256, dtype=torch.float16), torch.zeros(256, 4096, dtype=torch.float16)
    bias = torch.zeros(4096, dtype=torch.float16)
    for options in ({}, {"bias": bias, "activation": "silu"}):
        compiled = compiled_for_sm_90(submission, "matmul", a, b, block=(128, 128, 64), **options)
        equal(len(compiled), 1, what="launches")
        for launch in compiled:
            require(launch.spills <= SPILLS, f"{launch.kernel}: registers spill", got=launch.spills, expected=SPILLS)
            require(launch.shared <= SMEM, f"{launch.kernel}: shared memory fits", got=launch.shared, expected=SMEM)
            require(launch.wgmma, f"{launch.kernel} uses Hopper's tensor cores (wgmma)", got=launch.wgmma)


def test_full_precision(submission):
    """float32 operands are not rounded to TF32: the compiled kernel holds no such instruction."""
    a, b = torch.zeros(128, 64), torch.zeros(64, 128)
    for launch in compiled_for_sm_90(submission, "matmul", a, b):
        require(not launch.ptx_has("tf32"), f"{launch.kernel} multiplies float32 in full precision, not in TF32")


@points(2)
def test_cost_bytes(submission):
    """Whole tiles: every tile reads one strip of a and one of b, and c is written once."""
    for m, n, k, block in [(128, 192, 64, (64, 64, 32)), (64, 32, 96, (16, 32, 16))]:
        a, b = operands(m, n, k)
        with interpreted(submission, trace=False) as run:
            submission.matmul(a, b, block=block)
        run.cost("loaded", "a").exactly(4 * (n // block[1]) * m * k, "each strip of a once per tile column")
        run.cost("loaded", "b").exactly(4 * (m // block[0]) * k * n, "each strip of b once per tile row")
        run.cost("stored").exactly(4 * m * n, "c once, and nothing else")


@points(2)
def test_cost_programs_and_dots(submission):
    """One launch, a program per tile in one dimension, one tl.dot per step."""
    for m, n, k, block in [(70, 100, 90, (32, 64, 32)), (33, 17, 40, (16, 16, 16))]:
        a, b = operands(m, n, k)
        with interpreted(submission, trace=False) as run:
            submission.matmul(a, b, block=block, group=2)
        tiles, steps = -(-m // block[0]) * -(-n // block[1]), -(-k // block[2])
        run.cost("launches").exactly(1, "one launch")
        run.cost("programs").exactly(tiles, "one program per tile")
        grid = tuple(run.launches[0].grid)
        require(all(size == 1 for size in grid[1:]), "the grid has one dimension", got=grid, expected=(tiles,))
        run.cost("dots").exactly(tiles * steps, "one tl.dot per tile and step")
        run.cost("dot_flops").exactly(2 * tiles * steps * block[0] * block[1] * block[2], "blocks as given")
