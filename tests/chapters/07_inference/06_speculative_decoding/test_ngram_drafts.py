"""Hidden tests: drafts from the text itself. Oracles: search over every n and position; one greedy token at a time."""

import itertools

from grader.testing import equal, given, integers, lists, points, raises, require


def brute_force(tokens, max_ngram, min_ngram, k):
    """The definition, word by word."""
    end = len(tokens)
    for n in range(min(max_ngram, end - 1), min_ngram - 1, -1):
        for start in range(end - n):
            if tokens[start : start + n] == tokens[end - n :]:
                return tokens[start + n : start + n + k]
    return []


class Counted:
    """Lives beside the submission: a text whose tokens count how often they are compared."""

    def lookup(self, prompt_lookup, values, max_ngram, min_ngram, k):
        class Token(int):
            comparisons = 0

            def __eq__(self, other):
                Token.comparisons += 1
                return int(self) == int(other)

            def __ne__(self, other):
                Token.comparisons += 1
                return int(self) != int(other)

            def __hash__(self):
                return hash(int(self))

        # Distinct objects: Python takes one object for equal to itself without asking.
        found = prompt_lookup([Token(value) for value in values], max_ngram, min_ngram, k)
        return Token.comparisons, [int(token) for token in found]


class GreedyModel:
    """A model whose next token depends on the last two tokens and the length, and a strict reader of the rules."""

    def __init__(self, next_token, prompt, n_new, window, pad, per_key=None):
        self.next_token = next_token
        self.pad, self.window, self.per_key = pad, window, per_key
        self.start = len(prompt)
        self.truth = list(prompt)
        while len(self.truth) < self.start + n_new + 40:
            self.truth.append(next_token(self.truth))
        self.limit = n_new
        self.calls = 0
        self.length, self.guess = self.start, [pad] * window

    def __call__(self, context, branches):
        self.calls += 1
        require(self.calls <= self.limit, "more calls than new tokens", got=self.calls, expected=self.limit)
        equal(list(context), self.truth[: self.length], f"context of call {self.calls}")
        require(len(branches) > 0, "no branches", got=branches)
        equal(list(branches[0]), self.guess, f"branch 0 of call {self.calls}")
        answers = [self.answer(context, list(branch)) for branch in branches]
        best = 0
        for branch, answer in zip(branches, answers, strict=True):
            a = 0
            while a < len(branch) and branch[a] == answer[a]:
                a += 1
            best = max(best, a)
        self.length += best + 1
        ahead = answers[0][best + 1 :]
        self.guess = ahead + [self.pad] * (self.window - len(ahead))
        return answers

    def answer(self, context, branch):
        text, answer = list(context), []
        for token in [*branch, None]:
            answer.append(self.next_token(text))
            text.append(token)
        return answer


def table_model(seed, vocab):
    """Next token: a fixed function of the last two tokens; some are periodic soon, some wander."""
    return lambda text: (text[-1] * (seed % 7 + 1) + (text[-2] if len(text) > 1 else 3) * (seed % 5) + seed) % vocab


@points(2)
def test_worked_lookup(submission):
    """[1,2,3,4,2,3] -> [4,2,3]; [5,1,2,9,1,2,7,1,2] -> [9,1,2]; [1,1,1] -> [1]; [7] -> []."""
    equal(submission.prompt_lookup([1, 2, 3, 4, 2, 3], 3, 2, 4), [4, 2, 3])
    equal(submission.prompt_lookup([5, 1, 2, 9, 1, 2, 7, 1, 2], 3, 1, 3), [9, 1, 2])
    equal(submission.prompt_lookup([1, 1, 1], 2, 1, 3), [1])
    equal(submission.prompt_lookup([7], 2, 1, 3), [])
    equal(submission.prompt_lookup([], 2, 1, 3), [])
    equal(submission.prompt_lookup([1, 2, 1], 1, 1, 0), [], "k = 0")
    equal(submission.prompt_lookup((1, 2, 3, 1, 2), 2, 2, 2), [3, 1], "a tuple")
    equal(submission.prompt_lookup([1, 2, 3, 9, 3], 3, 2, 2), [], "a unigram occurs, but min_ngram is 2")


@points(2)
def test_longest_beats_earliest(submission):
    """[4,1,2,8,3,1,2,6,3,1,2] with max 3, k 2 -> [6,3]: the trigram wins over the earlier bigram."""
    text = [4, 1, 2, 8, 3, 1, 2, 6, 3, 1, 2]
    equal(submission.prompt_lookup(text, 3, 1, 2), [6, 3])
    equal(submission.prompt_lookup(text, 2, 1, 2), [8, 3], "max_ngram 2: the earliest bigram")
    equal(submission.prompt_lookup(text, 1, 1, 2), [8, 3], "max_ngram 1: the earliest 2")


