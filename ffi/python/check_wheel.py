"""Checks a wheel: its size, its files, what its module shows and needs, and the oldest glibc that it runs with.

``check_wheel.py WHEEL``. Prints what it found; renames the wheel by the glibc tag. Fails for a wheel that is too large, for
symbols of LLVM that others could see, and for a library that machines lack.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

MOST_BYTES = 100 * 2**20
#: Libraries that every Linux of a manylinux tag has, in any version. That of C++ would have to be as new as the builder's.
COMMON = re.compile(r"(lib(c|m|dl|rt|pthread|gcc_s|z)|ld-linux-x86-64|ld-linux-aarch64)\.so\.\d+")
WANTED = ("fusewright/py.typed", "fusewright/_native.pyi", "fusewright/__init__.py")


def tool(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> int:
    wheel = Path(sys.argv[1])
    wrong = []
    with zipfile.ZipFile(wheel) as archive, tempfile.TemporaryDirectory() as folder:
        names = archive.namelist()
        wrong += [f"{name} is not in it" for name in WANTED if name not in names]
        if not any(name.endswith("THIRD_PARTY_LICENSES") for name in names):
            wrong.append("the licences of others are not in it")
        if not any(
            "torch_dynamo_backends" in archive.read(n).decode() for n in names if n.endswith("entry_points.txt")
        ):
            wrong.append("it has no entry point")
        module = Path(archive.extract(next(n for n in names if "_native" in n and n.endswith(".so")), folder))
        shown = [line.split()[-1] for line in tool("nm", "-D", "--defined-only", str(module)).splitlines()]
        dynamic = tool("readelf", "-d", "-V", str(module))
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic)
    glibc = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_(\d+\.\d+)", dynamic))
    wrong += [f"it shows {symbol}" for symbol in shown if not symbol.startswith("PyInit_")]
    wrong += [f"it needs {library}" for library in needed if not COMMON.fullmatch(library)]
    if (size := wheel.stat().st_size) > MOST_BYTES:
        wrong.append(f"it has {size} bytes")
    print(f"{wheel.name}: {size / 2**20:.1f} MiB, glibc {glibc[0]}.{glibc[1]}, needs {' '.join(needed)}")
    if wrong:
        print("\n".join(wrong[:20]), file=sys.stderr)
        return 1
    tagged = wheel.with_name(wheel.name.replace("-linux_", f"-manylinux_{glibc[0]}_{glibc[1]}_"))
    if tagged != wheel:
        tool(
            sys.executable, "-m", "wheel", "tags", "--remove", "--platform-tag", tagged.stem.split("-")[-1], str(wheel)
        )
    print(tagged)
    return 0


if __name__ == "__main__":
    sys.exit(main())
