"""Single files of a released Python package: `python tools/fetch_sources.py PACKAGE VERSION FOLDER FILE…`

Writes FOLDER/PACKAGE-VERSION/FILE for each FILE that is not there yet. A wheel is a zip file, whose directory and entries
are read by HTTP ranges, so that a few hundred kilobytes of a wheel of hundreds of megabytes are transferred. Nothing is
installed or imported. The index is pip's (`PIP_INDEX_URL`, or `pip config`), pypi.org where none is set.
"""

from __future__ import annotations

import io
import json
import os
import ssl
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urljoin

#: Bytes that one request reads ahead: a directory of a large wheel is of about this size.
_BLOCK = 1 << 18
_SECONDS = 60


class SourceError(Exception):
    """What is not in the index or the wheel, or an answer that is none."""


class RemoteFile(io.RawIOBase):
    """A file behind a URL, read by ranges; a block that was read is kept."""

    def __init__(self, url: str) -> None:
        self._url, self._at, self._blocks = url, 0, dict[int, bytes]()
        with _open(url, {"Range": "bytes=0-0"}) as answer:
            bounds = answer.headers.get("Content-Range", "")
        if "/" not in bounds:
            raise SourceError(f"{url}: the server reads no ranges")
        self._size = int(bounds.rpartition("/")[2])

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:
        number, within = divmod(self._at, _BLOCK)
        piece = self._block(number)[within : within + len(buffer)] if self._at < self._size else b""
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            first = number * _BLOCK
            last = min(first + _BLOCK, self._size) - 1
            with _open(self._url, {"Range": f"bytes={first}-{last}"}) as answer:
                self._blocks[number] = answer.read()
        return self._blocks[number]


def fetch(package: str, version: str, folder: Path, files: list[str]) -> Path:
    """Gets the files that are missing, and returns the folder that they lie in. Raises ``SourceError`` or ``OSError``."""
    into = folder / f"{package}-{version}"
    missing = [file for file in files if not (into / file).exists()]
    if not missing:
        return into
    with zipfile.ZipFile(io.BufferedReader(RemoteFile(_wheel(package, version)), _BLOCK)) as wheel:
        for file in missing:
            try:
                content = wheel.read(file)
            except KeyError:
                raise SourceError(f"{package} {version} has no file {file}") from None
            path = into / file
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_bytes(content)
            partial.replace(path)
    return into


def _wheel(package: str, version: str) -> str:
    """The address of a wheel of that release; any will do, as the Python sources are the same in all."""
    page = f"{_index().rstrip('/')}/{package}/"
    with _open(page, {"Accept": "application/vnd.pypi.simple.v1+json"}) as answer:
        try:
            listed = json.load(answer)["files"]
        except (ValueError, KeyError):
            raise SourceError(f"{page}: no listing in JSON") from None
    wheels = [
        f["url"] for f in listed if f["filename"].startswith(f"{package}-{version}-") and f["filename"].endswith(".whl")
    ]
    if not wheels:
        raise SourceError(f"{page}: no wheel of version {version}")
    return urljoin(page, sorted(wheels)[0])


def _index() -> str:
    """The index that pip would ask."""
    if "PIP_INDEX_URL" in os.environ:
        return os.environ["PIP_INDEX_URL"]
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True
    )
    return asked.stdout.strip() or "https://pypi.org/simple"


def _open(url: str, headers: dict[str, str]) -> io.BufferedIOBase:
    certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    context = ssl.create_default_context(cafile=certificates)
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_SECONDS, context=context)


def main() -> int:
    if len(sys.argv) < 5 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    package, version, folder, *files = sys.argv[1:]
    try:
        print(fetch(package, version, Path(folder), files))
    except (SourceError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