@points(4)
@given(
    tokens=lists(integers(0, 2), max_size=14), low=integers(1, 4), more=integers(0, 4), k=integers(0, 5), examples=30
)
def test_matches_brute_force(submission, rng, tokens, low, more, k):
    """Thousands of texts over three letters, all parameters: equal to a search over every n and position."""
    calls = [((tokens, low + more, low, k), {})]
    for _ in range(50):
        low = int(rng.integers(1, 5))
        text = rng.integers(0, int(rng.integers(1, 4)), int(rng.integers(0, 30))).tolist()
        calls.append(((text, low + int(rng.integers(0, 9)), low, int(rng.integers(0, 7))), {}))
    for (arguments, _), got in zip(calls, submission.many("prompt_lookup", calls), strict=True):
        if got != brute_force(*arguments):
            # Asked once more by itself, so that the call is shown.
            equal(submission.prompt_lookup(*arguments), brute_force(*arguments))
            equal(got, brute_force(*arguments), f"prompt_lookup{arguments}")


@points(4)
def test_lookahead_is_greedy(submission):
    """200 seeded models, windows 0, 1, 4, two pads, with and without pool: the greedy tokens, branch 0 as told."""
    for seed in range(200):
        window, pad, vocab = (0, 1, 4)[seed % 3], (0, 2)[seed % 2], (3, 5, 11)[seed // 3 % 3]
        prompt = [seed % vocab, 1, 2, 1][: seed % 4 + 1]
        n_new = seed % 12
        pool = submission.NgramPool(2 + seed % 3, 1 + seed % 2) if seed % 5 < 2 else None
        model = GreedyModel(table_model(seed, vocab), prompt, n_new, window, pad)
        tokens, calls = submission.lookahead_decode(model, prompt, n_new, window, pool, pad)
        equal(tokens, model.truth[len(prompt) :][:n_new], f"tokens, model {seed}")
        equal(calls, model.calls, "number of calls")


@points(2)
def test_never_more_calls_than_tokens(submission):
    """calls <= n_new, on a model where every guess is wrong too; n_new = 0 makes no call."""
    for window, n_new in itertools.product((0, 1, 5), (0, 1, 2, 9)):
        model = GreedyModel(lambda text: 1 + len(text) % 7, [1], n_new, window, 0)
        tokens, calls = submission.lookahead_decode(model, [1], n_new, window)
        equal(len(tokens), n_new, "number of tokens")
        require(calls <= n_new, "calls", got=calls, expected=f"at most {n_new}")
        equal(calls, model.calls, "number of calls")
        equal(submission.lookahead_decode(model, (1,), 0, window, submission.NgramPool(2, 1)), ([], 0), "n_new = 0")


@points(3)
def test_position_only_model(submission):
    """A model whose token at place i is 7 i mod 5, prompt [1, 2]: 64 tokens in 64, 39, 26, 14 calls."""
    for window, calls in ((0, 64), (1, 39), (3, 26), (7, 14)):
        model = GreedyModel(lambda text: 7 * len(text) % 5, [1, 2], 64, window, 0)
        got = submission.lookahead_decode(model, [1, 2], 64, window)
        equal(got, (model.truth[2:66], calls), f"window {window}")


@points(2)
def test_pool_pays_on_repetition(submission):
    """Next token (last + 1) mod 5, prompt [0], window 0: 60 tokens in 19 calls with NgramPool(4, 3), 60 without."""
    for pool, calls in ((submission.NgramPool(4, 3), 19), (None, 60)):
        model = GreedyModel(lambda text: (text[-1] + 1) % 5, [0], 60, 0, 0)
        equal(submission.lookahead_decode(model, [0], 60, 0, pool), (model.truth[1:61], calls))
    # The pool learns the prompt first: from there on each call yields three tokens.
    prompt = [0, 1, 2, 3, 4, 0]
    model = GreedyModel(lambda text: (text[-1] + 1) % 5, prompt, 30, 0, 0)
    equal(submission.lookahead_decode(model, prompt, 30, 0, submission.NgramPool(3, 2)), (model.truth[6:36], 10))
    # It is the caller's pool: what it knows already is used.
    pool = submission.NgramPool(4, 1)
    pool.add([0, 1, 2, 3, 4, 0, 1, 2, 3])
    model = GreedyModel(lambda text: (text[-1] + 1) % 5, [4], 8, 0, 0)
    equal(submission.lookahead_decode(model, [4], 8, 0, pool), (model.truth[1:9], 2), "a pool that was filled before")


@points(2)
def test_pool_order_and_limit(submission):
    """n 3, per_key 2: after add([1,2,3,1,4,5,1,6,7]) propose(1) is [[6,7],[4,5]]; add([1,4,5]) turns them round."""
    pool = submission.NgramPool(3, 2)
    equal(pool.propose(1), [], "an empty pool")
    pool.add([1, 2, 3, 1, 4, 5, 1, 6, 7])
    equal(pool.propose(1), [[6, 7], [4, 5]])
    pool.add([1, 4, 5])
    equal(pool.propose(1), [[4, 5], [6, 7]], "after add([1, 4, 5])")
    equal(pool.propose(2), [[3, 1]], "another token")
    equal(pool.propose(7), [], "a token that nothing follows")
    pool.add([1, 4])
    equal(pool.propose(1), [[4, 5], [6, 7]], "after a text shorter than n")
    pool.add((1, 8, 9))
    equal(pool.propose(1), [[8, 9], [4, 5]], "the oldest one goes")
    pairs = submission.NgramPool(2, 3)
    pairs.add([1, 1, 2, 1, 1, 3, 1, 4])
    equal(pairs.propose(1), [[4], [3], [1]], "n = 2, per_key = 3")


def test_stops_exactly(submission):
    """The last call may yield more than is needed: exactly n_new tokens come back, for every n_new."""
    for n_new in range(1, 12):
        model = GreedyModel(lambda text: 0, [0, 0], n_new, 4, 0)
        got = submission.lookahead_decode(model, [0, 0], n_new, 4, submission.NgramPool(2, 1))
        equal(got, ([0] * n_new, -(-n_new // 5)), f"n_new = {n_new}: five tokens a call")


def test_bad_input_raises(submission):
    """prompt_lookup: ValueError unless 1 <= min_ngram <= max_ngram and k >= 0."""
    for max_ngram, min_ngram, k in ((2, 0, 3), (2, 3, 3), (0, 0, 1), (2, 1, -1)):
        with raises(ValueError):
            submission.prompt_lookup([1, 2, 1, 2], max_ngram, min_ngram, k)


@points(2)
def test_cost_comparisons_are_linear(submission):
    """prompt_lookup compares tokens at most 4 * len(tokens) times, on repetitive texts as well."""
    counted = submission.prop(Counted)
    texts = (
        [0] * 1000,
        [0] * 1000 + [1],
        ([0] * 20 + [1]) * 50,
        ([0, 1] * 40 + [2]) * 12 + [0, 1] * 40,
        [0] * 999 + [1, 0],
    )
    for values, max_ngram in itertools.product(texts, (64, 7)):
        comparisons, found = counted.lookup(submission.prompt_lookup, values, max_ngram, 1, 5)
        equal(found, brute_force(values, max_ngram, 1, 5), "what was proposed")
        require(
            comparisons <= 4 * len(values),
            f"comparisons of tokens, {len(values)} tokens, max_ngram {max_ngram}",
            got=comparisons,
            expected=f"at most {4 * len(values)}",
        )


@points(2)
def test_cost_large_text(submission):
    """100,000 repetitive tokens and max_ngram 20,000: done within the time limit, which quadratic work is not."""
    zeros = [0] * 8
    for values, expected in (
        ([0] * 100_000, zeros),
        ([0] * 60_000 + [1] + [0] * 39_999, zeros),
        ([0, 1] * 50_000 + [1], [0, 1] * 4),
    ):
        equal(submission.prompt_lookup(values, 20_000, 1, 8), expected)


def test_cost_one_call_per_round(submission):
    """The model is called once per round, with all branches at once: the window's guess and what the pool proposes."""
    pool = submission.NgramPool(3, 2)
    pool.add([0, 5, 6, 0, 1, 2])
    seen = []
    model = GreedyModel(lambda text: (text[-1] + 1) % 5, [3, 0], 6, 2, 9)

    def recording(context, branches):
        seen.append([list(branch) for branch in branches])
        return model(context, branches)

    tokens, calls = submission.lookahead_decode(recording, [3, 0], 6, 2, pool, 9)
    equal(tokens, [1, 2, 3, 4, 0, 1], "tokens")
    equal(calls, len(seen), "calls")
    equal(seen[0], [[9, 9], [1, 2], [5, 6]], "branches of the first call")
