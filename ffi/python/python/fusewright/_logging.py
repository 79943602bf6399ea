"""The package's logger.

It needs no registration with torch: ``TORCH_LOGS`` takes any importable name, so that ``TORCH_LOGS=fusewright`` shows
messages of level INFO and ``TORCH_LOGS=+fusewright`` those of DEBUG, in torch's format. Where torch is not imported, Python's
own configuration holds. Nothing is logged where a kernel is launched.
"""

from __future__ import annotations

import logging

logger = logging.getLogger("fusewright")
