"""Records of fused parts that later processes read: what is damaged is named."""

from __future__ import annotations

from pathlib import Path

import pytest

import fusewright
from fusewright import _ops
from fusewright._record import Record

KEY = "0" * 32


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FUSEWRIGHT_CACHE_DIR", str(tmp_path))
    (tmp_path / "records").mkdir()
    return tmp_path / "records"


@pytest.mark.parametrize("text", ["", "{", "{}", "[]", '{"symbols": 3}'])
def test_a_damaged_record_is_named(records: Path, text: str) -> None:
    (records / f"{KEY}.json").write_text(text)
    with pytest.raises(fusewright.Error, match=f"{KEY}.json is damaged"):
        _ops._load(KEY)


def test_a_record_of_another_part_is_named(records: Path) -> None:
    other = Record("{}", "cpu", None, "exact", None, 0, 0, (), (), ())
    (records / f"{KEY}.json").write_text(other.to_json())
    with pytest.raises(fusewright.Error, match="of another part"):
        _ops._load(KEY)


def test_a_record_that_is_not_there_is_named(records: Path) -> None:
    with pytest.raises(fusewright.Error, match=f"no record of the fused part {KEY}"):
        _ops._load(KEY)


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records").write_text("a file")
    monkeypatch.setenv("FUSEWRIGHT_CACHE_DIR", str(tmp_path))
    _ops._keep(KEY, Record("{}", "cpu", None, "exact", None, 0, 0, (), (), ()))
    assert [path.name for path in tmp_path.iterdir()] == ["records"]
