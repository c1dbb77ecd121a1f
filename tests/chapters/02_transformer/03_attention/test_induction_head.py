"""Hidden tests: a programmed induction head. Oracle: the behaviour itself; the transformer is run here, in float64."""

import numpy as np

from grader.testing import behaviour, points, require

MARGIN = 1.0
LARGEST = 1e6


def arrays_of(program):
    """All weights as float64, with names; shapes, limits and types checked."""
    require(len(program.layers) == 2, "layers: not exactly two heads", got=len(program.layers), expected=2)
    named = {"embed": program.embed, "position": program.position, "unembed": program.unembed}
    for number, head in enumerate(program.layers):
        for field in ("w_q", "w_k", "w_v", "w_o"):
            named[f"layers[{number}].{field}"] = getattr(head, field)
    arrays = {}
    for name, array in named.items():
        require(isinstance(array, np.ndarray), f"{name} is not a numpy array", got=type(array).__name__)
        require(array.ndim == 2, f"{name} does not have two dimensions", got=array.shape)
        require(array.dtype.kind in "fiub", f"{name} is not real", got=str(array.dtype))
        arrays[name] = array.astype(np.float64)
    return arrays


def checked_program(submission, vocab, max_len):
    """The program for these sizes, after everything that the text says about its shapes and entries."""
    arrays = arrays_of(submission.induction_program(vocab, max_len))
    d = arrays["embed"].shape[1]
    expected = {"embed": (vocab, d), "position": (max_len, d), "unembed": (d, vocab)}
    bound = 4 * (vocab + max_len)
    sizes = {"D": d}
    for layer in ("layers[0]", "layers[1]"):
        dh, dv = arrays[f"{layer}.w_q"].shape[1], arrays[f"{layer}.w_v"].shape[1]
        expected |= {f"{layer}.w_q": (d, dh), f"{layer}.w_k": (d, dh)}
        expected |= {f"{layer}.w_v": (d, dv), f"{layer}.w_o": (dv, d)}
        sizes |= {f"dh of {layer}": dh, f"dv of {layer}": dv}
    at = f"vocab {vocab}, max_len {max_len}"
    for name, shape in expected.items():
        require(arrays[name].shape == shape, f"{at}: shape of {name}", got=arrays[name].shape, expected=shape)
    for name, size in sizes.items():
        require(1 <= size <= bound, f"{at}: {name} must be 1 to 4 * (vocab + max_len) = {bound}", got=size)
    for name, array in arrays.items():
        require(bool(np.isfinite(array).all()), f"{at}: {name} holds NaN or inf")
        largest = np.abs(array).max()
        require(largest <= LARGEST, f"{at}: the largest entry of {name} is beyond 1e6", got=float(largest))
    return arrays


