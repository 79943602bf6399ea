"""A fused graph as PyTorch keeps it: ``torch.compile(…).aot_compile()``, and caches of whole compilations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen  # pyright: ignore[reportPrivateImportUsage]

# Whoever reads a kept graph has its operator then.
from . import _ops
from ._short import bind, copied

#: What nodes know of where they were traced, which cannot all be written.
_TRACES = ("nn_module_stack", "source_fn_stack", "example_value", "stack_trace")


@dataclass
class KeptCode(OutputCode):
    """A graph whose calls of fused parts carry the parts. Kernels are compiled, or read from our cache, at the first call."""

    gm: GraphModule | None = None
    _written: bytes | None = field(default=None, init=False)
    #: The graph as calls run it: PyTorch takes longer to call an operator than a function.
    _direct: GraphModule | None = field(default=None, init=False)

    @classmethod
    def of(cls, gm: GraphModule) -> KeptCode:
        """The code of a graph, which takes its inputs as one list from here on."""
        made = cls(_boxed(gm))
        made._boxed_call = True  # type: ignore[attr-defined]
        return made

    def __call__(self, inputs: Any) -> Any:
        if self._direct is None:
            assert self.gm is not None, "it is read first"
            self._direct = _direct(self.gm)
        return self._direct.forward(inputs)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_direct": None}

    def prepare_for_serialization(self) -> None:
        """Turns a copy of it, which PyTorch makes, into what is written."""
        from torch.fx._graph_pickler import GraphPickler, Options

        assert self.gm is not None, "it is written once"
        for node in self.gm.graph.nodes:
            for name in _TRACES:
                node.meta.pop(name, None)
        self._written = GraphPickler.dumps(self.gm, Options(ops_filter=None))
        self.gm = None

    def post_compile(self, *args: Any, **kwargs: Any) -> None:
        """Makes a graph of what was read."""
        if self.gm is not None or self._written is None:
            return
        from torch._subclasses import FakeTensorMode
        from torch.fx._graph_pickler import GraphPickler
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        gm = GraphPickler.loads(self._written, FakeTensorMode(shape_env=ShapeEnv()))
        assert isinstance(gm, GraphModule)
        self.gm, self._written = _boxed(gm), None

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: there is no code of Triton's."""


def _direct(gm: GraphModule) -> GraphModule:
    """A graph that calls the functions of its parts."""
    graph = copied(gm.graph)
    for node in graph.find_nodes(op="call_function", target=torch.ops.fusewright.call.default):
        tensors, sizes, part = node.args
        with graph.inserting_before(node):
            call = graph.call_function(_ops.known(part), (*tensors, *sizes))
        call.meta = node.meta
        if _ops.results(part) == 1:
            for user in list(node.users):
                user.replace_all_uses_with(call)
                graph.erase_node(user)
        node.replace_all_uses_with(call)
        graph.erase_node(node)
    bind(graph)
    return GraphModule(gm, graph)


class _Boxed(_BoxedCodeGen):
    """Takes all arguments out of their list at once: one by one they cost as much as a small kernel."""

    def gen_fn_def(self, *args: Any, **kwargs: Any) -> str:
        text = super().gen_fn_def(*args, **kwargs)
        names = _TAKEN.findall(text)
        if not names:
            return text
        head = text.partition("\n")[0]
        return f"{head}\n    {', '.join(names)}, = args_list\n    args_list.clear()"


#: Where PyTorch's code takes one argument.
_TAKEN = re.compile(r"^    (\w+) = next\(args_iter\)$", re.MULTILINE)


def _boxed(gm: GraphModule) -> GraphModule:
    gm.graph.set_codegen(_Boxed())
    gm.recompile()
    return gm
