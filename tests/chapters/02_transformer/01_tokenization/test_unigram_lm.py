"""Hidden tests: the unigram language model. Oracle: enumeration of all segmentations."""

import math
import random
from collections import Counter

from grader.testing import (
    close,
    equal,
    executed_lines,
    given,
    growth,
    integers,
    needs,
    points,
    raises,
    require,
)
from grader.testing.costs import Cost


def logs(probabilities):
    return {piece: math.log(p) for piece, p in probabilities.items()}


TENDS = logs(
    {"t": 0.08, "e": 0.07, "n": 0.05, "d": 0.05, "s": 0.05, "te": 0.15}
    | {"ten": 0.1, "end": 0.2, "en": 0.1, "nd": 0.05, "ds": 0.1}
)


class CountingLogProbs(dict):
    """Counts the look-ups. It lives beside the submission and holds no secret."""

    looked_up = 0

    def __getitem__(self, piece):
        self.looked_up += 1
        return super().__getitem__(piece)

    def __contains__(self, piece):
        self.looked_up += 1
        return super().__contains__(piece)

    def get(self, piece, default=None):
        self.looked_up += 1
        return super().get(piece, default)


def segmentations(text, logp, unk_logp=None):
    """All of them, as (pieces, score)."""
    if not text:
        return [([], 0.0)]
    found = []
    for end in range(1, len(text) + 1):
        score = logp.get(text[:end], unk_logp if end == 1 else None)
        if score is not None:
            found += [
                ([text[:end], *pieces], score + rest) for pieces, rest in segmentations(text[end:], logp, unk_logp)
            ]
    return found


def enumerated(text, logp):
    """(expected counts, log of the total probability)"""
    found = segmentations(text, logp)
    total = math.fsum(math.exp(score) for _, score in found)
    counts = Counter()
    for pieces, score in found:
        for piece in pieces:
            counts[piece] += math.exp(score) / total
    return counts, math.log(total)


def random_model(longest=4, alphabet="abc", pieces=12):
    """Log probabilities of all letters and some longer pieces; they sum to 1."""
    weights = {letter: random.uniform(0.05, 1.0) for letter in alphabet}
    for _ in range(pieces):
        piece = "".join(random.choices(alphabet, k=random.randint(2, longest)))
        weights[piece] = random.uniform(0.05, 3.0)
    total = sum(weights.values())
    return logs({piece: weight / total for piece, weight in weights.items()})


def random_text(low, high, alphabet="abc"):
    return "".join(random.choices(alphabet, k=random.randint(low, high)))


def is_best(result, text, logp, unk_logp=None):
    """Requires a segmentation of the text with the score that it says, and no better one."""
    require(isinstance(result, tuple) and len(result) == 2, "not a tuple (pieces, score)", got=result)
    pieces, score = result
    require(isinstance(pieces, list), "the pieces are no list", got=pieces)
    found = segmentations(text, logp, unk_logp)
    close(score, max(s for _, s in found), 1e-9, atol=1e-12, what="score")
    close(
        score,
        {tuple(p): s for p, s in found}.get(tuple(pieces), math.nan),
        1e-9,
        atol=1e-12,
        what="the pieces' own score",
    )


def counts_are(result, text, logp):
    """Requires the expected counts and the total probability; a piece that is never used may be missing."""
    require(isinstance(result, tuple) and len(result) == 2, "not a tuple (counts, log of the total)", got=result)
    counts, total = result
    expected, log_total = enumerated(text, logp)
    close(total, log_total, 1e-9, atol=1e-12, what="log of the total probability")
    require(
        isinstance(counts, dict) and set(expected) <= set(counts),
        "a piece is missing",
        got=counts,
        expected=dict(expected),
    )
    for piece, count in counts.items():
        close(count, expected.get(piece, 0.0), 1e-9, atol=1e-12, what=f"expected count of {piece!r}")


