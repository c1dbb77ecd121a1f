"""Hidden tests: block tables. Oracle: a model in which every sequence owns a whole copy of its tokens."""

from numbers import Integral

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


class Walk:
    """A block manager beside its model. Which free block is taken is free; all that follows from it is checked.

    The cache is a dictionary from slots to tokens, and every token has a number of its own.
    """

    def __init__(self, submission, num_blocks, block_size):
        self.manager = submission.BlockManager(num_blocks, block_size)
        self.num_blocks, self.block_size = num_blocks, block_size
        self.tokens = {}
        self.tables = {}
        self.cache = {}
        self.written = 0

    # -- the model --------------------------------------------------------------------------------------------------

    @property
    def in_use(self):
        return {block for table in self.tables.values() for block in table}

    @property
    def num_free(self):
        return self.num_blocks - len(self.in_use)

    def blocks(self, tokens):
        return -(-tokens // self.block_size)

    def demand(self, seq, tokens):
        """(whether an append copies the last block, blocks it needs in all)."""
        table, length = self.tables[seq], len(self.tokens[seq])
        shared = sum(table[-1] in other for other in self.tables.values()) > 1 if table else False
        copies = length % self.block_size > 0 and shared
        return copies, copies + self.blocks(length + tokens) - len(table)

    def write(self, seq, tokens):
        for _ in range(tokens):
            block, offset = divmod(len(self.tokens[seq]), self.block_size)
            self.cache[self.tables[seq][block] * self.block_size + offset] = self.written
            self.tokens[seq].append(self.written)
            self.written += 1

    # -- operations -------------------------------------------------------------------------------------------------

    def create(self, seq, tokens):
        if self.blocks(tokens) > self.num_free:
            with raises(OutOfBlocks):
                self.manager.create(seq, tokens)
            return
        table = self.manager.create(seq, tokens)
        require(type(table) is list, "create returns the table as a list", got=table)
        self.took(table, self.blocks(tokens), f"create({seq}, {tokens})")
        self.tables[seq], self.tokens[seq] = table, []
        self.write(seq, tokens)

    def append(self, seq, tokens=1):
        """Returns whether it succeeded."""
        call = f"append({seq}, {tokens})"
        before, length = self.tables[seq], len(self.tokens[seq])
        copies, needed = self.demand(seq, tokens)
        arguments = (seq,) if tokens == 1 else (seq, tokens)
        if needed > self.num_free:
            with raises(OutOfBlocks):
                self.manager.append(*arguments)
            return False
        made = self.manager.append(*arguments)
        require(type(made) is list, f"{call} returns the copies as a list", got=made)
        after = self.manager.table(seq)
        behaviour([call, len(made), len(after)])
        equal(len(made), int(copies), f"{call}: number of copies")
        kept = len(before) - copies
        equal(after[:kept], before[:kept], f"{call}: the blocks that it had")
        self.took(after[kept:], self.blocks(length + tokens) - kept, call)
        if copies:
            equal(made, [(before[-1], after[kept])], f"{call}: the copy")
            for offset in range(self.block_size):
                source, target = (block * self.block_size + offset for block in made[0])
                self.cache[target] = self.cache.get(source)
        self.tables[seq] = after
        self.write(seq, tokens)
        return True

    def fork(self, parent, child):
        self.manager.fork(parent, child)
        self.tables[child], self.tokens[child] = list(self.tables[parent]), list(self.tokens[parent])

    def free(self, seq):
        self.manager.free(seq)
        del self.tables[seq], self.tokens[seq]

    def truncate(self, seq, tokens):
        self.manager.truncate(seq, tokens)
        self.tables[seq] = self.tables[seq][: self.blocks(tokens)]
        del self.tokens[seq][tokens:]

    def any_step(self, kind, a, b):
        """An operation from three numbers, whatever they are."""
        seq = list(self.tables)[a % len(self.tables)] if self.tables else None
        new = next(10 * i + 3 for i in range(len(self.tables) + 1) if 10 * i + 3 not in self.tables)
        if seq is None or kind == 0:
            self.create(new, b)
        elif kind <= 4:
            self.append(seq, 1 if kind <= 2 else 1 + b)
        elif kind <= 6:
            self.fork(seq, new)
        elif kind == 7:
            self.free(seq)
        else:
            self.truncate(seq, b % (len(self.tokens[seq]) + 1))

    # -- what must hold after every step ----------------------------------------------------------------------------

    def took(self, blocks, number, call):
        equal(len(blocks), number, f"{call}: number of blocks taken")
        strange = [b for b in blocks if not isinstance(b, Integral) or not 0 <= b < self.num_blocks]
        require(not strange, f"{call}: no such blocks", got=strange)
        taken = [b for b in blocks if b in self.in_use or blocks.count(b) > 1]
        require(not taken, f"{call}: takes blocks that are in use", got=taken)

    def check_tables(self):
        tables = {seq: self.manager.table(seq) for seq in self.tables}
        order = {block: i for i, block in enumerate(dict.fromkeys(b for table in tables.values() for b in table))}
        free = self.manager.num_free
        behaviour([{seq: [order[b] for b in table] for seq, table in tables.items()}, free])
        equal(tables, self.tables, "all tables")
        equal(free, self.num_free, "num_free")

    def check_contents(self):
        """Every token can be read back through its table."""
        for seq, tokens in self.tokens.items():
            equal(self.manager.length(seq), len(tokens), f"length({seq})")
            table, size = self.manager.table(seq), self.block_size
            got = [self.cache[table[i // size] * size + i % size] for i in range(len(tokens))]
            equal(got, tokens, f"tokens of sequence {seq}, read back from the cache")

    def check_slots(self, number):
        for seq, tokens in self.tokens.items():
            if tokens:
                at = number % len(tokens)
                slot = self.tables[seq][at // self.block_size] * self.block_size + at % self.block_size
                equal(self.manager.slot(seq, at), slot, f"slot({seq}, {at})")

    def check_stats(self):
        """Counts as a list of the tokens in each slot gives them."""
        full = {
            table[i // self.block_size] * self.block_size + i % self.block_size
            for seq, table in self.tables.items()
            for i in range(len(self.tokens[seq]))
        }
        physical = len(self.in_use)
        expected = {
            "physical": physical,
            "logical": sum(map(len, self.tables.values())),
            "wasted": physical * self.block_size - len(full),
        }
        equal(self.manager.stats(), expected, "stats()")


STEPS = lists(tuples(integers(0, 9), integers(0, 5), integers(0, 9)), max_size=25)


@points(3)
def test_worked_example(submission):
    """4 blocks of 4: create(0, 6), fork(0, 1), append(1) copies one block, append(0) writes in place, free(0)."""
    manager = submission.BlockManager(4, 4)
    first = manager.create(0, 6)
    behaviour([len(first), manager.num_free])
    equal((len(set(first)), manager.num_free), (2, 2), "6 tokens: (blocks, free)")
    manager.fork(0, 1)
    behaviour(manager.num_free)
    equal((manager.table(1), manager.num_free), (first, 2), "after fork(0, 1): (table(1), free)")
    equal(manager.stats(), {"physical": 2, "logical": 4, "wasted": 2}, "stats() after the fork")
    copies = manager.append(1)
    second = manager.table(1)
    behaviour([len(copies), len(second), manager.num_free])
    equal(copies, [(first[1], second[1])], "append(1): the copy, from the shared block to its own")
    require(second[0] == first[0] and second[1] not in first, "append(1): its table", got=second, expected=first[:1])
    equal((manager.table(0), manager.num_free), (first, 1), "after append(1): (table(0), free)")
    copies = manager.append(0)
    behaviour([len(copies), manager.num_free])
    equal((copies, manager.table(0), manager.num_free), ([], first, 1), "append(0): writes in place")
    equal((manager.length(0), manager.length(1)), (7, 7), "lengths")
    equal(manager.slot(1, 5), second[1] * 4 + 1, "slot(1, 5)")
    manager.free(0)
    behaviour(manager.num_free)
    equal((manager.table(1), manager.num_free), (second, 2), "after free(0): (table(1), free)")
    manager.free(1)
    equal(manager.num_free, 4, "free blocks at the end")
    equal(manager.stats(), {"physical": 0, "logical": 0, "wasted": 0}, "stats() at the end")


@points(5)
@given(steps=STEPS, num_blocks=integers(0, 12), block_size=integers(1, 5), examples=50)
def test_model_based(submission, steps, num_blocks, block_size):
    """Random walks: after the ordered copies, every slot read back holds the token that a private copy would hold."""
    walk = Walk(submission, num_blocks, block_size)
    for kind, a, b in steps:
        walk.any_step(kind, a, b)
        walk.check_contents()
        walk.check_slots(a + b)


@points(4)
@given(steps=STEPS, num_blocks=integers(0, 12), block_size=integers(1, 5), examples=50)
def test_counts_are_right(submission, steps, num_blocks, block_size):
    """Random walks, after each step: tables, free + in use = all blocks, no block twice in a table, stats()."""
    walk = Walk(submission, num_blocks, block_size)
    for kind, a, b in steps:
        walk.any_step(kind, a, b)
        walk.check_tables()
        walk.check_stats()
    for seq in list(walk.tables):
        walk.free(seq)
        walk.check_tables()
    walk.create(0, num_blocks * block_size)
    walk.check_tables()


@points(2)
def test_full_shared_block(submission):
    """Forked at an exact block boundary, an append takes a new block and copies nothing."""
    for size, blocks in ((4, 1), (4, 3), (1, 2), (3, 2)):
        walk = Walk(submission, 2 * blocks + 2, size)
        walk.create(5, size * blocks)
        walk.fork(5, 6)
        walk.check_tables()
        for seq in (6, 5):
            walk.append(seq)
            walk.check_tables()
            equal(walk.tables[seq][:-1], walk.tables[5][:blocks], "the shared blocks stay shared")
        walk.append(6, 2 * size)
        walk.check_tables()
        walk.check_contents()


@points(3)
def test_all_or_nothing(submission):
    """OutOfBlocks leaves tables, lengths, counts and num_free as they were, also when a copy would have been needed."""
    walk = Walk(submission, 4, 4)
    walk.create(0, 6)
    walk.create(1, 9)
    walk.check_tables()
    with raises(KeyError):
        walk.manager.table(1)
    walk.append(0, 11)
    walk.check_tables()
    walk.check_contents()
    walk.create(1, 5)
    walk.append(0, 3)
    walk.check_tables()
    equal(walk.manager.length(0), 6, "length(0) after a failed append")
    walk.append(0, 2)
    walk.check_tables()

    walk = Walk(submission, 2, 4)
    walk.create(0, 6)
    walk.fork(0, 1)
    walk.append(1)
    walk.check_tables()
    walk.append(0, 2)
    walk.check_tables()
    walk.check_contents()
    walk.free(1)
    require(walk.append(0), "append(0) in place")
    walk.free(0)
    walk.check_tables()

    # One block is free. The copy alone would have it; copy and a further block do not.
    walk = Walk(submission, 3, 4)
    walk.create(0, 6)
    walk.fork(0, 1)
    walk.append(1, 3)
    walk.check_tables()
    walk.append(1, 2)
    walk.check_tables()
    walk.append(0)
    walk.check_tables()
    walk.check_contents()


@points(2)
def test_last_owner_writes_in_place(submission):
    """Of three sharers the first two appends copy, the third does not."""
    for order in ((0, 1, 2), (2, 0, 1), (1, 2, 0)):
        walk = Walk(submission, 8, 4)
        walk.create(0, 7)
        walk.fork(0, 1)
        walk.fork(1, 2)
        shared = walk.tables[0]
        for seq in order:
            walk.append(seq)
            walk.check_tables()
        equal(walk.tables[order[2]], shared, "the last owner's table")
        equal(walk.num_free, 4, "free blocks: one shared, three last ones")
        walk.check_contents()


@points(2)
def test_truncate_then_append(submission):
    """After truncating into a shared block the next append copies it; at a boundary it takes a new block instead."""
    walk = Walk(submission, 8, 4)
    walk.create(0, 8)
    walk.fork(0, 1)
    walk.truncate(1, 6)
    walk.check_tables()
    walk.check_stats()
    walk.append(0)  # sequence 0 is full: nobody writes to the shared block
    walk.check_tables()
    walk.append(1)
    walk.check_tables()
    walk.check_contents()
    walk.check_stats()
    walk.truncate(0, 8)
    walk.truncate(1, 4)
    walk.check_tables()
    walk.append(1)
    walk.append(0, 5)
    walk.truncate(0, len(walk.tokens[0]))
    walk.check_tables()
    walk.check_contents()
    walk.truncate(1, 0)
    walk.check_tables()
    equal(walk.manager.length(1), 0, "length(1) after truncate(1, 0)")
    walk.append(1, 4)
    walk.check_tables()
    walk.check_contents()
    with raises(ValueError):
        walk.manager.truncate(1, 5)
    with raises(ValueError):
        walk.manager.truncate(1, -1)
    walk.check_tables()


@points(3)
@given(steps=STEPS, num_blocks=integers(0, 8), block_size=integers(1, 5), examples=40)
def test_can_append_is_honest(submission, steps, num_blocks, block_size):
    """In every state of a random walk can_append says what append then does, and changes nothing by asking."""
    walk = Walk(submission, num_blocks, block_size)
    for kind, a, b in steps:
        for seq in walk.tables:
            for tokens in (1, 1 + b, 1 + (a + b) * block_size):
                got = walk.manager.can_append(seq, tokens)
                expected = walk.demand(seq, tokens)[1] <= walk.num_free
                behaviour([bool(got), expected])
                equal(got, expected, f"can_append({seq}, {tokens})")
        walk.check_tables()
        if kind <= 4 and walk.tables:
            seq = list(walk.tables)[a % len(walk.tables)]
            can = walk.manager.can_append(seq)
            equal(can, walk.append(seq), f"can_append({seq}), and whether append({seq}) succeeds")
        else:
            walk.any_step(kind, a, b)


def test_bad_input_raises(submission):
    """KeyError for unknown ids everywhere, ValueError for known ones, IndexError beyond the length; nothing changes."""
    walk = Walk(submission, 4, 4)
    walk.create(0, 5)
    walk.create(1, 0)
    walk.fork(0, 2)
    walk.free(2)
    manager = walk.manager
    for seq in (2, 9):
        for name, *rest in (
            ("append", 1),
            ("fork", 7),
            ("free",),
            ("table",),
            ("length",),
            ("slot", 0),
            ("can_append",),
            ("truncate", 0),
        ):
            with raises(KeyError):
                getattr(manager, name)(seq, *rest)
    with raises(ValueError):
        manager.create(0, 1)
    for child in (0, 1):
        with raises(ValueError):
            manager.fork(0, child)
    for seq, position in ((0, 5), (0, 7), (0, -1), (1, 0)):
        with raises(IndexError):
            manager.slot(seq, position)
    with raises(KeyError):
        manager.table(7)
    walk.check_tables()
    walk.check_contents()
    walk.free(0)
    walk.check_tables()


@needs("worked_example")
@points(1)
def test_own_lists(submission):
    """What create and table hand out is the caller's: to change it changes no table."""
    kept, *tables = submission.prop(Driver).scribble(submission.BlockManager(6, 2))
    equal(tables, [kept, kept], "tables of a sequence and its fork, after the caller changed the lists that it got")


@needs("worked_example")
@points(2)
def test_cost_append(submission):
    """Lines run by append, slot and can_append: the same for 100 and 20,000 tokens; at most in proportion to blocks."""

    def lines(tokens, *, block=4, step=1, fork=False):
        manager = submission.BlockManager(2 * tokens // block + 2000 * step // block + 50, block)
        manager.create(0, tokens)
        for other in range(1, 3 + tokens // 2000):
            manager.create(other, 1)
        if fork:
            manager.fork(0, 99)
        with executed_lines(submission) as cost:
            for position in (0, tokens // 2, tokens - 1):
                manager.slot(0, position)
            for _ in range(9):
                manager.can_append(0, step)
                manager.append(0, step)
        return cost

    for tokens in (100, 102):
        for fork in (False, True):

            def of_length(times, tokens=tokens, fork=fork):
                return lines(tokens * times, fork=fork)

            growth(of_length, 1, 201).at_most(1.3, "the length of the sequence does not matter")
    growth(lambda step: lines(1000, block=10_000, step=step), 20, 400).at_most(1.3, "one block, however many tokens")
    growth(lambda step: lines(1000, step=step), 400, 800).at_most(2.2, "in proportion to the blocks taken")


@needs("worked_example")
@points(2)
def test_cost_fork(submission):
    """Lines run by fork: at most in proportion to the table, and the same whatever the number of blocks."""

    def lines(tokens, num_blocks=4000):
        manager = submission.BlockManager(num_blocks, 2)
        manager.create(0, tokens)
        with executed_lines(submission) as cost:
            manager.fork(0, 1)
            manager.fork(1, 2)
        return cost

    growth(lines, 2000, 4000).at_most(2.2, "the length of the table")
    growth(lambda blocks: lines(100, blocks), 100, 20_000).at_most(1.1, "the number of blocks does not matter")


class Driver:
    """Lives beside the submission: many calls without a message each, and lists that are not copied on the way."""

    def scribble(self, manager):
        """What is left of two tables after the lists that were handed out are changed."""
        created = manager.create(0, 5)
        kept = list(created)
        created.reverse()
        created.append(7)
        manager.fork(0, 1)
        for seq in (0, 1):
            manager.table(seq).clear()
        return kept, manager.table(0), manager.table(1)

    def grow(self, manager, seq, times):
        for _ in range(times):
            if not manager.can_append(seq) or manager.append(seq):
                return None
            manager.slot(seq, 7)
        return manager.length(seq), manager.num_free


@needs("worked_example")
@points(2)
def test_cost_large_pool(submission):
    """100,000 appends to a sequence of 500,000 blocks, 500,000 more being free: done within the time limit."""
    manager = submission.BlockManager(1_000_000, 1)
    manager.create(1, 500_000)
    got = submission.prop(Driver).grow(manager, 1, 100_000)
    equal(got, (600_000, 400_000), what="(length, num_free)")
