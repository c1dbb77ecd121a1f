"""Hidden tests: a scalar autograd engine. Oracle: torch in float64, executing the very same lines."""

import math
import random

import torch

from grader.testing import close, given, integers, points, raises, require


class Interpreter:
    """Lives beside the submission, so that operators, reflected ones too, act as they do in a user's program."""

    def __init__(self, Value):
        self.Value = Value

    def python(self, *lines, **numbers):
        """Executes the lines with the numbers as Values; {name: (data, grad)} of every Value there is then."""
        Value = self.Value
        names = {name: Value(number) for name, number in numbers.items()}
        exec("\n".join(lines), {"Value": Value}, names)
        return {name: (value.data, value.grad) for name, value in names.items() if isinstance(value, Value)}


def interpreter(submission):
    return submission.prop(Interpreter, submission.Value).python


def oracle(*lines, **numbers):
    """The same lines with torch's scalars; every variable keeps its gradient."""
    names = {name: torch.tensor(float(n), dtype=torch.float64, requires_grad=True) for name, n in numbers.items()}
    for line in lines:
        if "backward" in line:
            for value in names.values():
                value.retain_grad()
        exec(line, {}, names)
    return {name: (v.item(), 0.0 if v.grad is None else v.grad.item()) for name, v in names.items()}


def compare(got, expected, rtol=1e-12):
    """Data and gradients, relative to the largest number that the computation may have met (values can cancel)."""
    scale = max([1.0] + [abs(x) for data, grad in expected.values() for x in (data, grad, data * grad)])
    for name, (data, grad) in expected.items():
        require(name in got, f"{name} is no Value", got=got)
        close(got[name][0], data, rtol=0.0, atol=rtol * scale, what=f"{name}.data")
        close(got[name][1], grad, rtol=0.0, atol=rtol * scale, what=f"{name}.grad")


class Number(float):
    """Plain numbers with the methods of a Value: to see beforehand where an expression leads."""

    def exp(self):
        return math.exp(self)

    def log(self):
        return math.log(self)

    def tanh(self):
        return math.tanh(self)

    def relu(self):
        return max(self, 0.0)


def anywhere(x, y):
    return True


OPERATIONS = {
    "{x} + {y}": anywhere,
    "{x} - {y}": anywhere,
    "{x} * {y}": anywhere,
    "{x} / {y}": lambda x, y: abs(y) > 0.2,
    "{x} * {x}": anywhere,
    "{x} - {n}": anywhere,
    "{n} - {x}": anywhere,
    "{n} + {x}": anywhere,
    "{n} * {x}": anywhere,
    "{x} / {n}": anywhere,
    "{n} / {x}": lambda x, y: abs(x) > 0.2,
    "-{x}": anywhere,
    "{x} ** 2": anywhere,
    "{x} ** 3": anywhere,
    "{x} ** -1": lambda x, y: abs(x) > 0.2,
    "{x} ** 0.5": lambda x, y: x > 0.05,
    "{x} ** -1.5": lambda x, y: x > 0.3,
    "{x}.exp()": lambda x, y: x < 3.0,
    "{x}.log()": lambda x, y: x > 0.05,
    "{x}.tanh()": anywhere,
    "{x}.relu()": lambda x, y: abs(x) > 1e-3,
}
"""One operation each, and where it stays away from poles and kinks."""


def random_program(operations, seed):
    """Lines of Python over the leaves a, b, c, each one operation on earlier results; the last is differentiated."""
    rng = random.Random(seed)
    leaves = {name: round(rng.uniform(-3.0, 3.0), 2) or 0.5 for name in "abc"}
    names = {name: Number(value) for name, value in leaves.items()}
    lines, unused = [], list(leaves)
    while len(lines) < operations:
        x = unused[0] if unused and rng.random() < 0.6 else rng.choice(list(names))
        y = rng.choice(list(names))
        operation = rng.choice(list(OPERATIONS))
        if not OPERATIONS[operation](names[x], names[y]):
            continue
        line = operation.format(x=x, y=y, n=rng.choice((2, 3, 0.5, -1.5)))
        result = eval(line, {}, names)
        if abs(result) > 30.0:
            continue
        name = f"v{len(lines)}"
        names[name] = Number(result)
        lines.append(f"{name} = {line}")
        unused = [old for old in unused if old not in (x, y)] + [name]
    return [*lines, f"v{len(lines) - 1}.backward()"], leaves


@points(2)
def test_worked_example(submission):
    """f = 1.5 log exp(tanh(d) a + a^2 / c - relu(d)) with d = a b + c: the value and three gradients."""
    lines = ("d = a * b + c", "e = d.tanh() * a + a ** 2 / c - d.relu()", "f = e.exp().log() * 1.5", "f.backward()")
    got = interpreter(submission)(*lines, a=2, b=-3, c=0.5)
    close(got["f"], (9.0001002085, 1.0), rtol=1e-10, what="(f.data, f.grad)")
    grads = {name: got[name][1] for name in "abc"}
    close(grads, {"a": 10.4994488631, "b": 0.0004008274, "c": -23.9997995863}, rtol=1e-6, what="grad")
    close({name: got[name][0] for name in "abc"}, {"a": 2.0, "b": -3.0, "c": 0.5}, what="the operands' data")


@points(4)
@given(operations=integers(1, 40), seed=integers(0, 2**32 - 1), examples=200)
def test_matches_torch(submission, operations, seed):
    """Random expressions of up to 40 operations: every value and every gradient as torch gets them in float64."""
    lines, leaves = random_program(operations, seed)
    compare(interpreter(submission)(*lines, **leaves), oracle(*lines, **leaves))


