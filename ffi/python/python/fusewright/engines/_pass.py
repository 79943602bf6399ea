"""Fusewright's pass as the pass managers of engines take one."""

from __future__ import annotations

import uuid

from torch.fx import Graph

from .. import inductor_pass


class EnginePass:
    """What a class of an engine's passes is mixed with."""

    def __init__(self) -> None:
        self._inner = inductor_pass()
        # With an observer or expectations every graph is to be seen: no two processes are the same.
        self._unique = uuid.uuid4().hex

    def __call__(self, graph: Graph) -> None:
        self._inner(graph)

    def uuid(self) -> str:
        """The identity of what the pass makes, as text: engines hash it into their own."""
        key = self._inner.uuid()
        return self._unique if key is None else repr(key)
