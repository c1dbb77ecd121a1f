"""Hidden tests: reverse mode over arrays. Oracle: torch in float64, executing the very same lines."""

import numpy as np
import torch

from grader.testing import close, given, integers, peak_memory, points, raises, require


class Interpreter:
    """Lives beside the submission, so that operators act as in a user's program, with ndarrays on either side."""

    def __init__(self, Tensor):
        self.Tensor = Tensor

    def python(self, *lines, **arrays):
        """Executes the lines; {name: (data, grad)} of every Tensor there is then."""
        import numpy as np

        self.names = {"Tensor": self.Tensor, "np": np, **arrays}
        return self.more(*lines)

    def more(self, *lines):
        """Further lines, in which the variables are still known."""
        exec("\n".join(lines), self.names)
        return {name: (t.data, t.grad) for name, t in self.names.items() if isinstance(t, self.Tensor)}

    def value(self, expression):
        """What an expression gives."""
        return eval(expression, self.names)


def beside(submission):
    return submission.prop(Interpreter, submission.Tensor)


class Oracle:
    """torch under the interface of the exercise."""

    __array_ufunc__ = None

    def __init__(self, data, requires_grad=False):
        self.t = torch.tensor(np.array(data, dtype=np.float64), requires_grad=requires_grad)

    @staticmethod
    def of(t):
        made = Oracle.__new__(Oracle)
        made.t = t
        return made

    def _binary(function):
        def method(self, other):
            return Oracle.of(function(self.t, other.t if isinstance(other, Oracle) else torch.as_tensor(other)))

        return method

    __add__, __radd__ = _binary(lambda a, b: a + b), _binary(lambda a, b: b + a)
    __sub__, __rsub__ = _binary(lambda a, b: a - b), _binary(lambda a, b: b - a)
    __mul__, __rmul__ = _binary(lambda a, b: a * b), _binary(lambda a, b: b * a)
    __truediv__, __rtruediv__ = _binary(lambda a, b: a / b), _binary(lambda a, b: b / a)
    __matmul__ = _binary(lambda a, b: a @ b)
    __getitem__ = _binary(lambda a, index: a[index])

    def __neg__(self):
        return Oracle.of(-self.t)

    def __pow__(self, n):
        return Oracle.of(self.t**n)

    def _axes(self, axis):
        return tuple(range(self.t.ndim)) if axis is None else axis

    def sum(self, axis=None, keepdims=False):
        return Oracle.of(self.t.sum(self._axes(axis), keepdim=keepdims))

    def mean(self, axis=None, keepdims=False):
        return Oracle.of(self.t.mean(self._axes(axis), keepdim=keepdims))

    def max(self, axis=None, keepdims=False):
        return Oracle.of(self.t.amax(self._axes(axis), keepdim=keepdims))

    def reshape(self, *shape):
        return Oracle.of(self.t.reshape(shape))

    def transpose(self, *axes):
        return Oracle.of(self.t.permute(axes or tuple(reversed(range(self.t.ndim)))))

    def exp(self):
        return Oracle.of(self.t.exp())

    def log(self):
        return Oracle.of(self.t.log())

    def relu(self):
        return Oracle.of(self.t.relu())

    def backward(self, grad=None):
        grad = np.ones(tuple(self.t.shape)) if grad is None else grad
        self.t.backward(torch.as_tensor(grad), retain_graph=True)


def oracle(*lines, **arrays):
    """The same lines with torch: {name: (data, grad)}, grad None but for leaves that require it."""
    names = {"Tensor": Oracle, "np": np, **arrays}
    exec("\n".join(lines), names)
    found = {}
    for name, value in names.items():
        if isinstance(value, Oracle):
            grad = value.t.grad if value.t.is_leaf else None
            found[name] = (value.t.detach().numpy(), None if grad is None else grad.numpy())
    return found


def compare(got, expected, rtol=1e-10):
    """Data and gradients, relative to the largest entry of each; what cancels to 0 may come out as rounding error."""
    for name, (data, grad) in expected.items():
        require(name in got, f"{name} is not a Tensor", got=sorted(got))
        close(got[name][0], data, rtol=rtol, atol=1e-13, by="tensor", what=f"{name}.data")
        if grad is None:
            require(got[name][1] is None, f"{name}.grad is not None", got=got[name][1], expected=None)
        else:
            close(got[name][1], grad, rtol=rtol, atol=1e-13, by="tensor", what=f"{name}.grad")


