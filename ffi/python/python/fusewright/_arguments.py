"""The arguments of a call of ``fuse``, taken apart: tensors, numbers, containers of them, and constants."""

from __future__ import annotations

import collections
import dataclasses
import functools
import types
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree

#: Tensors that are what they seem; those of other classes have ops of their own.
TENSORS = (torch.Tensor, torch.nn.Parameter)
#: Constants that equal others of their type.
PLAIN = frozenset(
    (bool, str, bytes, range, torch.dtype, torch.device, torch.memory_format, torch.layout, type(None), type(...))
)
#: Constants that have identity alone, and may be kept.
FIXED = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)
_DICTIONARIES = (dict, collections.OrderedDict)
#: Where caches of Hugging Face's models are defined, which are containers too.
_CACHES = "transformers.cache_utils"


class Unfit(Exception):
    """Arguments that calls of kernels cannot take, in words; foreign ones, as tensors of other classes, are no mistake."""

    def __init__(self, why: str, *, is_foreign: bool = False) -> None:
        super().__init__(why)
        self.is_foreign = is_foreign


class Identity:
    """An object that is no container: the same object is the same constant, for as long as it is there."""

    __slots__ = ("get", "key")

    def __init__(self, value: Any) -> None:
        self.key = id(value)
        try:
            self.get: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self.get = lambda: value

    def __hash__(self) -> int:
        return self.key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.key == other.key and self.get() is other.get() is not None


def _is_holder(kind: Any) -> bool:
    """Says whether objects of a class are containers of what is in their attributes: dataclasses, and caches of keys."""
    if issubclass(kind, (dict, list, tuple)):
        return False
    is_cache = any(base.__module__ == _CACHES for base in kind.__mro__)
    return is_cache or dataclasses.is_dataclass(kind) or kind is types.SimpleNamespace


is_holder: Callable[[type], bool] = functools.lru_cache(4096)(_is_holder)


def attributes(holder: Any) -> dict[str, Any]:
    """Gives the attributes of a holder, by name, in a new dictionary."""
    found = dict(getattr(holder, "__dict__", ()))
    for base in type(holder).__mro__:
        for name in vars(base).get("__slots__", ()):
            if name not in ("__dict__", "__weakref__") and hasattr(holder, name):
                found[name] = getattr(holder, name)
    return found


def set_attributes(holder: Any, held: Mapping[str, Any]) -> None:
    """Makes a holder have this and nothing else, one that calls itself frozen too."""
    for name in attributes(holder).keys() - held.keys():
        object.__delattr__(holder, name)
    for name, value in held.items():
        object.__setattr__(holder, name, value)


class Call:
    """Holds what a call is given. Calls of equal ``structure``, ``layouts`` and ``numbers`` are of one kind."""

    __slots__ = ("_places", "containers", "layouts", "numbers", "objects", "structure", "tensors")

    def __init__(self, args: Sequence[Any], named: Mapping[str, Any]) -> None:
        #: Marks, element types, devices and constants, in the order of the arguments.
        self.structure: list[Any] = []
        #: Tensors, each once, and how each lies.
        self.tensors: list[torch.Tensor] = []
        self.layouts: list[Any] = []
        #: Integers.
        self.numbers: list[int] = []
        #: Lists, dictionaries and holders, each once: what may be changed.
        self.containers: list[Any] = []
        #: Objects that are constants.
        self.objects: list[Any] = []
        self._places = dict[int, int]()
        try:
            for arg in args:
                self._take(arg)
            if named:
                self.structure.append(tuple(named))
                for arg in named.values():
                    self._take(arg)
        except Unfit:
            raise
        except Exception as error:
            # What looks at itself, as proxies do, may raise what it likes.
            raise Unfit(f"cannot look into an argument ({error})", is_foreign=True) from error

    def key(self) -> tuple[Any, ...]:
        """Gives the key that calls of one kind have in common."""
        return (*self.structure, *self.layouts, *self.numbers)

    def _take(self, value: Any) -> None:
        kind = type(value)
        if kind in TENSORS:
            place = self._places.setdefault(id(value), len(self.tensors))
            if place < len(self.tensors):
                self.structure.append(("again", place))
                return
            self.tensors.append(value)
            self.structure += (kind, value.dtype, value.device, value.ndim)
            if value.layout is not torch.strided or value.is_nested or value.is_quantized:
                raise Unfit(f"does not look into a `{described(value)}`", is_foreign=True)
            self.layouts += (value.shape, value.stride())
        elif kind is int:
            self.numbers.append(value)
            self.structure.append(kind)
        elif kind in PLAIN:
            self.structure.append((kind, value))
        elif isinstance(value, (int, float, complex)):
            # To the sign of a zero, and NaN is itself.
            self.structure.append((kind, repr(value)))
        else:
            self._take_other(value, kind)

    def _take_other(self, value: Any, kind: type) -> None:
        if kind is tuple or kind is torch.Size:
            self._take_all(kind, len(value), value)
        elif kind is slice:
            self._take_all(kind, 3, (value.start, value.stop, value.step))
        elif kind is list:
            if self._is_new(value):
                self._take_all(kind, len(value), value)
        elif kind in _DICTIONARIES:
            if self._is_new(value):
                self._take_all(kind, tuple(value), value.values())
        elif is_holder(kind):
            if self._is_new(value):
                held = attributes(value)
                self._take_all(kind, tuple(held), held.values())
        elif kind in _pytree.SUPPORTED_NODES:
            children, context = _pytree.SUPPORTED_NODES[kind].flatten_fn(value)
            self._take_all(kind, (len(children), repr(context)), children)
        elif isinstance(value, tuple):
            self._take_all(kind, len(value), value)
        elif isinstance(value, torch.Tensor):
            raise Unfit(f"does not look into a `{described(value)}`", is_foreign=True)
        elif isinstance(value, FIXED):
            self.structure.append(value)
        elif isinstance(value, types.MethodType):
            self.structure.append(value.__func__)
            self._take_object(value.__self__)
        elif isinstance(value, (Collection, Iterator)) and not isinstance(value, torch.nn.Module):
            raise Unfit(f"does not look into a `{kind.__name__}`")
        else:
            self._take_object(value)

    def _take_object(self, value: Any) -> None:
        self.objects.append(value)
        self.structure.append(Identity(value))

    def _take_all(self, kind: type, shape: Any, values: Iterable[Any]) -> None:
        self.structure.append((kind, shape))
        for value in values:
            self._take(value)

    def _is_new(self, container: Any) -> bool:
        place = self._places.setdefault(id(container), len(self.containers))
        if place < len(self.containers):
            self.structure.append(("again", place))
            return False
        self.containers.append(container)
        return True


