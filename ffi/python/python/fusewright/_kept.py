"""A fused graph as PyTorch keeps it: ``torch.compile(…).aot_compile()``, and caches of whole compilations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch._inductor.output_code import OutputCode
from torch.fx import GraphModule
from torch.fx.graph import _BoxedCodeGen  # pyright: ignore[reportPrivateImportUsage]

# Whoever reads a kept graph has its operator then.
from . import _ops as _ops

#: What nodes know of where they were traced, which cannot all be written.
_TRACES = ("nn_module_stack", "source_fn_stack", "example_value", "stack_trace")


@dataclass
class KeptCode(OutputCode):
    """A graph whose calls of fused parts carry the parts. Kernels are compiled, or read from our cache, at the first call."""

    gm: GraphModule | None = None
    _written: bytes | None = field(default=None, init=False)

    @classmethod
    def of(cls, gm: GraphModule) -> KeptCode:
        """The code of a graph, which takes its inputs as one list from here on."""
        made = cls(_boxed(gm))
        made._boxed_call = True  # type: ignore[attr-defined]
        return made

    def __call__(self, inputs: Any) -> Any:
        assert self.gm is not None, "it is read first"
        return self.gm.forward(inputs)

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


def _boxed(gm: GraphModule) -> GraphModule:
    gm.graph.set_codegen(_BoxedCodeGen())
    gm.recompile()
    return gm