def agrees(here, *lines, **arrays):
    compare(here.python(*lines, **arrays), oracle(*lines, **arrays))


LEAVES = ("x = Tensor(X, requires_grad=True)", "y = Tensor(Y, requires_grad=True)")


def upstream(rng, *lines, **arrays):
    """A gradient for the result z of these lines, of its shape."""
    return rng.standard_normal(oracle(*lines, **arrays)["z"][0].shape)


@points(2)
def test_unbroadcast(submission, rng):
    """(3,1) * (1,4), (4,) + (2,3,4), a number * (2,2), (2,1,3) / (5,1) and more, an ndarray on the left too."""
    here = beside(submission)
    for operation, X, Y in (
        ("x * y", (3, 1), (1, 4)),
        ("x + y", (4,), (2, 3, 4)),
        ("x * y", (), (2, 2)),
        ("x / y", (2, 1, 3), (5, 1)),
        ("x - y", (2, 3), (2, 3)),
        ("x - y", (1, 1), (2, 3)),
        ("x * y", (1,), (1, 1)),
        ("x + y", (3, 1), (3, 3)),
        ("x / y", (2, 2), ()),
    ):
        # Away from 0, since some are divided by.
        arrays = {"X": rng.standard_normal(X), "Y": rng.uniform(0.5, 2.0, Y)}
        lines = (*LEAVES, f"z = {operation}")
        arrays["G"] = upstream(rng, *lines, **arrays)
        agrees(here, *lines, "z.backward(G)", **arrays)
    for operation in ("N - x", "N * x", "N + x", "N / x", "x - N", "x / N", "2 - x", "2 / x", "3 * x", "-x", "x - 0.5"):
        arrays = {"X": rng.uniform(0.5, 2.0, (3, 1)), "N": rng.uniform(0.5, 2.0, (2, 1, 4))}
        lines = (LEAVES[0], f"z = {operation}")
        arrays["G"] = upstream(rng, *lines, **arrays)
        agrees(here, *lines, "z.backward(G)", **arrays)


@points(2)
@given(axes=integers(0, 4), seed=integers(0, 2**32 - 1), examples=30)
def test_any_shapes_that_broadcast(submission, axes, seed):
    """Random pairs of shapes: axes of size 1 and missing leading axes on either side, all four operators."""
    here = beside(submission)
    rng = np.random.default_rng(seed)
    full = rng.integers(1, 4, axes)
    shapes = [tuple(np.where(rng.random(axes) < 0.4, 1, full))[rng.integers(0, axes + 1) :] for _ in range(2)]
    arrays = {"X": rng.standard_normal(shapes[0]), "Y": rng.uniform(0.5, 2.0, shapes[1])}
    lines = (*LEAVES, f"z = x {rng.choice(list('+-*/'))} y")
    arrays["G"] = upstream(rng, *lines, **arrays)
    agrees(here, *lines, "z.backward(G)", **arrays)


@points(2)
def test_matmul_batches(submission, rng):
    """Matrices, batches of them, and leading dimensions that broadcast; an ndarray on the right."""
    here = beside(submission)
    for X, Y in (
        ((3, 4), (4, 5)),
        ((3, 3), (3, 3)),
        ((2, 3, 4), (4, 5)),
        ((3, 4), (2, 4, 5)),
        ((1, 2, 3), (7, 3, 2)),
        ((5, 1, 2, 3), (4, 3, 2)),
        ((2, 3, 3), (2, 3, 3)),
        ((1, 1), (1, 1)),
    ):
        arrays = {"X": rng.standard_normal(X), "Y": rng.standard_normal(Y)}
        lines = (*LEAVES, "z = x @ y")
        arrays["G"] = upstream(rng, *lines, **arrays)
        agrees(here, *lines, "z.backward(G)", **arrays)
        agrees(here, LEAVES[0], "z = x @ Y", "z.backward(G)", **arrays)