def described(tensor: torch.Tensor) -> str:
    """The kind of a tensor that is no strided one of its own values."""
    if tensor.is_nested:
        return "nested tensor"
    if type(tensor) not in TENSORS:
        return type(tensor).__name__
    return str(tensor.layout if tensor.layout is not torch.strided else tensor.dtype)


class Copies:
    """Arguments with other tensors and numbers in their places; containers are copies, which a trace may change."""

    def __init__(self, call: Call, tensors: Sequence[torch.Tensor], numbers: Sequence[Any]) -> None:
        self._tensors = {id(own): other for own, other in zip(call.tensors, tensors, strict=True)}
        self._numbers = iter(numbers)
        self._made: dict[int, Any] = {}
        #: Copies of the containers of the call, in their order, and what each has to begin with.
        self.containers: list[Any] = []
        self._before: list[Any] = []
        #: Nodes of other libraries, with their copies and what those have.
        self._nodes: list[tuple[Any, list[Any]]] = []

    def of(self, value: Any) -> Any:
        """The copy of a value. Values are to be given in the order in which the call took them."""
        kind = type(value)
        if kind in TENSORS:
            return self._tensors[id(value)]
        if kind is int:
            return next(self._numbers)
        if kind in PLAIN or isinstance(value, (int, float, complex)):
            return value
        if kind is slice:
            return slice(*map(self.of, (value.start, value.stop, value.step)))
        if kind is list or kind in _DICTIONARIES or is_holder(kind):
            return self._of_container(value)
        if kind in _pytree.SUPPORTED_NODES and kind is not tuple:
            node = _pytree.SUPPORTED_NODES[kind]
            children, context = node.flatten_fn(value)
            copied = [self.of(child) for child in children]
            made = node.unflatten_fn(copied, context)
            self._nodes.append((made, copied))
            return made
        if isinstance(value, tuple):
            return with_elements(kind, [self.of(element) for element in value])
        return value

    def _of_container(self, value: Any) -> Any:
        if id(value) in self._made:
            return self._made[id(value)]
        made = self._made[id(value)] = empty(type(value))
        at = len(self.containers)
        self.containers.append(made)
        self._before.append(None)
        put(made, elements(value, self.of))
        self._before[at] = elements(made)
        return made

    def changed(self) -> list[int]:
        """Tells which containers have changed. Raises :class:`Unfit` for one that cannot be followed."""
        for made, before in self._nodes:
            after = _pytree.SUPPORTED_NODES[type(made)].flatten_fn(made)[0]
            if not are_same(list(after), before):
                raise Unfit(f"it changes a `{type(made).__name__}`")
        return [i for i, made in enumerate(self.containers) if not are_same(elements(made), self._before[i])]


def empty(kind: type) -> Any:
    """A new list, dictionary or holder, whose own ``__init__`` has no part in it."""
    return object.__new__(kind) if is_holder(kind) and kind is not types.SimpleNamespace else kind()


def elements(container: Any, of: Callable[[Any], Any] = lambda value: value) -> Any:
    """Gives the contents of a list, dictionary or holder, as a new list or dictionary."""
    if type(container) is list:
        return [of(value) for value in container]
    held = container if type(container) in _DICTIONARIES else attributes(container)
    return {name: of(value) for name, value in held.items()}


def put(container: Any, held: Any) -> None:
    """Makes a list, dictionary or holder have this and nothing else."""
    if type(container) is list:
        container[:] = held
    elif type(container) in _DICTIONARIES:
        if list(container) != list(held):
            container.clear()
        container.update(held)
    else:
        set_attributes(container, held)


def are_same(a: Any, b: Any) -> bool:
    """Says whether two lists, or two dictionaries, have the same objects in the same order."""
    if len(a) != len(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(a[name] is b[name] for name in a)
    return all(one is other for one, other in zip(a, b))


def with_elements(kind: type, values: list[Any]) -> Any:
    """A tuple of a class."""
    made: Any = kind
    return made(*values) if hasattr(kind, "_fields") else made(values)
