#!/bin/sh
# Measures a layer of Qwen3-8B on the first NVIDIA GPU beside PyTorch, which has to be there, as far as it gets within SECONDS;
# run it again to go on. FOLDER gets the model, inputs, results and figures; layer.json in it is all of them.
# VARIANTS, by commas, are those of PyTorch: all of them unless it is set. Autotuning takes minutes.
# usage: layer.sh [FOLDER [SECONDS [ROWS]]]
set -e
here=$(cd "$(dirname "$0")" && pwd)
out=${1:-layer}
seconds=${2:-540}
rows=${3:-1,32,512}
python=${PYTHON:-python3}
begun=$(date +%s)
mkdir -p "$out"
out=$(cd "$out" && pwd)
fusewright() { LD_LIBRARY_PATH="$here/lib" FUSEWRIGHT_CACHE_DIR=off "$here/fusewright" "$@"; }
[ -e "$out/layer.pt2" ] || { "$python" "$here/layer.py" export "$out/new.pt2" && mv "$out/new.pt2" "$out/layer.pt2"; }
inputs=
for count in $(echo "$rows" | tr , ' '); do
    in=$out/in$count.safetensors
    [ -e "$in" ] || "$python" "$here/layer.py" --rows "$count" inputs "$in"
    inputs=$inputs${inputs:+,}$in
done
fusewright bench "$out/layer.pt2" --target cuda --inputs "$inputs" --out "$out/ours.json" -v
for count in $(echo "$rows" | tr , ' '); do
    results=$out/out$count.safetensors
    [ -e "$results" ] || fusewright run "$out/layer.pt2" --target cuda --check "$out/in$count.safetensors" --out "$results"
    # What lies too far is said again at the end.
    "$python" "$here/layer.py" compare "$out/layer.pt2" "$out/in$count.safetensors" "$results" "$out/far$count.json" || true
done
left=$((seconds - $(date +%s) + begun))
TORCHINDUCTOR_CACHE_DIR="$out/inductor" "$python" "$here/layer_torch.py" "$out/torch.json" --rows "$rows" --deadline "$left" \
    ${VARIANTS:+--variants "$VARIANTS"}
"$python" "$here/layer.py" join "$out/layer.json" "$out/ours.json" "$out/torch.json" "$out"/far*.json > "$out/layer.txt" || bad=1
cat "$out/layer.txt"
exit "${bad:-0}"
