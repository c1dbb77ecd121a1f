"""Probes count what a call cost: against counts made by hand, and against torch's own counter."""

from __future__ import annotations

import sys
import textwrap
import threading
import time
import types

import msgpack
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

from grader.worker.probes import opened, paused

SUBMISSION = "/somewhere/submission.py"

ALL = ("torch", "saved", "memory", "lines")
"""But for the evidence on kernels, which needs Triton's interpreter and has tests of its own."""


def measured(function, *args, probes=("torch",), filename=SUBMISSION, options=None, **kwargs):
    """Summaries of the probes for one call."""
    results = {}
    arguments = {f"arg{i}": value for i, value in enumerate(args)} | kwargs
    with opened({name: options or {} for name in probes}, filename, arguments, results):
        results["value"] = function(*args, **kwargs)
    results.pop("value")
    assert msgpack.unpackb(msgpack.packb(results)) == results
    return results


def torch_cost(function, *args, **kwargs):
    return measured(function, *args, **kwargs)["torch"]


def submission(source):
    """A module whose code objects carry the name of a submission's file."""
    module = types.ModuleType("submission")
    exec(compile(textwrap.dedent(source), SUBMISSION, "exec"), module.__dict__)
    return module


# -- torch ------------------------------------------------------------------------------------------------------------


def test_new_tensors_count_and_views_do_not():
    x = torch.randn(4, 6)
    cost = torch_cost(lambda x: (x.transpose(0, 1)[1:].unsqueeze(0) * 2).sum(), x)
    assert cost["ops"][-2:] == [["aten.mul", 20], ["aten.sum", 1]]
    assert all(made == 0 for _, made in cost["ops"][:-2])
    assert (cost["largest_elements"], cost["largest_op"], cost["largest_bytes"]) == (20, "aten.mul", 80)


def test_in_place_and_out_are_seen_and_make_nothing():
    x, y = torch.ones(8), torch.empty(8)

    def call():
        x.add_(1)
        torch.mul(x, 2, out=y)
        y[2:5] = 0

    cost = torch_cost(call)
    assert [name for name, _ in cost["ops"]][:2] == ["aten.add_", "aten.mul"]
    assert cost["largest_elements"] <= 1  # the number 0 becomes a tensor


def test_out_that_has_to_grow_is_new_memory():
    cost = torch_cost(lambda: torch.mul(torch.ones(50), 2, out=torch.empty(0)))
    assert ["aten.mul", 50] in cost["ops"]
    assert cost["peak_bytes"] == 400


def test_a_copy_made_for_a_view_or_by_contiguous_counts():
    x = torch.randn(3, 5)
    assert torch_cost(lambda x: x.t().contiguous(), x)["largest_elements"] == 15
    assert torch_cost(lambda x: x.t().reshape(15), x)["largest_elements"] == 15
    assert torch_cost(lambda x: x.contiguous().reshape(15), x)["largest_elements"] == 0


def test_every_output_counts_and_torch_tensor_too():
    values, indices = 1, 1
    assert torch_cost(lambda x: x.sort(), torch.randn(7))["ops"] == [["aten.sort", 7 * (values + indices)]]
    assert torch_cost(lambda: torch.tensor([1.0, 2.0, 3.0]))["largest_elements"] == 3
    assert torch_cost(lambda: torch.zeros(2, 3))["largest_elements"] == 6


def test_backward_and_custom_functions_are_inside():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return torch.outer(grad, torch.ones(11)).sum(1) / 11 * 2

    x = torch.randn(5, requires_grad=True)
    assert torch_cost(lambda x: Double.apply(x).sum().backward(), x)["largest_elements"] == 55


def test_peak_memory_follows_what_is_alive():
    def one_after_the_other(n):
        for _ in range(5):
            torch.ones(n)

    def all_together(n):
        return [torch.ones(n) for _ in range(5)]

    assert torch_cost(one_after_the_other, 1000)["peak_bytes"] == 4000
    assert torch_cost(all_together, 1000)["peak_bytes"] == 20000


def test_a_view_keeps_the_whole_memory_alive():
    def call():
        corner = torch.ones(1000)[:1]
        return corner, torch.ones(10)

    assert torch_cost(call)["peak_bytes"] == 4040


