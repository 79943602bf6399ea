# For scripts of steps: `step BUDGET COMMAND…` runs a command and says how long it took, on the clock and on all processors
# together, beside its budget, which is in seconds of processors on a machine with two. What is over its budget is said and
# does not fail: machines differ.

# Crates are built in four pieces, without a record for the next build, and without lines for debuggers and backtraces. The usual
# many small pieces make a second build faster and a first one nearly twice as slow. No step reads the lines. Cargo has
# settings of its own for what build scripts link: with other ones, the library would be built a second time for them.
export CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_CODEGEN_UNITS=4 CARGO_PROFILE_DEV_BUILD_OVERRIDE_CODEGEN_UNITS=4
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_DEV_BUILD_OVERRIDE_DEBUG=0

# Seconds of processors that the children of this shell have had, in milliseconds. No `$(…)` around it: a shell of its own
# has no children.
spent() {
    local file
    file=$(mktemp)
    times >"$file"
    spent_ms=$(tail -n 1 "$file" | tr 'ms' '  ' | awk '{ printf "%d", ($1 * 60 + $2 + $3 * 60 + $4) * 1000 }')
    rm -f "$file"
}

step() {
    local budget=$1 start=$SECONDS before over=
    shift
    echo "== $*"
    spent
    before=$spent_ms
    "$@"
    spent
    local used=$(((spent_ms - before + 500) / 1000))
    [ "$used" -le "$budget" ] || over=", over its budget"
    echo "== ok after $((SECONDS - start)) s, $used CPU-seconds of $budget$over"
}
