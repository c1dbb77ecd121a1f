"""The `products` probe: how many matrix products numpy computed, and their FLOPs (2 m n k each).

Nothing can be put in the way of `a @ b` on plain arrays. So a submission is compiled with `a @ b` and `a.dot(b)` turned
into calls by a name in its own module (`compiled`); the name stands for the plain operation until a probe opens. The
functions of numpy's that multiply matrices are replaced while it is open.
"""

from __future__ import annotations

import ast
import contextlib
import math
import operator
import sys
import threading
from collections.abc import Callable, Sequence
from types import CodeType, FrameType, TracebackType
from typing import Any, ClassVar

from grader.worker.probes import Context, Options

_MATMUL = "__matmul_operator__"
_DOT = "__dot_method__"
"""Dunder names: private to a star import and to `_public_names`, and not mangled inside a class."""

_namespaces: list[dict[str, Any]] = []
"""The modules of submissions that `compiled` prepared."""


def compiled(source: str, filename: str, namespace: dict[str, Any]) -> CodeType:
    """`source` as code to be run in `namespace`, on the same lines, with its matrix products within the probe's reach.

    >>> namespace = {}
    >>> exec(compiled("import numpy as np\\nx = np.eye(2) @ np.ones((2, 3))", "x.py", namespace), namespace)
    >>> namespace["x"].shape
    (2, 3)
    """
    # A decorator or an `@=` has the sign too; they are left alone.
    if "@" not in source and ".dot(" not in source:
        return compile(source, filename, "exec", dont_inherit=True)
    tree = ast.parse(source, filename)
    namespace.update({_MATMUL: operator.matmul, _DOT: _dot_method})
    _namespaces.append(namespace)
    code: CodeType = compile(ast.fix_missing_locations(_Calls().visit(tree)), filename, "exec", dont_inherit=True)
    return code


class _Calls(ast.NodeTransformer):
    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.MatMult):
            return node
        return ast.copy_location(_call(_MATMUL, node, [node.left, node.right], []), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Attribute) or node.func.attr != "dot":
            return node
        return ast.copy_location(_call(_DOT, node, [node.func.value, *node.args], node.keywords), node)


def _call(name: str, at: ast.AST, args: list[ast.expr], keywords: list[ast.keyword]) -> ast.Call:
    return ast.Call(ast.copy_location(ast.Name(name, ast.Load()), at), args, keywords)


def _dot_method(owner: Any, /, *args: Any, **kwargs: Any) -> Any:
    """`owner.dot(...)`; the owner may be numpy itself."""
    return owner.dot(*args, **kwargs)


