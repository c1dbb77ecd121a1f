"""Hidden tests: token trees. Oracles: attention along each root path alone, greedy decoding, lists by hand."""

import itertools
import math

import torch

from grader.testing import close, equal, fresh, given, integers, points, raises, require, sampled_from

PATHS = [(0,), (0, 0), (1,), (0, 1), (0, 0, 0), (1, 0)]
PARENTS = [-1, 0, 0, 1, 1, 2, 3]
TOKENS = [9, 5, 7, 3, 5, 2, 8]


def grow(rng, n, bushy=True):
    """Random parents of n nodes."""
    return [-1] + [int(rng.integers(0 if bushy else max(0, i - 3), i)) for i in range(1, n)]


def path_to(parents, node):
    """Nodes from the root to `node`."""
    path = []
    while node >= 0:
        path.append(node)
        node = parents[node]
    return path[::-1]


def rotate(x, positions):
    """Rotary embedding of x (n, d) at integer positions."""
    half = x.shape[-1] // 2
    frequency = 100.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angle = torch.tensor(positions, dtype=torch.float64)[:, None] * frequency
    a, b = x[:, :half], x[:, half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], 1)


def attend(q, k, v, mask):
    scores = (q @ k.T / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def greedy_token(text):
    """The next token of a model that is a function of all its text, over three tokens."""
    state = 7
    for token in text:
        state = (state * 31 + token * 17 + 11) % 1009
    return state % 3


@points(3)
def test_worked_tree(submission):
    """Six paths of Medusa's, in any order and one of them twice: parents, depths, leaves."""
    for paths in (PATHS, PATHS[::-1], [*PATHS, (0, 1), (1,)], tuple(PATHS)):
        equal(submission.tree_from_paths(paths), PARENTS, f"tree_from_paths({paths})")
    equal(submission.depths(PARENTS), [0, 1, 1, 2, 2, 2, 3], "depths")
    leaves = torch.tensor([[0, 1, 4, -1], [0, 2, 5, -1], [0, 1, 3, 6]])
    equal(submission.retrieve_indices(PARENTS), leaves, "retrieve_indices")
    equal(submission.tree_from_paths([]), [-1], "no paths")
    equal(submission.depths([-1]), [0], "depths of a root alone")
    equal(submission.retrieve_indices([-1]), torch.tensor([[0]]), "a root alone is a leaf")
    equal(submission.tree_from_paths([(10,), (2,), (2, 11), (2, 3)]), [-1, 0, 0, 1, 1], "ranks are numbers")


@points(2)
def test_worked_verify(submission):
    """On that tree: tokens [9, 5, 7, 3, 5, 2, 8], argmax [5, 3, 0, 8, 0, 0, 6] -> [1, 3, 6], bonus 6."""
    equal(submission.verify_greedy(PARENTS, TOKENS, [5, 3, 0, 8, 0, 0, 6]), ([1, 3, 6], 6))
    equal(submission.verify_greedy(PARENTS, TOKENS, [1, 3, 0, 8, 0, 0, 6]), ([], 1), "argmax[0] = 1")
    equal(submission.verify_greedy(PARENTS, TOKENS, [7, 3, 2, 8, 0, 4, 6]), ([2, 5], 4), "argmax[0] = 7")
    equal(submission.verify_greedy(PARENTS, TOKENS, [5, 1, 0, 8, 0, 0, 6]), ([1], 1), "a path that matches in part")
    equal(submission.verify_greedy([-1], [4], [2]), ([], 2), "a root alone")


@points(4)
@given(n=integers(1, 20), prefix_len=sampled_from((0, 1, 5, 17)), bushy=sampled_from((True, False)), examples=15)
def test_mask_equals_separate_paths(submission, rng, n, prefix_len, bushy):
    """With tree_mask and positions prefix + depth, each node gets what causal attention gives on its own path alone."""
    parents = grow(rng, n, bushy)
    total, d = prefix_len + n, 8
    q, k, v = (torch.from_numpy(rng.standard_normal((total, d))) for _ in range(3))
    positions = [*range(prefix_len), *(prefix_len + depth for depth in submission.depths(parents))]
    mask = submission.tree_mask(parents, prefix_len)
    require(mask.dtype == torch.bool, "dtype of the mask", got=mask.dtype, expected=torch.bool)
    equal(tuple(mask.shape), (n, total), "shape of the mask")
    out = attend(rotate(q, positions)[prefix_len:], rotate(k, positions), v, mask)
    for node in range(n):
        rows = [*range(prefix_len), *(prefix_len + i for i in path_to(parents, node))]
        chain = list(range(len(rows)))
        alone = attend(rotate(q[rows], chain)[-1:], rotate(k[rows], chain), v[rows], torch.ones(1, len(rows)).bool())
        close(out[node], alone[0], 1e-9, what=f"output of node {node}, parents {parents}")


def test_mask_shape_and_prefix(submission, rng):
    """Prefix lengths 0 and 7: prefix columns all True, and row i has depth + 1 True columns among the nodes."""
    for prefix_len, n in itertools.product((0, 7), (1, 2, 9, 17)):
        parents = grow(rng, n)
        mask = submission.tree_mask(parents, prefix_len)
        equal(tuple(mask.shape), (n, prefix_len + n), "shape")
        require(bool(mask[:, :prefix_len].all()), "a prefix column is not True", got=mask)
        counts = mask[:, prefix_len:].sum(1).tolist()
        equal(counts, [len(path_to(parents, i)) for i in range(n)], f"nodes that each node sees, parents {parents}")


def test_chain_is_causal(submission):
    """A chain of n nodes gives the lower triangular mask, and depths 0, 1, 2, ..."""
    for n in (1, 2, 15, 16, 17):
        chain = list(range(-1, n - 1))
        equal(submission.tree_mask(chain, 0), torch.ones(n, n).tril().bool(), f"n = {n}")
        equal(submission.depths(chain), list(range(n)), "depths")
        equal(submission.retrieve_indices(chain), torch.arange(n)[None], "retrieve_indices")


@given(n=integers(1, 25), bushy=sampled_from((True, False)))
def test_structure_of_random_trees(submission, rng, n, bushy):
    """depths and retrieve_indices of random trees: all paths to leaves, in the order of the leaves."""
    parents = grow(rng, n, bushy)
    paths = [path_to(parents, i) for i in range(n)]
    equal(submission.depths(parents), [len(path) - 1 for path in paths], "depths")
    width = max(map(len, paths))
    rows = [path + [-1] * (width - len(path)) for i, path in enumerate(paths) if i not in parents]
    equal(submission.retrieve_indices(parents), torch.tensor(rows), "retrieve_indices")


@points(4)
@given(
    n=integers(1, 30), seed=integers(0, 2**32 - 1), right=sampled_from((0.3, 0.7)), bushy=sampled_from((True, False))
)
def test_tree_equals_chain_result(submission, rng, n, seed, right, bushy):
    """Random trees over a seeded model: what is emitted is the greedy text, and no longer path of it is in the tree."""
    parents = grow(rng, n, bushy)
    text = [seed % 1009, 1, 2]
    tokens, argmax, contexts = [2], [greedy_token(text)], [text]
    for node in range(1, n):
        best = argmax[parents[node]]
        tokens.append(best if rng.random() < right else int(rng.integers(3)))
        contexts.append(contexts[parents[node]] + [tokens[node]])
        argmax.append(greedy_token(contexts[node]))
    accepted, bonus = submission.verify_greedy(parents, tokens, argmax)
    greedy = list(text)
    for _ in range(len(accepted) + 1):
        greedy.append(greedy_token(greedy))
    equal([*(tokens[node] for node in accepted), bonus], greedy[3:], "emitted tokens")
    # By the rule: the first child that matches, again and again.
    current, walk = 0, []
    while children := [i for i in range(n) if parents[i] == current and tokens[i] == argmax[current]]:
        current = children[0]
        walk.append(current)
    equal(accepted, walk, "accepted nodes")


@points(2)
def test_compaction(submission):
    """kv rows of accepted [1, 3, 6] behind 4 prefix rows are rows 0 ... 3, 4, 5, 7, 10, in memory of their own."""
    cases = (
        (4, [1, 3, 6], [0, 1, 2, 3, 4, 5, 7, 10]),
        (4, [], [0, 1, 2, 3, 4]),  # a prefix of the rows, yet it must not be a view of them
        (4, [1, 2], [0, 1, 2, 3, 4, 5, 6]),
        (0, [2], [0, 2]),
    )
    for shape in ((12, 3), (2, 12, 3), (2, 5, 12, 1)):
        for prefix_len, accepted, rows in cases:
            kv = torch.randn(shape)
            got = submission.compact_kv(kv, prefix_len, accepted)
            equal(got, kv[..., rows, :], f"kv {shape}, prefix {prefix_len}, accepted {accepted}")
            fresh(got)
    kv = torch.randn(2, 3, 12).half().transpose(1, 2)
    equal(submission.compact_kv(kv, 3, (2, 5)), kv[..., [0, 1, 2, 3, 5, 8], :], "float16, strided")


def test_duplicate_siblings(submission):
    """Two siblings with the matching token: the lower index is followed, even where the other would lead further."""
    equal(submission.verify_greedy([-1, 0, 0, 1, 2], [0, 4, 4, 7, 5], [4, 5, 5, 0, 6]), ([1], 5))
    equal(submission.verify_greedy([-1, 0, 0, 1, 2], [0, 4, 4, 5, 5], [4, 5, 5, 6, 0]), ([1, 3], 6))
    equal(submission.verify_greedy([-1, 0, 0, 0], [0, 3, 4, 4], [4, 0, 8, 9]), ([2], 8), "not the first child")


@points(3)
def test_select_keeps_a_tree(submission, rng):
    """Worked: probabilities 0.6 0.3 0.5 0.3 0.4 0.9, budget 4 -> kept [0, 1, 2, 3, 6]. Random trees with ties."""
    logp = [0.0, *(math.log(p) for p in (0.6, 0.3, 0.5, 0.3, 0.4, 0.9))]
    equal(submission.select_tree(PARENTS, logp, 4), ([0, 1, 2, 3, 6], [-1, 0, 0, 1, 3]))
    equal(submission.select_tree(PARENTS, [-50.0, *logp[1:]], 4)[0], [0, 1, 2, 3, 6], "logp[0] is ignored")
    equal(submission.select_tree(PARENTS, logp, 0), ([0], [-1]), "budget 0")
    equal(submission.select_tree(PARENTS, logp, 99), (list(range(7)), PARENTS), "a budget for all")
    equal(submission.select_tree(PARENTS, [0.0] * 7, 3), ([0, 1, 2, 3], [-1, 0, 0, 1]), "all equal: lower indices")
    for n, budget in itertools.product((2, 9, 30), (1, 4, 12)):
        parents = grow(rng, n)
        # Eighths: sums are exact in any order, and ties are many.
        logp = [-float(x) / 8 for x in rng.integers(0, 9, n)]
        value = [sum(logp[i] for i in path_to(parents, node)[1:]) for node in range(n)]
        ranked = sorted(range(1, n), key=lambda node, value=value: (-value[node], node))
        kept = sorted([0, *ranked[:budget]])
        expected = [-1 if old == 0 else kept.index(parents[old]) for old in kept]
        equal(submission.select_tree(parents, logp, budget), (kept, expected), f"parents {parents}, logp {logp}")


def test_missing_parent_raises(submission):
    """Paths without their parent, and an empty path, raise ValueError."""
    for paths in ([(0,), (1, 0)], [(0, 0)], [(0,), (0, 0, 0)], [()], [(0,), ()]):
        with raises(ValueError):
            submission.tree_from_paths(paths)
