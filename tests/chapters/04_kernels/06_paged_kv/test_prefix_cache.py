"""Hidden tests: prefix caching. Oracle: a model that stores whole prefixes and an explicit queue; traces by hand."""

from dataclasses import dataclass, field

from grader.testing import (
    behaviour,
    equal,
    executed_lines,
    given,
    growth,
    integers,
    lists,
    needs,
    points,
    raises,
    require,
    tuples,
)


class OutOfBlocks(Exception):
    """Named as the stub's: exceptions are compared by name."""


@dataclass(eq=False)
class Block:
    """A block of the model. Its number is known once the submission has put it into a table."""

    number: int | None = None
    prefix: tuple | None = None
    """(salt, all tokens up to its end), while it is findable."""
    holders: int = 0


@dataclass
class Running:
    tokens: list[int]
    salt: object
    blocks: list[Block]
    settled: int
    table: list[int] = field(default_factory=list)


class Walk:
    """A prefix cache beside its model; every operation is done by both, and everything visible compared."""

    def __init__(self, submission, num_blocks, block_size):
        self.cache = submission.PrefixCache(num_blocks, block_size)
        self.num_blocks, self.block_size = num_blocks, block_size
        self.queue = [Block() for _ in range(num_blocks)]
        self.findable = {}
        self.running = {}
        self.numbers = {}
        self.hits = self.queries = self.evictions = 0

    # -- the model --------------------------------------------------------------------------------------------------

    def found(self, tokens, salt):
        blocks = []
        for i in range((len(tokens) - 1) // self.block_size):
            prefix = (salt, tuple(tokens[: (i + 1) * self.block_size]))
            if prefix not in self.findable:
                break
            blocks.append(self.findable[prefix])
        return blocks

    def take(self):
        block = self.queue.pop(0)
        block.holders = 1
        if block.prefix is not None:
            del self.findable[block.prefix]
            block.prefix = None
            self.evictions += 1
        return block

    # -- operations -------------------------------------------------------------------------------------------------

    def match(self, tokens, salt=None):
        got = self.cache.match(tokens, salt)
        expected = len(self.found(tokens, salt)) * self.block_size
        behaviour([got, expected])
        equal(got, expected, f"match({tokens}, {salt!r})")

    def start(self, seq, tokens, salt=None):
        """Returns whether it was admitted."""
        found = self.found(tokens, salt)
        new = -(-len(tokens) // self.block_size) - len(found)
        if new > len(self.queue) - sum(block.holders == 0 for block in found):
            with raises(OutOfBlocks):
                self.cache.start(seq, tokens, salt)
            self.compare()
            return False
        got = self.cache.start(seq, tokens) if salt is None else self.cache.start(seq, tokens, salt=salt)
        behaviour([got, len(found)])
        equal(got, len(found) * self.block_size, f"start({seq}, {tokens}, {salt!r})")
        for block in found:
            if block.holders == 0:
                self.queue.remove(block)
            block.holders += 1
        blocks = found + [self.take() for _ in range(new)]
        self.running[seq] = Running(list(tokens), salt, blocks, len(found))
        self.hits += got
        self.queries += len(tokens)
        self.compare()
        return True

    def append(self, seq, token):
        state = self.running[seq]
        if len(state.tokens) == len(state.blocks) * self.block_size:
            if not self.queue:
                with raises(OutOfBlocks):
                    self.cache.append(seq, token)
                self.compare()
                return False
            state.blocks.append(self.take())
        self.cache.append(seq, token)
        state.tokens.append(token)
        self.compare()
        return True

    def commit(self, seq, computed):
        self.cache.commit(seq, computed)
        state = self.running[seq]
        for i in range(state.settled, computed // self.block_size):
            prefix = (state.salt, tuple(state.tokens[: (i + 1) * self.block_size]))
            if prefix not in self.findable:
                self.findable[prefix] = state.blocks[i]
                state.blocks[i].prefix = prefix
            state.settled = i + 1
        self.compare()

    def finish(self, seq):
        self.cache.finish(seq)
        for block in reversed(self.running.pop(seq).blocks):
            block.holders -= 1
            if block.holders == 0:
                self.queue.append(block)
        self.compare()

    # -- what must hold after every step ----------------------------------------------------------------------------

    def compare(self):
        free, stats = self.cache.num_free, self.cache.stats()
        tables = {seq: self.cache.table(seq) for seq in self.running}
        order = {block: i for i, block in enumerate(dict.fromkeys(b for table in tables.values() for b in table))}
        behaviour([{seq: [order[b] for b in table] for seq, table in tables.items()}, free, stats])
        for seq, state in self.running.items():
            self.compare_table(seq, tables[seq], state.blocks)
        equal(free, len(self.queue), "num_free")
        equal(stats, {"hits": self.hits, "queries": self.queries, "evictions": self.evictions}, "stats()")

    def compare_table(self, seq, table, blocks):
        """Blocks never used before may have any number that was never used; all others must be the model's."""
        equal(len(table), len(blocks), f"number of blocks in table({seq})")
        for number, block in zip(table, blocks, strict=True):
            if block.number is None:
                require(0 <= number < self.num_blocks, f"table({seq}): no such block", got=number)
                require(
                    number not in self.numbers,
                    f"table({seq}) has a block that was used before, though others never were",
                    got=table,
                )
                block.number = int(number)
                self.numbers[number] = block
        equal(table, [block.number for block in blocks], f"table({seq})")


@points(3)
def test_worked_example(submission):
    """Blocks of 4: after [1..10], committed and finished, [1..8, 99] finds 8, [1..8] finds 4, another beginning 0."""
    cache = submission.PrefixCache(12, 4)
    ten = list(range(1, 11))
    equal(cache.start(0, ten), 0, "start(0, [1..10])")
    equal((len(set(cache.table(0))), cache.num_free), (3, 9), "(blocks of sequence 0, num_free)")
    cache.commit(0, 10)
    first = cache.table(0)
    cache.finish(0)
    equal(cache.num_free, 12, "num_free after finish(0)")
    equal(cache.match([*ten[:8], 99]), 8, "match([1..8, 99])")
    equal(cache.start(1, [*ten[:8], 99]), 8, "start(1, [1..8, 99])")
    equal(cache.table(1)[:2], first[:2], "the found blocks are those of sequence 0")
    require(cache.table(1)[2] not in first, "its third block is a new one", got=cache.table(1), expected=first[:2])
    equal(cache.num_free, 9, "num_free")
    equal(cache.start(2, ten[:8]), 4, "start(2, [1..8]): the last token must be computed")
    equal(cache.table(2)[0], first[0], "sequence 2 shares the first block")
    equal(cache.num_free, 8, "num_free")
    equal(cache.start(3, [2, 2, 3, 4, 5, 6, 7, 8, 9]), 0, "start(3, [2, 2, 3, ..., 9])")
    equal(cache.num_free, 5, "num_free")
    equal(cache.stats(), {"hits": 12, "queries": 36, "evictions": 0}, "stats()")


@points(3)
def test_same_block_other_history(submission):
    """Blocks with equal tokens after different ones are never shared, not even if hash() takes them for equal."""
    walk = Walk(submission, 20, 2)
    walk.start(0, [1, 1, 5, 5, 9, 9, 0])
    walk.commit(0, 7)
    for tokens in (
        [1, 1, 5, 5, 9, 9, 3],
        [2, 2, 5, 5, 9, 9, 0],
        [5, 5, 9, 9, 0],
        [9, 9, 0],
        [1, 1, 9, 9, 5, 5, 0],
        [1, 1, 2, 2, 9, 9, 0],
        [1, 1, 1, 1, 5, 5, 0],
        [1, 5, 1, 5, 9, 9],
    ):
        walk.match(tokens)
    walk.start(1, [2, 2, 5, 5, 9, 9, 0])
    walk.commit(1, 6)
    for tokens in ([2, 2, 5, 5, 9, 9, 3], [5, 5, 9, 9, 3], [1, 1, 5, 5, 9, 9, 3]):
        walk.match(tokens)
    # In CPython hash(2 ** 61 - 1) is hash(0), and hash(2 ** 61 + 4) is hash(5).
    walk.start(2, [0, 5, 7])
    walk.commit(2, 3)
    large = 2**61 - 1
    for tokens in ([large, 5, 7], [0, large + 5, 7], [0, 5, 8]):
        walk.match(tokens)
    # Numbers that have the same digits one after the other, the same sum, remainder or nearest float.
    block = [1, 23, 4, 2**53]
    walk = Walk(submission, 40, 4)
    walk.start(0, [*block, *block, 0])
    walk.commit(0, 9)
    others = [12, 3, 4, 2**53], [23, 1, 4, 2**53], [1, 23, 2**53, 4], [1, 1, 23, 4], [1, 23, 4, 2**53 + 1]
    for other in (*others, [1 + 2**64, 23, 4, 2**53], [1, 23 + 2**32, 4, 2**53], [1, 23, 4, 2**200]):
        for tokens in ([*other, 0], [*block, *other, 0], [*other, *block, 0]):
            walk.match(tokens)
        walk.start(1, [*other, *block, 0])
        walk.commit(1, 9)
        walk.finish(1)


@points(2)
def test_salt_separates(submission):
    """Two salts share nothing, and no salt is the salt None; salts of all sorts, falsy ones and small numbers too."""
    prompt = [4, 4, 6, 6, 8]
    walk = Walk(submission, 30, 2)
    walk.start(0, prompt)
    walk.commit(0, 5)
    salts = (None, "tenant", "", 0, 1, 2, 3, 4, -1, (), (4, 4), ("tenant", 1), b"x", "None", "0", "1", "()", "b'x'")
    for salt in salts:
        walk.match(prompt, salt)
        walk.match([6, 6, 8], salt)
        walk.match([8, 8, 8], salt)
    walk.match([*prompt, 1])
    walk.start(1, prompt, "tenant")
    walk.commit(1, 5)
    walk.start(2, [7, *prompt], 0)
    walk.commit(2, 6)
    for salt in salts:
        for tokens in (prompt, [7, *prompt], [6, 6, 8], [4, 6, 6]):
            walk.match(tokens, salt)
    walk.start(3, prompt, "tenant")
    walk.start(4, prompt)
    walk.finish(1)
    walk.start(5, [7, *prompt], 0)


@points(2)
def test_uncommitted_is_invisible(submission):
    """An identical prompt finds nothing before commit, then the committed full blocks, those of appended tokens too."""
    prompt = list(range(50, 61))
    walk = Walk(submission, 40, 3)
    walk.start(0, prompt)
    walk.match(prompt)
    walk.start(1, prompt)
    for computed in (0, 2, 3, 5, 8, 4, 9, 11):
        walk.commit(0, computed)
        walk.match(prompt)
    walk.start(2, prompt)
    walk.append(0, 61)
    walk.match([*prompt, 61, 1])
    walk.commit(0, 11)
    walk.match([*prompt, 61, 1])
    walk.commit(0, 12)
    walk.match([*prompt, 61])
    walk.match([*prompt, 61, 1])
    walk.match([*prompt, 60, 1])
    for token in (62, 63, 64):
        walk.append(0, token)
    walk.commit(0, 15)
    walk.match([*prompt, 61, 62, 63, 64, 0])
    walk.finish(0)
    walk.start(3, [*prompt, 61, 62, 63, 64, 0])
    # What was never committed is not findable after the end either.
    walk.start(4, [7] * 9)
    walk.finish(4)
    walk.match([7] * 9)


@points(2)
def test_own_block_stays_unfindable(submission):
    """Two compute the same prompt: the first to commit is found, the other's block never, its successors may be."""
    prompt = [1, 2, 3, 4, 5]
    walk = Walk(submission, 8, 2)
    walk.start(0, prompt)
    walk.start(1, prompt)
    walk.commit(0, 2)
    walk.commit(1, 4)
    walk.match(prompt)
    walk.finish(0)
    walk.start(2, [9] * 10)  # takes all free blocks: the one that was found for [1, 2] is evicted
    walk.match(prompt)
    walk.commit(1, 5)
    walk.match(prompt)
    walk.append(1, 6)
    walk.commit(1, 6)
    walk.match([*prompt, 6, 7])
    walk.finish(2)
    # Computed again by another, [1, 2] has its old identity, and what is still there behind it is found.
    walk.start(3, [1, 2, 0])
    walk.commit(3, 3)
    walk.match([*prompt, 6, 7])
    walk.start(4, [*prompt, 6, 7])
    # The same, block by block: a commit that ends with the block that is not findable.
    walk = Walk(submission, 9, 2)
    for seq in (0, 1):
        walk.start(seq, prompt)
    walk.commit(0, 2)
    for computed in (2, 3, 4, 5):
        walk.commit(1, computed)
        walk.match(prompt)
    walk.commit(0, 5)
    walk.finish(1)
    walk.match(prompt)


STEPS = lists(tuples(integers(0, 9), integers(0, 7), integers(0, 11), integers(0, 4)), max_size=30)


def prompt_of(a, b, block_size):
    """Blocks of zeros and blocks of ones as the bits of a say, cut to 1 + b tokens: prompts that share beginnings."""
    return [a >> (i // block_size) & 1 for i in range(1 + b)]


def any_step(walk, kind, a, b, c):
    """An operation from four numbers, whatever they are, and a look at another prompt."""
    salt = (None, None, None, 0, "x")[c]
    seq = list(walk.running)[a % len(walk.running)] if walk.running else None
    if seq is None or kind <= 2:
        new = next(i for i in range(len(walk.running) + 1) if i not in walk.running)
        walk.start(new, prompt_of(a, b, walk.block_size), salt)
    elif kind <= 4:
        walk.append(seq, c % 2)
    elif kind <= 6:
        length = len(walk.running[seq].tokens)
        walk.commit(seq, length - (c if c < length else 0))
    else:
        walk.finish(seq)
    walk.match(prompt_of(b, a + 2, walk.block_size), salt)


@points(5)
@given(steps=STEPS, num_blocks=integers(0, 12), block_size=integers(1, 4), examples=40)
def test_model_based(submission, steps, num_blocks, block_size):
    """Random walks: the cached counts, evictions, tables and free counts of a model that stores whole prefixes."""
    walk = Walk(submission, num_blocks, block_size)
    for step in steps:
        any_step(walk, *step)


@points(2)
def test_long_walks(submission, rng):
    """Walks of 80 steps in few blocks, where much is evicted and computed again: the same comparison."""
    for num_blocks, block_size in ((5, 1), (6, 2), (8, 3), (7, 2), (10, 1), (9, 2)):
        walk = Walk(submission, num_blocks, block_size)
        for step in rng.integers(0, (10, 8, 12, 5), size=(80, 4)).tolist():
            any_step(walk, *step)


@points(3)
def test_order_of_eviction(submission):
    """Oldest finished first, within it the tail first; a block in use is never evicted; a hit saves a queued block."""
    walk = Walk(submission, 9, 2)
    prompts = {seq: [seq * 10 + i for i in range(1, 8)] for seq in (1, 2)}
    for seq in (2, 1):
        walk.start(seq, prompts[seq])
        walk.commit(seq, 7)
    for seq in (1, 2):
        walk.finish(seq)
    # The queue: one block never used, then 7th, 5-6th, 3-4th, 1-2nd of sequence 1, then the same of sequence 2.
    for number in range(9):
        walk.start(100 + number, [500 + number])
        for seq in (1, 2):
            walk.match(prompts[seq])
    equal(walk.cache.stats()["evictions"], 6, "evictions: the findable ones of 9 blocks")
    require(not walk.start(200, [1]), "no block is free")

    # A hit on two queued blocks saves them, and only them, while everything else is taken.
    walk = Walk(submission, 8, 2)
    for seq in (1, 2):
        walk.start(seq, prompts[seq])
        walk.commit(seq, 7)
        walk.finish(seq)
    walk.start(3, [*prompts[1][:4], 0])
    walk.start(4, [0] * 10)
    walk.match(prompts[1])
    walk.match(prompts[2])
    walk.finish(3)
    walk.finish(4)
    walk.match(prompts[1])
    # Finished again they are young: the 5 blocks of sequence 4 are queued behind them, sequence 3's tail first.
    walk.start(5, [1])
    walk.match(prompts[1])
    walk.start(6, [1])
    walk.match(prompts[1])
    walk.start(7, [1])
    walk.match(prompts[1])

    # The blocks that a start finds must not be the ones that it takes for its rest.
    walk = Walk(submission, 2, 2)
    walk.start(0, [1, 2])
    walk.commit(0, 2)
    walk.finish(0)
    walk.start(1, [8])
    walk.finish(1)
    walk.start(2, [1, 2, 7])


@points(3)
def test_all_or_nothing(submission):
    """A start that cannot be served changes nothing: counts, queue, identities, statistics; nor does an append."""
    long = [1, 2, 3, 4, 5, 6, 7]
    walk = Walk(submission, 7, 2)
    walk.start(0, long)
    walk.commit(0, 7)
    walk.finish(0)
    walk.start(1, [*long[:2], 9])
    walk.start(2, [8, 8])
    # 4 blocks are free, two of them hold [3, 4] and [5, 6]: a start that finds 3 blocks may take 2 more.
    require(not walk.start(3, [*long[:6], 1, 1, 1, 1, 1]), "3 found, 3 more needed, 2 left")
    with raises(KeyError):
        walk.cache.table(3)
    require(not walk.start(3, [7] * 9), "nothing found, 5 needed, 4 free")
    walk.match([*long[:6], 1])
    require(walk.start(3, [*long[:6], 1, 1, 1, 1]), "3 found, 2 more needed, 2 left")
    require(not walk.append(2, 8), "no block is free for a third token")
    walk.finish(1)
    walk.finish(3)
    # The order of eviction is what it would be had nothing failed.
    for seq in range(4, 10):
        walk.start(seq, [30 + seq])
        walk.match([*long[:6], 1])

    walk = Walk(submission, 2, 2)
    walk.start(0, [1, 2])
    walk.start(1, [3])
    require(not walk.append(0, 5), "no block for token 5")
    walk.commit(0, 2)
    walk.finish(1)
    require(walk.append(0, 6), "a block for token 6")
    walk.append(0, 7)
    walk.commit(0, 4)
    for tokens in ([1, 2, 6, 7, 0], [1, 2, 5, 6, 7], [1, 2, 5, 6]):
        walk.match(tokens)


@points(2)
def test_shared_blocks_survive(submission):
    """Finishing one of two sharers leaves the blocks usable by the other, and out of the queue."""
    prompt = [1, 2, 3, 4, 5]
    for first in (1, 2):
        walk = Walk(submission, 6, 2)
        walk.start(1, prompt)
        walk.commit(1, 5)
        walk.start(2, prompt)
        walk.finish(first)
        other = 3 - first
        table = walk.cache.table(other)
        while walk.start(10 + len(walk.running), [77]):
            pass
        equal(walk.cache.table(other), table, f"table({other}) after all free blocks were taken")
        walk.match(prompt)
        walk.finish(other)
        walk.match(prompt)


def test_bad_input_raises(submission):
    """ValueError for an empty prompt and a running sequence, KeyError for one that is not; nothing changes."""
    walk = Walk(submission, 5, 2)
    walk.start(0, [1, 2, 3])
    walk.commit(0, 3)
    walk.start(1, [1, 2, 3])
    walk.finish(1)
    with raises(ValueError):
        walk.cache.start(2, [])
    with raises(ValueError):
        walk.cache.start(0, [1, 2, 3])
    for seq in (1, 2):
        for name, *rest in (("append", 5), ("commit", 0), ("finish",), ("table",)):
            with raises(KeyError):
                getattr(walk.cache, name)(seq, *rest)
    equal(walk.cache.match([]), 0, "match([])")
    walk.compare()
    walk.match([1, 2, 3])
    equal(walk.cache.match((1, 2, 3)), 2, "match of a tuple")
    walk.start(1, (1, 2, 3))


class Caller:
    """Lives beside the submission, where a prompt is the very list that the cache was given."""

    def reuse(self, cache):
        """(the list after appends, tokens found of the prompt as it was, tokens found of the list as it is)."""
        prompt = [1, 2, 3]
        cache.start(0, prompt)
        cache.append(0, 4)
        seen = list(prompt)
        prompt[:] = [7, 7, 7, 7, 7]
        cache.commit(0, 4)
        table = cache.table(0)
        table.clear()
        return seen, cache.match([1, 2, 3, 4, 5]), cache.match(prompt), len(cache.table(0))


@points(1)
def test_prompt_and_table_are_the_callers(submission):
    """Appends leave the caller's list alone; changes of it, or of a table, do not reach the cache; tuples work."""
    got = submission.prop(Caller).reuse(submission.PrefixCache(6, 2))
    equal(got, ([1, 2, 3], 4, 0, 2), "(list after an append, match of the old prompt, match of the list, blocks)")
    walk = Walk(submission, 6, 2)
    walk.start(0, (1, 2, 3))
    for token in (4, 5):
        walk.append(0, token)
    walk.commit(0, 5)
    walk.match((1, 2, 3, 4, 5))
    walk.match([1, 2, 3, 4, 6])


class Watched:
    """Lives beside the submission: prompts whose tokens count how often they are hashed or compared."""

    def looks(self, cache, n):
        class Token(int):
            looks = 0

            def __hash__(self):
                Token.looks += 1
                return hash(int(self))

            def __eq__(self, other):
                Token.looks += 1
                return int(self) == int(other)

        def prompt():
            return [Token(i % 7 + i // 30) for i in range(n)]

        cache.start(0, prompt())
        cache.commit(0, n)
        return cache.match(prompt()), cache.start(1, prompt()), Token.looks


@needs("worked_example")
@points(3)
def test_cost_linear_in_prompt(submission):
    """Twice the prompt: at most 2.2 times the lines of start and match, and the looks at single tokens."""

    def lines(n):
        cache = submission.PrefixCache(n, 4)
        prompt = [i % 5 + i // 40 for i in range(n)]
        cache.start(0, prompt)
        cache.commit(0, n)
        with executed_lines(submission) as cost:
            cached = cache.match(prompt), cache.start(1, prompt), cache.start(2, [9, *prompt])
        equal(cached, (n - 4, n - 4, 0), "(match, start, start of another prompt)")
        return cost

    growth(lines, 800, 1600).at_most(2.2, "lines: in proportion to the prompt")
    watched = submission.prop(Watched)

    def looks(n):
        matched, found, number = watched.looks(submission.PrefixCache(n, 4), n)
        equal((matched, found), (n - 4, n - 4), "(match, start)")
        return max(number, 1)  # none at all, if the tokens are looked at as bytes

    growth(looks, 800, 1600).at_most(2.2, "looks at single tokens: in proportion to the prompt")


class Driver:
    """Lives beside the submission: many short requests without a message each."""

    def chat(self, cache, prompt, times):
        cached = 0
        for i in range(times):
            cached += cache.start(i + 1, [*prompt, i])
            cache.finish(i + 1)
        return cached


@needs("worked_example")
@points(2)
def test_cost_hit_in_a_long_queue(submission):
    """20,000 hits on blocks in a queue of 200,000 are done within the time limit; lines are those of a short queue."""

    def lines(num_blocks):
        cache = submission.PrefixCache(num_blocks, 2)
        prompt = list(range(2 * num_blocks - 2))
        cache.start(0, prompt)
        cache.commit(0, len(prompt))
        cache.finish(0)
        with executed_lines(submission) as cost:
            equal(cache.start(1, [*prompt[:6], 0]), 6, "tokens found")
        return cost

    growth(lines, 100, 10_000).at_most(1.2, "the length of the queue does not matter")
    cache = submission.PrefixCache(200_000, 1)
    cache.start(0, list(range(10)))
    cache.commit(0, 10)
    cache.finish(0)
    got = submission.prop(Driver).chat(cache, list(range(8)), 20_000)
    equal((got, cache.num_free), (160_000, 200_000), "(tokens found, num_free)")
