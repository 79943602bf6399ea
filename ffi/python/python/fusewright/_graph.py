"""Parts of live FX graphs as the JSON of an exported program, which the compiler reads.

Names are canonical: ``n0, n1, …`` for nodes in order and ``v0, …`` for tensors, so that equal parts of a graph, such as
the layers of a model, have equal text.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy
import torch
from torch.fx import Node

from . import _dtypes

#: What a thread of a kernel moves at once: so many neighbours, of so many bytes at least.
_VECTOR_LANES, _VECTOR_BYTES = 8, 16


class Unsupported(Exception):
    """A node that has no form in the schema; ``node`` is it."""

    def __init__(self, node: Node, reason: str) -> None:
        super().__init__(f"`{node.name}`: {reason}")
        self.node = node


@dataclass
class Program:
    """A part of a graph as text, and what its names stand for."""

    text: bytes
    #: The tensors that it takes and gives, in order.
    inputs: list[Node]
    outputs: list[Node]
    #: By number, the inputs that it takes in another order of their axes.
    orders: dict[int, list[int]]
    #: Its nodes by their canonical names.
    nodes: dict[str, Node]
    #: The symbols that occur in it, by name.
    symbols: dict[str, sympy.Symbol]


def value(node: Node) -> Any:
    """What a node gives when it runs, with fake tensors and symbolic sizes; ``None`` if nobody traced it."""
    meta = node.meta
    return meta["val"] if "val" in meta else meta.get("example_value")


def memory_order(tensor: torch.Tensor) -> list[int]:
    """The axes of a tensor from the outermost in memory to the innermost; as they are where its strides are no order.

    PyTorch keeps the order of operands in results, and later nodes of a graph rely on it.
    """
    axes = list(range(tensor.ndim))
    if tensor.is_contiguous():
        return axes
    alone = [axis for axis in axes if _sample(tensor.shape[axis]) == 1]
    apart = [axis for axis in axes if axis not in alone]
    order = [*alone, *sorted(apart, key=lambda axis: -_sample(tensor.stride()[axis]))]
    return order if tensor.permute(order).is_contiguous() else axes


def runs_of(tensor: torch.Tensor, order: Sequence[int]) -> int:
    """How many elements at least lie next to each other in memory, where axes are walked in an order, the last first.

    Of an extent that is a symbol nothing is known but that it is a whole number.
    """
    run = 1
    for axis in reversed(order):
        if _sample(tensor.shape[axis]) == 1:
            continue
        if _sample(tensor.stride()[axis]) != run or isinstance(tensor.shape[axis], torch.SymInt):
            break
        run *= int(tensor.shape[axis])
    return run


def in_vectors(tensor: torch.Tensor, order: Sequence[int]) -> bool:
    """Whether what lies next to each other in an order of the axes is whole vectors of a kernel's."""
    run = runs_of(tensor, order)
    return run % _VECTOR_LANES == 0 and run * tensor.element_size() % _VECTOR_BYTES == 0


def read_order(tensor: torch.Tensor) -> list[int] | None:
    """The order of the axes in which kernels read a tensor that does not lie in row-major order, where rows stay whole
    vectors; anything else is faster copied first.
    """
    order = memory_order(tensor)
    return order if order != sorted(order) and in_vectors(tensor, range(tensor.ndim)) else None


def _sample(size: int | torch.SymInt) -> int:
    """A size where every symbol is one large number."""
    if not isinstance(size, torch.SymInt):
        return size
    expression: Any = size.node.expr
    return int(expression.subs(dict.fromkeys(expression.free_symbols, 8191)))


def serialise(nodes: Sequence[Node], outputs: Sequence[Node]) -> Program:
    """The program that computes ``outputs`` by ``nodes``, which are in topological order.

    Raises :class:`Unsupported` for a node or argument that the schema has no form for.
    """
    return _Serialiser(nodes).program(outputs)


