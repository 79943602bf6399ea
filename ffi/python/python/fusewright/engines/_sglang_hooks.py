"""The parts of the plug-in for SGLang that import SGLang; loaded only for a version that the contract covers."""

# SGLang need not be installed where types are checked.
# pyright: reportMissingImports=false

from __future__ import annotations

import functools
from importlib import import_module
from typing import Any

from sglang.kernels.fused_op import BaseFusedOp
from sglang.kernels.registry import register_kernel
from sglang.kernels.spec import CapabilityRequirement, DeviceType, KernelBackend, KernelSpec
from sglang.srt.compilation.inductor_pass import InductorPass
from sglang.srt.plugins.hook_registry import HookRegistry, HookType

from .. import _native, fuse
from ._pass import EnginePass

#: Ops whose reference form is memory-bound and functional: where each lies, and its class.
OPS = (("sglang.kernels.ops.activation", "SiluAndMulOp"),)

_CONFIGURE = "sglang.srt.compilation.backend.SGLangBackend.configure_post_pass"


class FusewrightPass(EnginePass, InductorPass):
    """Fusewright's pass under SGLang's name for one."""


@functools.cache
def add_pass() -> None:
    """Every backend of SGLang's that is configured from now on has the pass, once."""
    HookRegistry.register(_CONFIGURE, _configured, HookType.AFTER)


def _configured(result: Any, backend: Any) -> None:
    manager = backend.post_grad_pass_manager
    if not any(isinstance(present, FusewrightPass) for present in manager.passes):
        manager.add(FusewrightPass())


def add_kernels() -> None:
    """Gives the ops of :data:`OPS` their backend ``plugin``, before all others; calls that it is not for go to those."""
    devices = [DeviceType.CPU] + ([DeviceType.CUDA] if _native.HAS_CUDA else [])
    capabilities = frozenset(CapabilityRequirement(device=device) for device in devices)
    for module, name in OPS:
        op = getattr(import_module(module), name)
        if "forward_plugin" in vars(op):
            continue
        _give_kernel(op, capabilities)
        register_kernel(KernelSpec(op.op, KernelBackend.PLUGIN, f"{module}:{name}.forward_plugin", capabilities))


def _give_kernel(op: type[BaseFusedOp], capabilities: frozenset[CapabilityRequirement]) -> None:
    # One trace for all objects of the class: its reference form reads nothing of the object.
    native = fuse(lambda tensor: op.forward_native(None, tensor))
    eligible = op.backend_eligible

    def forward_plugin(self: BaseFusedOp, input: Any) -> Any:
        return native(input)

    def backend_eligible(self: BaseFusedOp, backend: KernelBackend, *args: Any, **kwargs: Any) -> bool:
        # A result that the caller holds memory for is written by the other kernels without a copy.
        given = [arg for arg in (*args[1:], *kwargs.values()) if arg is not None]
        if backend is KernelBackend.PLUGIN and (given or len(args) != 1):
            return False
        return eligible(self, backend, *args, **kwargs)

    op.forward_plugin, op.backend_eligible = forward_plugin, backend_eligible
    op.capabilities = {**op.capabilities, KernelBackend.PLUGIN: capabilities}
    op.priority = (KernelBackend.PLUGIN, *op.priority)
