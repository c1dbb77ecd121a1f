"""Forbidden operations: refused in every form to the submission, and to nobody else."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import textwrap
import time
import types

import numpy as np
import pytest
import torch

from grader.worker import forbid
from grader.worker.forbidding.names import canonical
from grader.worker.probes import opened

SUBMISSION = "/somewhere/submission.py"


class Worker:
    """A guard and a module, handled as the worker does."""

    def __init__(self, names, source):
        self.guard = forbid.install(names, SUBMISSION)
        self.module = types.ModuleType("submission")
        self.module.__file__ = SUBMISSION
        try:
            with self.guard.active():
                exec(compile(textwrap.dedent(source), SUBMISSION, "exec", dont_inherit=True), self.module.__dict__)
        except BaseException:
            self.guard.uninstall()
            raise

    def __call__(self, name, *args):
        with self.guard.active():
            return getattr(self.module, name)(*args)


@contextlib.contextmanager
def worker(names, source):
    made = Worker(names, source)
    try:
        yield made
    finally:
        made.guard.uninstall()


def refused(names, body, *args, imports=""):
    """Whether `def f(...)` with this body is refused; a wrong exception fails."""
    source = f"{imports}\ndef f({', '.join('xyz'[: len(args)])}):\n{textwrap.indent(textwrap.dedent(body), '    ')}"
    try:
        made = Worker(names, source)
    except forbid.ForbiddenOperation:
        return True
    try:
        made("f", *args)
    except forbid.ForbiddenOperation:
        assert made.guard.hits
        return True
    finally:
        made.guard.uninstall()
    return bool(made.guard.hits)


TORCH = "import torch\nimport torch.nn.functional as F\nfrom torch import nn"


def x(*shape, grad=False):
    return torch.rand(*(shape or (4, 4))).requires_grad_(grad)


# -- torch: every form of it ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["torch.softmax", "Tensor.softmax", "torch.nn.functional.softmax"])
@pytest.mark.parametrize(
    "body",
    [
        "return torch.softmax(x, -1)",
        "return x.softmax(-1)",
        "return F.softmax(x, dim=-1)",
        "return F.softmin(-x, dim=-1)",
        "return torch.special.softmax(x, -1)",
        "return torch._softmax(x, -1, False)",
        "return torch.ops.aten.softmax(x, -1)",
        "return torch.ops.aten.softmax.int(x, -1)",
        "return torch.ops.aten._softmax.default(x, -1, False)",
        "return nn.Softmax(-1)(x)",
        "return torch.nn.modules.activation.Softmax(-1)(x)",
        "return torch.Tensor.softmax(x, -1)",
        "return getattr(torch, 'soft' + 'max')(x, -1)",
        "return list(map(lambda row: row.softmax(-1), x))",
        "return eval('torch.softmax(x, -1)', {'torch': torch, 'x': x})",
        "with torch._C.DisableTorchFunction():\n    return x.softmax(-1)",
        "with torch._C.DisableTorchFunction():\n    return torch.nn.functional.softmax(x, -1)",
        "return torch.vmap(lambda row: row.softmax(-1))(x)",
        "return torch.vmap(lambda row: F.softmax(row, -1))(x)",
    ],
)
def test_every_form_of_softmax(name, body):
    assert refused([name], body, x(), imports=TORCH)


def test_torchscript_is_no_way_around(tmp_path):
    # torch.jit.script reads the source, so this submission needs a real file.
    path = tmp_path / "submission.py"
    path.write_text("import torch\n@torch.jit.script\ndef f(x):\n    return torch.softmax(x, -1)\n")
    guard = forbid.install(["Tensor.softmax"], str(path))
    module = types.ModuleType("submission")
    module.__file__ = str(path)
    try:
        with guard.active():
            exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
            caller = compile("def g(f, x): return f(x)", str(path), "exec")
            exec(caller, module.__dict__)
            with pytest.raises(RuntimeError):
                module.g(module.f, x())
        assert [hit.name for hit in guard.hits] == ["Tensor.softmax"]
    finally:
        guard.uninstall()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("torch.matmul", "return x @ x"),
        ("torch.matmul", "y = x.clone()\ny @= x"),
        ("torch.matmul", "return x.matmul(x)"),
        ("torch.matmul", "return torch.mm(x, x)"),
        ("torch.matmul", "return torch.einsum('ij,jk->ik', x, x)"),
        ("torch.matmul", "return F.linear(x, x)"),
        ("torch.matmul", "return torch.linalg.matmul(x, x)"),
        ("torch.mm", "return x.mm(x)"),
        ("torch.nn.functional.linear", "return nn.Linear(4, 4)(x)"),
        ("torch.exp", "return x.exp()"),
        ("torch.exp", "x.exp_()"),
        ("torch.exp", "return torch.exp(x)"),
        ("torch.cat", "return torch.concatenate([x, x])"),
        ("torch.cumsum", "return x.cumsum(0)"),
        ("Tensor.contiguous", "return x.t().contiguous()"),
        ("Tensor.contiguous", "return torch.Tensor.contiguous(x.t())"),
        ("Tensor.item", "return x[0, 0].item()"),
        ("Tensor.tolist", "return x.tolist()"),
        ("Tensor.cpu", "return x.cpu()"),
        ("Tensor.repeat", "return x.repeat(2, 1)"),
        ("Tensor.sum", "return torch.sum(x)"),
        ("Tensor.norm", "return x.norm()"),
        ("torch.linalg.norm", "return torch.linalg.norm(x)"),
        ("torch.linalg.svd", "return torch.svd(x)"),
        ("torch.linalg.inv", "return x.inverse()"),
        ("torch.linalg.solve", "return torch.linalg.solve(x, x)"),
        ("torch.logsumexp", "return x.logsumexp(-1)"),
        ("torch.logsumexp", "return torch.special.logsumexp(x, -1)"),
        ("torch.erf", "return torch.special.erf(x)"),
        ("torch.log_softmax", "return nn.LogSoftmax(-1)(x)"),
        ("torch.nn.functional.cross_entropy", "return nn.CrossEntropyLoss()(x, torch.arange(4))"),
        ("torch.nn.functional.gelu", "return nn.GELU()(x)"),
        ("torch.nn.functional.gelu", "return torch._C._nn.gelu(x)"),
        ("torch.nn.functional.unfold", "return nn.Unfold(2)(x[None, None])"),
        ("torch.nn.functional.conv2d", "return torch.conv2d(x[None, None], x[None, None])"),
        ("torch.nn.functional.conv2d", "return nn.Conv2d(1, 1, 2)(x[None, None])"),
        ("torch.nn.functional.scaled_dot_product_attention", "return F.scaled_dot_product_attention(x, x, x)"),
        ("torch.nn.functional.scaled_dot_product_attention",
         "return torch._C._nn.scaled_dot_product_attention(x, x, x)"),
        ("torch.nn.MultiheadAttention", "return nn.MultiheadAttention(4, 2)(x, x, x)"),
        ("torch.nn.MultiheadAttention", "class M(nn.MultiheadAttention): pass"),
        ("torch.autograd.grad", "y = x.detach().requires_grad_()\nreturn torch.autograd.grad(y.sum(), y)"),
        ("torch.nn.utils.clip_grad_norm_", "return torch.nn.utils.clip_grad_norm_([x], 1.0)"),
        ("torch.optim", "return torch.optim.SGD([x], 0.1)"),
        ("torch.optim", "from torch.optim import SGD"),
        ("torch.optim", "import torch.optim.adam as a"),
        ("torch.distributions", "return torch.distributions.Categorical(x)"),
        ("torch.vmap", "return torch.func.vmap(torch.sum)(x)"),
        ("torch.func", "from torch import func"),
        ("torch.compile", "return torch.compile(lambda y: y)(x)"),
        ("torch.utils.checkpoint", "from torch.utils.checkpoint import checkpoint"),
        ("torch.utils.checkpoint", "return torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False)"),
        ("torch.nn.attention.flex_attention", "from torch.nn.attention import flex_attention"),
        ("torch.nn.attention.flex_attention.flex_attention",
         "from torch.nn.attention.flex_attention import flex_attention\nreturn flex_attention(x, x, x)"),
        ("torch.float8_e4m3fn", "return x.to(torch.float8_e4m3fn)"),
        ("torch.float8_e4m3fn", "return x.to(dtype=vars(torch)['float8_e4m3fn'])"),
        ("torch.multinomial", "return x.multinomial(1)"),
        ("torch._grouped_mm", "return torch._grouped_mm(x, x)"),
        ("torch.autograd.detect_anomaly", "with torch.autograd.detect_anomaly(): pass"),
    ],
)  # fmt: skip
def test_other_torch_names(name, body):
    assert refused([name], body, x(), imports=TORCH)


# -- torch: and nothing else ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "body"),
    [
        (["Tensor.contiguous"], "return x.t().reshape(16) + torch.cat([x, x]).sum()"),
        (["Tensor.contiguous"], "return F.scaled_dot_product_attention(x, x, x)"),
        (["torch.linalg.solve", "torch.linalg.inv"], "return torch.linalg.solve_triangular(x, x, upper=True)"),
        (["torch.linalg.inv"], "return torch.cholesky_inverse(x)"),
        (["torch.softmax"], "return F.scaled_dot_product_attention(x[None], x[None], x[None], attn_mask=x > 0)"),
        (["torch.softmax", "torch.log_softmax"], "return F.cross_entropy(x, torch.arange(4))"),
        (["torch.softmax"],
         "y = x.detach().requires_grad_()\nF.cross_entropy(y, torch.arange(4)).backward()\nreturn y.grad"),
        (["torch.matmul"], "y = x.detach().requires_grad_()\n(y.cumsum(0) * y).sum().backward()"),
        (["torch.cumsum", "Tensor.cumsum"], "def cumsum(y):\n    return y + 1\nreturn cumsum(x)"),
        (["Tensor.cumsum"], "class A:\n    def cumsum(self): return 3\nreturn A().cumsum()"),
        (["torch.nn.functional.unfold"], "return x.unfold(0, 2, 2)"),
        (["torch.nn.MultiheadAttention"], "return nn.Linear(4, 4)(x)"),
        (["torch.nn.functional.gelu"], "return 0.5 * x * (1 + torch.erf(x / 2**0.5))"),
        (["torch.mm"], "return x @ x"),
        (["torch.repeat_interleave"], "return x[:, None].expand(4, 3, 4).reshape(12, 4)"),
        (["torch.sum", "Tensor.sum", "Tensor.mean"], "return x.var(), nn.LayerNorm(4)(x)"),
        (["torch.norm", "torch.linalg.norm", "torch.linalg.vector_norm"], "torch.nn.utils.clip_grad_norm_([x], 1.0)"),
        (["torch.optim"], "return nn.functional.relu(x)"),
        (["torch.exp"], "return torch.distributions.Normal(0.0, 1.0).log_prob(x), torch.expm1(x)"),
        (["torch.logsumexp"], "return torch.distributions.Categorical(logits=x).entropy()"),
        (["Tensor.item", "Tensor.tolist", "Tensor.cpu"], "return repr(x), bool((x >= 0).all())"),
        (["torch.float8_e4m3fn"], "return x.to(torch.float16), x.dtype == torch.float32"),
        (["torch.softmax", "Tensor.softmax"],
         "'torch.softmax(x) as text'  # x.softmax(-1)\nsoftmax = 3\nreturn softmax"),
        (["torch.multinomial"], "return torch.rand(3, generator=torch.Generator().manual_seed(0))"),
    ],
)  # fmt: skip
def test_what_is_allowed_stays_so(names, body):
    assert not refused(names, body, x(), imports=TORCH)


def test_backward_functions_of_the_submission_are_its_own_code():
    source = """
    import torch

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return grad * 2 * x.contiguous()

    def f(x):
        return Square.apply(x)

    def train(x):
        f(x).sum().backward()

    def hooked(x):
        x.register_hook(lambda grad: grad.softmax(-1))
        (x * 2).sum().backward()
    """
    with worker(["Tensor.contiguous", "torch.softmax"], source) as made:
        with pytest.raises(forbid.ForbiddenOperation, match=r"Tensor.contiguous is not allowed"):
            made("train", x(grad=True))
        out = made("f", x(grad=True))
        with pytest.raises(forbid.ForbiddenOperation), made.guard.active():
            torch.autograd.backward(out, torch.ones_like(out))  # as the worker does for the judge
        with pytest.raises(forbid.ForbiddenOperation, match="softmax"):
            made("hooked", x(grad=True))


def test_other_code_in_the_worker_is_free():
    with worker(["torch.softmax", "Tensor.contiguous", "numpy.linalg.inv", "eval"], "def f(g, x): return g(x)") as made:
        for call in (
            lambda t: torch.softmax(t, -1),
            lambda t: t.t().contiguous(),
            lambda t: torch.nn.Softmax(-1)(t),
            lambda t: np.linalg.inv(t.numpy() + np.eye(4)),
            lambda t: eval("t + 1"),
        ):
            made("f", call, x())
        assert not made.guard.hits


def test_triton_kernels_may_do_what_the_wrapper_may_not():
    pytest.importorskip("triton", reason="Triton exists for Linux only")
    code = f"""
