#!/usr/bin/env bash
# NVIDIA's assembler takes `abs(x) > c` for true wherever c is below zero, also where x is NaN.
#
# `setp.gt.f32` is an ordered comparison: of a NaN it is false. `abs.f32` of a NaN is a NaN. With optimisation ptxas knows the
# range of a magnitude, [0, inf], and folds the comparison to a constant; `setp.num.f32` of the same operand is kept. So is
# `mul.f32 x, x`, whose range it could know as well. Results of `ex2.approx` and of a select of two magnitudes are folded too;
# f16, bf16 and f64 are not. Hence a mask such as `abs(x) >= -1` passes NaN on a GPU, and not on a CPU.
#
# Needs Python 3.10 or later, PyPI and Linux on x86-64; no GPU. Exits 1 if the behaviour is no longer this.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check nvidia-cuda-nvcc==13.5.37 nvidia-cuda-nvdisasm==13.2.51
site=$("$folder/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
ptxas=$(find "$site/nvidia" -path '*/bin/ptxas')
nvdisasm=$(find "$site/nvidia" -path '*/bin/nvdisasm')
"$ptxas" --version | tail -1

# Comparisons that are left of: what makes %x2 of the loaded %x0, the predicate, the architecture, the level of optimisation.
left() {
    cat >"$folder/k.ptx" <<PTX
.version 8.7
.target $3
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in) {
  .reg .b32 %x<4>; .reg .b32 %r<2>; .reg .b64 %d<5>; .reg .pred %p<2>;
  ld.param.u64 %d0, [out]; ld.param.u64 %d1, [in];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d2, %r0, 4; add.s64 %d3, %d1, %d2; add.s64 %d4, %d0, %d2;
  ld.global.f32 %x0, [%d3];
  $1
  $2
  selp.b32 %r1, 1, 0, %p1;
  st.global.u32 [%d4], %r1;
  ret;
}
PTX
    "$ptxas" -arch "$3" "-O$4" "$folder/k.ptx" -o "$folder/k.cubin"
    "$nvdisasm" -c "$folder/k.cubin" | grep -c FSETP || true
}

wrong=0
say() {
    local found
    found=$(left "$2" "$3" "$4" "$5")
    echo "$4 -O$5  $1: $found comparison(s) left"
    [ "$found" -eq "$6" ] || wrong=1
}
abs='abs.f32 %x2, %x0;'
above='setp.gt.f32 %p1, %x2, 0fBF800000;'
for arch in sm_80 sm_90 sm_100 sm_120; do
    say 'abs(x) > -1' "$abs" "$above" "$arch" 3 0
    say 'abs(x) > -1' "$abs" "$above" "$arch" 0 1
done
say 'abs(x) is a number' "$abs" 'setp.num.f32 %p1, %x2, %x2;' sm_90 3 1
say 'x * x > -1' 'mul.rn.f32 %x2, %x0, %x0;' "$above" sm_90 3 1
if [ "$wrong" -ne 0 ]; then
    echo "the behaviour has changed"
    exit 1
fi
echo "no comparison is left of abs(x) > -1: a NaN is taken for a number above -1"
