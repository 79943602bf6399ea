"""Reads one file out of a wheel of the package index without downloading the rest of it.

Arguments: the requirement, how the file's name ends, where to write it. The index is the one pip is set up to use.
"""
import io
import json
import subprocess
import sys
import urllib.request
import zipfile


def address(requirement):
    """Where pip would get the wheel from."""
    pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-deps", "--quiet"]
    report = subprocess.run(
        pip + ["--only-binary", ":all:", "--report", "-", requirement], check=True, capture_output=True, text=True
    )
    return json.loads(report.stdout)["install"][0]["download_info"]["url"]


class Remote(io.RawIOBase):
    """A file of a server that sends parts of it."""

    def __init__(self, url):
        self.url = url
        self.at = 0
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
            self.size = int(answer.headers["Content-Length"])

    def seekable(self):
        return True

    def readable(self):
        return True

    def tell(self):
        return self.at

    def seek(self, offset, whence=io.SEEK_SET):
        self.at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self.at, io.SEEK_END: self.size}[whence]
        return self.at

    def readinto(self, buffer):
        count = min(len(buffer), self.size - self.at)
        if count <= 0:
            return 0
        part = {"Range": f"bytes={self.at}-{self.at + count - 1}"}
        with urllib.request.urlopen(urllib.request.Request(self.url, headers=part)) as answer:
            if answer.status != 206:
                raise OSError("the server sends whole files alone")
            data = answer.read()
        buffer[: len(data)] = data
        self.at += len(data)
        return len(data)


def main(requirement, ending, to):
    wheel = zipfile.ZipFile(io.BufferedReader(Remote(address(requirement)), 1 << 20))
    names = [name for name in wheel.namelist() if name.endswith(ending)]
    if len(names) != 1:
        sys.exit(f"{requirement} has {len(names)} files that end with {ending}")
    with open(to, "wb") as file:
        file.write(wheel.read(names[0]))


main(*sys.argv[1:])
