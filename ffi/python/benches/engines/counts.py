"""Counts what a compiler made of the graphs of a process: kernels, and operators within."""

from __future__ import annotations

import logging
from typing import Any


class Counts(logging.Handler):
    """Listens to what Fusewright says of each graph."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.operators = self.kernels = self.left = self.graphs = 0
        self.said: list[str] = []
        logger = logging.getLogger("fusewright")
        logger.setLevel(logging.INFO)
        logger.addHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Adds up a graph; keeps everything else that is said."""
        if str(record.msg).startswith("operators in kernels") and isinstance(record.args, tuple):
            self.operators, self.kernels, self.left = (
                before + int(str(more))
                for before, more in zip((self.operators, self.kernels, self.left), record.args, strict=True)
            )
            self.graphs += 1
        else:
            self.said.append(record.getMessage())

    def found(self) -> dict[str, Any]:
        """What was counted in this process so far."""
        from torch._inductor import metrics

        return {
            "graphs": self.graphs,
            "kernels": self.kernels,
            "operators": self.operators,
            "left": self.left,
            "said": self.said,
            "inductor_kernels": metrics.generated_kernel_count,
        }

    def taken(self) -> dict[str, Any]:
        """What was counted since the last time."""
        from torch._inductor import metrics

        found = self.found()
        self.operators = self.kernels = self.left = self.graphs = 0
        metrics.reset()
        return found
