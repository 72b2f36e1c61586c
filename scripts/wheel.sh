#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/.
#
#   scripts/wheel.sh           the wheel to publish: for CPython 3.10 and later on any Linux with glibc
#                              2.28 or later, with kernels for every chip. It is linked by zig, against
#                              that glibc, and auditwheel checks it. It may have at most 30 MB
#   scripts/wheel.sh --local   a wheel for this machine, with the compiler of this machine and what
#                              `make build` compiled: what the tests install
#
# CUDA is inside if there is an nvcc (scripts/cuda.sh; ROBOCACHE_CUDA). A wheel to publish must have it.
# JPEG is decoded by SIMD code if there is nasm.
#
# Environment: PYTHON (makes .wheel/, the environments of the tools), CARGO_TARGET_DIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

most_bytes=30000000
pins=scripts/requirements-wheel.txt
tools=$PWD/.wheel

say() { printf 'wheel: %s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

case "${1:-}" in
  '') local='' ;;
  --local) local=on ;;
  *) fail "expected nothing or --local, found '$1'" ;;
esac

# The wheel for this machine needs maturin alone.
if [ -n "$local" ]; then
  tools=$tools/local wanted=$(grep '^maturin==' "$pins")
else
  tools=$tools/publish wanted=$(grep -v '^#' "$pins")
fi
if [ "$wanted" != "$(cat "$tools/installed.txt" 2>/dev/null)" ]; then
  say "installing its tools into .wheel"
  rm -rf "$tools"
  "${PYTHON:-python3}" -m venv "$tools"
  # shellcheck disable=SC2086 # a list
  "$tools/bin/pip" install -q --disable-pip-version-check $wanted
  echo "$wanted" >"$tools/installed.txt"
fi

features=()
if [[ $(scripts/cuda.sh features) != *--no-default-features* ]]; then
  features+=(cuda)
elif [ -z "$local" ]; then
  fail 'expected an nvcc, as the wheel to publish has CUDA: scripts/cuda.sh installs one. Without CUDA: scripts/wheel.sh --local'
fi
if command -v nasm >/dev/null; then
  features+=(nasm)
elif [ -z "$local" ]; then
  fail 'expected nasm, with which JPEG decodes faster: apt install nasm'
fi

arguments=(build --release --locked --out ../dist)
[ ${#features[@]} -eq 0 ] || arguments+=(--features "$(IFS=,; echo "${features[*]}")")
if [ -n "$local" ]; then
  arguments+=(--compatibility linux --interpreter "$tools/bin/python")
else
  arguments+=(--compatibility manylinux_2_28 --zig --interpreter "$tools/bin/python")
fi
mkdir -p dist
rm -f dist/*.whl
# maturin finds pyproject.toml beside the package, and its tools on PATH. VIRTUAL_ENV stays: where it changes, the
# kernels are compiled again.
(cd python && PATH="$tools/bin:$PATH" maturin "${arguments[@]}")
wheel=$(echo dist/*.whl)
if [ -z "$local" ]; then
  PATH="$tools/bin:$PATH" auditwheel show "$wheel" | tee dist/auditwheel.txt
  grep -q 'manylinux_2_\(1[0-9]\|2[0-8]\)_' dist/auditwheel.txt || fail "$wheel: auditwheel finds no glibc up to 2.28"
  bytes=$(stat -c %s "$wheel")
  [ "$bytes" -le "$most_bytes" ] || fail "$wheel: expected at most $most_bytes bytes, found $bytes"
fi
say "$wheel: $(stat -c %s "$wheel") bytes"
