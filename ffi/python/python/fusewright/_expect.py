"""How many kernels of a name graphs must have, so that a fusion that is lost is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ._native import Error

if TYPE_CHECKING:
    from ._fuse import Result


class ExpectationError(Error):
    """Graphs have another number of kernels of a name than the option ``expect`` says."""


def check(expected: Iterable[tuple[str, int]], results: Iterable[Result]) -> None:
    """Raises :class:`ExpectationError` for the first name whose count is not met in all results together."""
    expected = list(expected)
    if not expected:
        return
    found = Counter(name for result in results for fusion in result.fusions for name, _ in fusion.kernels)
    for name, count in expected:
        if found[name] != count:
            others = ", ".join(f"{times} of {other}" for other, times in sorted(found.items()) if other != name)
            raise ExpectationError(
                f"expected {count} kernels of {name}, found {found[name]}; and {others or 'no other'}"
            )
