"""The parts of the plug-in for vLLM that import vLLM; loaded only for a version that the contract covers."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Any

from torch.fx import Graph, GraphModule
from vllm.compilation import backends
from vllm.compilation.compiler_interface import CompilerInterface
from vllm.compilation.passes.inductor_pass import InductorPass
from vllm.compilation.passes.pass_manager import PostGradPassManager

from .. import __version__, inductor_pass
from .._backend import compile_graph
from .._options import Options
from ._graphs import tuple_results


class FusewrightPass(InductorPass):
    """Fusewright's pass under vLLM's name for one."""

    def __init__(self) -> None:
        self._inner = inductor_pass()
        # Without a cache on disk what the pass inserts cannot be loaded again: no two processes are the same.
        self._unique = uuid.uuid4().hex

    def __call__(self, graph: Graph) -> None:
        self._inner(graph)

    def uuid(self) -> str:
        """The identity of what the pass makes, as text: vLLM hashes it into its own."""
        key = self._inner.uuid()
        return self._unique if key is None else repr(key)


class FusewrightCompiler(CompilerInterface):
    """Compiles pieces as ``torch.compile(…, backend="fusewright")`` does; keeps nothing in vLLM's cache."""

    name = "fusewright"

    def compute_hash(self, vllm_config: Any) -> str:
        return f"fusewright-{__version__}-{inductor_pass().uuid()}"

    def compile(
        self,
        graph: GraphModule,
        example_inputs: list[Any],
        compiler_config: dict[str, Any],
        compile_range: Any,
        key: str | None = None,
    ) -> tuple[Callable[..., Any] | None, Any | None]:
        compiler = functools.partial(compile_graph, options=Options())
        return tuple_results(graph, example_inputs, compiler), None


@functools.cache
def add_pass() -> None:
    """Every pass manager that is configured from now on ends its own fusions with Fusewright's pass."""
    configure = PostGradPassManager.configure

    @functools.wraps(configure)
    def configured(self: PostGradPassManager, config: Any) -> None:
        configure(self, config)
        self.add(FusewrightPass())

    PostGradPassManager.configure = configured


@functools.cache
def replace_compiler() -> None:
    """Where vLLM would leave pieces as they are, it compiles them with Fusewright."""
    make = backends.make_compiler

    @functools.wraps(make)
    def made(compilation_config: Any, *, use_aot_compile: bool) -> CompilerInterface:
        if compilation_config.backend == "eager":
            return FusewrightCompiler()
        return make(compilation_config, use_aot_compile=use_aot_compile)

    backends.make_compiler = made
