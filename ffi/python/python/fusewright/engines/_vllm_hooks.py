"""The parts of the plug-in for vLLM that import vLLM; loaded only for a version that the contract covers."""

# vLLM need not be installed where types are checked.
# pyright: reportMissingImports=false

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule
from vllm.compilation import backends, caching
from vllm.compilation.compiler_interface import CompilerInterface
from vllm.compilation.passes.inductor_pass import InductorPass
from vllm.compilation.passes.pass_manager import PostGradPassManager

from .. import __version__, inductor_pass
from .._backend import compile_graph
from .._options import Options
from ._graphs import tuple_results
from ._pass import EnginePass


class FusewrightPass(EnginePass, InductorPass):
    """Fusewright's pass under vLLM's name for one."""


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
def _name_in_cache(door: str) -> None:
    """What vLLM keeps of whole compilations is another thing with each door than without it."""
    factors = caching.aot_compile_hash_factors

    @functools.wraps(factors)
    def with_ours(vllm_config: Any) -> list[str]:
        return [*factors(vllm_config), f"{door} {FusewrightPass().uuid()}"]

    caching.aot_compile_hash_factors = with_ours


@functools.cache
def add_pass() -> None:
    """Every pass manager that is configured from now on ends its own fusions with Fusewright's pass."""
    _name_in_cache("pass")
    configure = PostGradPassManager.configure

    @functools.wraps(configure)
    def configured(self: PostGradPassManager, config: Any) -> None:
        configure(self, config)
        self.add(FusewrightPass())

    PostGradPassManager.configure = configured


@functools.cache
def replace_compiler() -> None:
    """Where vLLM would leave pieces as they are, it compiles them with Fusewright."""
    _name_in_cache("compiler")
    make = backends.make_compiler

    @functools.wraps(make)
    def made(compilation_config: Any, *, use_aot_compile: bool) -> CompilerInterface:
        if compilation_config.backend == "eager":
            return FusewrightCompiler()
        return make(compilation_config, use_aot_compile=use_aot_compile)

    backends.make_compiler = made