@points(2)
def test_worked_example(submission):
    """'tends' has 11 segmentations: the best is ten, ds; total probability 0.01305645; three expected counts."""
    pieces, score = submission.viterbi("tends", TENDS)
    equal(pieces, ["ten", "ds"], what="pieces")
    close(score, -4.605170185988091, 1e-9, what="score")
    counts, total = submission.expected_counts("tends", TENDS)
    close(math.exp(total), 0.01305645, 1e-9, what="total probability")
    for piece, expected in (("ten", 0.7850526), ("ds", 0.8867648), ("end", 0.0612724)):
        close(counts.get(piece), expected, 1e-6, what=f"expected count of {piece!r}")
    equal(submission.viterbi("", TENDS), ([], 0.0))
    counts_are(submission.expected_counts("", TENDS), "", TENDS)


@points(3)
@given(seed=integers(0, 10**6), examples=40)
def test_small_models(submission, seed):
    """Random models and words of up to 8 characters: score, total and every expected count by enumeration."""
    draw = random.Random(seed)
    size = 1 + seed % 8
    logp = logs(
        {"a": 0.2, "b": 0.1} | {"".join(draw.choices("ab", k=draw.randint(1, 4))): draw.random() for _ in range(6)}
    )
    text = "".join(draw.choices("ab", k=size))
    is_best(submission.viterbi(text, logp), text, logp)
    counts_are(submission.expected_counts(text, logp), text, logp)


@points(3)
def test_equals_enumeration(submission):
    """200 random vocabularies and words up to 12 characters: score, total and every expected count to 1e-9."""
    cases = []
    for _ in range(200):
        logp = random_model(random.randint(2, 5), random.choice(["ab", "abc", "aé日"]), random.randint(0, 14))
        cases.append((random_text(1, 12, [piece for piece in logp if len(piece) == 1]), logp))
    cases.sort(key=lambda case: len(case[0]))
    best = submission.many("viterbi", [(case, {}) for case in cases])
    counts = submission.many("expected_counts", [(case, {}) for case in cases])
    for (text, logp), found, uses in zip(cases, best, counts, strict=True):
        is_best(found, text, logp)
        counts_are(uses, text, logp)


@points(1)
def test_covers_each_character_once(submission):
    """The sum over pieces of expected count times length is the length of the text."""
    for _ in range(10):
        logp = random_model()
        text = random_text(1, 60)
        counts, _ = submission.expected_counts(text, logp)
        close(float(sum(count * len(piece) for piece, count in counts.items())), float(len(text)), 1e-9)


@points(1)
def test_greedy_is_not_viterbi(submission):
    """'abcd' is ab, cd although abc is longer; and ab, c, d where that is better."""
    logp = logs({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.15, "ab": 0.2, "abc": 0.05, "cd": 0.3})
    equal(submission.viterbi("abcd", logp)[0], ["ab", "cd"])
    # Neither the longest piece first nor the most probable one.
    equal(
        submission.viterbi("abcd", logs({"a": 0.4, "abc": 0.05, "d": 0.001, "bcd": 0.1, "b": 0.01, "c": 0.01}))[0],
        ["a", "bcd"],
    )
    equal(submission.viterbi("abc", logs({"a": 0.5, "b": 0.01, "c": 0.01, "ab": 0.1, "bc": 0.001}))[0], ["ab", "c"])


@points(2)
def test_long_text_does_not_underflow(submission):
    """2,500 characters: the log probability is finite, and the expected counts still cover all of them."""
    text = "".join(random.choices("tends", k=2500))
    counts, total = submission.expected_counts(text, TENDS)
    require(-1e5 < total < 0.0, "the log of the total probability", got=total, expected="a finite negative number")
    close(float(sum(count * len(piece) for piece, count in counts.items())), 2500.0, 1e-6, what="characters covered")
    pieces, score = submission.viterbi(text, TENDS)
    equal("".join(pieces), text, what="the pieces, joined")
    close(score, math.fsum(TENDS[piece] for piece in pieces), 1e-9, what="score")
    require(
        score <= total, "the best segmentation is more probable than all together", got=score, expected=f"<= {total}"
    )
    # Against the plain forward recursion in exact integers of probabilities times 100.
    ways = [1]
    for end in range(1, len(text) + 1):
        ways.append(
            sum(
                ways[start] * round(100 * math.exp(TENDS[text[start:end]])) * 100 ** (end - start - 1)
                for start in range(max(0, end - 3), end)
                if text[start:end] in TENDS
            )
        )
    close(total, math.log(ways[-1]) - 2500 * math.log(100), 1e-9, what="log of the total probability")


