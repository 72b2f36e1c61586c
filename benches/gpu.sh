#!/usr/bin/env bash
# Checks and times everything on a machine with a GPU, and prints one table.
#
#   benches/gpu.sh [STEP...]     steps: test bench peers sanitize counters soak; default: all
#   benches/gpu.sh --build       build the programs into build/gpu, for a machine without cargo
#
# Results go to $OUT (default bench/gpu). $SOAK_S: seconds of ticks at 1 kHz (default 600).
# $SANITIZE_CASES: cases per operation under compute-sanitizer (default 100).
set -euo pipefail
cd "$(dirname "$0")/.."
programs=build/gpu
out=${OUT:-bench/gpu}
mkdir -p "$out"

build() {
    local commit features=(--no-default-features --features cuda)
    commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
    export ROBOCACHE_COMMIT=$commit
    cargo build --release "${features[@]}" --bin robocache
    local tests
    tests=$(cargo test --release "${features[@]}" --test backends --no-run --message-format=json |
        python3 -c 'import json, sys
for line in sys.stdin:
    item = json.loads(line)
    if item.get("executable") and item["target"]["name"] == "backends":
        print(item["executable"])')
    mkdir -p "$programs"
    cp target/release/robocache "$programs/robocache"
    cp "$tests" "$programs/backends"
    strip --strip-debug "$programs"/*
}

# One body for both backends; on this machine none may be skipped.
run_test() {
    "$programs/backends" --test-threads=4 2>&1 | tee "$out/test.txt" &&
        ! grep -q 'was skipped' "$out/test.txt"
}

run_bench() {
    "$programs/robocache" bench --backend cuda --json "$out/bench.json" | tee "$out/bench.txt"
}

run_peers() {
    python3 benches/peers/torch_ops.py --json "$out/peers.json"
}

run_sanitize() {
    local tool
    for tool in memcheck racecheck initcheck synccheck; do
        echo "compute-sanitizer $tool"
        ROBOCACHE_TEST_CASES=${SANITIZE_CASES:-100} compute-sanitizer --tool "$tool" \
            --error-exitcode 1 "$programs/backends" cuda:: --test-threads=1 \
            >"$out/sanitize_$tool.txt" 2>&1 || { tail -30 "$out/sanitize_$tool.txt"; return 1; }
        tail -1 "$out/sanitize_$tool.txt"
    done
}

# The counters that explain what is left: time, memory traffic, occupancy, stalls. A graph is one
# item to the profiler, hence the launches of the warm-up in the whole-graph mode off.
run_counters() {
    ncu --clock-control none --graph-profiling node --set basic \
        --section MemoryWorkloadAnalysis --section WarpStateStats \
        --kernel-name 'regex:resample_bf16|voxelize' --launch-count "${COUNTED:-60}" \
        --csv --page raw --log-file "$out/counters.csv" \
        "$programs/robocache" bench --backend cuda --repeats 1 >"$out/counters.txt" 2>&1 ||
        tail -5 "$out/counters.txt"
}

run_soak() {
    "$programs/robocache" bench --backend cuda --repeats 20 --soak-s "${SOAK_S:-600}" \
        --json "$out/soak.json" >"$out/soak.txt" &&
        grep '1 kHz' "$out/soak.txt"
}

if [ "${1:-}" = --build ]; then
    build
    exit
fi
if command -v cargo >/dev/null; then build; fi
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv | tee "$out/gpu.txt"
failed=()
steps=("$@")
[ $# -gt 0 ] || steps=(test bench peers sanitize counters soak)
for step in "${steps[@]}"; do
    echo "== $step"
    "run_$step" || failed+=("$step")
done
python3 benches/peers/table.py "$out" | tee "$out/table.txt"
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
    exit 1
fi
