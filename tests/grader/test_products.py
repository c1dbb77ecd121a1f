"""The probe `products` counts numpy's matrix products in a submission, however they are written."""

from __future__ import annotations

import traceback
import types

import numpy as np
import pytest

from grader.worker.probes import opened
from grader.worker.probes.products import compiled

SUBMISSION = "/somewhere/products.py"


def module(source):
    made = types.ModuleType("submission")
    exec(compiled("import numpy as np\n" + source, SUBMISSION, made.__dict__), made.__dict__)
    return made


def counted(expression, **names):
    """(products, FLOPs) of one expression of a submission's."""
    function = module(f"def f({', '.join(names)}):\n    return {expression}").f
    results = {}
    with opened({"products": {}}, SUBMISSION, {}, results):
        results["value"] = function(**names)
    return results["products"]["products"], results["products"]["flops"]


A, B = np.ones((5, 6)), np.ones((6, 7))
ONE = 2 * 5 * 6 * 7


@pytest.mark.parametrize(
    "expression",
    [
        "a @ b",
        "a.dot(b)",
        "np.dot(a, b)",
        "np.matmul(a, b)",
        "np.linalg.matmul(a, b)",
        "np.inner(a, b.T)",
        "np.einsum('ij,jk->ik', a, b)",
        "np.einsum('ij, jk', a, b)",
        "np.einsum('...j,jk->...k', a, b)",
        "np.tensordot(a, b, 1)",
        "np.tensordot(a, b, axes=([1], [0]))",
        "np.tensordot(a, b, axes=(1, 0))",
        "(lambda y: y)(a @ b)",
        "[x @ b for x in [a]][0]",
    ],
)
def test_every_spelling_of_a_product_counts_once(expression):
    assert counted(expression, a=A, b=B) == (1, ONE)


@pytest.mark.parametrize(
    "expression",
    [
        "a * a",
        "np.dot(a, 2.0)",
        "a.dot(3.0)",
        "np.einsum('ij->j', a)",
        "np.einsum('ij,ij->ij', a, a)",
        "np.einsum('i,j->ij', a[0], b[0])",
        "a.sum(0)",
    ],
)
def test_what_sums_no_products_is_not_counted(expression):
    assert counted(expression, a=A, b=B) == (0, 0)


def test_vectors_batches_and_loops():
    assert counted("a[0] @ b", a=A, b=B) == (1, 2 * 6 * 7)
    assert counted("a[0] @ a[1]", a=A) == (1, 12)
    assert counted("np.vdot(a, a)", a=A) == (1, 60)
    assert counted("np.ones((3, 5, 6)) @ b", b=B) == (1, 3 * ONE)
    assert counted("[row @ b for row in a]", a=A, b=B) == (5, ONE)
    assert counted("a @ b @ b.T", a=A, b=B) == (2, 2 * ONE)


def test_other_code_is_not_counted_and_everything_is_put_back():
    made = module("def f(a, g):\n    return g(a)")
    results = {}
    originals = {name: getattr(np, name) for name in ("dot", "matmul", "einsum")}
    with opened({"products": {}}, SUBMISSION, {}, results):
        made.f(A, lambda a: np.dot(a, a.T))
        made.f(A, np.cov)
    assert results["products"] == {"products": 0, "flops": 0}
    assert all(getattr(np, name) is function for name, function in originals.items())


def test_probes_nest():
    made = module("def f(a, b, inside):\n    y = a @ b\n    inside()\n    return a @ b")
    outer, inner = {}, {}

    def inside():
        with opened({"products": {}}, SUBMISSION, {}, inner):
            made.f(A, B, lambda: None)

    with opened({"products": {}}, SUBMISSION, {}, outer):
        made.f(A, B, inside)
    assert (inner["products"]["products"], outer["products"]["products"]) == (2, 4)


def test_what_a_submission_sees_stays_the_same():
    made = module(
        "class Tensor:\n"
        "    def __matmul__(self, other):\n        return 'mine'\n"
        "    def dot(self, *, scale):\n        return scale\n"
        "    def twice(self):\n        return self @ self\n"
        "def bad(a):\n"
        "    x = a\n"
        "    return x @ a\n"
    )
    tensor = made.Tensor()
    assert (tensor.twice(), tensor.dot(scale=3)) == ("mine", 3)
    with pytest.raises(ValueError, match="matmul") as caught:
        made.bad(A)
    frames = [frame for frame in traceback.extract_tb(caught.tb) if frame.filename == SUBMISSION]
    assert [(frame.name, frame.lineno) for frame in frames] == [("bad", made.bad.__code__.co_firstlineno + 2)]
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for @: 'int' and 'int'"):
        module("def f(a):\n    return a @ a").f(1)


def test_the_first_lines_of_a_file_stay_what_they_are():
    namespace = {}
    source = '"""A docstring."""\nfrom __future__ import annotations\ndef f(x: nowhere):\n    return x @ x\n'
    exec(compiled(source, SUBMISSION, namespace), namespace)
    assert namespace["__doc__"] == "A docstring."
    assert namespace["f"].__annotations__ == {"x": "nowhere"}


def test_a_class_may_use_products_in_methods_and_comprehensions():
    made = module("class C:\n    def f(self, a):\n        return [a @ a.T for _ in range(2)]\n")
    results = {}
    with opened({"products": {}}, SUBMISSION, {}, results):
        made.C().f(A)
    assert results["products"]["products"] == 2
