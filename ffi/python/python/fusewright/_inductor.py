"""The pass for Inductor: fused parts as calls of a custom operator, everything else is Inductor's."""

from __future__ import annotations

from typing import Any

from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph

from . import _expect
from ._backend import Observer
from ._fuse import fuse_graph, leave
from ._ops import insert_operator
from ._options import OF_BACKEND, Options
from ._sources import sources


def inductor_pass(**options: Any) -> InductorPass:
    """A pass for ``torch._inductor.config.post_grad_custom_pre_pass``, or for ``post_grad_custom_post_pass``, where
    Inductor has folded sums into products before.

    Options are those of :func:`fusewright.backend`, but ``inner`` and ``capture_sizes``. Raises ``fusewright.Error`` for an
    unknown one.
    """
    return InductorPass(Options.of(options, without=OF_BACKEND, by="`inductor_pass`"))


class InductorPass(CustomGraphPass):
    """Puts calls of ``fusewright::call`` in the place of what kernels compute."""

    def __init__(self, options: Options, observer: Observer | None = None) -> None:
        self.options, self.observer = options, observer

    def __call__(self, graph: Graph) -> None:
        try:
            result = fuse_graph(graph, self.options, insert_operator, eager=False)
        except Exception as error:
            result = leave(error, self.options)
        if self.observer is not None:
            self.observer(result)
        _expect.check(self.options.expect, [result])

    def uuid(self) -> Any:
        """What names the pass in Inductor's cache: everything that changes what it makes.

        Graphs from Inductor's cache are not counted: with expectations it is not used, and ``None`` says so.
        """
        if self.observer is not None or self.options.expect:
            return None
        return ("fusewright", sources(), self.options.key(), self.options.threads, self.options.splitting_ops)

    def __getstate__(self) -> dict[str, Any]:
        return {"options": self.options, "observer": None}
