#!/bin/sh
# Builds the wheel into target/wheels and checks what is in it: build_wheel.sh [FEATURES [PROFILE]]
#
# FEATURES are those of the crate, `cuda,llvm` if not given, `none` for kernels by Cranelift alone; PROFILE is one of cargo's,
# `release` if not given. LLVM is linked statically; MATURIN names another maturin.
set -eu
cd "$(dirname "$0")/../.."
features=${1:-cuda,llvm}
profile=${2:-release}
[ "$features" != none ] || features=ascend
here=ffi/python
rm -f target/wheels/fusewright-*.whl
python3 $here/third_party.py "$features" > $here/THIRD_PARTY_LICENSES
"${MATURIN:-maturin}" build --manifest-path $here/Cargo.toml --profile "$profile" --features "$features" \
    --compatibility linux --out target/wheels
python3 $here/check_wheel.py target/wheels/fusewright-*.whl
