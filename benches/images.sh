#!/usr/bin/env bash
# Times rows with images on a machine with a GPU: the replay of a recording to files on two cores, windows per second on
# all cores, and the share of a training step that waits for data (benches/train_images.py).
#
#   benches/images.sh            results go to $OUT (default bench/images)
#
# It needs `robocache` and `robocache_recording` in build/images, and the package's compiled part with CUDA in
# python/robocache. $OLD_ROBOCACHE: a `robocache` of an earlier commit, which replays in turns with this one.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=build/images
out=${OUT:-bench/images}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
rm -f "$out"/replay.txt "$out"/sizes.txt
export PYTHONPATH=$PWD/python

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >"$out/gpu.txt" || true
"$programs/robocache_recording" write "$work/bag.mcap" --seconds "${SECONDS_OF_BAG:-60}"
cat "$work/bag.mcap" >/dev/null

# Wall seconds, and seconds of processor time, of a replay to files on two cores.
replay() {
  local name=$1 program=$2 kind=$3
  rm -rf "$work/out"
  TIMEFORMAT="$name $kind %R %U %S"
  { time taskset -c 0,1 "$program" replay "$work/bag.mcap" --config config/robocache.yaml --out "$work/out" \
    --format "$kind" --backend cpu >"$work/log" 2>&1; } 2>>"$out/replay.txt" ||
    { cat "$work/log" >&2; exit 1; }
}
for _ in $(seq "${REPLAYS:-3}"); do
  for kind in rows zarr; do
    replay new "$programs/robocache" "$kind"
    [ -z "${OLD_ROBOCACHE:-}" ] || replay old "$OLD_ROBOCACHE" "$kind"
  done
done
cat "$out/replay.txt" 2>/dev/null || true

for images in zstd jpeg:95; do
  python3 benches/train_images.py --make "$work/bag.mcap" "$work/$images" --images "$images"
  du -sb "$work/$images/rows.zarr" | tee -a "$out/sizes.txt"
  python3 benches/train_images.py "$work/$images/rows.zarr" --compile --rounds 3 | tee "$out/train_${images/:/_}.json"
done
