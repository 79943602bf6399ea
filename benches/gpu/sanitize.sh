#!/bin/sh
# Runs one kernel of each kind of schedule on the first NVIDIA GPU under each tool of compute-sanitizer, and prints what
# each tool sums up and how it ended. Within 8 minutes: a tool that takes longer than SECONDS is ended and has failed.
# usage: sanitize.sh [SECONDS [TOOL...]]
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-115}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- memcheck racecheck initcheck synccheck
PATH="$PATH:${CUDA_HOME:-/usr/local/cuda}/bin"
command -v compute-sanitizer >/dev/null || { echo "no compute-sanitizer in PATH or CUDA_HOME" >&2; exit 3; }
LD_LIBRARY_PATH="$here/lib" FUSEWRIGHT_CACHE_DIR=off
export LD_LIBRARY_PATH FUSEWRIGHT_CACHE_DIR
failed=0
for tool in "$@"; do
    log="sanitize-$tool.txt"
    timeout "$seconds" compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$here/fusewright" bench --suite kinds --target cuda -v >"$log" 2>&1
    status=$?
    echo "$tool: exit $status: $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|kinds of schedules' "$log" | tr '\n' ';')"
    [ $status -eq 0 ] || failed=1
done
exit $failed