import os
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, types, linecache
from grader.worker import forbid
source = '''
import torch, triton
import triton.language as tl

@triton.jit
def kernel(x, y, out, n: tl.constexpr):
    i = tl.arange(0, n)
    a = tl.load(x + i[:, None] * n + i[None, :])
    b = tl.load(y + i[:, None] * n + i[None, :])
    p = tl.dot(a, b)
    p = tl.exp(p - tl.max(p, 1)[:, None])
    p = tl.cumsum(p / tl.sum(p, 1)[:, None], 1)
    tl.store(out + i[:, None] * n + i[None, :], p)

def f(x, y):
    out = torch.empty_like(x)
    kernel[(1,)](x, y, out, x.shape[0])
    return out
'''
path = {SUBMISSION!r}
linecache.cache[path] = (len(source), None, source.splitlines(True), path)
guard = forbid.install(["torch.matmul", "torch.exp", "torch.sum", "Tensor.cumsum", "torch.softmax",
                        "Tensor.contiguous", "Tensor.cpu", "Tensor.item", "Tensor.tolist"], path)
module = types.ModuleType("submission")
module.__file__ = path
import sys; sys.modules["submission"] = module; module.__name__ = "submission"
x = torch.rand(16, 16)
with guard.active():
    exec(compile(source, path, "exec"), module.__dict__)
    got = module.f(x, x)
