"""What the tests share: kernels are compiled anew in every run, and Dynamo forgets between tests."""

from __future__ import annotations

import os
import tempfile

import pytest

# Before the native module reads it.
_folder = tempfile.TemporaryDirectory(prefix="fusewright-tests-")
os.environ["FUSEWRIGHT_CACHE_DIR"] = _folder.name
os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(_folder.name, "inductor")


@pytest.fixture(autouse=True)
def fresh():
    """Every test compiles its own graphs, and has the same random numbers."""
    import torch

    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()
