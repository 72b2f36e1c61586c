#!/usr/bin/env bash
# Builds the compiled part of the Python package and links it into the source tree, so that
# `PYTHONPATH=python` serves the package as it is: `scripts/develop.sh [CARGO-ARGUMENT...]`. By
# default it is an unoptimised build without CUDA, which compiles fastest. A wheel has `--release --features
# cuda`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

profile=debug
for argument in "$@"; do
  [ "$argument" != --release ] || profile=release
done
cargo build --locked -p robocache_python "$@"
ln -sfn "$(readlink -f "${CARGO_TARGET_DIR:-target}")/$profile/lib_native.so" python/robocache/_native.abi3.so