assert torch.allclose(got, (x @ x).softmax(1).cumsum(1), atol=1e-5)
print("hits", len(guard.hits))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["hits", "0"], done.stderr


def test_threads_of_the_submission_are_watched():
    source = """
    import threading
    def f(x):
        found = []
        def work():
            try:
                found.append(x.softmax(-1))
            except RuntimeError as error:
                found.append(str(error))
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return found[0]
    """
    with worker(["torch.softmax"], source) as made:
        assert "not allowed" in made("f", x())
        assert made.guard.hits


# -- numpy, scipy, the standard library -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("numpy.linalg.inv", "import numpy as np\nreturn np.linalg.inv(np.eye(2))"),
        ("np.linalg.inv", "from numpy.linalg import inv\nreturn inv([[1.0]])"),
        ("numpy.linalg.inv", "from numpy.linalg._linalg import inv\nreturn inv([[1.0]])"),
        ("numpy.linalg.inv", "import numpy\nreturn list(map(numpy.linalg.inv, [[[1.0]]]))"),
        ("numpy.linalg.inv", "import importlib\nreturn importlib.import_module('numpy.linalg').inv([[1.0]])"),
        ("np.einsum", "import numpy as np\nreturn np.einsum('i->', [1.0])"),
        ("numpy.logaddexp", "import numpy as np\nreturn np.logaddexp(1.0, 2.0)"),
        ("numpy.logaddexp", "import numpy as np\nreturn np.logaddexp.reduce([1.0])"),
        ("numpy.logaddexp.reduce", "import numpy as np\nreturn np.logaddexp.reduce([1.0])"),
        ("numpy.float16", "import numpy as np\nreturn np.float16(1)"),
        ("numpy.float16", "import numpy as np\nreturn np.half(1)"),
        ("numpy.float16", "from numpy import float16"),
        ("numpy.random.choice", "import numpy as np\nreturn np.random.choice(3)"),
        ("scipy.special.softmax", "from scipy.special import softmax\nreturn softmax([1.0])"),
        ("scipy.special.softmax", "import scipy.special as s\nreturn s.softmax([1.0])"),
        ("scipy.special.softmax", "import scipy\nreturn scipy.special.softmax([1.0])"),
        ("scipy.signal", "from scipy import signal"),
        ("scipy.signal", "import scipy\nreturn scipy.signal.lfilter"),
        ("scipy.signal", "import importlib\nimportlib.import_module('scipy.signal')"),
        ("scipy.spatial", "from scipy.spatial.distance import cdist"),
        ("scipy.stats.rankdata", "from scipy import stats\nreturn stats.rankdata([1.0])"),
        ("scipy", "import scipy"),
        ("scipy", "import scipy.stats as s"),
        ("jax", "import jax"),
        ("sklearn", "from sklearn.utils.extmath import randomized_svd"),
        ("re", "import re"),
        ("re", "from re import compile"),
        ("re", "import textwrap\nreturn textwrap.re.compile('a')"),
        ("torch", "import torch.nn"),
        ("torch", "__import__('torch')"),
        ("random.shuffle", "import random\nreturn random.shuffle([1])"),
        ("statistics.quantiles", "import statistics\nreturn statistics.quantiles([1, 2])"),
        ("math.fsum", "from math import fsum\nreturn fsum([1.0])"),
        ("itertools.accumulate", "from itertools import accumulate"),
        ("gzip.open", "import gzip\nreturn gzip.open('x')"),
        ("gzip.GzipFile", "import gzip\nreturn gzip.GzipFile('x')"),
        ("os.system", "import os\nreturn os.system('true')"),
        ("sys.setrecursionlimit", "import sys\nsys.setrecursionlimit(10**6)"),
        ("threading.stack_size", "import threading\nthreading.stack_size(1 << 26)"),
        ("ast.literal_eval", "import ast\nreturn ast.literal_eval('1')"),
        ("urllib.robotparser", "from urllib.robotparser import RobotFileParser"),
        ("eval", "return eval('1 + 1')"),
        ("eval", "import builtins\nreturn builtins.eval('1 + 1')"),
        ("exec", "exec('a = 1')"),
        ("sorted", "return sorted([2, 1])"),
        ("list.remove", "[1, 2].remove(1)"),
        ("list.remove", "list.remove([1, 2], 1)"),
        ("list.remove", "class L(list): pass\nL([1]).remove(1)"),
        ("list.index", "a = [1, 2]\nfind = a.index\nreturn find(2)"),
        ("list.insert", "a = []\nfor i in range(40):\n    a.insert(0, i)"),
        ("collections.deque.remove", "from collections import deque\ndeque([1]).remove(1)"),
    ],
)
def test_other_names(name, body):
    assert refused([name], body)


