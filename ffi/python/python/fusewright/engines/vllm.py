"""The plug-in for vLLM, through its entry point ``vllm.general_plugins``.

vLLM loads it in every process. It does nothing unless ``FUSEWRIGHT_VLLM`` names doors:

* ``pass``: a pass after vLLM's own fusions in its pass manager, where Inductor compiles
* ``compiler``: what compiles pieces of the graph where vLLM is configured with ``backend="eager"``

Experimental, and not run inside vLLM: see :mod:`fusewright.engines`.
"""

from __future__ import annotations

from ._doors import hook, open_doors


def register() -> None:
    """What vLLM calls; any number of times."""
    open_doors("vllm", {"pass": hook("vllm", "add_pass"), "compiler": hook("vllm", "replace_compiler")})
