"""Records of fused parts that calls carry: text that is none is named."""

from __future__ import annotations

import pytest
import torch

import fusewright
from fusewright import _ops
from fusewright._record import Record

NOTHING = Record("graph @part() { return }", "cpu", None, "exact", None, 0, 0, (), (), ())


def test_a_record_is_the_same_when_it_was_packed() -> None:
    assert Record.unpacked(NOTHING.packed()) == NOTHING
    assert NOTHING.packed() == Record.unpacked(NOTHING.packed()).packed()


@pytest.mark.parametrize("text", ["", "0" * 32, "é", NOTHING.packed()[:-8], NOTHING.packed()[4:]])
def test_a_damaged_record_is_named(text: str) -> None:
    with pytest.raises(fusewright.Error, match="a call of a fused part is damaged"):
        torch.ops.fusewright.call([torch.ones(2)], [], text)


def test_a_part_that_no_kernel_computes_is_named() -> None:
    program = "graph @part(%a0: f32[4, 4]) { %0 = matmul %a0, %a0 return %0 }"
    other = Record(program, "cpu", None, "exact", None, 1, 0, (), (), ())
    with pytest.raises(fusewright.Error):
        _ops._load(other.packed())
