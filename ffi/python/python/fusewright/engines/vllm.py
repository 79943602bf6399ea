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
    doors = {"pass": hook("vllm", "add_pass"), "compiler": hook("vllm", "replace_compiler")}
    open_doors("vllm", doors, without_effect)


def without_effect() -> str | None:
    """Tells why no door changes anything on a platform of vLLM that has neither pass managers nor pieces."""
    from vllm.platforms import current_platform  # pyright: ignore[reportMissingImports]

    if not current_platform.is_cpu():
        return None
    own = '{"post_grad_custom_post_pass": fusewright.inductor_pass()}'
    return (
        "vLLM compiles whole graphs on CPUs, without what its doors change; there, set "
        f'backend="fusewright" or inductor_compile_config={own} in its compilation_config'
    )