@points(2)
def test_shared_nodes_add(submission):
    """A node that is used twice receives both contributions: a * a, a + a, branches of different depth."""
    python = interpreter(submission)
    for lines in (
        ("f = a + a", "f.backward()"),
        ("f = a * a + a", "f.backward()"),
        ("s = a * a", "f = s * s + s", "f.backward()"),
        ("s = a * 2", "t = s.tanh()", "u = t * t", "f = s + u * t", "f.backward()"),
        ("s = a * 2", "t = s.tanh()", "u = t * t", "f = u * t + s", "f.backward()"),
        ("f = a / a - a", "f.backward()"),
    ):
        compare(python(*lines, a=3), oracle(*lines, a=3))
    got = python("b = Value(3)", "f = a * b", "f.backward()", a=3)
    close((got["a"][1], got["b"][1]), (3.0, 3.0), what="the gradients of two equal numbers that are two nodes")


@points(2)
def test_diamond_sixty_deep(submission):
    """y = y + y, sixty times: 2 ** 60 paths to the start, and yet each node is visited once."""
    got = interpreter(submission)("y = x", "for _ in range(60): y = y + y", "y.backward()", x=1.5)
    close(got["x"], (1.5, 2.0**60), rtol=1e-12, what="(x.data, x.grad)")


@points(2)
def test_chain_of_twenty_thousand(submission):
    """y = y * 1.0 + 0.0, 20,000 times: no RecursionError."""
    got = interpreter(submission)("y = x", "for _ in range(20_000): y = y * 1.0 + 0.0", "y.backward()", x=3)
    close(got["x"], (3.0, 1.0), rtol=1e-12, what="(x.data, x.grad)")


@points(2)
def test_backward_twice_doubles(submission):
    """A second backward() adds the same again, seed 3.0 three times as much; leaves set to 0.0 start afresh."""
    python = interpreter(submission)
    lines = ("p = a * b", "z = p * c", "z.backward()")
    once = oracle(*lines, a=2, b=-3, c=0.5)

    def times(n):
        return {name: (data, n * grad) for name, (data, grad) in once.items()}

    compare(python(*lines, a=2, b=-3, c=0.5), once)
    compare(python(*lines, "z.backward()", a=2, b=-3, c=0.5), times(2))
    compare(python(*lines, "z.backward(3.0)", a=2, b=-3, c=0.5), times(4))
    compare(python(*lines[:2], "z.backward(-0.5)", a=2, b=-3, c=0.5), times(-0.5))
    zeroed = python(*lines, "a.grad = b.grad = c.grad = 0.0", "z.backward()", a=2, b=-3, c=0.5)
    compare({name: zeroed[name] for name in "abc"}, {name: once[name] for name in "abc"})


@points(2)
def test_two_roots_share_a_graph(submission):
    """backward from two roots over common nodes: the sum of both gradients, everywhere."""
    python = interpreter(submission)
    shared = ("s = a * b", "t = s + a", "f = t * t", "g = s.tanh() - t")
    f = oracle(*shared, "f.backward()", a=0.5, b=-0.7)
    g = oracle(*shared, "g.backward()", a=0.5, b=-0.7)
    both = {name: (f[name][0], f[name][1] + g[name][1]) for name in f}
    compare(python(*shared, "f.backward()", "g.backward()", a=0.5, b=-0.7), both)
    compare(python(*shared, "g.backward()", "f.backward()", a=0.5, b=-0.7), both)
    # A root that is itself part of what the other root was computed from.
    t = oracle(*shared, "t.backward()", a=0.5, b=-0.7)
    both = {name: (f[name][0], f[name][1] + t[name][1]) for name in f}
    compare(python(*shared, "t.backward()", "f.backward()", a=0.5, b=-0.7), both)


@points(1)
def test_relu_at_zero(submission):
    """relu of exactly 0.0 has the derivative 0; just beside it 0 and 1."""
    python = interpreter(submission)
    for x, slope in ((0.0, 0.0), (-1e-9, 0.0), (1e-9, 1.0), (-3, 0.0), (3, 1.0)):
        got = python("y = x.relu()", "y.backward()", x=x)
        close((got["y"][0], got["x"][1]), (max(x, 0.0), slope), rtol=1e-12, what="(y.data, x.grad)")


@points(2)
def test_reflected_operators(submission):
    """2 - x, 2 / x, 3 * x, 1 + x and their mirror images; powers -1 and 0.5; ints and floats."""
    python = interpreter(submission)
    for expression in (
        *("2 - x", "2 / x", "3 * x", "1 + x", "-x", "x - 2", "x / 2", "x * 3", "x + 1", "x ** -1", "x ** 0.5"),
        *("2.5 - x", "2.5 / x", "0.5 * x", "1.5 + x", "x - 2.5", "x / 2.5", "x ** 3", "x ** 2.5", "x ** 1"),
    ):
        lines = (f"y = {expression}", "y.backward()")
        compare(python(*lines, x=4), oracle(*lines, x=4))


@points(1)
def test_edges_and_refusals(submission):
    """x ** 0 has the derivative 0, at 0 too; Value ** Value is a TypeError, log of 0 or less a ValueError."""
    python = interpreter(submission)
    for x in (0.0, -2.0, 3.0):
        got = python("y = x ** 0", "y.backward()", x=x)
        close((got["y"][0], got["x"][1]), (1.0, 0.0), what="(y.data, x.grad)")
    got = python("y = x ** 2 + x ** 1", "y.backward()", x=0.0)
    close((got["y"][0], got["x"][1]), (0.0, 1.0), what="(y.data, x.grad)")
    with raises(TypeError):
        python("y = x ** a", x=2.0, a=3.0)
    for x in (0.0, -1.0):
        with raises(ValueError):
            python("y = x.log()", x=x)
