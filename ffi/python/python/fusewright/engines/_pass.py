"""Fusewright's pass as the pass managers of engines take one."""

from __future__ import annotations

from torch.fx import Graph

from .. import inductor_pass


class EnginePass:
    """What a class of an engine's passes is mixed with."""

    def __init__(self) -> None:
        self._inner = inductor_pass()

    def __call__(self, graph: Graph) -> None:
        self._inner(graph)

    def uuid(self) -> str:
        """The identity of what the pass makes, as text: engines hash it into their own."""
        return repr(self._inner.uuid())
