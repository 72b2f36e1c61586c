#!/usr/bin/env bash
# Times rows with images on a machine with a GPU: windows per second on all cores, and the share of a training step that
# waits for data (benches/train_images.py).
#
#   benches/images.sh            results go to $OUT (default bench/images)
#
# It needs `robocache_recording` in build/images, and the package's compiled part with CUDA in
# python/robocache.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=build/images
out=${OUT:-bench/images}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
rm -f "$out"/sizes.txt
export PYTHONPATH=$PWD/python

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader >"$out/gpu.txt" || true
"$programs/robocache_recording" write "$work/bag.mcap" --seconds "${SECONDS_OF_BAG:-60}"

for images in zstd jpeg:95; do
  python3 benches/train_images.py --make "$work/bag.mcap" "$work/$images" --images "$images"
  du -sb "$work/$images/rows.zarr" | tee -a "$out/sizes.txt"
  python3 benches/train_images.py "$work/$images/rows.zarr" --compile --rounds 3 | tee "$out/train_${images/:/_}.json"
done
