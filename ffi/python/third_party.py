"""Prints the licences of what is linked into the native module: of each crate, and of LLVM where it is linked.

``third_party.py FEATURES``, from the root of the repository. Fails for a crate without a licence.
"""

from __future__ import annotations

import glob
import json
import subprocess
import sys
from pathlib import Path

#: Libraries that a module with LLVM has within, and where Debian's packages put their licences.
ARCHIVES = {
    "libffi": "/usr/share/doc/libffi*/copyright",
    "libstdc++ (GCC Runtime Library Exception)": "/usr/share/doc/gcc-*-base/copyright",
    "zstd": "/usr/share/doc/libzstd*/copyright",
}
RULE = "=" * 80


def crates(features: str) -> list[dict[str, object]]:
    """The packages of others that the module is built of, in order."""
    command = ["cargo", "tree", "-p", "fusewright-python", "-e", "normal", "--features", features, "--prefix", "none"]
    listed = subprocess.run([*command, "--format", "{p}"], capture_output=True, text=True, check=True).stdout
    used = {tuple(line.split()[:2]) for line in listed.splitlines() if "(/" not in line and line.strip()}
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1"], capture_output=True, text=True, check=True
    )
    packages = json.loads(metadata.stdout)["packages"]
    found = [package for package in packages if (package["name"], f"v{package['version']}") in used]
    return sorted(found, key=lambda package: (package["name"], package["version"]))


def texts(package: dict[str, object]) -> list[str]:
    """The licence files of a package."""
    folder = Path(str(package["manifest_path"])).parent
    files = sorted(
        f for f in folder.iterdir() if f.is_file() and f.name.upper().startswith(("LICEN", "COPYING", "NOTICE"))
    )
    return [file.read_text(errors="replace").strip() for file in files]


def main() -> int:
    features = sys.argv[1]
    seen: dict[str, str] = {}
    for package in crates(features):
        name = f"{package['name']} {package['version']}"
        if not package["license"]:
            print(f"{name} states no licence", file=sys.stderr)
            return 1
        print(f"{RULE}\n{name}: {package['license']}\n{RULE}")
        for text in texts(package):
            print(f"as of {seen[text]}\n" if text in seen else f"{text}\n")
            seen.setdefault(text, name)
    if {"llvm", "cuda"} & set(features.split(",")):
        found = sorted(
            glob.glob("/usr/share/doc/llvm-22-dev/copyright") + glob.glob("/usr/share/doc/libllvm22/copyright")
        )
        if not found:
            print("the licence of LLVM is not where its package puts it", file=sys.stderr)
            return 1
        print(f"{RULE}\nLLVM 22: Apache-2.0 WITH LLVM-exception\n{RULE}\n{Path(found[0]).read_text(errors='replace')}")
        # What LLVM needs of the system is linked from archives too (build.rs).
        for library, place in ARCHIVES.items():
            texts_of = sorted(glob.glob(place))
            if texts_of:
                print(f"{RULE}\n{library}\n{RULE}\n{Path(texts_of[0]).read_text(errors='replace')}")
            else:
                print(f"the licence of {library} is not in {place}: it is left out", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