def em_oracle(words, logp):
    expected, log_likelihood = Counter(), 0.0
    for word, count in words.items():
        counts, total = enumerated(word, logp)
        log_likelihood += count * total
        for piece, uses in counts.items():
            expected[piece] += count * uses
    total = math.fsum(expected.values())
    return {piece: math.log(uses / total) for piece, uses in expected.items() if uses >= 1e-12}, log_likelihood


def random_corpus(alphabet="abc"):
    return {random_text(1, 8, alphabet): random.choice([1, 1, 2, 5, 30]) for _ in range(6)}


@points(2)
def test_em_step_by_enumeration(submission):
    """One step on 20 random corpora with word counts: new log probabilities, and the likelihood before the step."""
    for _ in range(20):
        words, logp = random_corpus(), random_model()
        expected, log_likelihood = em_oracle(words, logp)
        new, before = submission.em_step(words, logp)
        close(before, log_likelihood, 1e-9, what="log-likelihood")
        close(new, expected, 1e-9, atol=1e-9, what="new log probabilities")
    # What is never used is dropped, and so is what is hardly ever used; 1e-11 is kept.
    logp = logs({"a": 0.5, "b": 0.25, "ab": 0.25, "ba": 1e-15, "bab": 4e-12, "c": 0.1})
    new, _ = submission.em_step({"ab": 3, "bab": 1}, logp)
    equal(sorted(new), ["a", "ab", "b", "bab"], what="pieces that are left")


@points(2)
def test_em_never_decreases(submission):
    """10 steps on 5 random corpora: the log-likelihood never falls, the probabilities sum to 1."""
    for _ in range(5):
        words = {random_text(1, 15): random.choice([1, 2, 5, 30]) for _ in range(20)}
        logp = random_model(pieces=20)
        earlier = -math.inf
        for step in range(10):
            logp, log_likelihood = submission.em_step(words, logp)
            close(math.fsum(math.exp(score) for score in logp.values()), 1.0, 1e-9, what="sum of the probabilities")
            require(
                log_likelihood >= earlier - 1e-9 * abs(log_likelihood),
                f"the log-likelihood falls at step {step}",
                got=log_likelihood,
                expected=f">= {earlier}",
            )
            earlier = log_likelihood


@points(2)
def test_unknown_characters(submission):
    """unk_logp lets single characters through that are not in logp, at that score; without it ValueError."""
    pieces, score = submission.viterbi("te?n", TENDS, -10.0)
    equal(pieces, ["te", "?", "n"])
    close(score, TENDS["te"] - 10.0 + TENDS["n"], 1e-9)
    # A known character keeps its own score, whichever is better.
    for unk_logp in (-0.5, -3.0, 0.0):
        for text in ("tends", "?ten!ds?", "ttt", "??"):
            is_best(submission.viterbi(text, TENDS, unk_logp=unk_logp), text, TENDS, unk_logp)
    for text, logp in (("te?n", TENDS), ("?", TENDS), ("abc", logs({"ab": 0.5, "bc": 0.5}))):
        with raises(ValueError):
            submission.viterbi(text, logp)
        with raises(ValueError):
            submission.expected_counts(text, logp)
    with raises(ValueError):
        submission.em_step({"tends": 2, "x": 1}, TENDS)
    with raises(ValueError):
        submission.prune({"tends": 2, "x": 1}, TENDS, 5)