class Products:
    """Counts products of arrays, vectors included: `@`, `.dot` and the functions in FLOPS.

    Sees what the submission itself calls, in every thread; not `@=`, nor what another library does inside, nor a
    function that was imported by name (`from numpy import einsum`) before the probe opened.
    """

    _open: ClassVar[list[Products]] = []
    _originals: ClassVar[list[tuple[Any, str, Any]]] = []
    _lock: ClassVar[threading.RLock] = threading.RLock()

    def __init__(self, options: Options, context: Context) -> None:
        self._filename = context.filename
        self._products = 0
        self._flops = 0

    def __enter__(self) -> Products:
        with self._lock:
            if not self._open:
                self._watch()
            self._open.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        with self._lock:
            self._open.remove(self)
            if not self._open:
                for namespace in _namespaces:
                    namespace.update({_MATMUL: operator.matmul, _DOT: _dot_method})
                while self._originals:
                    setattr(*self._originals.pop())

    def summary(self) -> dict[str, Any]:
        """`products`, `flops`."""
        return {"products": self._products, "flops": self._flops}

    @classmethod
    def _watch(cls) -> None:
        numpy = sys.modules.get("numpy")
        for namespace in _namespaces:
            namespace.update({_MATMUL: cls._matmul, _DOT: cls._dot})
        if numpy is None:
            return
        for owner, names in ((numpy, FLOPS), (numpy.linalg, ("matmul", "vecdot", "tensordot"))):
            for name in names:
                original = vars(owner).get(name)
                if original is not None:
                    cls._originals.append((owner, name, original))
                    setattr(owner, name, cls._counted(original, FLOPS[name]))

    @classmethod
    def _counted(cls, function: Callable[..., Any], flops: Callable[..., int]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            # An unusual way to call it is not counted.
            with contextlib.suppress(TypeError, ValueError, IndexError, KeyError):
                cls._note(flops(result, *args, **kwargs))
            return result

        return counted

    @classmethod
    def _note(cls, flops: int) -> None:
        caller = _caller()
        with cls._lock:
            for probe in cls._open:
                if flops and probe._filename == caller:
                    probe._products += 1
                    probe._flops += flops

    @classmethod
    def _matmul(cls, a: Any, b: Any) -> Any:
        result = operator.matmul(a, b)
        if _is_array(a) and _is_array(b):
            cls._note(_last_axis(result, a, b))
        return result

    @classmethod
    def _dot(cls, owner: Any, /, *args: Any, **kwargs: Any) -> Any:
        result = owner.dot(*args, **kwargs)
        if _is_array(owner) and args:
            cls._note(_last_axis(result, owner, args[0]))
        return result


def _caller() -> str:
    """The file of the code that asked for the product."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame.f_code.co_filename if frame is not None else ""


# -- FLOPs, from the result and the arguments of a call; 0 where nothing is summed ------------------------------------


def _is_array(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.ndarray)


def _shape(value: Any) -> tuple[int, ...]:
    shape: tuple[int, ...] = sys.modules["numpy"].shape(value)
    return shape


def _last_axis(result: Any, a: Any, b: Any, *rest: Any, **options: Any) -> int:
    """a's last axis is summed over: matmul, dot, inner, matvec, vecdot. A product with a number is none."""
    if not _shape(a) or not _shape(b):
        return 0
    return 2 * math.prod(_shape(result)) * _shape(a)[-1]


def _vector_matrix(result: Any, a: Any, b: Any, *rest: Any, **options: Any) -> int:
    return 2 * math.prod(_shape(result)) * _shape(a)[-1]


def _all(result: Any, a: Any, b: Any, **options: Any) -> int:
    return 2 * math.prod(_shape(a))


def _tensordot(result: Any, a: Any, b: Any, axes: Any = 2) -> int:
    shape = _shape(a)
    if isinstance(axes, int):
        summed: Sequence[int] = range(len(shape) - axes, len(shape))
    else:
        summed = [axes[0]] if isinstance(axes[0], int) else axes[0]
    return 2 * math.prod(_shape(result)) * math.prod(shape[axis] for axis in summed) if len(summed) else 0


def _einsum(result: Any, subscripts: Any, *operands: Any, **options: Any) -> int:
    """Two operands: 2 times all index combinations. More: only what any order of contraction must at least do."""
    if not isinstance(subscripts, str) or len(operands) < 2:
        return 0
    given, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = [term.replace("...", "") for term in given.split(",")]
    if not arrow:
        letters = "".join(terms)
        out = "".join(letter for letter in letters if letters.count(letter) == 1)
    sizes: dict[str, int] = {}
    for term, operand in zip(terms, operands, strict=True):
        shape = _shape(operand)
        # Letters stand before or after an ellipsis; its own axes are in the result.
        before = given.split(",")[terms.index(term)].partition("...")[0]
        for position, letter in enumerate(term):
            axis = position if position < len(before) else position - len(term)
            sizes[letter] = max(sizes.get(letter, 1), shape[axis])
    summed = [letter for letter in sizes if letter not in out and sum(letter in term for term in terms) > 1]
    if not summed:
        return 0
    if len(operands) > 2:
        return 2 * max(math.prod(_shape(operand)) for operand in operands)
    return 2 * math.prod(_shape(result)) * math.prod(sizes[letter] for letter in summed)


FLOPS: dict[str, Callable[..., int]] = {
    "matmul": _last_axis,
    "dot": _last_axis,
    "inner": _last_axis,
    "matvec": _last_axis,
    "vecdot": _last_axis,
    "vecmat": _vector_matrix,
    "vdot": _all,
    "tensordot": _tensordot,
    "einsum": _einsum,
}
"""numpy's functions that multiply matrices, and the count for each."""
