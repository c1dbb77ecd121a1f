"""As in Triton's tutorial: rows and columns wrap around, only k is masked; tl.swizzle2d gives the order."""

import itertools

import triton
import triton.language as tl


@triton.jit
def _mm(a, b, bias, c, M, N, K, sam, sak, sbk, sbn, WITH_BIAS: tl.constexpr, ACT: tl.constexpr,
        BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, G: tl.constexpr):  # fmt: skip
    pid = tl.program_id(axis=0)
    across = tl.cdiv(N, BN)
    ti, tj = tl.swizzle2d(pid // across, pid % across, tl.cdiv(M, BM), across, G)
    rows = (ti * BM + tl.arange(0, BM)) % M
    cols = (tj * BN + tl.arange(0, BN)) % N
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(tl.cdiv(K, BK)):
        k = step * BK + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * sam + k[None, :] * sak, mask=k[None, :] < K, other=0.0)
        y = tl.load(b + k[:, None] * sbk + cols[None, :] * sbn, mask=k[:, None] < K, other=0.0)
        total += tl.dot(x, y, input_precision="ieee")
    rows = ti * BM + tl.arange(0, BM)
    cols = tj * BN + tl.arange(0, BN)
    if WITH_BIAS:
        total = total + tl.load(bias + cols, cols < N, 0.0).to(tl.float32)
    if ACT == 1:
        total = tl.where(total > 0, total, 0.0)
    if ACT == 2:
        total = total / (1 + tl.exp(-total))
    tl.store(c + rows[:, None] * N + cols, total.to(c.dtype.element_ty), (rows[:, None] < M) & (cols < N))


def program_tile(pid, tiles_m, tiles_n, group):
    group_index, inside = divmod(pid, group * tiles_n)
    rows = min(group, tiles_m - group_index * group)
    column, row = divmod(inside, rows)
    return group_index * group + row, column


def matmul(a, b, *, bias=None, activation="", block=(64, 64, 32), group=8):
    if activation not in ["", "relu", "silu"] or a.shape[1] != b.shape[0]:
        raise ValueError("unknown activation or shapes that do not fit")
    m, k = a.shape
    n = b.shape[1]
    bm, bn, bk = block
    c = a.new_empty((m, n))
    _mm[(triton.cdiv(m, bm) * triton.cdiv(n, bn), 1)](
        a, b, a if bias is None else bias, c, m, n, k, a.stride(0), a.stride(1), b.stride(0), b.stride(1),
        WITH_BIAS=bias is not None, ACT=["", "relu", "silu"].index(activation), BM=bm, BN=bn, BK=bk, G=group,
        num_warps=8 if bm * bn > 8192 else 4, num_stages=2,
    )  # fmt: skip
    return c


def configs(itemsize, *, smem=232448):
    found = []
    sizes = [16, 32, 64, 128]
    for m, n, k, warps, stages in itertools.product(sizes, sizes, [32, 64], [4, 8], [1, 2, 3]):
        if (m + n) * k * itemsize * stages <= smem and m * n <= 4096 * warps:
            found.append(
                {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 4, "num_warps": warps, "num_stages": stages}
            )
    return found


def prune(options, m, n, k):
    def ceiling(x):
        return max(16, 1 << (x - 1).bit_length())

    bounds = {"BLOCK_M": ceiling(m), "BLOCK_N": ceiling(n), "BLOCK_K": ceiling(k)}
    left = [option for option in options if not any(option[key] > bound for key, bound in bounds.items())]
    if left:
        return left
    return sorted(options, key=lambda o: o["BLOCK_M"] * o["BLOCK_N"])[:1]