def pruned(words, logp, keep):
    """By the definition, with all segmentations."""

    def best(text, table):
        return max(segmentations(text, table), key=lambda found: found[1], default=(None, -math.inf))

    uses = Counter()
    for word, count in words.items():
        for piece in best(word, logp)[0]:
            uses[piece] += count
    losses = {}
    for piece in logp:
        if len(piece) > 1:
            alternative = best(piece, {p: s for p, s in logp.items() if p != piece})[1]
            losses[piece] = math.inf if alternative == -math.inf else uses[piece] * (logp[piece] - alternative)
    kept = [piece for piece in logp if len(piece) == 1]
    for piece in sorted(losses, key=lambda piece: (-losses[piece], piece)):
        if len(kept) < keep:
            kept.append(piece)
    total = math.fsum(math.exp(logp[piece]) for piece in kept)
    return {piece: logp[piece] - math.log(total) for piece in kept}


@points(3)
def test_pruning_by_definition(submission):
    """20 random models, every size: the stated loss, evaluated directly; single characters survive keep = 1."""
    for _ in range(20):
        words, logp = random_corpus(), random_model(pieces=8)
        for keep in (1, 3, 4, 5, 7, len(logp) - 1, len(logp), 99):
            close(submission.prune(words, logp, keep), pruned(words, logp, keep), 1e-9, atol=1e-9)


@points(2)
def test_pruning_details(submission):
    """A piece without an alternative stays even if it is never used; weights count; a frequent piece may go first."""
    # xy has no other segmentation; it is not used.
    logp = logs({"a": 0.3, "b": 0.3, "ab": 0.2, "xy": 0.2})
    close(submission.prune({"ab": 9}, logp, 3), pruned({"ab": 9}, logp, 3), 1e-9)
    require("xy" in submission.prune({"ab": 9}, logp, 3), "a piece without an alternative has been dropped")
    # The frequent, more probable ab is nearly as good as a, b; cd, though rare, saves more.
    logp = logs({"a": 0.55, "b": 0.4, "ab": 0.24, "c": 0.001, "d": 0.001, "cd": 0.01})
    words = {"ab": 10, "cd": 3}
    close(submission.prune(words, logp, 5), pruned(words, logp, 5), 1e-9)
    # Used as often, saves as much per use: the counts of the words decide.
    logp = logs({"a": 0.1, "b": 0.1, "c": 0.1, "d": 0.1, "ab": 0.3, "cd": 0.3})
    for words in ({"ab": 2, "cd": 5}, {"ab": 5, "cd": 2}, {"abab": 1, "cd": 1}):
        close(submission.prune(words, logp, 5), pruned(words, logp, 5), 1e-9)
    # Never used, so the loss is 0 and the names decide.
    logp = logs({"a": 0.5, "b": 0.2, "ab": 0.01, "ba": 0.01, "aa": 0.01, "bb": 0.01})
    close(submission.prune({"a": 1, "b": 1}, logp, 4), pruned({"a": 1, "b": 1}, logp, 4), 1e-9)


def many_pieces():
    """A model with pieces of up to 8 characters, of one letter and of many."""
    pieces = {random_text(2, 8, "abcd") for _ in range(300)} | set("abcd") | {"abcdabcd"}
    return logs({piece: 1 / len(pieces) for piece in sorted(pieces)})


@needs("worked_example")
@points(3)
def test_cost_look_ups(submission):
    """400 characters and pieces of up to 8: at most 6 * 400 * 8 look-ups, and lines that grow with the length."""
    logp = many_pieces()
    text = random_text(400, 400, "abcd")
    for name in ("viterbi", "expected_counts"):
        counted = submission.prop(CountingLogProbs, logp)
        getattr(submission, name)(text, counted)
        Cost(f"look-ups by {name}", counted.looked_up).at_most(6 * 400 * 8, "6 n m with n = 400 and m = 8")

        # Who copies the table first is not counted above.
        def lines(n, name=name):
            with executed_lines(submission) as cost:
                getattr(submission, name)(random_text(n, n, "abcd"), logp)
            return cost

        growth(lines, 300, 600).at_most(2.6, "in proportion to n * m")