@dataclass
class _Serialiser:
    nodes: Sequence[Node]
    names: dict[Node, str] = field(default_factory=dict)
    inputs: list[Node] = field(default_factory=list)
    orders: dict[int, list[int]] = field(default_factory=dict)
    #: What the program takes, and the nodes that put their axes in the order that the rest expects.
    arguments: list[str] = field(default_factory=list)
    turned: list[Any] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, Any] = field(default_factory=dict)
    symbols: dict[str, sympy.Symbol] = field(default_factory=dict)
    ranges: dict[str, Any] = field(default_factory=dict)

    def program(self, outputs: Sequence[Node]) -> Program:
        named: dict[str, Node] = {}
        nodes = []
        for node in self.nodes:
            if node.target is not operator.getitem:
                name = f"n{len(named)}"
                named[name] = node
                nodes.append(self._node(node, name))
        arguments = [{"as_tensor": {"name": name}} for name in self.arguments]
        results = [{"as_tensor": {"name": self._stored(node, nodes)}} for node in outputs]
        document = {
            "graph_module": {
                "graph": {
                    "inputs": arguments,
                    "outputs": results,
                    "nodes": [*self.turned, *nodes],
                    "tensor_values": self.tensors,
                    "sym_int_values": self.sizes,
                },
                "signature": {
                    "input_specs": [{"user_input": {"arg": argument}} for argument in arguments],
                    "output_specs": [{"user_output": {"arg": result}} for result in results],
                },
            },
            "range_constraints": self.ranges,
            "schema_version": {"major": 8, "minor": 20},
            "torch_version": torch.__version__,
        }
        text = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
        return Program(text, self.inputs, list(outputs), self.orders, named, self.symbols)

    def _node(self, node: Node, name: str) -> dict[str, Any]:
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            raise Unsupported(node, "it is no operator of a schema")
        arguments = []
        for position, parameter in enumerate(target._schema.arguments):
            if position < len(node.args):
                given = node.args[position]
            elif parameter.name in node.kwargs:
                given = node.kwargs[parameter.name]
            else:
                continue
            arguments.append({"name": parameter.name, "arg": self._argument(node, given, str(parameter.type))})
        return {"target": f"torch.ops.{target}", "name": name, "inputs": arguments, "outputs": self._results(node)}

    def _stored(self, node: Node, nodes: list[Any]) -> str:
        """The tensor that an output is stored as: its axes from the outermost in memory to the innermost."""
        tensor = value(node)
        order = memory_order(tensor)
        if order == sorted(order):
            return self.names[node]
        name = self._tensor(None, tensor.permute(order), node)
        nodes.append(_permutation(self.names[node], order, name))
        return name

    def _results(self, node: Node) -> list[Any]:
        made = value(node)
        if isinstance(made, torch.Tensor):
            return [{"as_tensor": {"name": self._tensor(node, made, node)}}]
        if isinstance(made, (tuple, list)):
            names = []
            for tensor in made:
                if not isinstance(tensor, torch.Tensor):
                    raise Unsupported(node, "a result is no tensor")
                names.append({"name": self._tensor(None, tensor, node)})
            for user in node.users:
                if user.target is operator.getitem:
                    self.names[user] = names[int(str(user.args[1]))]["name"]
            is_list = "[]" in str(node.target._schema.returns[0].type)  # type: ignore[union-attr]
            return [{"as_tensors": names}] if is_list else [{"as_tensor": name} for name in names]
        raise Unsupported(node, "its result is no tensor")

    def _tensor(self, node: Node | None, tensor: torch.Tensor, about: Node) -> str:
        """Declares a tensor; ``node`` is what stands for it, if anything does."""
        if not _dtypes.is_known(tensor):
            raise Unsupported(about, f"kernels have no {tensor.dtype} of layout {tensor.layout}")
        name = f"v{len(self.tensors)}"
        self.tensors[name] = {
            "dtype": _dtypes.CODES[tensor.dtype],
            "sizes": [self._size(size) for size in tensor.shape],
            "strides": [self._place(stride) for stride in tensor.stride()],
            "storage_offset": self._place(tensor.storage_offset()),
            "device": _device(tensor.device),
            "layout": _dtypes.STRIDED,
        }
        if node is not None:
            self.names[node] = name
        return name

    def _operand(self, node: Node, operand: Node) -> str:
        if operand not in self.names:
            tensor = value(operand)
            if not isinstance(tensor, torch.Tensor):
                raise Unsupported(node, f"its operand `{operand.name}` is no tensor")
            self._input(operand, tensor, node)
        return self.names[operand]

    def _input(self, operand: Node, tensor: torch.Tensor, about: Node) -> None:
        order = read_order(tensor)
        if order is None:
            self.arguments.append(self._tensor(operand, tensor, about))
        else:
            self.orders[len(self.inputs)] = order
            self.arguments.append(self._tensor(None, tensor.permute(order), about))
            name = self._tensor(operand, tensor, about)
            back = [order.index(axis) for axis in range(len(order))]
            self.turned.append(_permutation(self.arguments[-1], back, name))
        self.inputs.append(operand)

    def _size(self, size: int | torch.SymInt) -> dict[str, Any]:
        if isinstance(size, torch.SymInt):
            expression: Any = size.node.expr
            if not expression.is_number:
                self._declare(size, expression)
                return {"as_expr": {"expr_str": sympy.srepr(expression)}}
        return {"as_int": int(size)}

    @staticmethod
    def _place(number: int | torch.SymInt) -> dict[str, Any]:
        """Where a tensor's elements lie; a symbol that no size has is not declared for it, which leaves the place unknown."""
        if isinstance(number, torch.SymInt) and not number.node.expr.is_number:
            return {"as_expr": {"expr_str": sympy.srepr(number.node.expr)}}
        return {"as_int": int(number)}

    def _declare(self, size: torch.SymInt, expression: Any) -> None:
        for symbol in expression.free_symbols:
            name = str(symbol)
            if name not in self.symbols:
                shapes = size.node.shape_env
                assert shapes is not None, "a symbolic size has an environment"
                bounds = shapes.bound_sympy(symbol)
                self.symbols[name] = symbol
                self.ranges[name] = {"min_val": _bound(bounds.lower), "max_val": _bound(bounds.upper)}

    def _argument(self, node: Node, given: Any, kind: str) -> dict[str, Any]:
        if given is None:
            return {"as_none": True}
        if isinstance(given, Node):
            found = value(given)
            if isinstance(found, torch.Tensor):
                return {"as_tensor": {"name": self._operand(node, given)}}
            return self._symbolic(node, found)
        if isinstance(given, bool):
            return {"as_bool": given}
        if isinstance(given, int):
            return {"as_float": float(given)} if kind == "float" else {"as_int": given}
        if isinstance(given, float):
            return {"as_float": _number(given)}
        if isinstance(given, str):
            return {"as_string": given}
        if isinstance(given, torch.dtype):
            if given not in _dtypes.CODES:
                raise Unsupported(node, f"kernels have no {given}")
            return {"as_scalar_type": _dtypes.CODES[given]}
        if isinstance(given, torch.device):
            return {"as_device": _device(given)}
        if given is torch.strided:
            return {"as_layout": _dtypes.STRIDED}
        if isinstance(given, torch.memory_format):
            return {"as_memory_format": _dtypes.FORMATS[given]}
        if isinstance(given, torch.SymInt):
            return self._symbolic(node, given)
        if isinstance(given, (list, tuple)):
            return self._list(node, given)
        raise Unsupported(node, f"the argument {given!r} has no form in the schema")

    def _symbolic(self, node: Node, found: Any) -> dict[str, Any]:
        if isinstance(found, bool) or not isinstance(found, (int, torch.SymInt)):
            raise Unsupported(node, "an argument is a number that is known when it runs")
        return {"as_sym_int": self._named_size(found)}

    def _named_size(self, size: int | torch.SymInt) -> dict[str, Any]:
        stated = self._size(size)
        if "as_int" in stated:
            return stated
        name = f"s{len(self.sizes)}"
        self.sizes[name] = stated
        return {"as_name": name}

    def _list(self, node: Node, given: Iterable[Any]) -> dict[str, Any]:
        items = list(given)
        found = [value(item) if isinstance(item, Node) else item for item in items]
        if any(isinstance(item, torch.Tensor) for item in found):
            if any(item is None for item in found):
                optional = [
                    {"as_none": True} if item is None else {"as_tensor": {"name": self._operand(node, item)}}
                    for item in items
                ]
                return {"as_optional_tensors": optional}
            return {"as_tensors": [{"name": self._operand(node, item)} for item in items]}
        if all(isinstance(item, bool) for item in found):
            return {"as_bools": found} if found else {"as_ints": []}
        if all(isinstance(item, int) for item in found):
            return {"as_ints": found}
        if all(isinstance(item, (int, torch.SymInt)) for item in found):
            return {"as_sym_ints": [self._named_size(item) for item in found]}
        if all(isinstance(item, (int, float)) for item in found):
            return {"as_floats": [_number(float(item)) for item in found]}
        raise Unsupported(node, f"the list {items!r} has no form in the schema")


def _device(on: torch.device) -> dict[str, Any]:
    # Kernels are for all devices of a kind: layers on several have the same text.
    return {"type": on.type, "index": None}


def _permutation(name: str, order: list[int], made: str) -> dict[str, Any]:
    arguments = [
        {"name": "self", "arg": {"as_tensor": {"name": name}}},
        {"name": "dims", "arg": {"as_ints": order}},
    ]
    outputs = [{"as_tensor": {"name": made}}]
    return {"target": "torch.ops.aten.permute.default", "name": "", "inputs": arguments, "outputs": outputs}


def _number(number: float) -> float | str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def _bound(bound: sympy.Expr) -> int | None:
    # Unbounded ranges end at one of several infinities, or near the largest integer.
    return int(bound) if isinstance(bound, sympy.Integer) and abs(int(bound)) < 2**62 else None
