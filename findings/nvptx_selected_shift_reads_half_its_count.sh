#!/usr/bin/env bash
# LLVM 22's NVPTX backend drops the guard of a selected shift of 64 bits and reads 32 bits of the count.
#
# `n < 64 ? x << n : 0` has no undefined behaviour for any n. PTX clamps the count of a shift, so that the backend leaves the
# comparison out; but PTX takes a count of 32 bits. A count of 2^32 shifts by 0 then, and x comes out in place of 0.
# Of 32 bits the same rewrite is right. LLVM's main branch has it mended (llvm-project#201165, June 2026).
#
# Needs Python 3.10 or later and PyPI. Exits 1 if the behaviour is no longer this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check llvmlite==0.50.0
"$folder/venv/bin/python" - <<'PYTHON'
import re
import sys

import llvmlite
import llvmlite.binding as llvm

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
print("llvmlite", llvmlite.__version__, "with LLVM", ".".join(map(str, llvm.llvm_version_info)))


def ptx(bits: int) -> str:
    module = llvm.parse_assembly(f"""
        target triple = "nvptx64-nvidia-cuda"
        define i{bits} @shifted_or_zero(i{bits} %x, i{bits} %n) {{
          %inside = icmp ult i{bits} %n, {bits}
          %shifted = shl i{bits} %x, %n
          %result = select i1 %inside, i{bits} %shifted, i{bits} 0
          ret i{bits} %result
        }}""")
    module.verify()
    target = llvm.Target.from_triple("nvptx64-nvidia-cuda")
    return target.create_target_machine(cpu="sm_90").emit_assembly(module)


text = ptx(64)
print("\n".join(line for line in text.splitlines() if line.startswith("\t") and line.strip().endswith(";")))
compares = "setp" in text or re.search(r"\bmin\.u64\b", text)
reads_half = re.search(r"ld\.param\.b32\s+%r\d+, \[shifted_or_zero_param_1\]", text) or "cvt.u32.u64" in text
if compares or not reads_half:
    sys.exit("the count is compared in 64 bits: the behaviour is gone")
print("the guard is gone, and the shift reads the lower 32 bits of a count of 64: by 2^32 it gives x, not 0")
PYTHON