def run(arrays, tokens):
    """Logits (L, vocab) of the two-layer attention-only transformer, and the attention weights of its layers."""
    length = len(tokens)
    x = arrays["embed"][tokens] + arrays["position"][:length]
    causal = np.tril(np.ones((length, length), dtype=bool))
    attention = []
    for layer in ("layers[0]", "layers[1]"):
        w_q, w_k, w_v, w_o = (arrays[f"{layer}.{field}"] for field in ("w_q", "w_k", "w_v", "w_o"))
        scores = (x @ w_q) @ (x @ w_k).T / np.sqrt(w_q.shape[1])
        scores = np.where(causal, scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + (weights @ (x @ w_v)) @ w_o
        attention.append(weights)
    return x @ arrays["unembed"], attention


def looks(weights):
    """Where one query looks, in words: its largest weights."""
    order = np.argsort(-weights, kind="stable")
    return ", ".join(f"{weights[j]:.2g} to position {j}" for j in order[:3] if weights[j] >= 0.01)


def continues(arrays, tokens, vocab, max_len, at_least=0):
    """Requires the right continuation wherever the current token occurred exactly once before."""
    tokens = np.asarray(tokens)
    logits, attention = run(arrays, tokens)
    found = 0
    for t in range(len(tokens)):
        earlier = np.flatnonzero(tokens[:t] == tokens[t])
        if len(earlier) != 1:
            continue
        found += 1
        p = int(earlier[0])
        answer = int(tokens[p + 1])
        others = np.delete(logits[t], answer)
        lead = float(logits[t, answer] - others.max())
        rival = int(np.delete(np.arange(vocab), answer)[others.argmax()])
        if lead < MARGIN:
            # The weights are free, so a mistake is known by where its two layers look and which tokens come out on top.
            behaviour(
                [np.flatnonzero(attention[0][p + 1] > 0.25).tolist(), np.flatnonzero(attention[1][t] > 0.25).tolist()]
            )
            behaviour(np.flatnonzero(logits[t] > logits[t].max() - MARGIN).tolist())
        require(
            lead >= MARGIN,
            f"vocab {vocab}, max_len {max_len}, tokens {tokens.tolist()}: at position {t} the token {int(tokens[t])} "
            f"occurred exactly once before, at {p}; the logit of {answer}, which followed it, must lead by 1.0",
            got=f"a lead of {lead:.4g}, the best other token is {rival}. "
            f"Layer 2 at position {t} gives {looks(attention[1][t])}; "
            f"layer 1 at position {p + 1} gives {looks(attention[0][p + 1])}",
            expected=f"a lead of at least 1.0, with the value of position {p + 1}",
        )
    require(found >= at_least, "the test itself found too few repeats", got=found, expected=at_least)


@points(2)
def test_within_limits(submission):
    """At every size: the shapes, D, dh, dv at most 4 * (vocab + max_len), entries finite and at most 1e6."""
    for vocab, max_len in ((2, 2), (2, 64), (40, 2), (12, 24), (40, 64)):
        checked_program(submission, vocab, max_len)


@points(5)
def test_continues_repeats(submission, rng):
    """vocab 12, max_len 24, 300 random sequences: where the token occurred exactly once before, its successor leads."""
    arrays = checked_program(submission, 12, 24)
    # Short and plain ones first, so that the first failure is easy to follow by hand.
    for tokens in ([1, 2, 3, 1], [3, 1, 2, 1], [5, 4, 6, 4, 5, 6]):
        continues(arrays, tokens, 12, 24, at_least=1)
    for length in sorted(rng.integers(3, 25, size=300)):
        continues(arrays, rng.integers(0, 12, size=length), 12, 24)


@points(3)
def test_first_token_repeats(submission):
    """The earlier occurrence is at position 0, for every token, 0 included: position 0 follows nothing."""
    arrays = checked_program(submission, 12, 24)
    for token in range(12):
        rest = [other for other in range(12) if other != token]
        for gap in (1, 2, 5, 11):
            continues(arrays, [token, *rest[:gap], token], 12, 24, at_least=1)


@points(2)
def test_adjacent_repeats(submission, rng):
    """The token just before is the earlier occurrence, so the answer is the current token itself."""
    arrays = checked_program(submission, 12, 24)
    for token in range(12):
        continues(arrays, [token, token], 12, 24, at_least=1)
        before = rng.permutation([other for other in range(12) if other != token])
        continues(arrays, [*before[:4], token, token], 12, 24, at_least=1)


@points(3)
def test_other_sizes(submission, rng):
    """vocab 2 to 40 and max_len 2 to 64: the margin does not shrink with size."""
    for vocab, max_len in ((2, 2), (2, 64), (40, 2), (3, 7), (7, 3), (17, 33), (40, 64)):
        arrays = checked_program(submission, vocab, max_len)
        for length in sorted(rng.integers(2, max_len + 1, size=40)):
            continues(arrays, rng.integers(0, vocab, size=length), vocab, max_len)
        if vocab + 1 <= max_len:
            once = rng.permutation(vocab)
            continues(arrays, [*once, once[0]], vocab, max_len, at_least=1)
    # As many different tokens between the two occurrences as there can be.
    once = rng.permutation(40)
    continues(checked_program(submission, 40, 64), [*once, *once[:24]], 40, 64, at_least=24)


@points(2)
def test_full_length(submission, rng):
    """The last position of a sequence of max_len tokens works as any other."""
    for vocab, max_len in ((12, 24), (30, 64), (40, 17)):
        arrays = checked_program(submission, vocab, max_len)
        for earlier in (0, 1, max_len // 2, max_len - 2):
            tokens = rng.integers(1, vocab, size=max_len)
            tokens[earlier] = tokens[-1] = 0
            continues(arrays, tokens, vocab, max_len, at_least=1)


@points(3)
def test_random_patterns(submission, rng):
    """A block of distinct tokens, written twice, is continued throughout the second copy."""
    for vocab, max_len in ((12, 24), (40, 64)):
        arrays = checked_program(submission, vocab, max_len)
        for size in (1, 2, 5, 12):
            for _ in range(10):
                block = rng.permutation(vocab)[:size]
                continues(arrays, [*block, *block], vocab, max_len, at_least=size)
