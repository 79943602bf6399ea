"""The name of this package in the keys of what others keep."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from . import _native


@functools.cache
def sources() -> str:
    """A hash of this package, its native module included."""
    files = [*sorted(Path(__file__).parent.glob("*.py")), Path(_native.__file__)]
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