@pytest.mark.parametrize(
    ("names", "body"),
    [
        (["numpy.linalg.inv"],
         "import numpy as np\nreturn np.linalg.solve(np.eye(2), [1, 2]), np.linalg.pinv(np.eye(2))"),
        (["numpy.linalg.inv"], "from numpy.linalg import inv"),
        (["numpy.linalg.inv"], "def inv(a): return a\nreturn inv(3)"),
        (["numpy.logaddexp.reduce"],
         "import numpy as np\nreturn np.logaddexp(1.0, 2.0) + np.logaddexp.accumulate([1.0])"),
        (["math.fsum"], "exec('from math import *')\nfrom math import fsum, sqrt\nreturn sqrt(2)"),
        (["scipy.special.softmax"], "from scipy.special import expit, log_softmax\nreturn log_softmax([1.0, 2.0])"),
        (["scipy.special.logsumexp"], "from scipy.special import log_softmax, softmax\nreturn softmax([1.0, 2.0])"),
        (["scipy.stats.entropy"], "import scipy.stats\nreturn scipy.stats.norm.cdf(0.3)"),
        (["torch", "jax"], "import numpy, scipy.stats\nreturn scipy.stats.rankdata([1.0])"),
        (["re", "regex"],
         "import textwrap, string\nreturn textwrap.dedent('  a'), string.Template('$a').substitute(a=1)"),
        (["eval", "exec"], "from collections import namedtuple\nfrom dataclasses import dataclass\n"
         "@dataclass\nclass A:\n    a: int\nreturn namedtuple('P', 'x y')(1, 2), A(1)"),
        (["list.remove", "list.index"], "a = {1}\na.remove(1)\nreturn 'abc'.index('b'), (1, 2).index(2)"),
        (["list.remove"], "class L(list):\n    def remove(self, v): return 7\nreturn L().remove(1)"),
        (["collections.deque.remove"], "[1].remove(1)"),
        (["random.shuffle"], "import random\nreturn random.Random(0).random()"),
        (["numpy.random.choice"], "import numpy as np\nreturn np.random.default_rng(0).choice(3)"),
        (["sorted"], "a = [2, 1]\na.sort()\nreturn a"),
        (["np.float16"], "import numpy as np\nreturn np.float32(1), np.ones(2).astype(np.float64)"),
    ],
)  # fmt: skip
def test_other_things_stay_allowed(names, body):
    assert not refused(names, body)


