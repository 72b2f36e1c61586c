#!/usr/bin/env bash
# Makes sure that there is an nvcc, which build.rs then finds: the one of this machine, or else the
# pinned wheels from PyPI in .cuda/ of the repository, without root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -x "${NVCC:-}" ] || [ -x "${CUDA_HOME:-}/bin/nvcc" ] || command -v nvcc >/dev/null; then
  exit
fi
pins=scripts/requirements-cuda.txt
if ! cmp -s "$pins" .cuda/installed.txt; then
  echo 'cuda: installing nvcc from PyPI into .cuda' >&2
  rm -rf .cuda
  "${PYTHON:-python3}" -m venv .cuda
  .cuda/bin/python3 -m pip install --quiet --disable-pip-version-check --no-input -r "$pins"
  cp "$pins" .cuda/installed.txt
fi
