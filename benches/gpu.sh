#!/usr/bin/env bash
# Checks and times everything on a machine with a GPU, and prints one table.
#
#   benches/gpu.sh [STEP...]     steps: test digests replay bench versus peers jpeg fuzz damage sanitize counters soak
#                                beside python several. Default: all, `versus` only with $OLD_PROGRAMS, `jpeg` only with
#                                $CAMERA_JPEG, `fuzz`, `damage` and `several` only if asked for
#   benches/gpu.sh --build       build the programs into build/gpu, for a machine without cargo
#
# Results go to $OUT (default bench/gpu). The steps and their variables:
#
#   versus    compares with the benchmark of an earlier commit, in turns, $ROUNDS times each (default 3).
#             $OLD_PROGRAMS: a folder with its `robocache_bench`, or with the `robocache` that had it as a
#             subcommand
#   sanitize  compute-sanitizer with $SANITIZE_TOOLS (default memcheck racecheck initcheck synccheck);
#             $SANITIZE_CASES: cases per operation (default 100). Its tests of windows, samples,
#             gradients and seconds need what `python` needs
#   counters  $COUNTERS_S: limit for the counters of a case in seconds (default 90)
#   soak      ticks at 1 kHz: $SOAK_S seconds with images and clouds of the usual sizes (default 60), and
#             $SOAK_RANDOM_S seconds with random sizes (default 600); 0 for none
#   beside    ticks beside a process that trains on the GPU, $BESIDE_S seconds per run (default 60, six
#             runs), and while the driver fails, $BESIDE_FAULT_S seconds per run (default 24, two runs)
#   replay    the files of replays on every backend, and a recording of $REPLAY_S seconds (default 60,
#             4.6 GB) 16 times at once. With $CAMERA_JPEG, also recordings whose cameras send this file
#   jpeg      a row of the file $CAMERA_JPEG (`benches/camera_jpeg.py` writes one) on every backend, beside nvJPEG. It
#             needs torch and torchvision
#   fuzz      $FUZZ_CASES JPEG files, half of them damaged, as the kernels and as a core read them (default 100000)
#   damage    a node with six cameras whose files are damaged in one message of 20, for $DAMAGE_S seconds per backend
#             (default 30). It records, and `robocache verify` replays it on cores. It needs $CAMERA_JPEG, and in
#             $ROS_BUNDLE the folder that benches/ros_bundle.sh packs
#   python    the Python package's tests on tensors, windows and pipelines of the GPU, and their cost. It
#             needs torch, and the compiled part linked by `scripts/develop.sh --release --features cuda`.
#             $OLD_PACKAGE: a folder with an earlier package `robocache`, whose calls are timed in turns.
#             If $TRAIN_STORE names the store of `benches/train_step.py --make`, also the cost of data in a
#             training step, on one GPU and on all
#   several   what several GPUs of one host do: training steps and windows from pinned memory on 1, 2, 4 ... of them;
#             the rows of $SEVERAL_BAGS recordings (default 128) on one, on all and on cores; digests and operations on
#             each. It needs what `python` needs, $TRAIN_STORE too
set -euo pipefail
cd "$(dirname "$0")/.."
programs=build/gpu
out=${OUT:-bench/gpu}
mkdir -p "$out"

