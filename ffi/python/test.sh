#!/bin/bash
# Builds the wheel, installs it beside CPU PyTorch in a fresh environment, and runs the tests and the form checks on it:
# test.sh [FEATURES [PROFILE]], as of build_wheel.sh.
#
# FUSEWRIGHT_TORCH names the site-packages of a PyTorch that is there already; else it is downloaded (0.6 GB).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
venv=target/python
rm -rf "$venv"
python3 -m venv "$venv"
if [ -n "${FUSEWRIGHT_TORCH:-}" ]; then
    echo "$FUSEWRIGHT_TORCH" > "$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')/torch.pth"
else
    ffi/python/tools/install_torch_cpu.sh "$venv"
fi
"$venv/bin/pip" install -q maturin wheel pytest pytest-xdist numpy transformers mypy "pyright[nodejs]" ruff
PATH="$PWD/$venv/bin:$PATH" MATURIN="$PWD/$venv/bin/maturin" ffi/python/build_wheel.sh "$@"
"$venv/bin/pip" install -q --no-deps target/wheels/fusewright-*.whl
python=$PWD/$venv/bin/python
# From elsewhere, so that the wheel is tested and not the folder of its sources.
checkout=$PWD
tests=$(mktemp -d)
trap 'rm -rf "$tests"' EXIT
cp -r ffi/python/tests ffi/python/tools ffi/python/README.md ffi/python/pyproject.toml "$tests"
mkdir "$tests/cuda-sys"
cp -r ffi/cuda-sys/stand_in ffi/cuda-sys/include "$tests/cuda-sys"
# Each test compiles for itself, so that they share nothing but the machine.
(cd "$tests" && FUSEWRIGHT_CHECKOUT="$checkout" "$python" -m pytest -q -rs -n auto --maxprocesses 4 --dist worksteal)
cd ffi/python
"$python" -m ruff check -q . && "$python" -m ruff format -q --check . && "$python" -m mypy python/fusewright
