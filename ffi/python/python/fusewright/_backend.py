"""The backend of ``torch.compile``: functional ATen graphs in, fused parts as single calls out."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from functorch.compile import make_boxed_func  # pyright: ignore[reportPrivateImportUsage]
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import BackendCompilerFailed
from torch.fx import GraphModule

from . import _capture, _expect
from ._collector import uncollected
from ._fuse import Insert, Result, fuse_graph, insert_function, leave, left_as_it_is
from ._native import Error
from ._ops import insert_operator
from ._options import Options, of_environment
from ._short import bind, copied, shorten

#: What is told of every graph that was fused.
Observer = Callable[[Result], None]


def backend(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Callable[..., Any]:
    """Compiles a graph of Dynamo's; the entry point ``torch.compile(model, backend="fusewright")``.

    Options, as keywords or as ``torch.compile(…, options={…})``:

    * ``mode``: ``"exact"`` keeps every rounding of the graph, ``"relaxed"`` may drop intermediate ones; if not given, the
      variable ``FUSEWRIGHT_MODE`` says it
    * ``pipeline``: a file that lists passes
    * ``inner``: ``"eager"`` runs what is not fused by PyTorch, ``"inductor"`` by Inductor; if not given, the variable
      ``FUSEWRIGHT_INNER`` says it
    * ``strict``: raises what otherwise leaves a graph unfused with one warning
    * ``threads``: of a launch on the CPU; PyTorch's own number if not given
    * ``splitting_ops``: names of operators that no fused part has nodes on both sides of, such as
      ``["aten.scaled_dot_product_attention", "mine::op"]``
    * ``capture_sizes``: numbers of rows that are made ready before the first call: on a GPU the pieces of the graph
      between splitting operators are recorded as CUDA graphs and replayed at these, on the CPU kernels have their best code
      at once; a graph of several varying sizes is recorded where each of them is one of these
    * ``expect``: how many kernels of a name each graph must have, such as ``{"add_rms_norm": 2}``
    * ``progress``: says on standard error what is being compiled: on a terminal if not given, else always or never

    Graphs that are trained are left as they are, those of weights that need gradients where gradients are on: call models
    under ``torch.no_grad()``. Raises ``fusewright.Error`` for an unknown option, and under ``strict``;
    ``fusewright.ExpectationError`` for another number of kernels. Dynamo wraps what a backend raises in its own
    ``BackendCompilerFailed``, whose ``inner_exception`` that is.
    """
    given = {name: value for name, value in more.items() if value is not None}
    return compile_graph(gm, example_inputs, Options.of({**of_environment(), **(options or {}), **given}))


def is_kept() -> bool:
    """Whether PyTorch writes what a backend gives."""
    from torch._dynamo import config as dynamo
    from torch._functorch import config

    return bool(getattr(config, "bundled_autograd_cache", False) or getattr(dynamo, "caching_precompile", False))


def writable(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """A compiled function in the form that ``aot_compile`` writes, where that asks for one.

    PyTorch 2.15 would put the functions of all backends in a form of its own, 2.11 only those of its own backends.
    """
    from torch._functorch import config

    if not getattr(config, "bypass_autograd_cache_key", False) or not hasattr(compiled, "serialize"):
        return compiled
    # Releases of PyTorch that write none have no such form.
    from ._compilation import Compilation

    return compiled if isinstance(compiled, Compilation) else Compilation(compiled)


@contextlib.contextmanager
def own_errors() -> Iterator[None]:
    """Raises what a backend raised as it is, without what Dynamo puts around it."""
    try:
        yield
    except BackendCompilerFailed as failed:
        if isinstance(failed.inner_exception, Error):
            raise failed.inner_exception from None
        raise


def compile_graph(
    gm: GraphModule,
    example_inputs: Sequence[Any],
    options: Options,
    observer: Observer | None = None,
    insert: Insert = insert_function,
) -> Callable[..., Any]:
    """As :func:`backend`, for an observer who is told what was fused, and with calls of a caller's making."""
    if options.inner == "inductor":
        return _by_inductor(gm, example_inputs, options, observer)

    def inference(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        if is_kept():
            fuse_module(graph, options, observer, insert_operator if insert is insert_function else insert)
            if options.capture_sizes:
                warnings.warn("fusewright makes no sizes ready of a graph that PyTorch keeps", stacklevel=2)
            return as_it_is(graph)
        result = fuse_module(graph, options, observer, insert)
        if not options.capture_sizes:
            bind(graph.graph)
            graph.recompile()
        return make_boxed_func(_capture.prepared(graph, result, options))

    def trained(graph: GraphModule, given: Sequence[Any]) -> Callable[..., Any]:
        result = left_as_it_is("it is trained")
        if observer is not None:
            observer(result)
        _expect.check(options.expect, [result])
        return backward(graph, given)

    def backward(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        return as_it_is(graph)

    def as_it_is(graph: GraphModule) -> Callable[..., Any]:
        if not is_kept():
            return make_boxed_func(graph.forward)
        # What it imports takes a while, and few programs need it.
        from ._kept import KeptCode

        return KeptCode.of(graph)

    compiler = aot_autograd(
        fw_compiler=trained,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions={},
        keep_inference_input_mutations=True,
    )
    return writable(compiler(gm, example_inputs))


def fuse_module(
    gm: GraphModule, options: Options, observer: Observer | None = None, insert: Insert = insert_function
) -> Result:
    """Fuses a module's graph where it stands. If that fails the graph is as before, and one warning says why.

    Raises whatever went wrong under ``strict``.
    """
    before = gm.graph
    # The pass edits a copy, so that a failure half-way leaves no trace.
    graph = copied(before)
    try:
        with uncollected():
            result = fuse_graph(graph, options, insert)
            shorten(graph)
            gm.graph = graph
    except Exception as error:
        if gm.graph is not before:
            gm.graph = before
        result = leave(error, options)
    if observer is not None:
        observer(result)
    _expect.check(options.expect, [result])
    return result


def _by_inductor(
    gm: GraphModule, example_inputs: Sequence[Any], options: Options, observer: Observer | None
) -> Callable[..., Any]:
    from torch._inductor.compile_fx import compile_fx

    from ._inductor import InductorPass

    # Ahead of Inductor's own passes: these fold a residual into the product that it is added to, and a kernel of ours for
    # the sum and its norm is then lost.
    patches = {"post_grad_custom_pre_pass": InductorPass(options, observer)}
    compiled: Any = compile_fx(gm, list(example_inputs), config_patches=patches)
    return writable(compiled)