build() {
    local commit features=cuda
    # JPEG on cores is as fast as in a release.
    ! command -v nasm >/dev/null || features+=,nasm
    commit=$(git describe --always --dirty 2>/dev/null || echo unknown)
    # Lines of the source for compute-sanitizer and the profiler.
    export ROBOCACHE_COMMIT=$commit ROBOCACHE_CUDA_LINEINFO=on
    cargo build --release -p robocache_bench --features "$features"
    mkdir -p "$programs"
    rm -f "$programs"/*
    cargo build --release -p robocache_tools --features "$features"
    cp "${CARGO_TARGET_DIR:-target}"/release/{robocache,robocache_bench,robocache_jpeg,robocache_recording} "$programs/"
    cp "$(cargo test --release -p robocache_core --features "$features" --test core --no-run --message-format=json |
        executable core)" "$programs/core"
    cc -shared -fPIC -o "$programs/cuda_faults.so" tests/ros/cuda_faults.c -ldl
    strip --strip-debug "$programs"/*
}

# The program of a test, from cargo's messages.
executable() {
    python3 -c 'import json, sys
for line in sys.stdin:
    item = json.loads(line)
    if item.get("executable") and item["target"]["name"] == sys.argv[1]:
        print(item["executable"])' "$1"
}

# One test body for all backends; on this machine no backend may be skipped. Then the same for vectors, while the GPU
# looks like integrated ones (tests/ros/cuda_faults.c): registered memory has another address for kernels, or the driver
# registers none.
run_test() {
    local attributes
    "$programs/core" backends:: encoders:: --test-threads=4 2>&1 | tee "$out/test.txt" || return 1
    for attributes in 18=1,91=0 18=1,91=0,99=0; do
        LD_PRELOAD=$PWD/$programs/cuda_faults.so ROBOCACHE_TEST_ATTRIBUTES=$attributes \
            "$programs/core" vectors --test-threads=1 2>&1 | tee -a "$out/test.txt" || return 1
    done
    ! grep -q 'was skipped' "$out/test.txt"
}

# The bits of a recording, on every backend.
run_digests() {
    "$programs/core" digests:: 2>&1 | tee "$out/test_digests.txt" &&
        ! grep -q 'was skipped' "$out/test_digests.txt"
}

# The files of every format must be the same bytes on every backend: of one recording, and of more than there are cores
# (then each has one thread). Then a recording many times at once, timed.
run_replay() {
    local work backend format count copy failed=0
    work=$(mktemp -d)
    export ROBOCACHE=$programs/robocache ROBOCACHE_RECORDING=$programs/robocache_recording
    "$ROBOCACHE_RECORDING" write "$work/short.mcap" --seconds 3
    : >"$out/replay.txt"
    for count in 1 "$(($(nproc) + 1))"; do
        mkdir "$work/bags_$count"
        for copy in $(seq "$count"); do ln "$work/short.mcap" "$work/bags_$count/$copy.mcap"; done
        for format in mcap zarr rows; do
            for backend in cpu cuda auto; do
                "$ROBOCACHE" replay "$work/bags_$count"/*.mcap --config config/robocache.yaml \
                    --out "$work/$backend" --format "$format" --backend "$backend" --device all >/dev/null || failed=1
                if diff -r --exclude=replay.json "$work/cpu" "$work/$backend"; then
                    echo "$format of $count recordings, $backend: the bytes of the CPU" | tee -a "$out/replay.txt"
                else
                    failed=1
                fi
            done
            rm -rf "$work"/{cpu,cuda,auto}
        done
    done
    for backend in cpu cuda auto; do
        python3 benches/replay.py --out "$work" --seconds "${REPLAY_S:-60}" --copies 16 --backend "$backend" \
            --json "$out/replay_$backend.json" | tee -a "$out/replay.txt" || failed=1
    done
    if [ -n "${CAMERA_JPEG:-}" ]; then replay_jpeg "$work" || failed=1; fi
    rm -rf "$work"
    return $failed
}

# Recordings whose cameras send a JPEG file: rows in memory, of 16 at once.
replay_jpeg() {
    local work=$1 backend copy failed=0 bags=()
    sed 's|sensor_msgs/msg/Image$|sensor_msgs/msg/CompressedImage|' config/robocache.yaml >"$work/jpeg.yaml"
    "$ROBOCACHE_RECORDING" write "$work/jpeg.mcap" --seconds 15 --jpeg "$CAMERA_JPEG" || return 1
    for copy in $(seq 16); do ln "$work/jpeg.mcap" "$work/jpeg_$copy.mcap" && bags+=("$work/jpeg_$copy.mcap"); done
    for backend in cpu cuda auto cpu cuda auto; do
        echo "rows of 16 recordings of JPEG, 15 s each, $backend: $("$ROBOCACHE_RECORDING" time "${bags[@]}" --what rows \
            --config "$work/jpeg.yaml" --backend $backend --threads 1)" | tee -a "$out/replay.txt" || failed=1
    done
    return $failed
}

run_bench() {
    "$programs/robocache_bench" --backend cuda --json "$out/bench.json" | tee "$out/bench.txt"
    # Rows on the host: only whole messages and ticks, because the kernels are the same.
    "$programs/robocache_bench" --backend auto --case 'host clock' | tee -a "$out/bench.txt"
}

# The benchmarks of an earlier commit and of this one, in turns, so that a disturbance affects both.
run_versus() {
    local old=("${OLD_PROGRAMS:?a folder with an earlier benchmark}/robocache_bench") round
    [ -x "${old[0]}" ] || old=("$OLD_PROGRAMS/robocache" bench)
    rm -f "$out"/versus_*
    for round in $(seq "${ROUNDS:-3}"); do
        "${old[@]}" --backend cuda --json "$out/versus_old_$round.json" >/dev/null
        "$programs/robocache_bench" --backend cuda --json "$out/versus_new_$round.json" >/dev/null
    done
    python3 benches/peers/versus.py "$out" | tee "$out/versus.txt"
}

run_peers() {
    python3 benches/peers/torch_ops.py --json "$out/peers.json"
}

run_jpeg() {
    python3 benches/peers/nvjpeg.py --program "$programs/robocache_jpeg" \
        "${CAMERA_JPEG:?a file of a camera}" | tee "$out/jpeg.txt"
}

run_fuzz() {
    ROBOCACHE_TEST_CASES=${FUZZ_CASES:-100000} "$programs/core" jpeg_scans 2>&1 | tee "$out/test_fuzz.txt" || return 1
    grep -q '1 passed' "$out/test_fuzz.txt" && ! grep -q 'was skipped' "$out/test_fuzz.txt"
}

# Each tick of a node whose cameras send damaged files, compared with a replay on cores.
run_damage() (
    set +u
    . "${ROS_BUNDLE:?the folder of benches/ros_bundle.sh}/env.sh"
    python3 benches/six_cameras.py --programs "$ROS_BUNDLE/bin" --seconds "${DAMAGE_S:-30}" --backends cuda,auto \
        --compressed "${CAMERA_JPEG:?a file of a camera}" --damage-one-in 20 --verify "$programs/robocache" \
        --output "$out/damage" | tee "$out/test_damage.txt" || exit 1
    # Of both backends, and not of undamaged files.
    [ "$(grep -c 'verify: exit code 0$' "$out/test_damage.txt")" = 2 ] || exit 1
    ! grep '"damaged": 0,' "$out/test_damage.txt"
)

run_sanitize() {
    local tool
    for tool in ${SANITIZE_TOOLS:-memcheck racecheck initcheck synccheck}; do
        echo "compute-sanitizer $tool"
        ROBOCACHE_TEST_CASES=${SANITIZE_CASES:-100} sanitize "$tool" programs \
            "$programs/core" ::cuda ::auto jpeg_scans --test-threads=1 || return 1
        # Only these run the kernels of windows, of samples, and of gradients by seconds.
        PYTHONPATH=$PWD/python:$PWD/tests ROBOCACHE=$PWD/$programs/robocache sanitize "$tool" python \
            python3 -m pytest -q --noconftest -p no:cacheprovider tests/python/torch/test_cuda_cache.py \
            tests/python/torch/test_cuda_sampler.py tests/python/torch/test_torch_gradients.py \
            tests/python/torch/test_trajectories.py || return 1
    done
}

# Runs a command under the tool $1; what it prints goes into a file with the word $2.
sanitize() {
    local log=$out/sanitize_$1_$2.txt
    compute-sanitizer --tool "$1" --target-processes all --error-exitcode 1 "${@:3}" >"$log" 2>&1 ||
        { tail -30 "$log"; return 1; }
    tail -1 "$log"
}

# The counters that explain the rest: time, traffic of the device memory and of the L2 cache,
# occupancy, instructions, stalls.
metrics=gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,dram__bytes_read.sum,dram__bytes_write.sum
metrics+=,lts__throughput.avg.pct_of_peak_sustained_elapsed
metrics+=,lts__t_sectors.avg.pct_of_peak_sustained_elapsed,lts__t_sectors.sum
metrics+=,sm__warps_active.avg.pct_of_peak_sustained_active
metrics+=,sm__inst_executed.avg.per_cycle_elapsed,smsp__inst_executed.sum
metrics+=,launch__registers_per_thread
for reason in long_scoreboard short_scoreboard barrier wait branch_resolving imc_miss; do
    metrics+=,smsp__average_warps_issue_stalled_${reason}_per_issue_active.ratio
done

counted=(
    'resample B1 S500 T16 D32'
    'resample B32 S50 T256 D128'
    'resample B32 S500 T250 D256'
    'resample B64 S4096 T1024 D32'
    'resample B64 S1000 T500 D512'
    'fuse 30x512, 100x64, 200x12 to 50, B4'
    'voxel count 500000'
    'voxel mean of 4, 500000'
    'voxel mean of 4, 131072'
)

# If a case fails or hangs, only its own line is missing.
run_counters() {
    local at log csv failed=0
    rm -f "$out"/counters_*
    for at in "${!counted[@]}"; do
        csv=$out/counters_$at.csv log=$out/counters_$at.log
        count "${counted[at]}" "$csv" >"$log" 2>&1 || {
            echo "counters_$at, ${counted[at]}: exit code $? (124: out of time)"
            failed=1
            # ncu writes its own messages into the file of the counters.
            cat "$log" "$csv" 2>/dev/null | grep -v '^"' | tail -5
        }
        # After the counters, because ncu overwrites the file.
        echo "==CASE== ${counted[at]}" >>"$csv"
    done
    python3 benches/peers/counters.py "$out"/counters_*.csv | tee "$out/counters.txt" || failed=1
    return $failed
}

# Four launches of the case $1 into the file $2. The program first replays a graph of at least 200 calls
# six times without overlap. This warm-up is skipped.
count() {
    timeout -k 10 "${COUNTERS_S:-90}" ncu --clock-control none --cache-control none \
        --graph-profiling node --kernel-name 'regex:^resample|^voxelize' --launch-skip 1000 \
        --launch-count 4 --metrics "$metrics" --csv --page raw --print-units base --log-file "$2" \
        "$programs/robocache_bench" --backend cuda --repeats 1 --case "$1"
}

# Fails if memory grows, bits differ, a long tick causes overruns, or the encoder cannot keep up. It does not
# fail for overruns after late wake-ups. Beside them it prints those of a thread that only sleeps. (With
# `--no-overruns` it would fail for them too.)
run_soak() {
    local failed=0
    rm -f "$out/soak.txt"
    soak usual "${SOAK_S:-60}" || failed=1
    soak random "${SOAK_RANDOM_S:-600}" --random-sizes || failed=1
    return $failed
}

soak() {
    local name=$1 seconds=$2
    [ "$seconds" -gt 0 ] || return 0
    "$programs/robocache_bench" --backend cuda --soak-s "$seconds" "${@:3}" \
        --json "$out/soak_$name.json" | tee -a "$out/soak.txt"
}

# Fails if `auto` misses a target beside the training or loses anything when the GPU fails. `cuda` and
# `cpu` run for comparison.
run_beside() {
    rm -f "$out"/beside_*
    python3 benches/beside.py --bench "$programs/robocache_bench" \
        --faults "$programs/cuda_faults.so" --seconds "${BESIDE_S:-60}" \
        --fault-seconds "${BESIDE_FAULT_S:-24}" --json "$out/beside.json" | tee "$out/beside.txt"
}

# The Python package. A step of training is measured on one GPU, and on all of them at once.
run_python() {
    local failed=0 gpus
    export PYTHONPATH="$PWD/python:$PWD/tests" HF_HUB_OFFLINE=1 ROBOCACHE="$PWD/$programs/robocache"
    gpus=$(nvidia-smi --list-gpus | wc -l)
    python3 -m pytest -q --noconftest -p no:cacheprovider tests/python/test_device_output.py \
        tests/python/torch/test_torch_*.py tests/python/torch/test_cuda_*.py \
        tests/python/torch/test_trajectories.py tests/python/torch/test_train_policy.py 2>&1 |
        tee "$out/test_python.txt" || failed=1
    python3 benches/windows.py --gpu >"$out/windows.json" || failed=1
    python3 benches/host_time.py ${OLD_PACKAGE:+--old "$OLD_PACKAGE"} >"$out/host_time.json" || failed=1
    python3 benches/python_operations.py --compile --json "$out/operations.json" \
        >"$out/operations.txt" || failed=1
    python3 benches/pipeline_latency.py >"$out/pipeline_latency.jsonl" || failed=1
    if [ -n "${TRAIN_STORE:-}" ]; then
        for processes in 1 "$gpus"; do
            python3 -m torch.distributed.run --standalone --nproc-per-node "$processes" \
                benches/train_step.py "$TRAIN_STORE" --compile --graph >"$out/train_step_$processes.json" || failed=1
        done
    fi
    return $failed
}

# All GPUs of this host. Each figure of n ranks is beside that of one, from the same call.
run_several() {
    local failed=0 gpus count device work began
    export PYTHONPATH="$PWD/python:$PWD/tests" HF_HUB_OFFLINE=1 ROBOCACHE="$PWD/$programs/robocache"
    gpus=$(nvidia-smi --list-gpus | wc -l)
    for ((count = 1; count <= gpus; count *= 2)); do
        python3 -m torch.distributed.run --standalone --nproc-per-node "$count" \
            benches/train_step.py "${TRAIN_STORE:?the store of train_step.py --make}" --compile --graph \
            >"$out/train_step_$count.json" || failed=1
        python3 -m torch.distributed.run --standalone --nproc-per-node "$count" \
            benches/windows.py --pinned >"$out/pinned_$count.json" || failed=1
    done
    work=$(mktemp -d)
    "$programs/robocache_recording" write "$work/one.mcap" --seconds 3
    for count in $(seq "${SEVERAL_BAGS:-128}"); do ln "$work/one.mcap" "$work/$count.mcap"; done
    rm "$work/one.mcap"
    for device in cpu 0 all; do
        began=$(date +%s.%N)
        "$ROBOCACHE" replay "$work"/*.mcap --config config/robocache.yaml --out "$work/$device" --format rows \
            --backend "$([ $device = cpu ] && echo cpu || echo cuda)" --device "${device/cpu/0}" >/dev/null || failed=1
        python3 -c 'import sys, time
began, bags, name = float(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
seconds = time.time() - began
print(f"rows of {bags:.0f} recordings, {name}: {seconds:.1f} s, {3 * bags / seconds:.0f} times real time")' \
            "$began" "${SEVERAL_BAGS:-128}" "$device" | tee -a "$out/several.txt"
        if diff -r --exclude=replay.json "$work/cpu" "$work/$device" >/dev/null; then
            echo "rows, $device: the bytes of the cores" | tee -a "$out/several.txt"
        else
            failed=1
        fi
        [ $device = cpu ] || rm -rf "${work:?}/$device"
    done
    rm -rf "$work"
    for ((device = 0; device < gpus; device++)); do
        CUDA_VISIBLE_DEVICES=$device "$programs/core" digests:: >"$out/test_digests_$device.txt" 2>&1 || failed=1
        CUDA_VISIBLE_DEVICES=$device python3 -m pytest -q --noconftest -p no:cacheprovider \
            tests/python/torch/test_torch_*.py >"$out/test_operations_$device.txt" 2>&1 || failed=1
        grep -h '^test result\|passed\|errors\? in' "$out/test_digests_$device.txt" "$out/test_operations_$device.txt" |
            sed "s/^/GPU $device: /" | tee -a "$out/several.txt"
    done
    return $failed
}

# Logs go into one archive, so that at most eight files remain, even if the script is stopped early. Logs of
# earlier steps stay in it.
archive() (
    cd "$out"
    shopt -s nullglob
    [ ! -f logs.tgz ] || tar xzf logs.tgz --skip-old-files
    logs=(test*.txt damage*/ replay_*.json sanitize_*.txt counters_* soak_* beside_* versus_*.json)
    [ ${#logs[@]} -eq 0 ] || tar czf logs.tgz --remove-files "${logs[@]}"
)

case "${1:-}" in
    --build)
        build
        exit
        ;;
    -*)
        sed -n '2,/^set/{/^#/s/^# \{0,1\}//p}' "benches/gpu.sh"
        [ "$1" = --help ]
        exit
        ;;
esac
if command -v cargo >/dev/null; then build; fi
trap archive EXIT
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv | tee "$out/gpu.txt"
failed=()
steps=("$@")
if [ $# -eq 0 ]; then
    steps=(test digests replay bench ${OLD_PROGRAMS:+versus} peers ${CAMERA_JPEG:+jpeg} sanitize counters soak beside
        python)
fi
for step in "${steps[@]}"; do
    echo "== $step"
    "run_$step" || failed+=("$step")
done
python3 benches/peers/table.py "$out" | tee "$out/table.txt"
if [ ${#failed[@]} -gt 0 ]; then
    echo "failed: ${failed[*]}"
fi
[ ${#failed[@]} -eq 0 ]