def test_a_module_imported_later_is_covered():
    code = f"""
import sys, types
from grader.worker import forbid
guard = forbid.install(["scipy.special.softmax", "statistics.quantiles", "torch.softmax"], {SUBMISSION!r})
assert "scipy" not in sys.modules and "torch" not in sys.modules
source = '''
def f():
    import scipy
    return scipy.special.softmax([1.0])
def g():
    from statistics import mean, quantiles
    return quantiles([1, 2])
def h():
    import torch
    return torch.ones(3).softmax(-1)
def i():
    import scipy.special as s
    return s.log_softmax([1.0])
'''
module = types.ModuleType("submission")
module.__file__ = {SUBMISSION!r}
with guard.active():
    exec(compile(source, {SUBMISSION!r}, "exec"), module.__dict__)
for name in "fghi":
    try:
        with guard.active():
            getattr(module, name)()
        print(name, "ran")
    except forbid.ForbiddenOperation as error:
        print(name, "refused")
import statistics
print(statistics.__spec__.loader.__class__.__name__, statistics.quantiles([1, 2, 3]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines()[:4] == ["f refused", "g refused", "h refused", "i ran"], done.stderr
    assert done.stdout.splitlines()[4] == "SourceFileLoader [1.0, 2.0, 3.0]"


# -- messages, memory, manners ----------------------------------------------------------------------------------------


def test_the_message_says_what_to_write_and_names_what_was_called():
    source = "import torch\ndef f(x):\n    y = x + 1\n    return torch.nn.functional.softmax(y, -1)\n"
    with worker(["torch.softmax"], source) as made:
        with pytest.raises(forbid.ForbiddenOperation) as caught:
            made("f", x())
        assert str(caught.value) == (
            "torch.nn.functional.softmax is not allowed in this exercise: "
            "write it yourself, with exp, sums and a maximum"
        )
        (hit,) = made.guard.hits
        assert (hit.name, hit.line) == ("torch.softmax", 4)
        assert str(hit) == f"{caught.value} (line 4)"


def test_a_swallowed_refusal_still_counts():
    source = """
    import torch
    def f(x):
        try:
            return x.softmax(-1)
        except Exception:
            return x.exp() / x.exp().sum(-1, keepdim=True)
    """
    with worker(["torch.softmax"], source) as made:
        made("f", x())
        assert [hit.name for hit in made.guard.hits] == ["torch.softmax"]


def test_a_forbidden_import_is_an_import_error_too():
    with pytest.raises(ImportError, match="jax is not allowed in this exercise"):
        Worker(["jax"], "import jax")
    assert issubclass(forbid.ForbiddenImport, forbid.ForbiddenOperation)


def test_everything_is_put_back():
    import builtins
    import importlib

    before = (builtins.__import__, builtins.eval, importlib.import_module, type(np), type(torch), list(sys.meta_path))
    apply = torch.autograd.function.BackwardCFunction.apply
    with worker(["eval", "numpy.linalg.inv", "torch.softmax", "re", "list.remove", "scipy.signal"], "") as made:
        assert builtins.eval is not before[1]
        assert made.guard.ways["eval"] == "calling it"
    after = (builtins.__import__, builtins.eval, importlib.import_module, type(np), type(torch), list(sys.meta_path))
    assert after == before
    assert torch.autograd.function.BackwardCFunction.apply is apply
    assert sys.getprofile() is None


def test_no_names_no_change():
    import builtins

    before = builtins.__import__
    guard = forbid.install([], SUBMISSION)
    with guard.active():
        assert builtins.__import__ is before
        assert torch.overrides._get_current_function_mode() is None


def test_calls_from_the_judge_in_the_middle_of_a_call():
    source = "import torch\ndef f(g, x):\n    return g(x) + h(x)\ndef h(x):\n    return x.softmax(-1)"
    with worker(["torch.softmax"], source) as made:

        def back(value):
            return made("h", value)

        with pytest.raises(forbid.ForbiddenOperation):
            made("f", back, x())
        with pytest.raises(forbid.ForbiddenOperation):
            made("f", lambda value: value, x())


def test_probes_and_guard_together():
    source = """
    import torch
    def f(x):
        return x.exp() / x.exp().sum(-1, keepdim=True)
    def g(x):
        return x.softmax(-1)
    """
    with worker(["torch.softmax"], source) as made:
        results = {}
        with made.guard.active(), opened({"torch": {}, "saved": {}, "lines": {}}, SUBMISSION, {}, results):
            results["value"] = made.module.f(x(3, 5))
        assert results["torch"]["largest_elements"] == 15
        assert results["lines"]["lines"] == 1
        with pytest.raises(forbid.ForbiddenOperation), made.guard.active(), opened({"torch": {}}, SUBMISSION, {}, {}):
            made.module.g(x(3, 5))


def test_allowed_operations_cost_little():
    source = "def f(x, n):\n    for _ in range(n):\n        x = x + x\n"
    value, n = torch.zeros(4), 3000

    def per_call(run):
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            run()
            best = min(best, time.process_time() - start)
        return best / n

    with worker(["torch.softmax", "Tensor.contiguous", "torch.matmul"], source) as made:
        plain = per_call(lambda: made.module.f(value, n))
        guarded = per_call(lambda: made("f", value, n))
    assert guarded - plain < 100e-6  # 10 us on a quiet machine


# -- the course -------------------------------------------------------------------------------------------------------

USED = """
Tensor.contiguous Tensor.cpu Tensor.cumsum Tensor.inverse Tensor.item Tensor.log_softmax Tensor.logsumexp
Tensor.matmul Tensor.mean Tensor.mm Tensor.norm Tensor.repeat Tensor.repeat_interleave Tensor.softmax Tensor.sum
Tensor.tolist ast.literal_eval collections.deque.remove eval exec gzip.GzipFile gzip.decompress gzip.open
itertools.accumulate list.index list.insert list.remove math.fsum np.convolve np.einsum numpy numpy.cumprod
numpy.float16 numpy.linalg.inv numpy.linalg.pinv numpy.logaddexp numpy.logaddexp.reduce numpy.longdouble
numpy.percentile numpy.quantile numpy.random.choice numpy.random.permutation os.system random.shuffle re scipy
scipy.cluster scipy.differentiate scipy.linalg.fractional_matrix_power scipy.linalg.hadamard
scipy.linalg.interpolative scipy.optimize scipy.optimize.approx_fprime scipy.optimize.check_grad scipy.signal
scipy.sparse.linalg.svds scipy.spatial scipy.spatial.distance.jensenshannon scipy.special.entr scipy.special.kl_div
scipy.special.log_expit scipy.special.log_softmax scipy.special.logsumexp scipy.special.rel_entr scipy.special.softmax
scipy.stats.entropy scipy.stats.rankdata scipy.stats.ttest_1samp scipy.stats.ttest_ind scipy.stats.ttest_rel
statistics.quantiles subprocess sys.setrecursionlimit threading.stack_size torch torch.Tensor.to
torch._fake_quantize_learnable_per_tensor_affine torch._grouped_mm torch.amp torch.autograd.detect_anomaly
torch.autograd.forward_ad torch.autograd.functional torch.autograd.grad torch.autograd.set_detect_anomaly torch.bmm
torch.cat torch.compile torch.cuda.amp torch.cumsum torch.cumulative_trapezoid torch.distributed torch.distributions
torch.einsum torch.erf torch.exp torch.fake_quantize_per_channel_affine torch.fake_quantize_per_tensor_affine
torch.float4_e2m1fn_x2 torch.float8_e4m3fn torch.float8_e5m2 torch.func torch.gather torch.hypot torch.index_select
torch.inverse torch.jit torch.linalg.inv torch.linalg.matrix_power torch.linalg.norm torch.linalg.qr
torch.linalg.solve torch.linalg.svd torch.linalg.vector_norm torch.log_softmax torch.logsumexp torch.matmul torch.mm
torch.multinomial torch.mv torch.nan_to_num torch.nn.CTCLoss torch.nn.Conv2d torch.nn.CrossEntropyLoss torch.nn.GELU
torch.nn.MultiheadAttention torch.nn.RMSNorm torch.nn.SiLU torch.nn.TransformerDecoderLayer
torch.nn.TransformerEncoderLayer torch.nn.Unfold torch.nn.functional.conv2d
torch.nn.attention.flex_attention.flex_attention torch.nn.functional.cross_entropy torch.nn.functional.ctc_loss
torch.nn.functional.gelu torch.nn.functional.glu torch.nn.functional.linear torch.nn.functional.log_softmax
torch.nn.functional.multi_head_attention_forward torch.nn.functional.nll_loss torch.nn.functional.normalize
torch.nn.functional.rms_norm torch.nn.functional.scaled_dot_product_attention torch.nn.functional.silu
torch.nn.functional.softmax torch.nn.functional.unfold torch.nn.utils.clip_grad_norm_ torch.norm torch.optim
torch.optim.lr_scheduler torch.randperm torch.repeat_interleave torch.rsqrt torch.softmax torch.special.ndtr
torch.stft torch.sum torch.svd torch.utils.checkpoint torch.utils.data torch.vmap urllib.robotparser
"""


WHOLE = {"numpy", "re", "scipy", "subprocess", "torch"}


def test_every_name_that_the_course_forbids_can_be_enforced():
    import importlib

    names = USED.split()
    for name in names:
        for parts in range(name.count("."), -1, -1):
            with contextlib.suppress(ImportError):
                importlib.import_module(canonical(name).rsplit(".", parts)[0])
    guard = forbid.install(names, SUBMISSION)
    try:
        without = [
            name for name, way in guard.ways.items() if way in ("", "absent") or (way == "import") != (name in WHOLE)
        ]
    finally:
        guard.uninstall()
    assert without == []
