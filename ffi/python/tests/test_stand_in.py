"""The native module on a stand-in of the CUDA driver: which device kernels are loaded and launched on, without a GPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import fusewright
from fusewright import _native, _nodes

HERE = Path(__file__).resolve()
SOURCES = [place / "cuda-sys" / "stand_in" / "driver.c" for place in (HERE.parents[1], HERE.parents[2])]

# It imports no torch, which may have loaded a driver of its own.
CALLS = """
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
driver.stand_in_devices(3)
driver.stand_in_wrong.restype = ctypes.c_char_p
from fusewright import UnavailableError, _native
LAUNCHES, MODULES = 0, 1
def count(what): return [driver.stand_in_count(device, what) for device in range(3)]
kernel, outside = _native.compile("part", sys.stdin.buffer.read(), "cuda:sm_90", device=1)
assert kernel.device == 1 and count(MODULES) == [0, 1, 0], (outside, count(MODULES))
other = kernel.on(0)
assert other.device == 0 and count(MODULES) == [1, 1, 0]
assert _native.counters()["compiles"] + _native.counters()["disk_hits"] == 1
def call(kernel): kernel.launch((), (4096, 8192), 1, 0)
for each in (kernel, other, kernel): call(each)
assert count(LAUNCHES) == [1, 2, 0]
# Whichever is current.
driver.cuCtxPushCurrent_v2.argtypes = [ctypes.c_void_p]
driver.stand_in_context.restype = ctypes.c_void_p
driver.cuCtxPushCurrent_v2(driver.stand_in_context(1))
call(other)
call(kernel)
assert count(LAUNCHES) == [2, 3, 0]
for device, words in (2, "compute capability 8.0"), (3, "number 3"):
    try: kernel.on(device)
    except UnavailableError as said: assert words in str(said), said
    else: raise AssertionError(device)
again = kernel.on(0)
assert count(MODULES) == [1, 1, 0]
del kernel, other, each
call(again)
del again
assert count(MODULES) == [0, 0, 0] and count(LAUNCHES) == [3, 3, 0]
assert driver.stand_in_wrong() == b"", driver.stand_in_wrong()
print("done")
"""


#: Launches of programs on memory that nothing reads: of one that copies, and one that overwrites a part of an input.
OVERWRITES = """
import ctypes, json, sys
driver = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
driver.stand_in_devices(1)
driver.stand_in_wrong.restype = ctypes.c_char_p
from fusewright import _native
for program in json.load(sys.stdin):
    kernel, outside = _native.compile("part", program.encode(), "cuda:sm_90")
    assert kernel is not None, outside
    inputs = [4096 * (i + 1) for i in range(len(json.loads(program)["graph_module"]["graph"]["inputs"]))]
    outputs = [65536 * (i + 1) if old is None else inputs[old] for i, old in enumerate(kernel.overwrites)]
    kernel.launch((), (*inputs, *outputs), 1, 0)
    print(kernel.launches, kernel.overwrites, driver.stand_in_count(0, 0))
assert driver.stand_in_wrong() == b"", driver.stand_in_wrong()
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    """The stand-in, built."""
    source = next((source for source in SOURCES if source.exists()), None)
    if source is None:
        pytest.skip("skipped: the sources of the stand-in are not beside the tests")
    library = tmp_path / "libcuda.so.1"
    flags = ["-std=c11", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread", "-Wl,-soname,libcuda.so.1"]
    try:
        subprocess.run(["cc", *flags, "-o", library, source], check=True)
    except FileNotFoundError:
        pytest.skip("skipped: no C compiler")
    return library


def ran(code: str, library: Path, given: str) -> list[str]:
    """The lines that a process prints that has the stand-in for a driver."""
    done = subprocess.run(
        [sys.executable, "-c", code, library], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not _native.HAS_CUDA, reason="skipped: a module without cuda")
def test_kernels_are_loaded_and_launched_on_the_device_that_is_asked_for(library: Path) -> None:
    fused = fusewright.fuse(lambda x: torch.relu(x * 2.0) + 1.0, strict=True)
    fused(torch.ones(1, 64))
    assert ran(CALLS, library, fused.results[0].fusions[0].call.record.program) == ["done"]


@pytest.mark.skipif(not _native.HAS_CUDA, reason="skipped: a module without cuda")
def test_copies_and_writes_into_inputs_are_launched(library: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def store(cache: torch.Tensor, rows: torch.Tensor, slots: torch.Tensor) -> None:
        cache[slots] = torch.relu(rows * 2.0) + 1.0

    monkeypatch.setattr(_nodes, "_COPIES_ON", ("cpu",))
    cases = (
        (lambda x: x.transpose(1, 2).contiguous(), (torch.ones(2, 3, 5, 64),)),
        (store, (torch.zeros(9, 64), torch.ones(3, 64), torch.tensor([4, 0, 8]))),
    )
    found = [fusewright.explain(function, *inputs).graphs[0].fusions for function, inputs in cases]
    programs = [fusion.call.record.program for fusions in found for fusion in fusions]
    (old,) = (i for i, node in enumerate(found[1][0].call.program.inputs) if node.meta["val"].shape[0] == 9)
    assert ran(OVERWRITES, library, json.dumps(programs)) == ["1 [None] 1", f"1 [{old}] 2"]
