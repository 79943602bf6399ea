"""Records of fused parts that calls carry: text that is none is named."""

from __future__ import annotations

import pytest
import torch

import fusewright
from fusewright import _ops, _store
from fusewright._record import Record

NOTHING = Record("graph @part() { return }", "cpu", None, "exact", None, 0, 0, (), (), ())


def test_a_record_is_the_same_when_it_was_packed() -> None:
    assert Record.unpacked(NOTHING.packed()) == NOTHING
    assert NOTHING.packed() == Record.unpacked(NOTHING.packed()).packed()


@pytest.mark.parametrize("text", ["", "0" * 32, "é", NOTHING.packed()[:-8], NOTHING.packed()[4:]])
def test_a_damaged_record_is_named(text: str) -> None:
    with pytest.raises(fusewright.Error, match="a call of a fused part cannot be used"):
        torch.ops.fusewright.call([torch.ones(2)], [], text)


def test_a_program_that_is_none_is_named() -> None:
    with pytest.raises(fusewright.Error, match=r"cannot be used \(record `part` does not follow the export schema"):
        _ops._load(NOTHING.packed())


def test_a_part_that_no_kernel_computes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = _store.Attempt(None, [(["mm"], None, "a product")])
    monkeypatch.setattr(_store, "compiled", lambda *_: refused)
    with pytest.raises(fusewright.Error, match=r"no kernel computes a fused part of another version \(a product\)"):
        _ops._load(NOTHING.packed())
