"""Hidden tests: 4-bit weights, packed with care and expanded inside the matmul."""

from dataclasses import dataclass

import numpy as np
import torch

from grader.testing import (
    close,
    compiled_for_sm_90,
    equal,
    fresh,
    given,
    integers,
    interpreted,
    launches_only,
    points,
    raises,
    require,
    sampled_from,
)

SPILLS = 128  # bytes per thread
TOLERANCE = 3e-3  # weights and results are rounded to float16: honest programs show up to 2.2e-3
SHAPES = [(1, 64, 128, 32), (5, 96, 256, 64), (16, 64, 256, 128), (33, 72, 128, 32)]


def packed(nibbles, axis):
    """Eight neighbours along an axis to an int32, the first in the lowest bits."""
    nibbles = np.moveaxis(nibbles.numpy().astype(np.uint32), axis, -1)
    words = np.zeros((*nibbles.shape[:-1], nibbles.shape[-1] // 8), np.uint32)
    for i in range(8):
        words |= nibbles[..., i::8] << np.uint32(4 * i)
    return torch.from_numpy(np.ascontiguousarray(np.moveaxis(words, -1, axis)).view(np.int32))


def unpacked(words, axis):
    """The other way round."""
    words = np.moveaxis(words.numpy().view(np.uint32), axis, -1)
    nibbles = [(words >> np.uint32(4 * i)) & np.uint32(15) for i in range(8)]
    return torch.from_numpy(
        np.moveaxis(np.stack(nibbles, -1).reshape(*words.shape[:-1], -1), -1, axis).astype(np.int64)
    )


@dataclass
class Layer:
    """A quantised matrix: what it is, and how it is stored."""

    codes: torch.Tensor
    zeros: torch.Tensor
    scales: torch.Tensor
    group: int

    def __call__(self, submission, x, **options):
        """x w by the submission. (The matrix was packed without its help.)"""
        words = packed(self.codes, 0), self.scales, packed(self.zeros, 1)
        return submission.w4a16_matmul(x, *words, group=self.group, **options)

    def oracle(self, x):
        """x w in float64, on the dequantised weights."""
        rows = torch.arange(len(self.codes)) // self.group
        return x.double() @ ((self.codes - self.zeros[rows]).double() * self.scales[rows].double())


def layer(n, k, group, zeros=None):
    """Random codes, zero-points and scales."""
    codes = torch.randint(0, 16, (k, n))
    zeros = torch.randint(0, 16, (k // group, n)) if zeros is None else torch.full((k // group, n), zeros)
    return Layer(codes, zeros, (0.02 * (0.5 + torch.rand(k // group, n))).half(), group)


def activations(m, k, kind="normal"):
    x = torch.randn(m, k)
    if kind == "shifted":
        x = x + 3
    if kind == "heavy":
        x[:, k // 2] *= 100
    return x.half()


def check_matmul(submission, w, x, **options):
    y = w(submission, x, **options)
    close(y, w.oracle(x), rtol=TOLERANCE, dtype=torch.float16)
    return y


def divisors(n):
    return [d for d in (1, 2, 3, 4, 8) if n % d == 0]


@points(2)
def test_pack_worked(submission):
    """Codes 0 .. 7, one below the other, are 0x76543210; codes 8 .. 15 are 0xFEDCBA98, a negative int32."""
    codes = torch.arange(16)[:, None] * torch.ones(1, 8, dtype=torch.int64)
    zeros = torch.stack([torch.arange(8, 16), torch.arange(8)])
    high = 0xFEDCBA98 - 2**32
    expected = torch.tensor([[0x76543210] * 8, [high] * 8], dtype=torch.int32)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        qweight, qzeros = submission.pack(codes.to(dtype), zeros.to(dtype))
        equal(qweight, expected, what=f"qweight of {dtype} codes")
        equal(qzeros, torch.tensor([[high], [0x76543210]], dtype=torch.int32), what=f"qzeros of {dtype} zero-points")


@points(2)
@given(
    k=integers(1, 17),
    n=integers(1, 17),
    groups=integers(1, 9),
    dtype=sampled_from([torch.int64, torch.int32, torch.uint8]),
    layout=sampled_from(["contiguous", "strided"]),
    seed=integers(0, 10_000),
)
def test_pack_round_trip(submission, k, n, groups, dtype, layout, seed):
    """Unpacked by numpy's shifts, codes and zero-points are what they were, whatever their dtype and strides."""
    g = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 16, (8 * k, 8 * n), generator=g).to(dtype)
    zeros = torch.randint(0, 16, (groups, 8 * n), generator=g).to(dtype)
    given_codes, given_zeros = codes, zeros
    if layout == "strided":
        given_codes, given_zeros = codes.T.contiguous().T, torch.stack([zeros, 15 - zeros], -1)[..., 0]
    qweight, qzeros = submission.pack(given_codes, given_zeros)
    for words, shape in ((qweight, (k, 8 * n)), (qzeros, (groups, n))):
        require(tuple(words.shape) == shape, "shape", got=tuple(words.shape), expected=shape)
        require(words.dtype == torch.int32, "words are int32", got=words.dtype, expected=torch.int32)
        require(words.is_contiguous(), "words are contiguous", got=words.stride())
    fresh((qweight, qzeros))
    equal(unpacked(qweight, 0), codes.long(), what="codes")
    equal(unpacked(qzeros, 1), zeros.long(), what="zero-points")


def test_pack_refuses(submission):
    """K and N that are no multiples of 8 raise ValueError."""
    for k, n in [(12, 16), (16, 12), (4, 8), (8, 9)]:
        with raises(ValueError):
            submission.pack(torch.zeros(k, n, dtype=torch.int64), torch.zeros(1, n, dtype=torch.int64))


@points(3)
def test_matches_float64_oracle(submission):
    """Decode and prefill shapes, every group size, blocks of the kernel's own choice: the float64 product."""
    with interpreted(submission, trace=False):
        for m, n, k, group in SHAPES:
            for kind in ("normal", "shifted" if m % 2 else "heavy"):
                y = check_matmul(submission, layer(n, k, group), activations(m, k, kind))
                require(y.is_contiguous(), "the result is contiguous", got=y.stride())
        check_matmul(submission, layer(8, 32, 32), activations(1, 32))


@points(2)
@given(
    m=integers(1, 40),
    n=sampled_from([8, 24, 72]),
    group=sampled_from([32, 64, 128]),
    groups=integers(1, 4),
    block=sampled_from([None, (16, 32, 16), (32, 64, 32), (16, 128, 32)]),
    split=integers(0, 3),
    examples=10,
)
def test_blocks_and_splits(submission, m, n, group, groups, block, split):
    """Any M, N, block and split of K give the same product."""
    w, x = layer(n, group * groups, group), activations(m, group * groups)
    allowed = divisors(groups)
    with interpreted(submission, trace=False):
        check_matmul(submission, w, x, block=block, splits=allowed[split % len(allowed)])


def test_any_strides(submission):
    """x may be transposed, a slice of columns, or every second row and column."""
    w = layer(48, 96, 32)
    with interpreted(submission, trace=False) as run:
        check_matmul(submission, w, activations(20, 96).T.contiguous().T)
        check_matmul(submission, w, activations(20, 200)[:, 40:136], splits=3)
        check_matmul(submission, w, activations(40, 192)[::2, 1::2], block=(16, 32, 16))
    launches_only(run, "x")


@points(2)
def test_splits_agree(submission):
    """Splits 1, 2 and 4 agree to 1e-3; each is bit-equal from run to run and in the reverse order of programs."""
    for m, n, k, group in [(1, 64, 128, 32), (16, 40, 256, 64)]:
        w, x = layer(n, k, group), activations(m, k)
        unsplit = None
        for splits in (1, 2, 4):
            with interpreted(submission, trace=False):
                first = check_matmul(submission, w, x, splits=splits)
            if splits > 1:
                for hostile, what in ((False, "the second run"), (True, "programs in reverse order")):
                    with interpreted(submission, hostile=hostile, trace=False):
                        again = w(submission, x, splits=splits)
                    equal(again, first, what=f"splits = {splits}, {what}")
            unsplit = first.double() if unsplit is None else unsplit
            close(first, unsplit, rtol=1e-3, dtype=torch.float16, what=f"splits = {splits} against unsplit")


@points(2)
def test_zero_points(submission):
    """Zero-points all 0, all 15 and mixed; with x = 1 an error of one would shift every output."""
    with interpreted(submission, trace=False):
        for zeros in (0, 15, 1, None):
            w = layer(40, 64, 32, zeros)
            x = torch.cat([activations(3, 64), torch.ones(2, 64, dtype=torch.float16)])
            check_matmul(submission, w, x)
        # Every column its own zero-point, and code = zero-point: exactly nothing. x are small integers, whose sums are
        # exact, so that nothing is left over either where the zero-points are taken off the sums.
        w = layer(16, 64, 64)
        w.zeros[:] = torch.arange(16)
        w.codes[:] = torch.arange(16)
        x = torch.randint(-8, 9, (4, 64)).half()
        close(w(submission, x), torch.zeros(4, 16).double(), dtype=torch.float16)


@points(2)
def test_high_nibble(submission):
    """A code of 15 in the eighth row sets the word's sign bit and is still 15; so has an eighth zero-point."""
    ones = torch.ones(1, 32, dtype=torch.float16)
    with interpreted(submission, trace=False):
        for row in range(8):
            w = layer(8, 32, 32, 0)
            w.codes[:] = 0
            w.codes[row::8] = 15
            w.scales[:] = 0.5
            equal(w(submission, ones), torch.full((1, 8), 4 * 7.5, dtype=torch.float16), what=f"15 in rows {row} + 8r")
            w.codes[:], w.zeros[:, row] = 0, 15
            expected = torch.zeros(1, 8, dtype=torch.float16)
            expected[:, row] = -32 * 7.5
            close(w(submission, ones), expected.double(), rtol=0.0, dtype=torch.float16, what=f"15 in column {row}")


@points(2)
def test_wide_sums(submission):
    """Sums are float32, those that splits exchange too: 4096 + 28 * 1 is 4124, and 4097 - 4096 is 1."""
    w = layer(16, 512, 64, 0)
    w.codes[:] = 1
    w.codes[:64] = 0
    w.codes[0] = 8
    w.scales[:], w.scales[0] = 1 / 16, 1.0
    x = torch.ones(2, 512, dtype=torch.float16)
    x[:, 0] = 512
    with interpreted(submission, trace=False):
        for options in ({"block": (16, 16, 16)}, {"splits": 4}):
            equal(w(submission, x, **options), torch.full((2, 16), 4124.0, dtype=torch.float16))
        w = layer(8, 64, 32, 8)
        w.codes[:] = 8
        w.codes[0], w.codes[1], w.codes[32] = 12, 9, 4
        w.scales[:] = 1.0
        x = torch.zeros(3, 64, dtype=torch.float16)
        x[:, 0], x[:, 1], x[:, 32] = 1024.0, 1.0, 1024.0
        for splits in (1, 2):
            equal(w(submission, x, splits=splits), torch.ones(3, 8, dtype=torch.float16), what=f"splits = {splits}")


@points(2)
def test_hostile_interpreter(submission):
    """Programs in reverse and random order, NaN in masked lanes without `other`, NaN in fresh outputs: same results."""
    for hostile in (True, "random"):
        with interpreted(submission, hostile=hostile, trace=False):
            check_matmul(submission, layer(72, 128, 32), activations(5, 128), splits=2)
            check_matmul(submission, layer(40, 128, 64), activations(19, 128), block=(16, 32, 32))


def test_only_the_kernels_compute(submission):
    """The wrapper allocates, takes views and launches; it makes neither weights nor copies."""
    m, n, k = 4, 64, 256
    w, x = layer(n, k, 64), activations(k, m).T
    for splits in (1, 4):
        with interpreted(submission, trace=False) as run:
            w(submission, x, splits=splits)
        launches_only(run, "x", "qweight")
        made = max((op.numel for op in run.host_ops), default=0)
        require(made <= splits * m * n, "elements of the largest tensor made", got=made, expected=splits * m * n)


@points(2)
def test_compiles_for_sm_90(submission):
    """A decode step in float16 and in bfloat16 compiles for an H100: no spills, and tensor cores are used."""
    w = torch.zeros(512, 4096, dtype=torch.int32), torch.zeros(32, 4096).half(), torch.zeros(32, 512, dtype=torch.int32)
    for dtype, splits in ((torch.float16, 1), (torch.bfloat16, 4)):
        x = torch.zeros(16, 4096, dtype=dtype)
        compiled = compiled_for_sm_90(submission, "w4a16_matmul", x, *w, group=128, splits=splits)
        equal(len(compiled), 1 if splits == 1 else 2, what="launches")
        for launch in compiled:
            require(launch.spills <= SPILLS, f"{launch.kernel}: registers spill", got=launch.spills, expected=SPILLS)
        require(any(c.mma or c.wgmma for c in compiled), f"tensor cores are used (mma or wgmma) for {dtype}")


@points(3)
def test_cost_words_are_loaded_once(submission):
    """Each row of tiles loads each word of qweight once: 8 weights with 4 bytes."""
    for (m, n, k, group), block, splits in [
        ((5, 96, 256, 64), (16, 32, 64), 1),
        ((33, 72, 128, 32), (16, 64, 16), 2),
        ((20, 64, 128, 128), (32, 32, 64), 1),
    ]:
        with interpreted(submission, trace=False) as run:
            layer(n, k, group)(submission, activations(m, k), block=block, splits=splits)
        rows = -(-m // block[0])
        run.cost("loaded", "qweight").exactly(k * n // 2 * rows, "every word once for each row of tiles")
    with interpreted(submission, trace=False) as run:
        layer(72, 128, 64)(submission, activations(16, 128))
    run.cost("loaded", "qweight").exactly(128 * 72 // 2, "M = 16, blocks of your choice: every word once")


@points(2)
def test_cost_scales_and_zeros(submission):
    """Scales and zero-points are loaded for a step and a column, not for each of its rows."""
    for (m, n, k, group), block in [((5, 96, 256, 64), (16, 32, 64)), ((33, 72, 256, 128), (16, 64, 32))]:
        with interpreted(submission, trace=False) as run:
            layer(n, k, group)(submission, activations(m, k), block=block)
        times = -(-m // block[0]) * -(-group // block[2])
        run.cost("loaded", "scales").at_most(2 * times * 2 * k // group * n, "twice per row of tiles and step")
        run.cost("loaded", "qzeros").at_most(16 * times * k // group * n // 2, "a word per lane, twice")


@points(2)
def test_cost_programs_and_bytes(submission):
    """A program per tile and split, one launch or two, small blocks, nothing stored but sums and results."""
    for (m, n, k, group), block, splits in [
        ((5, 96, 256, 64), (16, 32, 64), 1),
        ((5, 96, 256, 64), (16, 32, 16), 4),
        ((33, 72, 128, 32), (32, 64, 32), 2),
        ((16, 128, 128, 128), (16, 128, 128), 1),
    ]:
        with interpreted(submission, trace=False) as run:
            layer(n, k, group)(submission, activations(m, k), block=block, splits=splits)
        run.cost("launches").exactly(1 if splits == 1 else 2, "the product, and the sum of the splits")
        tiles = -(-m // block[0]) * -(-n // block[1])
        programs = run.launches[0].programs
        require(programs == tiles * splits, "programs of the first launch", got=programs, expected=tiles * splits)
        run.cost("largest_block").at_most(16384, "16384 elements")
        run.cost("stored").at_most(2 * m * n + (4 * splits * m * n if splits > 1 else 0), "sums and results, once")
    for m in (1, 70):
        with interpreted(submission, trace=False) as run:
            layer(64, 128, 128)(submission, activations(m, 128))
        run.cost("largest_block").at_most(16384, "16384 elements, in blocks of your choice")
