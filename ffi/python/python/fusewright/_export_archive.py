"""Reads files again that torch wrote; those of weights without memory are made readable first.

Exported under fake tensors, all weights of one dtype share one record of no bytes, which torch itself refuses to load as
soon as two shapes share it. Each gets a record of its own.
"""

from __future__ import annotations

import json
import logging
import zipfile
from pathlib import Path

import torch
from torch.export import ExportedProgram

#: Says that a file of fake weights was read without the checks for files of strangers. In PyTorch 2.11 the line has more
#: places than arguments, so that a log shows a traceback instead.
_READER, _FALLBACK = "torch._export.serde.serialize", "Fallback to weights_only"
_CONFIGS = ("_weights_config.json", "_constants_config.json")


def read_own(path: Path) -> ExportedProgram:
    """Reads a file that this process wrote, of which the log need not say that it was trusted."""

    def is_news(record: logging.LogRecord) -> bool:
        return not str(record.msg).startswith(_FALLBACK)

    log = logging.getLogger(_READER)
    log.addFilter(is_news)
    try:
        return torch.export.load(path)
    finally:
        log.removeFilter(is_news)


def separate_empty_weights(path: Path) -> None:
    """Gives each tensor whose record is empty a record of its own; a file without such tensors stays as it is."""
    with zipfile.ZipFile(path) as archive:
        shared = [name for name in archive.namelist() if name.endswith(_CONFIGS) and _empty(archive, name)]
        if not shared:
            return
        separated = path.with_name(f"{path.name}.separated")
        with zipfile.ZipFile(separated, "w", zipfile.ZIP_STORED) as out:
            for name in archive.namelist():
                if name not in shared:
                    out.writestr(name, archive.read(name))
                    continue
                config = json.loads(archive.read(name))
                for number, tensor in enumerate(_empty(archive, name)):
                    record = f"{config['config'][tensor]['path_name']}_{number}"
                    config["config"][tensor]["path_name"] = record
                    out.writestr(f"{name.rpartition('/')[0]}/{record}", b"")
                out.writestr(name, json.dumps(config))
    separated.replace(path)


def _empty(archive: zipfile.ZipFile, config: str) -> list[str]:
    """The names of a configuration's tensors whose record is empty though they have elements."""
    folder = config.rpartition("/")[0]
    return [
        name
        for name, payload in json.loads(archive.read(config))["config"].items()
        if archive.getinfo(f"{folder}/{payload['path_name']}").file_size == 0
        and all(size.get("as_int") != 0 for size in payload["tensor_meta"]["sizes"])
    ]