def test_naive_attention_takes_more_than_the_fused_one():
    q, k, v = (torch.randn(1, 2, 256, 16) for _ in range(3))
    naive = torch_cost(lambda q, k, v: (q @ k.mT).softmax(-1) @ v, q, k, v)
    fused = torch_cost(F.scaled_dot_product_attention, q, k, v)
    assert naive["largest_elements"] == 2 * 256 * 256
    assert fused["largest_elements"] == 2 * 256 * 16
    assert naive["flops"] == fused["flops"] == 4 * 2 * 256 * 256 * 16


@pytest.mark.parametrize(
    "call",
    [
        lambda a, b: a @ b,
        lambda a, b: torch.einsum("ij,jk->ik", a, b),
        lambda a, b: F.linear(a, b.mT, torch.ones(7)),
        lambda a, b: torch.baddbmm(torch.ones(2, 5, 7), a.expand(2, 5, 6), b.expand(2, 6, 7)),
        lambda a, b: F.conv2d(a[None, None], b[None, None, :2, :2]),
        lambda a, b: a.expand(3, 4, 5, 6) @ b,
        lambda a, b: torch.tensordot(a, b, dims=([1], [0])),
        lambda a, b: (a.detach().requires_grad_() @ b).sum().backward(),
        lambda a, b: F.conv2d(a.detach().requires_grad_()[None, None], b[None, None, :2, :2]).sum().backward(),
    ],
)
def test_flops_agree_with_torch(call):
    a, b = torch.randn(5, 6), torch.randn(6, 7)
    with FlopCounterMode(display=False) as counter:
        call(a, b)
    assert counter.get_total_flops() > 0
    assert torch_cost(call, a, b)["flops"] == counter.get_total_flops()


def test_flops_that_torch_leaves_out():
    a, v = torch.randn(5, 6), torch.randn(6)
    assert torch_cost(lambda: a @ v)["flops"] == 60
    assert torch_cost(lambda: v @ v)["flops"] == 12
    assert torch_cost(lambda: torch.addmv(torch.ones(5), a, v))["flops"] == 60
    q = torch.randn(2, 3, 8, 4, requires_grad=True)
    k, v = torch.randn(2, 3, 10, 4), torch.randn(2, 3, 10, 4)
    once = 2 * 2 * 3 * 8 * 10 * 4
    assert torch_cost(lambda: F.scaled_dot_product_attention(q, k, v).sum().backward())["flops"] == 7 * once


def test_products_are_counted():
    cost = torch_cost(lambda a: (a @ a) @ a + a, torch.ones(3, 3))
    assert cost["products"] == 2


