#!/bin/sh
# Builds the wheel into target/wheels and checks what is in it: build_wheel.sh [FEATURES [PROFILE]]
#
# FEATURES are those of the crate, `cuda,llvm` if not given, `none` for kernels by Cranelift alone; PROFILE is one of cargo's,
# `release` if not given. LLVM is linked statically; MATURIN names another maturin. What the machine lacks is said before
# anything is built.
set -eu
cd "$(dirname "$0")/../.."
features=${1:-cuda,llvm}
profile=${2:-release}
[ "$features" != none ] || features=ascend
here=ffi/python
maturin=${MATURIN:-maturin}
llvm_packages="llvm-22-dev libclang1-22 libpolly-22-dev libzstd-dev zlib1g-dev libxml2-dev"

lacking=
lacks() { lacking="$lacking
  $1"; }
has() { command -v "$1" >/dev/null 2>&1; }
# Whether the linker finds a library, which is a path or `-lNAME`; the compiler prints a name that it does not find as it is.
linkable() {
    case $1 in
    -l*)
        for name in "lib${1#-l}.so" "lib${1#-l}.a"; do
            [ "$(cc -print-file-name="$name")" = "$name" ] || return 0
        done
        return 1
        ;;
    *) [ -e "$1" ] ;;
    esac
}
has python3 || lacks "python3 (3.10 or later)"
has cargo || lacks "cargo (a Rust toolchain)"
has cc || lacks "cc (a compiler of C, which links the module)"
has "$maturin" || lacks "$maturin (pip install maturin, or MATURIN names one)"
# It renames the wheel by the oldest glibc.
python3 -m wheel version >/dev/null 2>&1 || lacks "wheel, a module of python3 (pip install wheel)"
case ",$features," in
*,llvm,* | *,cuda,*)
    # Static archives: the module brings LLVM along.
    if ! has llvm-config-22; then
        lacks "LLVM 22 (on Debian: apt-get install $llvm_packages)"
    else
        [ -e "$(llvm-config-22 --libdir)/libLLVMCore.a" ] ||
            lacks "static archives of LLVM 22 in $(llvm-config-22 --libdir) (on Debian: apt-get install llvm-22-dev)"
        # The licence that the wheel has to carry.
        [ -e /usr/share/doc/llvm-22-dev/copyright ] || [ -e /usr/share/doc/libllvm22/copyright ] ||
            lacks "the licence of LLVM in /usr/share/doc/llvm-22-dev/copyright"
        if has cc; then
            for library in $(llvm-config-22 --link-static --system-libs); do
                linkable "$library" || lacks "$library, which LLVM needs (on Debian: apt-get install $llvm_packages)"
            done
        fi
    fi
    ;;
esac
if [ -n "$lacking" ]; then
    echo "build_wheel.sh: this machine lacks:$lacking" >&2
    exit 3
fi

rm -f target/wheels/fusewright-*.whl
python3 $here/third_party.py "$features" > $here/THIRD_PARTY_LICENSES
"$maturin" build --manifest-path $here/Cargo.toml --profile "$profile" --features "$features" \
    --compatibility linux --out target/wheels
python3 $here/check_wheel.py target/wheels/fusewright-*.whl
