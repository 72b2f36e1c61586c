#!/usr/bin/env bash
# Checks and times everything on a machine with a GPU, and prints one table.
#
#   benches/gpu.sh [STEP...]     steps: test bench peers sanitize counters soak; default: all
#   benches/gpu.sh --build       build the programs into build/gpu, for a machine without cargo
#
# Results go to $OUT (default bench/gpu). Seconds of ticks at 1 kHz: $SOAK_S with images and clouds
# of the usual sizes (default 60), $SOAK_RANDOM_S of random ones (default 600); 0 for none.
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

# The counters that explain what is left: time, memory traffic, occupancy, stalls. Each replay of a
# graph is profiled launch by launch; one line per kernel and size, the median of its launches.
metrics=gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,lts__t_sectors.avg.pct_of_peak_sustained_elapsed
metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active
metrics+=,sm__inst_executed.avg.per_cycle_elapsed,launch__registers_per_thread
for reason in long_scoreboard short_scoreboard barrier wait branch_resolving imc_miss; do
    metrics+=,smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio
done

run_counters() {
    ncu --clock-control none --cache-control none --graph-profiling node --metrics "$metrics" \
        --kernel-name 'regex:resample_bf16|voxelize' --csv --page raw \
        --log-file "$out/counters.csv" \
        "$programs/robocache" bench --backend cuda --repeats 1 >"$out/counters.log" 2>&1 || {
        tail -5 "$out/counters.log"
        return 1
    }
    python3 benches/peers/counters.py "$out/counters.csv" | tee "$out/counters.txt"
}

# Fails where memory grows or bits differ; overruns are for the reader, who sees beside them what
# the machine did to a thread that only sleeps.
run_soak() {
    local failed=0
    soak usual "${SOAK_S:-60}" || failed=1
    soak random "${SOAK_RANDOM_S:-600}" --random-sizes || failed=1
    return $failed
}

soak() {
    local name=$1 seconds=$2
    [ "$seconds" -gt 0 ] || return 0
    "$programs/robocache" bench --backend cuda --soak-s "$seconds" "${@:3}" \
        --json "$out/soak_$name.json" | tee "$out/soak_$name.txt"
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
fi
# Logs go into one archive, so that what is left to read are a few files.
(cd "$out" && tar czf logs.tgz --remove-files --ignore-failed-read sanitize_*.txt counters.csv \
    counters.log soak_*.txt test.txt 2>/dev/null) || true
[ ${#failed[@]} -eq 0 ]