@points(2)
def test_reductions(submission, rng):
    """sum, mean, max over None, 0, -1, (0, 2), with and without keepdims; equal maxima share the gradient."""
    here = beside(submission)
    for axis in ("None", "0", "1", "-1", "(0, 2)", "(-1, 0)", "(1,)"):
        for keepdims in ("False", "True"):
            for method in ("sum", "mean", "max"):
                arrays = {"X": rng.standard_normal((3, 3, 3))}
                lines = (LEAVES[0], f"z = x.{method}(axis={axis}, keepdims={keepdims})")
                arrays["G"] = upstream(rng, *lines, **arrays)
                agrees(here, *lines, "z.backward(G)", **arrays)
    ties = {"X": np.array([1.0, 3.0, 3.0, 2.0])}
    got = here.python(LEAVES[0], "z = x.max()", "z.backward()", **ties)
    close(got["x"][1], [0.0, 0.5, 0.5, 0.0], rtol=1e-12, what="x.grad")
    ties = {"X": np.array([[[2.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [5.0, -1.0]]])}
    for call in ("max()", "max(axis=0)", "max(-1)", "max(axis=(0, 1), keepdims=True)", "max(2, True)", "sum(0, True)"):
        lines = (LEAVES[0], f"z = x.{call}")
        ties["G"] = upstream(rng, *lines, **ties)
        agrees(here, *lines, "z.backward(G)", **ties)


@points(1)
def test_shape_ops(submission, rng):
    """transpose with and without arguments (the three-cycle (1, 2, 0) too), reshape with -1."""
    here = beside(submission)
    for operation in (
        "x.transpose()",
        "x.transpose(1, 2, 0)",
        "x.transpose(2, 0, 1)",
        "x.transpose(0, 2, 1)",
        "x.reshape(4, -1)",
        "x.reshape(24)",
        "x.reshape(2, 3, 2, 2)",
        "x.reshape(-1, 6).transpose()",
    ):
        arrays = {"X": rng.standard_normal((2, 3, 4))}
        lines = (LEAVES[0], f"z = {operation}")
        arrays["G"] = upstream(rng, *lines, **arrays)
        agrees(here, *lines, "z.backward(G)", **arrays)


@points(1)
def test_elementwise_ops(submission, rng):
    """exp, log, relu, -x and powers; relu at exactly 0, and x ** 0 at 0, have the derivative 0."""
    here = beside(submission)
    for operation in ("x.exp()", "x.log()", "x ** 2", "x ** -1", "x ** 0.5", "x ** -1.5", "x ** 1", "-x", "x.relu()"):
        arrays = {"X": rng.uniform(0.5, 2.0, (2, 3)), "G": rng.standard_normal((2, 3))}
        agrees(here, LEAVES[0], f"z = {operation}", "z.backward(G)", **arrays)
    for operation in ("x.relu()", "x ** 0", "x ** 2", "x ** 3"):
        arrays = {"X": np.array([-1.5, 0.0, 2.0]), "G": rng.standard_normal(3)}
        agrees(here, LEAVES[0], f"z = {operation}", "z.backward(G)", **arrays)


@points(2)
def test_gather_accumulates(submission, rng):
    """A row that is looked up three times receives three gradients, one that is not looked up 0; any shape of index."""
    here = beside(submission)
    index = np.array([[1, 1], [2, 1]])
    arrays = {"X": rng.standard_normal((4, 3)), "I": index, "G": rng.standard_normal((2, 2, 3))}
    got = here.python(LEAVES[0], "z = x[I]", "z.backward(G)", **arrays)
    g = arrays["G"]
    expected = np.stack([np.zeros(3), g[0, 0] + g[0, 1] + g[1, 1], g[1, 0], np.zeros(3)])
    close(got["x"][1], expected, rtol=1e-12, by="tensor", what="x.grad")
    for table, index in (
        ((4, 3), np.array([3, 0, 3])),
        ((5,), np.array([[4, 4, 4, 0]])),
        ((4, 2, 3), np.array([[[0], [1]], [[1], [3]]])),
        ((4, 3), np.array(2)),
        ((1, 3), np.zeros((2, 5), dtype=np.int64)),
        ((6, 2), rng.integers(0, 6, 127)),
    ):
        arrays = {"X": rng.standard_normal(table), "I": index}
        lines = (LEAVES[0], "z = x[I]")
        arrays["G"] = upstream(rng, *lines, **arrays)
        agrees(here, *lines, "z.backward(G)", **arrays)


@points(3)
def test_composed_models(submission, rng):
    """An MLP with log-softmax loss and one causal attention head over embeddings, built from these operations."""
    here = beside(submission)
    n, k = 5, 3
    agrees(
        here,
        "w1, b1 = Tensor(W1, requires_grad=True), Tensor(B1, requires_grad=True)",
        "w2, b2 = Tensor(W2, requires_grad=True), Tensor(B2, requires_grad=True)",
        "h = (Tensor(X) @ w1 + b1).relu()",
        "z = h @ w2 + b2",
        "s = z - z.max(axis=1, keepdims=True)",
        "logp = s - s.exp().sum(axis=1, keepdims=True).log()",
        "loss = -(logp * ONEHOT).sum(axis=-1).mean()",
        "loss.backward()",
        X=rng.standard_normal((n, 4)),
        W1=rng.standard_normal((4, 6)),
        B1=rng.standard_normal(6),
        W2=rng.standard_normal((6, k)),
        B2=rng.standard_normal((1, k)),
        ONEHOT=np.eye(k)[rng.integers(0, k, n)],
    )
    agrees(
        here,
        "e, p = Tensor(E, requires_grad=True), Tensor(P, requires_grad=True)",
        "wq, wk, wv = (Tensor(W, requires_grad=True) for W in (WQ, WK, WV))",
        "x = e[IDS] + p",
        "q, k, v = x @ wq, x @ wk, x @ wv",
        "s = q @ k.transpose(0, 2, 1) / 2.0 + MASK",
        "w = (s - s.max(-1, keepdims=True)).exp()",
        "w = w / w.sum(-1, keepdims=True)",
        "out = (w @ v).reshape(2, 20)",
        "loss = (out * out * G).sum()",
        "loss.backward()",
        E=rng.standard_normal((7, 6)),
        P=rng.standard_normal((5, 6)),
        WQ=rng.standard_normal((6, 4)),
        WK=rng.standard_normal((6, 4)),
        WV=rng.standard_normal((6, 4)),
        IDS=np.array([[1, 3, 3, 0, 6], [2, 1, 1, 1, 5]]),
        MASK=np.where(np.tri(5, dtype=bool), 0.0, -1e9),
        G=rng.standard_normal((2, 20)),
    )


@points(2)
def test_graph_semantics(submission, rng):
    """Shared tensors add up, backward adds at each call, constants and intermediates keep grad None, data stays."""
    here = beside(submission)
    arrays = {"X": rng.standard_normal((2, 3)), "Y": rng.standard_normal((2, 3)), "G": rng.standard_normal((2, 3))}
    model = (*LEAVES, "p = x * y", "z = p * x + p.exp()", "c = Tensor(G)", "w = z * c + 1.0")
    agrees(here, *model, "w.sum().backward()", **arrays)
    agrees(here, *model, "w.sum().backward()", "w.sum().backward()", **arrays)
    agrees(here, *model, "w.sum().backward()", "(p * p).mean().backward()", "z.backward(G)", **arrays)
    agrees(here, LEAVES[0], "z = x + x", "z.backward(G)", **arrays)
    agrees(here, LEAVES[0], "z = x * x.transpose().transpose() - x / x", "z.backward(G)", **arrays)
    # Where one gradient serves several operands, nothing may be added to it in place.
    for z in ("(p + q) + p", "(q + p) + p", "p + (p + q)", "x + p", "p.transpose().transpose() + p"):
        agrees(here, *LEAVES, "p, q = x * 2.0, y * 3.0", f"z = {z}", "z.backward(G)", **arrays)
    for z in ("x.sum() + (x * x).sum()", "(x * x).sum() + x.sum()", "x.mean() - x.sum()", "x.sum() + x.max()"):
        agrees(here, LEAVES[0], f"z = {z}", "z.backward()", **arrays)
    here.python(*model, **arrays)
    for expression, requires in {"x": True, "w": True, "(2.0 - x)": True, "c": False, "(c * c)": False}.items():
        got = here.value(f"bool({expression}.requires_grad)")
        require(got is requires, f"{expression}.requires_grad is {got}", got=got, expected=requires)


@points(2)
def test_gradients_are_owned(submission, rng):
    """No grad shares memory with another grad or with an argument: each may be changed in place; None starts afresh."""
    here = beside(submission)
    arrays = {"X": rng.standard_normal((2, 3)), "Y": rng.standard_normal((2, 3)), "G": rng.standard_normal((2, 3))}
    twice = (*LEAVES, "z = x + y", "z.backward(G)", "z.backward(G)")
    got = here.python(*twice, **arrays)
    close(got["x"][1], 2.0 * arrays["G"], rtol=1e-12, what="x.grad")
    close(got["y"][1], 2.0 * arrays["G"], rtol=1e-12, what="y.grad")
    for function in ("x + y", "(x + y).reshape(6)[np.arange(6)].reshape(2, 3)", "(x - (-y)).transpose().transpose()"):
        got = here.python(*LEAVES, f"z = {function}", "z.backward(G)", "x.grad *= 3.0", **arrays)
        close(got["x"][1], 3.0 * arrays["G"], rtol=1e-12, what="x.grad, tripled in place")
        close(got["y"][1], arrays["G"], rtol=1e-12, what="y.grad")
    got = here.python(LEAVES[0], "z = x.sum()", "z.backward()", "x.grad[0, 0] = 7.0", **arrays)
    close(got["x"][1], [[7.0, 1.0, 1.0], [1.0, 1.0, 1.0]], rtol=1e-12, what="x.grad, after x.grad[0, 0] = 7.0")
    afresh = (LEAVES[0], "z = x * x", "z.backward(G)", "x.grad = None", "z.backward(G)")
    got = here.python(*afresh, **arrays)
    close(got["x"][1], 2.0 * arrays["X"] * arrays["G"], rtol=1e-12, by="tensor", what="x.grad")


@points(1)
def test_long_chain(submission):
    """5,000 operations in a row, and thirty times z = z + z: no RecursionError, each operation walked once."""
    here = beside(submission)
    lines = (LEAVES[0], "z = x", "for _ in range(2500): z = z * 1.0 + 0.5", "z.backward(np.ones(2))")
    close(here.python(*lines, X=np.array([1.0, 2.0]))["x"][1], [1.0, 1.0], rtol=1e-12, what="x.grad")
    lines = (LEAVES[0], "z = x", "for _ in range(30): z = z + z", "z.backward()")
    close(here.python(*lines, X=np.array([1.0]))["x"][1], [2.0**30], rtol=1e-12, what="x.grad")


@points(1)
def test_reflected_with_numpy(submission):
    """np.ones(3) - t is a Tensor with three elements, not an array of objects."""
    here = beside(submission)
    for expression, data, grad in (
        ("np.ones(3) - t", [0.0, -1.0, -3.0], [-1.0, -1.0, -1.0]),
        ("np.ones((2, 3)) * t", [[1.0, 2.0, 4.0]] * 2, [2.0, 2.0, 2.0]),
        ("np.array(2.0) / t", [2.0, 1.0, 0.5], [-2.0, -0.5, -0.125]),
        ("np.float64(3.0) + t", [4.0, 5.0, 7.0], [1.0, 1.0, 1.0]),
    ):
        got = here.python("t = Tensor([1.0, 2.0, 4.0], requires_grad=True)", f"z = {expression}")
        require("z" in got, f"{expression} is not a Tensor", got=here.value("type(z).__name__"), expected="Tensor")
        close(got["z"][0], data, rtol=1e-12, what=f"({expression}).data")
        got = here.more(f"z.backward(np.ones({np.shape(data)}))")
        close(got["t"][1], grad, rtol=1e-12, what=f"t.grad after {expression}")


@points(1)
def test_non_scalar_needs_grad(submission, rng):
    """backward() of three numbers is a ValueError, of one number in any shape it is not; backward(g) leaves g alone."""
    here = beside(submission)
    X = rng.standard_normal(3)
    here.python(LEAVES[0], "z = x * 2.0", "g = np.ones(3)", X=X)
    with raises(ValueError):
        here.more("z.backward()")
    with raises(ValueError):
        here.more("x.backward()")
    got = here.more("z.backward(g)", "z.backward(g)", "x.backward(g)", "x.backward(g)")
    close(got["x"][1], [6.0, 6.0, 6.0], rtol=1e-12, what="x.grad")
    close(here.value("g"), [1.0, 1.0, 1.0], rtol=0.0, what="the gradient that was passed in")
    for shape in ((), (1,), (1, 1), (1, 1, 1)):
        agrees(here, LEAVES[0], "z = x * x", "z.backward()", X=rng.standard_normal(shape))
    agrees(here, LEAVES[0], "x.backward()", X=rng.standard_normal((1, 1)))


@points(2)
def test_cost_gather(submission, rng):
    """The backward pass of 1,000 look-ups in a (10,000, 8) table holds no 1,000 x 10,000 array (10 MB as bools)."""
    here = beside(submission)
    index = rng.integers(0, 10_000, 1000)
    here.python(
        "table = Tensor(np.zeros((10_000, 8)), requires_grad=True)",
        "loss = (table[I] * G).sum()",
        I=index,
        G=np.ones(8),
    )
    with peak_memory(submission) as cost:
        here.value("loss.backward()")
    cost.at_most(8 * 2**20, "8 MiB; the table's gradient is 0.6 MiB")
    got = here.value("table.grad")
    close(got, np.bincount(index, minlength=10_000)[:, None] * np.ones(8), rtol=1e-12, what="table.grad")