def test_modes_of_the_submission_work_inside():
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Own(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    def call(x):
        with Own():
            y = x + 1
        return torch.func.vmap(lambda row: row * 2)(y)

    cost = torch_cost(call, torch.ones(2, 3))
    assert len(seen) == 1
    assert [name for name, made in cost["ops"] if made] == ["aten.add", "aten.mul"]


def test_threads_started_inside_are_counted():
    def call():
        threads = [threading.Thread(target=lambda: torch.ones(100) + 1) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]

    assert torch_cost(call)["ops"].count(["aten.add", 100]) == 4


def test_paused_work_is_not_counted():
    def call(x):
        with paused():
            x * x
        return x + x

    assert torch_cost(call, torch.ones(3))["ops"] == [["aten.add", 3]]


def test_the_list_can_be_left_out_and_a_failed_call_is_still_measured():
    assert "ops" not in torch_cost(lambda: torch.ones(3), options={"ops": False})
    results = {}
    with pytest.raises(ZeroDivisionError), opened({"torch": {}}, SUBMISSION, {}, results):
        torch.ones(9) + 1 / 0
    assert results["torch"]["largest_elements"] == 9


def test_an_operation_costs_little():
    x = torch.ones(4)

    def call():
        for _ in range(2000):
            x + x

    start = time.process_time()
    call()
    plain = time.process_time() - start
    start = time.process_time()
    torch_cost(call)
    assert (time.process_time() - start - plain) / 2000 < 300e-6  # 30 us on a quiet machine


# -- saved ------------------------------------------------------------------------------------------------------------


def saved(function, *args, **kwargs):
    return measured(function, *args, probes=("saved",), **kwargs)["saved"]


def test_saved_inputs_are_arguments():
    x, y = (torch.randn(10, requires_grad=True) for _ in range(2))
    found = saved(lambda x, y: x * y, x, y)
    assert (found["elements"], found["extra_elements"]) == (20, 0)
    assert {(entry["kind"], entry["name"]) for entry in found["tensors"]} == {
        ("argument", "arg0"),
        ("argument", "arg1"),
    }


def test_views_of_one_memory_count_once():
    x = torch.randn(4, 5, requires_grad=True)
    assert saved(lambda x: (x[:2] * x.t().reshape(4, 5)[:2]).sum() + (x * x).sum(), x)["elements"] <= 20 + 20
    assert saved(lambda x: x[:2] * x[2:], x)["elements"] == 20
    assert saved(lambda x: x[:1] * x[1:2], x)["elements"] == 10


def test_what_is_made_and_what_was_freed():
    x = torch.randn(100, requires_grad=True)
    kept = saved(lambda x: x.exp().sin(), x)
    assert (kept["elements"], kept["extra_elements"], kept["extra_bytes"]) == (100, 100, 400)
    assert saved(lambda x: x.exp().sin().detach(), x)["elements"] == 0
    assert saved(lambda x: x.exp().sin().sum().backward(), x)["elements"] == 0
    with torch.no_grad():
        assert saved(lambda x: x.exp().sin(), x)["elements"] == 0


def test_a_saved_result_is_named_so_and_leaves_no_cycle():
    x = torch.randn(7, requires_grad=True)
    assert [entry["kind"] for entry in saved(torch.exp, x)["tensors"]] == ["result"]


def test_parameters_are_told_apart():
    layer = torch.nn.Linear(6, 3)
    x = torch.randn(5, 6, requires_grad=True)
    found = saved(lambda x: layer(x), x)
    assert {entry["kind"]: entry["elements"] for entry in found["tensors"]} == {"argument": 30, "parameter": 18}
    assert found["extra_elements"] == 0


def test_tensors_left_on_ctx_are_found():
    class Function(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.square = x * x
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.square * grad

    x = torch.randn(12, requires_grad=True)
    found = saved(Function.apply, x)
    assert (found["elements"], found["extra_elements"]) == (24, 12)


def test_a_saved_corner_keeps_its_whole_memory_unless_it_is_the_callers():
    x = torch.randn(100, requires_grad=True)
    assert saved(lambda x: x.exp()[:3].sin(), x)["extra_elements"] == 100
    base = torch.randn(1000)
    x = base[10:20].requires_grad_()
    assert saved(lambda x: x.sin(), x)["elements"] == 10


def test_checkpointing_keeps_the_inputs_only():
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(50, requires_grad=True)
    assert saved(lambda x: checkpoint(lambda x: x.exp().sin().cos(), x, use_reentrant=False), x)["extra_elements"] == 0


def test_later_changes_are_still_an_error():
    x = torch.randn(5, requires_grad=True)

    def call(x):
        y = x.exp()
        z = y.sin()
        y.mul_(2)
        z.sum().backward()

    with pytest.raises(RuntimeError, match="inplace operation"):
        saved(call, x)


def test_gradients_are_the_same_with_all_probes_open():
    x = torch.randn(6, requires_grad=True)
    w = torch.randn(6, 6, requires_grad=True)

    def call(x, w):
        return torch.autograd.grad((w @ x.tanh()).softmax(-1)[0], (x, w))

    expected = call(x, w)
    got = []
    measured(lambda x, w: got.extend(call(x, w)), x, w, probes=ALL)
    assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


# -- memory -----------------------------------------------------------------------------------------------------------


def memory(function, *args):
    return measured(function, *args, probes=("memory",))["memory"]


def test_memory_sees_numpy_and_the_peak():
    def call():
        a = np.ones(1_000_000)
        b = a * 2
        del a, b
        return np.ones(10)

    cost = memory(call)
    assert 16_000_000 <= cost["peak_bytes"] < 16_100_000
    assert 80 <= cost["kept_bytes"] < 50_000


def test_memory_of_arguments_does_not_count():
    x = np.ones(1_000_000)
    assert memory(lambda x: float(x.sum()), x)["peak_bytes"] < 100_000


def test_tracemalloc_is_left_as_it_was():
    import tracemalloc

    assert not tracemalloc.is_tracing()
    memory(lambda: [0] * 100_000)
    assert not tracemalloc.is_tracing()
    tracemalloc.start()
    try:
        kept = bytearray(5_000_000)
        assert memory(lambda: bytearray(1_000_000))["peak_bytes"] < 1_100_000
        assert tracemalloc.is_tracing()
        del kept
    finally:
        tracemalloc.stop()


# -- lines ------------------------------------------------------------------------------------------------------------


def lines(function, *args):
    return measured(function, *args, probes=("lines",))["lines"]["lines"]


def test_lines_of_a_loop():
    module = submission(
        """
        def f(n):
            total = 0
            for i in range(n):
                total += i
            return total
        """
    )
    assert lines(module.f, 10) == 1 + 11 + 10 + 1
    assert lines(module.f, 1000) - lines(module.f, 500) == 1000


def test_lines_elsewhere_do_not_count():
    import json

    module = submission("import json\ndef f(text):\n    return json.loads(text)\n")
    assert lines(module.f, json.dumps(list(range(100)))) == 1
    assert lines(json.loads, "[1, 2, 3]") == 0


def test_generators_count_where_they_run():
    module = submission(
        """
        def numbers(n):
            for i in range(n):
                yield i

        def total(source):
            return sum(source)
        """
    )
    assert lines(module.numbers, 5) == 0
    made_before = module.numbers(20)
    next(made_before)
    assert lines(module.total, made_before) == 1 + 19 * 2 + 1


def test_comprehensions_count_each_round():
    module = submission("def f(n):\n    return [i for i in range(n)]\n")
    assert lines(module.f, 2000) - lines(module.f, 1000) == pytest.approx(1000, abs=2)


def test_lines_in_threads_count():
    module = submission(
        """
        import threading

        def work(n):
            for _ in range(n):
                pass

        def f(n):
            threads = [threading.Thread(target=work, args=(n,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        """
    )
    assert lines(module.f, 600) - lines(module.f, 500) == 4 * 2 * 100


def test_tracing_is_left_as_it_was():
    def tracer(frame, event, argument):
        return None

    module = submission("def f():\n    return 1\n")
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        assert lines(module.f) == 1
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


# -- together ---------------------------------------------------------------------------------------------------------


def test_probes_do_not_disturb_each_other():
    module = submission(
        """
        def f(x):
            y = x
            for _ in range(10):
                y = (y * x).sin()
            return y
        """
    )
    x = torch.randn(1000, requires_grad=True)
    together = measured(module.f, x, probes=ALL)
    for name in ("torch", "saved", "lines"):
        assert together[name] == measured(module.f, x, probes=(name,))[name], name
    assert together["memory"]["peak_bytes"] < 200_000
    assert not any(name == "aten.detach" for name, _ in together["torch"]["ops"])


def test_a_probe_that_does_not_exist():
    with pytest.raises(ValueError, match=r"no probe 'tocrh'; there are .*saved, torch, products, lines, memory"):
        measured(lambda: None, probes=("tocrh",))


def test_without_torch_the_other_probes_do_not_import_it():
    import subprocess

    code = (
        "import sys\nfrom grader.worker import probes\nresults = {}\n"
        "with probes.opened({'lines': {}, 'memory': {}}, 'x.py', {}, results): results['value'] = [0] * 1000\n"
        "assert 'torch' not in sys.modules; print(results['memory']['peak_bytes'] > 8000)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["True"], done.stderr


def test_the_torch_probe_does_not_import_the_compiler():
    import subprocess

    code = (
        "import sys, torch\nfrom grader.worker import probes\nresults = {}\n"
        "with probes.opened({'torch': {}, 'saved': {}}, 'x.py', {}, results): torch.ones(3) + 1\n"
        "print('torch._dynamo' in sys.modules, results['torch']['largest_elements'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False", "3"], done.stderr
