"""What the worker does with a message: load a submission, call it, report what came of it.

Everything here runs beside untrusted code. Nothing that it says decides a verdict by itself: the judge compares values.
"""

from __future__ import annotations

import builtins
import contextlib
import ctypes
import dataclasses
import inspect
import linecache
import sys
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from grader.worker import own_code, wire
from grader.worker.probes import remember_threads
from grader.worker.probes.pause import paused
from grader.worker.wire import OBJECT, RECORD, Packer, Unpacker

Ask = Callable[[bytes], bytes]
"""Sends the judge a message and returns its answer (handling what the judge asks meanwhile)."""

_MESSAGE_LIMIT = 4000


class Server:
    """Holds one submission and answers the judge's messages about it."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._lock = threading.RLock()
        self._objects: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}
        self._next = 0
        self._graphs: dict[int, tuple[list[Any], list[Any]]] = {}
        self._module: types.ModuleType | None = None
        self._filename = ""
        self._guard: Any = None
        remember_threads()

    # -- wire.Side: objects that stay here ------------------------------------------------------------------------

    def export(self, value: Any) -> tuple[int, Any]:
        """A callback goes back as itself, a plain dataclass by value, anything else as a numbered handle."""
        if isinstance(value, JudgeObject):
            return OBJECT, value._payload
        by_value = not isinstance(value, Handed)
        if not by_value:
            value = value.value
        kind = type(value)
        if by_value and dataclasses.is_dataclass(value) and not isinstance(value, type) and _crosses_by_value(kind):
            names = [field.name for field in dataclasses.fields(value)]
            present = [name for name in names if hasattr(value, name)]
            return RECORD, [kind.__name__, present, [getattr(value, name) for name in present]]
        number = self._numbers.get(id(value))
        if number is None:
            number = self._next
            self._next += 1
            self._objects[number] = value
            self._numbers[id(value)] = number
        return OBJECT, ["worker", number, kind.__name__, _method_names(value)]

    def resolve(self, payload: list[Any]) -> Any:
        """The submission's own object, or a proxy of the judge's."""
        if payload[0] == "worker":
            return self._objects[payload[1]]
        if payload[2] == "iterator":
            return JudgeIterator(self, payload)
        return JudgeCollection(self, payload) if "__len__" in payload[3] else JudgeObject(self, payload)

    def record(self, type_name: str, fields: dict[str, Any]) -> Any:
        """An instance of one of the submission's dataclasses, without running its __init__ again."""
        kind = getattr(self._module, type_name, None)
        if not isinstance(kind, type):
            raise wire.WireError(f"no class {type_name} in the submission")
        instance: Any = object.__new__(kind)
        for name, value in fields.items():
            object.__setattr__(instance, name, value)
        return instance

    def foreign(self, type_name: str, why: str) -> Any:
        """The judge sends plain values only."""
        raise wire.WireError(f"a {type_name} was sent to the submission ({why})")

    # -- messages ---------------------------------------------------------------------------------------------------

    def handle(self, message: bytes) -> bytes:
        """Answers one message of the judge."""
        tree, buffers = wire.unframe(message)
        unpacker = Unpacker(self, buffers)
        operation, *rest = unpacker.unpack(tree)
        reply: dict[str, Any] = {}
        packer = Packer(self, graph="torch" in sys.modules)
        try:
            value = getattr(self, f"_do_{operation}")(reply, unpacker, *rest)
            reply["value"] = packer.pack(value)
        except _Raised as raised:
            reply["error"] = raised.description
        except wire.WireError as error:
            reply["error"] = _describe(TypeError(f"the result cannot be handed over: {error}"), self._filename)
        except BaseException as error:
            reply["error"] = _describe(error, self._filename)
        if packer.outputs:
            self._keep_graph(reply, packer, unpacker)
        if "value" in reply:
            shared = _shared(packer, unpacker)
            if shared:
                reply["shared"] = shared
        return wire.frame(packer.pack(["reply", reply]), packer.buffers)

    def _keep_graph(self, reply: dict[str, Any], packer: Packer, unpacker: Unpacker) -> None:
        import torch

        outputs = list(packer.outputs)
        reply["outputs"] = [packer.tensor_payload(tensor, torch) for tensor in outputs]
        reply["graph"] = self._next
        self._graphs[self._next] = (outputs, list(unpacker.leaves))
        self._next += 1

    def _do_load(self, reply: dict[str, Any], unpacker: Unpacker, options: dict[str, Any]) -> dict[str, str]:
        """Runs the submission's source as a module; {public name: "function" | "class" | "value"}."""
        filename, source = options["filename"], options["source"]
        self._filename = filename
        name = options["module"]
        if options.get("isolated", True):
            _hide_the_grader()
            own_code.watch(filename)
        if options["kind"] == "triton":
            from grader.worker.kernels.interpret import prepare

            prepare()
        # The grader counts and reports beside the submission: nobody's exercise asks for a hand in that.
        forbidden = [*options["forbid"], *(["grader"] if options.get("isolated", True) else [])]
        if forbidden:
            from grader.worker import forbid

            self._guard = forbid.install(forbidden, filename)
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
        module = types.ModuleType(name)
        module.__file__ = filename
        self._module = module
        sys.modules[name] = module
        with self._running(reply):
            if options["kind"] in ("numpy", "python"):
                from grader.worker.probes.products import compiled

                code = compiled(source, filename, module.__dict__)
            else:
                # dont_inherit: the flags of this file (annotations) are not the submission's.
                code = compile(source, filename, "exec", dont_inherit=True)
            exec(code, module.__dict__)
        return _public_names(module)

    def _do_get(self, reply: dict[str, Any], unpacker: Unpacker, target: Any, name: str) -> Any:
        with self._running(reply):
            return getattr(self._module if target is None else target, name)

    def _do_set(self, reply: dict[str, Any], unpacker: Unpacker, target: Any, name: str, value: Any) -> None:
        with self._running(reply):
            setattr(target, name, value)

    def _do_call(
        self, reply: dict[str, Any], unpacker: Unpacker, target: Any, name: str, packed: bytes, options: dict[str, Any]
    ) -> Any:
        args, kwargs = unpacker.unpack(packed)
        try:
            with self._running(reply):
                function = _attribute(self._module if target is None else target, name)
                if not options:
                    return function(*args, **kwargs)
                with self._measuring(reply, options, function, args, kwargs) as returned:
                    value = function(*args, **kwargs)
                    returned(value)
                    return value
        finally:
            self._note_changes(reply, unpacker, packed, args, kwargs)

    def _note_changes(
        self, reply: dict[str, Any], unpacker: Unpacker, packed: bytes, args: Any, kwargs: dict[str, Any]
    ) -> None:
        """Tells the judge which arguments the call changed: packing is canonical, so other bytes are other values."""
        after = Packer(self, grads=False)
        with contextlib.suppress(wire.WireError):
            tree = after.pack([args, kwargs])
            buffers = unpacker.buffers[: len(after.buffers)]
            if tree == packed and after.buffers == buffers:
                return
            # Perhaps only the trip itself has normalised something: compare with a second, untouched arrival.
            untouched = Unpacker(self, unpacker.buffers).unpack(packed)
            before = Packer(self, grads=False)
            if before.pack(untouched) != tree:
                reply["changed_tree"] = tree
                reply["changed_tree_buffers"] = after.buffers
                return
            changed = {
                index: new
                for index, (old, new) in enumerate(zip(before.buffers, after.buffers, strict=True))
                if old != new
            }
            if changed:
                reply["changed"] = changed

    def _do_next(
        self, reply: dict[str, Any], unpacker: Unpacker, iterator: Iterator[Any], options: dict[str, Any]
    ) -> tuple[bool, Any]:
        with self._running(reply), self._measuring(reply, options, None, (), {}) as returned:
            try:
                value = next(iterator)
            except StopIteration:
                return False, None
            returned(value)
            return True, value

    def _do_many(
        self, reply: dict[str, Any], unpacker: Unpacker, name: str, calls: list[Any], options: dict[str, Any]
    ) -> list[Any]:
        with self._running(reply):
            function = _attribute(self._module, name)
            with self._measuring(reply, options, None, (), {}):
                return [function(*args, **kwargs) for args, kwargs in calls]

    def _do_prop(self, reply: dict[str, Any], unpacker: Unpacker, source: str, name: str, args: Any) -> Any:
        """Builds a test's helper here: an object that holds no secret, so that calls to it need no round trip."""
        namespace: dict[str, Any] = {"__name__": "prop"}
        exec(compile(source, "<prop>", "exec", dont_inherit=True), namespace)
        positional, named = args
        return Handed(namespace[name](*positional, **named))

    def _do_backward(
        self, reply: dict[str, Any], unpacker: Unpacker, graph: int, gradients: list[Any], options: dict[str, Any]
    ) -> Any:
        from grader.worker.seeding import backward

        outputs, leaves = self._graphs[graph]
        for leaf in leaves:
            leaf.grad = None
        pairs = [
            (output, gradient) for output, gradient in zip(outputs, gradients, strict=True) if gradient is not None
        ]
        with self._running(reply), self._measuring(reply, options, None, (), {}):
            if pairs:
                backward(*zip(*pairs, strict=True))
        return [None if leaf.grad is None else leaf.grad.detach() for leaf in leaves]

    def _do_release(self, reply: dict[str, Any], unpacker: Unpacker, objects: list[int], graphs: list[int]) -> None:
        for number in objects:
            value = self._objects.pop(number, None)
            self._numbers.pop(id(value), None)
        for number in graphs:
            self._graphs.pop(number, None)

    def _do_compile(self, reply: dict[str, Any], unpacker: Unpacker, name: str, packed: bytes) -> Any:
        """Compiles every launch of a call for sm_90 instead of running it; only in a worker without the interpreter."""
        from grader.worker.kernels.compile import compile_launches

        args, kwargs = unpacker.unpack(packed)
        with self._running(reply):
            function = _attribute(self._module, name)
            return compile_launches(lambda: function(*args, **kwargs), filename=self._filename)

    # -- around the submission's code ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _running(self, reply: dict[str, Any]) -> Iterator[None]:
        """Turns whatever the submission raises into a description, and flushes what it printed."""
        guard = self._guard
        try:
            with guard.active() if guard is not None else contextlib.nullcontext():
                yield
        except _Raised:
            raise
        except BaseException as error:
            raise _Raised(_describe(error, self._filename)) from None
        finally:
            if guard is not None and guard.hits:
                reply["forbidden"] = [str(hit) for hit in guard.hits]
                guard.hits.clear()
            for stream in (sys.stdout, sys.stderr):
                with contextlib.suppress(Exception):
                    stream.flush()

    @contextlib.contextmanager
    def _measuring(
        self,
        reply: dict[str, Any],
        options: dict[str, Any],
        function: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Iterator[Callable[[Any], None]]:
        """Opens what the judge asked for around one call: probes, warnings as errors. Yields a place for the result."""
        with contextlib.ExitStack() as stack:
            if options.get("warnings") == "error":
                stack.enter_context(warnings.catch_warnings())
                warnings.simplefilter("error")
                numpy = sys.modules.get("numpy")
                if numpy is not None:
                    stack.enter_context(numpy.errstate(divide="warn", over="warn", invalid="warn", under="ignore"))
            torch = sys.modules.get("torch")
            if options.get("no_grad") and torch is not None:
                stack.enter_context(torch.no_grad())
            returned: Callable[[Any], None] = _ignore
            if options.get("measure"):
                from grader.worker import probes

                measured: dict[str, Any] = {}
                # Registered first, so it runs last, when the probes have written their summaries.
                stack.callback(lambda: reply.update(measured={k: v for k, v in measured.items() if k != "value"}))
                arguments = _named_arguments(function, args, kwargs)
                results = stack.enter_context(probes.opened(options["measure"], self._filename, arguments, measured))
                returned = partial(results.__setitem__, "value")
            yield returned

    def call_judge(self, payload: list[Any], method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls a function of the judge's, or a method of an object of its."""
        with self._lock:
            with paused():  # what packing does with tensors is no cost of the submission's
                packer = Packer(self)
                tree = packer.pack(["callback", payload[1], method, packer.pack([args, kwargs])])
                content = wire.frame(tree, packer.buffers)
            answer = self._ask(content)
            with paused():
                tree, buffers = wire.unframe(answer)
                _, ok, value = Unpacker(self, buffers).unpack(tree)
        if ok:
            return value
        names, message = value
        for name in names:
            kind = getattr(builtins, name, None)
            if isinstance(kind, type) and issubclass(kind, Exception):
                raise kind(message)
        raise RuntimeError(message)


class JudgeObject:
    """The worker's end of a function, or an object with methods, that a test passed in."""

    def __init__(self, server: Server, payload: list[Any]) -> None:
        self._server = server
        self._payload = payload
        self.__name__ = payload[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._server.call_judge(self._payload, "__call__", args, kwargs)

    def __getattr__(self, name: str) -> Any:
        payload = self.__dict__.get("_payload", ["", 0, "", []])
        if name in payload[3]:
            return lambda *args, **kwargs: self._server.call_judge(payload, name, args, kwargs)
        raise AttributeError(f"this {payload[2]} has no attribute {name!r}")

    def __deepcopy__(self, memo: Any) -> JudgeObject:
        return self


class JudgeCollection(JudgeObject):
    """The worker's end of an object with a length and items."""

    def __len__(self) -> int:
        return int(self._server.call_judge(self._payload, "__len__", (), {}))

    def __getitem__(self, key: Any) -> Any:
        return self._server.call_judge(self._payload, "__getitem__", (key,), {})


class JudgeIterator(JudgeObject):
    """The worker's end of an iterator that a test passed in."""

    def __iter__(self) -> JudgeIterator:
        return self

    def __next__(self) -> Any:
        going, value = self._server.call_judge(self._payload, "__next__", (), {})
        if not going:
            raise StopIteration
        return value


class Handed:
    """Wraps a value that must go over as a handle even if it could go by value."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Raised(BaseException):
    """Carries the description of what the submission raised past everything that might swallow it."""

    def __init__(self, description: dict[str, Any]) -> None:
        self.description = description


def _ignore(value: Any) -> None:
    """Where nobody measures, nobody needs the result."""


def _attribute(target: Any, name: str) -> Any:
    """A method by name; `name` may be dotted, for a method of a class or a static method."""
    for part in name.split("."):
        target = getattr(target, part)
    return target


def _crosses_by_value(kind: type) -> bool:
    """Frozen dataclasses, and those without methods of their own: nothing is lost when they are copied."""
    if kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return True
    return not any(
        inspect.isfunction(member) and not (name.startswith("__") and name.endswith("__"))
        for base in kind.__mro__
        for name, member in vars(base).items()
    )


def _method_names(value: Any) -> list[str]:
    """Names that the judge may call without asking first whether they are methods."""
    found: set[str] = set()
    kind = value if isinstance(value, type) else type(value)
    for base in kind.__mro__:
        for name, member in list(vars(base).items()):
            if isinstance(member, types.FunctionType | classmethod | staticmethod | types.BuiltinFunctionType) or (
                not isinstance(member, type) and callable(member) and inspect.isroutine(member)
            ):
                found.add(name)
    with contextlib.suppress(Exception):
        found -= set(vars(value)) if not isinstance(value, type) else set()
    return sorted(found)


def _public_names(module: types.ModuleType) -> dict[str, str]:
    names: dict[str, str] = {}
    for name, value in list(vars(module).items()):
        if name.startswith("_"):
            continue
        own = getattr(value, "__module__", module.__name__) == module.__name__
        if isinstance(value, type):
            names[name] = "class" if own else "imported"
        elif callable(value):
            names[name] = "function" if own else "imported"
        else:
            names[name] = "value"
    return names


def _named_arguments(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the function's own signature, as far as they can be bound."""
    try:
        return dict(inspect.signature(function).bind_partial(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        return {**{str(i): value for i, value in enumerate(args)}, **kwargs}


def _hide_the_grader() -> None:
    """A submission that imports the judge or pytest has no business there; None makes the import fail."""
    for name in ("grader.judge", "grader.course", "grader.testing", "grader.cli", "pytest", "_pytest", "solutions"):
        sys.modules[name] = None  # type: ignore[assignment]


def _describe(error: BaseException, filename: str) -> dict[str, Any]:
    """Type, message and the learner's own lines of a traceback, as plain data."""
    try:
        message = str(error)[:_MESSAGE_LIMIT]
    except BaseException:
        message = "(its message could not be made)"
    description = {
        "type": type(error).__name__,
        "bases": [kind.__name__ for kind in type(error).__mro__],
        "message": message,
        "traceback": _own_lines(error, filename),
    }
    if isinstance(error, SyntaxError) and error.filename == filename:
        description["message"] = error.msg or "invalid syntax"
        description["traceback"] = "".join(traceback.format_exception_only(error)).rsplit("\n", 2)[0].rstrip()
    return description


def _own_lines(error: BaseException, filename: str) -> str:
    try:
        frames = [entry for entry in traceback.extract_tb(error.__traceback__) if entry.filename == filename]
    except BaseException:
        return ""
    if len(frames) > 12:
        skipped = len(frames) - 9
        shown: list[Any] = [*frames[:4], skipped, *frames[-5:]]
    else:
        shown = list(frames)
    lines = []
    for entry in shown:
        if isinstance(entry, int):
            lines.append(f"  ... {entry} more lines ...")
        else:
            lines.append(f'  File "{entry.filename}", line {entry.lineno}, in {entry.name}\n    {entry.line}')
    return "\n".join(lines)


def _shared(packer: Packer, unpacker: Unpacker) -> list[tuple[int, int]]:
    """(buffer of the result, buffer of an argument) wherever the two are the same memory."""
    if not packer.owners or not unpacker.owners:
        return []
    spans = []
    for index, owner in unpacker.owners.items():
        if isinstance(owner, bytearray):
            start = ctypes.addressof((ctypes.c_char * len(owner)).from_buffer(owner)) if owner else 0
            spans.append((index, start, start + len(owner)))
        else:
            spans.append((index, owner.data_ptr(), owner.data_ptr() + owner.nbytes()))
    found: list[tuple[int, int]] = []
    for index, owner in enumerate(packer.owners):
        if hasattr(owner, "data_ptr"):
            low = owner.data_ptr()
            high = low + owner.nbytes()
        elif hasattr(owner, "__array_interface__"):
            low = owner.__array_interface__["data"][0]
            high = low + owner.nbytes
        else:
            continue
        found.extend((index, other) for other, start, end in spans if low < end and start < high)
    return found
