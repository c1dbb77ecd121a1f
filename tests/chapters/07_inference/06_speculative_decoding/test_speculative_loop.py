"""Hidden tests: the whole loop. Oracles: target-only decoding and exact path probabilities of a hash model."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.testing import equal, frequencies_match, points, require


class HashModel:
    """Lives beside the submission. Any stale or missing cache entry changes every later distribution."""

    memo = {}  # noqa: RUF012

    def __init__(self, vocab_size, seed, kind="smooth"):
        self.vocab_size = vocab_size
        self.log = []
        self._seed, self._kind = seed, kind
        self._cache = []

    @property
    def length(self):
        return len(self._cache)

    def forward(self, tokens):
        import numpy as np

        tokens = [int(token) for token in tokens]
        if not tokens:
            raise ValueError("forward needs at least one token")
        self.log.append(tokens)
        rows = []
        for token in tokens:
            self._cache.append(token)
            rows.append(self.row(tuple(self._cache)))
        return np.stack(rows)

    def truncate(self, n):
        if not 0 <= n <= len(self._cache):
            raise ValueError(f"{len(self._cache)} tokens are cached: cannot keep {n}")
        self.log.append(int(n))
        del self._cache[n:]

    def row(self, cached):
        import zlib

        import numpy as np

        key = (self.vocab_size, self._seed, self._kind, cached)
        if key not in HashModel.memo:
            rng = np.random.default_rng(zlib.crc32(repr((self._seed, cached)).encode()))
            weights = rng.dirichlet(np.ones(self.vocab_size))
            if self._kind == "coarse":  # ties and zeros
                weights = rng.integers(0, 3, self.vocab_size).astype(np.float64)
                weights[rng.integers(self.vocab_size)] = 2.0
            HashModel.memo[key] = weights / weights.sum()
        return HashModel.memo[key]

    def make(self, settings):
        """Fresh models."""
        return [HashModel(*setting) for setting in settings]

    def states(self, models):
        """What was asked of each model, and what its cache holds now."""
        return [(model.log, model._cache) for model in models]

    def outcomes(self, generate, draft_seed, prompt, max_new, k, seed, runs):
        """How often each text comes out of many runs with fresh caches; a text as its tokens joined by spaces."""
        import numpy as np

        rng = np.random.default_rng(seed)
        counts = {}
        for _ in range(runs):
            target = HashModel(self.vocab_size, self._seed)
            draft = HashModel(self.vocab_size, draft_seed)
            tokens = generate(target, draft, list(prompt), max_new, k, rng).tokens
            text = " ".join(str(int(token)) for token in tokens)
            counts[text] = counts.get(text, 0) + 1
        return counts


@dataclass(frozen=True)
class Case:
    """One run: two models with fresh caches, and the arguments of generate."""

    vocab: int
    seed: int  # of the target
    draft_seed: int
    prompt: list[int]
    max_new: int
    k: int
    kind: str = "smooth"
    eos: int | None = None
    greedy: bool = False
    rng: int = 0

    def __str__(self):
        return (
            f"target {self.seed}, draft {self.draft_seed}, k = {self.k}, max_new = {self.max_new}, eos_id = {self.eos}"
        )


@dataclass(frozen=True)
class Run:
    """What came of it. A log holds lists of fed tokens, and numbers n of truncate(n)."""

    result: Any
    target_log: list
    target_cache: list[int]
    draft_log: list
    draft_cache: list[int]

    def forwards(self, log):
        return [entry for entry in log if not isinstance(entry, int)]


def play(submission, cases, ask):
    """The runs of all cases, in few messages."""
    desk = submission.prop(HashModel, 2, 0)
    models = desk.make([(case.vocab, seed, case.kind) for case in cases for seed in (case.seed, case.draft_seed)])
    calls = [
        (
            (*models[2 * i : 2 * i + 2], case.prompt, case.max_new, case.k, np.random.default_rng(case.rng)),
            {"eos_id": case.eos, "greedy": case.greedy},
        )
        for i, case in enumerate(cases)
    ]
    results = ask(calls)
    states = desk.states(models)
    return [Run(result, *states[2 * i], *states[2 * i + 1]) for i, result in enumerate(results)]


def for_each(submission, cases, verify):
    """Runs all cases at once. The one that fails is run again by itself, so that its call is the one that is shown."""

    def alone(calls):
        return [submission.generate(*calls[0][0], **calls[0][1])]

    try:
        runs = play(submission, cases, lambda calls: submission.many("generate", calls))
    except Exception:
        if len(cases) == 1:
            play(submission, cases, alone)
        else:
            for_each(submission, cases[: len(cases) // 2], verify)
            for_each(submission, cases[len(cases) // 2 :], verify)
        raise
    for case, run in zip(cases, runs, strict=True):
        try:
            verify(case, run)
        except Exception:
            verify(case, *play(submission, [case], alone))
            raise


def greedy_text(vocab, seed, prompt, n, kind="smooth", eos=None):
    """Target-only greedy decoding."""
    model, text = HashModel(vocab, seed, kind), list(prompt)
    while len(text) < len(prompt) + n and (len(text) == len(prompt) or text[-1] != eos):
        text.append(int(model.row(tuple(text)).argmax()))
    return text[len(prompt) :]


def path_probabilities(vocab, seed, prompt, n):
    """The probability of every text of n tokens."""
    model = HashModel(vocab, seed)
    result = {}
    for path in itertools.product(range(vocab), repeat=n):
        text, probability = list(prompt), 1.0
        for token in path:
            probability *= float(model.row(tuple(text))[token])
            text.append(token)
        result[" ".join(map(str, path))] = probability
    return result


def fed(log):
    """Everything that was fed to a model: the whole cache behind each fed token, token by token."""
    cache, states = [], []
    for entry in log:
        if isinstance(entry, int):
            del cache[entry:]
            continue
        for token in entry:
            cache.append(token)
            states.append(tuple(cache))
    return states


def check_caches(case, run):
    text = [*case.prompt, *run.result.tokens]
    if run.result.tokens:
        equal(run.target_cache, text[:-1], f"{case}: the target's cache at the end")
    equal(run.draft_cache, text[: len(run.draft_cache)], f"{case}: the draft's cache at the end")


def settings():
    """Runs of every sort."""
    for seed, k in itertools.product(range(6), range(6)):
        vocab, kind = ((5, "smooth"), (4, "coarse"), (2, "smooth"))[(seed + k) % 3]
        yield Case(
            vocab,
            seed,
            seed if (seed + k) % 4 == 0 else seed + 1000,
            [0, 1, 1, 0, 1][: (seed + k) % 5 + 1],
            11,
            k,
            kind,
            (seed + k) % vocab if seed % 2 else None,
            (seed + k) % 2 == 0,
            7 * seed + k,
        )


@points(4)
def test_greedy_equals_target(submission):
    """20 seeded models, k = 0 ... 5, drafts good and bad, ties included: the tokens of target-only greedy decoding."""
    cases = []
    for seed, k in itertools.product(range(20), range(6)):
        vocab, kind = ((7, "smooth"), (4, "coarse"), (2, "smooth"))[(seed + k) % 3]
        prompt = [1, 0, 1, 1][: (seed + k) % 4 + 1]
        cases.append(Case(vocab, seed, seed if seed % 4 == 1 else seed + 100, prompt, 9, k, kind, greedy=True))

    def verify(case, run):
        result = run.result
        equal(result.tokens, greedy_text(case.vocab, case.seed, case.prompt, 9, case.kind), str(case))
        equal(len(result.accepted), len(result.drafted), f"{case}: rounds in accepted and in drafted")
        equal(sum(result.accepted) + len(result.accepted), 9, f"{case}: accepted tokens plus one a round")

    for_each(submission, cases, verify)


@points(4)
def test_distribution_is_exact(submission, rng):
    """3 tokens, vocabulary 3, k = 2, 4,000 runs: the 27 texts as often as the target says (false alarm 1e-6)."""
    for target_seed, draft_seed, prompt in ((3, 40, [2, 0]), (8, 9, [1])):
        counter = submission.prop(HashModel, 3, target_seed)
        counts = counter.outcomes(submission.generate, draft_seed, prompt, 3, 2, int(rng.integers(2**32)), 2000)
        frequencies_match(counts, path_probabilities(3, target_seed, prompt, 3), false_alarm=5e-7)


@points(2)
def test_joint_over_rounds(submission, rng):
    """max_new 3, k 1, 2,000 runs: texts that cross the border of two rounds are as frequent as the target says."""
    counter = submission.prop(HashModel, 3, 5)
    counts = counter.outcomes(submission.generate, 77, [0, 1], 3, 1, int(rng.integers(2**32)), 2000)
    frequencies_match(counts, path_probabilities(3, 5, [0, 1], 3))


@points(2)
def test_perfect_draft(submission):
    """Draft equal to target, k = 3, 20 new tokens: 5 rounds with accepted [3, 3, 3, 3, 3], greedy or not."""

    def verify(case, run):
        equal(run.result.accepted, [3] * 5, f"{case}: accepted")
        equal(run.result.drafted, [3] * 5, f"{case}: drafted")
        equal(len(run.result.tokens), 20, f"{case}: tokens")

    cases = [Case(6, seed, seed, [1, 2], 20, 3, greedy=seed % 3 == 2, rng=seed) for seed in range(6)]
    for_each(submission, cases, verify)


def test_k_zero_is_plain_decoding(submission):
    """k = 0 never calls the draft, and each round settles one token."""

    def verify(case, run):
        equal(run.forwards(run.draft_log), [], "forward calls of the draft model")
        equal((run.result.accepted, run.result.drafted), ([0] * 7, [0] * 7), "accepted and drafted")
        check_caches(case, run)

    for_each(submission, [Case(4, 11, 12, [3, 1], 7, 0, greedy=greedy) for greedy in (False, True)], verify)


@points(3)
def test_eos_inside_a_run(submission):
    """EOS among accepted tokens: the output ends with it, `accepted` counts the whole run, caches are cut back."""
    seed = next(s for s in range(99) if len(set(greedy_text(9, s, [1, 2], 5))) == 5)
    text = greedy_text(9, seed, [1, 2], 5)

    def in_a_run(case, run):
        equal(run.result.tokens, text[: text.index(case.eos) + 1], f"tokens; EOS is token {text.index(case.eos)} of 5")
        equal((run.result.accepted, run.result.drafted), ([4], [4]), "accepted and drafted")
        check_caches(case, run)

    for_each(submission, [Case(9, seed, seed, [1, 2], 10, 4, eos=eos, greedy=True) for eos in text], in_a_run)

    def anywhere(case, run):
        equal(run.result.tokens, greedy_text(4, case.seed, case.prompt, 8, eos=case.eos), f"{case}: tokens")
        check_caches(case, run)

    cases = []
    for seed in range(40):
        prompt = [seed % 4, 1, 2][: seed % 3 + 1]  # EOS may stand in the prompt, where it means nothing
        draft_seed = seed if seed % 2 else seed + 50
        cases.append(Case(4, seed, draft_seed, prompt, 8, seed % 5, eos=seed % 4, greedy=True))
    for_each(submission, cases, anywhere)


@points(2)
def test_never_overshoots(submission):
    """Exactly max_new tokens without EOS; drafts are min(k, max_new - produced - 1); max_new 0 calls nothing."""

    def verify(case, run):
        result, produced = run.result, 0
        equal(len(result.tokens), case.max_new, f"{case}: number of tokens")
        for accepted, drafted in zip(result.accepted, result.drafted, strict=True):
            equal(drafted, min(case.k, case.max_new - produced - 1), f"{case}: drafted after {produced} tokens")
            require(0 <= accepted <= drafted, f"{case}: accepted", got=accepted, expected=f"0 to {drafted}")
            produced += accepted + 1
        equal(produced, case.max_new, f"{case}: accepted tokens plus one a round")
        if case.max_new == 0:
            equal(run.forwards(run.target_log + run.draft_log), [], "forward calls for max_new = 0")

    cases = [
        Case(3, max_new + k, (max_new + k) if k == 3 else 90, [1, 0], max_new, k, greedy=greedy)
        for max_new, k, greedy in itertools.product((0, 1, 2, 5, 6), (0, 1, 3, 8), (False, True))
    ]
    for_each(submission, cases, verify)


@points(3)
def test_caches_end_consistent(submission):
    """At the end the target has cached all but the last token, the draft a prefix: true tokens, in every setting."""

    def verify(case, run):
        tokens = run.result.tokens
        check_caches(case, run)
        equal(len(run.target_cache), len(case.prompt) + len(tokens) - 1, f"{case}: target.length")
        if case.eos is not None:
            require(case.eos not in tokens[:-1], f"{case}: tokens after EOS", got=tokens)
        if case.eos is None or tokens[-1] != case.eos:
            equal(len(tokens), case.max_new, f"{case}: number of tokens")

    for_each(submission, list(settings()), verify)


def test_one_token_prompt(submission):
    """A prompt of one token works: nothing is there to be processed before the first round."""

    def verify(case, run):
        equal(run.result.tokens, greedy_text(5, case.seed, [4], 6), f"{case}: tokens")
        check_caches(case, run)

    cases = [Case(5, seed, seed + 7, [4], 6, k, greedy=True) for seed in range(3) for k in (0, 1, 4)]
    for_each(submission, cases, verify)


@points(2)
def test_cost_target(submission):
    """target.forward: at most rounds + 1 calls, and at most len(prompt) + sum(drafted) + rounds tokens in all."""

    def verify(case, run):
        calls, rounds = run.forwards(run.target_log), len(run.result.drafted)
        require(len(calls) <= rounds + 1, f"{case}: target calls", got=len(calls), expected=f"at most {rounds + 1}")
        seen, limit = sum(map(len, calls)), len(case.prompt) + sum(run.result.drafted) + rounds
        require(seen <= limit, f"{case}: tokens fed to the target", got=seen, expected=f"at most {limit}")

    for_each(submission, list(settings()), verify)


@points(2)
def test_cost_draft(submission):
    """The draft: at most sum(drafted) + 1 calls, and no settled token that its cache held is fed to it again."""

    def verify(case, run):
        calls, limit = len(run.forwards(run.draft_log)), sum(run.result.drafted) + 1
        require(calls <= limit, f"{case}: draft calls", got=calls, expected=f"at most {limit}")
        # A token fed behind the true text is settled if it is in the text itself; a second time is once too many.
        text = (*case.prompt, *run.result.tokens)
        true = [len(state) for state in fed(run.draft_log) if state == text[: len(state)]]
        twice = sorted({place - 1 for place in true if true.count(place) > 1})
        require(not twice, f"{case}: places of settled tokens that the draft was fed twice", got=twice, expected=[])

    for_each(submission, list(settings()), verify)


def test_randomness_comes_from_rng(submission):
    """The same generator state gives the same text; different ones give different texts."""
    cases = [Case(50, 1, 2, [1, 2], 16, 3, rng=seed) for seed in (0, 0, 1, 2)]
    runs = play(submission, cases, lambda calls: submission.many("generate", calls))
    texts = [run.result.tokens for run in runs]
    equal(texts[1], texts[0], "the same seed again")
    require(texts[2] != texts[0] and texts[3] != texts[2], "other seeds give the same text", got=texts[2])
