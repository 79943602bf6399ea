"""The compiled module: graphs as JSON in, kernels that run on addresses out."""

from collections.abc import Sequence
from os import PathLike

HAS_CUDA: bool
HAS_LLVM: bool

class Error(Exception):
    """What went wrong; ``op`` and ``source``, where known, are the op and the line of the model that it is about."""

    op: str | None
    source: str | None

class CompileError(Error): ...
class CallError(Error): ...
class UnavailableError(Error): ...
class DeviceError(Error): ...

class Kernel:
    """Kernels that compute a graph. The code is freed when the object is collected."""

    @property
    def symbols(self) -> list[str]: ...
    @property
    def outputs(self) -> list[tuple[str, list[str], list[int]]]: ...
    @property
    def regions(self) -> list[tuple[str, list[str], list[str]]]: ...
    @property
    def bytes(self) -> list[tuple[int | None, int | None]]: ...
    @property
    def bytes_at(self) -> list[tuple[str, int]]: ...
    @property
    def launches(self) -> int: ...
    def scratch(self, sizes: Sequence[int]) -> int: ...
    def promote(self) -> None: ...
    def launch(
        self,
        sizes: tuple[int, ...],
        addresses: tuple[int, ...],
        threads: int = 1,
        stream: int = 0,
        scratch: int = 0,
    ) -> None: ...
    def call(
        self,
        inputs: Sequence[object],
        outputs: Sequence[object],
        threads: int = 1,
        stream: int = 0,
        scratch: int = 0,
    ) -> None: ...

def compile(
    name: str,
    program: bytes,
    target: str,
    *,
    mode: str = "exact",
    pipeline: str | PathLike[str] | None = None,
) -> tuple[Kernel | None, list[tuple[list[str], int | None, str]]]: ...
def knows(target: str) -> bool: ...
def version() -> str: ...
def counters() -> dict[str, int]: ...
