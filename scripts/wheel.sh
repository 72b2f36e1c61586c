#!/usr/bin/env bash
# Builds the wheel of the Python package into dist/.
#
#   scripts/wheel.sh           the wheel to publish: for CPython 3.10 and later on any Linux with glibc
#                              2.28 or later, with kernels for every chip. It is linked by zig, against
#                              that glibc, and auditwheel checks it. It may have at most 30 MB
#                              With WHEEL_TARGET=aarch64 it is for 64-bit ARM (scripts/arm64.sh), from x86-64
#   scripts/wheel.sh --local   a wheel for this machine, with the compiler of this machine and what
#                              `make build` compiled: what the tests install
#   scripts/wheel.sh --fetch   downloads what --local and its tests need, into .wheel. They run without network then
#   scripts/wheel.sh --sdist   the sources of the package, for a machine that compiles them itself
#
# All have THIRD_PARTY.txt and an SBOM (scripts/third_party.py).
#
# The wheel has CUDA if there is an nvcc (scripts/cuda.sh). A wheel to publish must have CUDA, unless
# ROBOCACHE_CUDA=off asks for a wheel that computes on the CPU alone. That one is built sooner. It goes to
# dist/without-cuda/, because a wheel with CUDA has the same name. SIMD code decodes JPEG; on x86-64 that needs nasm.
# The wheel replaces a wheel of the same name. Others stay.
#
# Environment: WHEEL_TARGET (x86_64 or aarch64, default: this machine), ROBOCACHE_CUDA, PYTHON (makes .wheel/, the
# environments of the tools), CARGO_TARGET_DIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

most_bytes=30000000
pins=scripts/requirements-wheel.txt
tools=$PWD/.wheel

say() { printf 'wheel: %s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

local='' sdist='' fetch=''
case "${1:-}" in
  '') ;;
  --local) local=on ;;
  --fetch) local=on fetch=on ;;
  --sdist) local=on sdist=on ;;
  *) fail "expected nothing, --local, --fetch or --sdist, found '$1'" ;;
esac

machine=$HOSTTYPE target=${WHEEL_TARGET:-$HOSTTYPE}
case "$target" in
  "$machine") ;;
  aarch64) [ -z "$local" ] || fail 'TARGET=aarch64: expected a wheel to publish, without --local or --sdist' ;;
  *) fail "TARGET: expected $machine or aarch64, found '$target'" ;;
esac

# The wheel for this machine and the sdist need only maturin.
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

if [ -n "$fetch" ]; then
  # maturin asks cargo for the crates of all systems, also those of Windows. NumPy is what the wheel needs.
  cargo fetch --quiet --locked
  numpy=$(grep '^numpy==' scripts/requirements-ros.txt)
  compgen -G ".wheel/packages/numpy-${numpy#*==}-*" >/dev/null ||
    "${PYTHON:-python3}" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: \
      --dest .wheel/packages "$numpy"
  exit
fi

if [ -n "$sdist" ]; then
  python3 scripts/third_party.py
  PATH="$tools/bin:$PATH" maturin sdist --out dist
  exit
fi

features=() folder=dist cuda='without CUDA'
if [ -n "$(scripts/cuda.sh features)" ]; then
  features+=(cuda)
  cuda='with CUDA'
elif [ "${ROBOCACHE_CUDA:-auto}" = off ]; then
  folder=dist/without-cuda
elif [ -n "$local" ]; then
  : # what this machine can build
else
  fail 'expected an nvcc, as the wheel to publish has CUDA: scripts/cuda.sh installs one. ROBOCACHE_CUDA=off builds a wheel without'
fi
if [ "$target" = aarch64 ] || command -v nasm >/dev/null; then
  features+=(nasm) # on ARM the feature needs no nasm
else
  say 'no nasm: JPEG images decode without SIMD, to the same pixels in 2.5 times the time. For SIMD: apt install nasm, and build again'
fi
if [ "$cuda" = 'with CUDA' ]; then
  say 'compiling the package with CUDA: the kernels for every chip, then the Rust code. nvcc prints nothing for minutes.' \
    'The first build takes ten minutes on two free cores. ROBOCACHE_CUDA=off takes six, as it leaves the kernels out'
else
  say 'compiling the package without CUDA: the wheel computes on the CPU alone, and backend cuda is an error'
fi

# A wheel goes to its place only after it has passed the checks.
mkdir -p "$folder"
new=$(mktemp -d "$PWD/$folder/new.XXXXXX")
trap 'rm -rf "$new"' EXIT
arguments=(build --locked --out "$new" --sbom-include robocache.cyclonedx.json)
[ ${#features[@]} -eq 0 ] || arguments+=(--features "$(IFS=,; echo "${features[*]}")")
if [ -n "$local" ]; then
  arguments+=(--release --compatibility linux --interpreter "$tools/bin/python")
else
  arguments+=(--profile wheel --compatibility manylinux_2_28 --zig --interpreter "$tools/bin/python")
fi
if [ "$target" != "$machine" ]; then
  # Another compiler may be used, so the folder is another one.
  RUSTC=$(scripts/arm64.sh rust)
  export RUSTC CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/build/arm64}
  arguments+=(--target "$target-unknown-linux-gnu")
fi
# zig links its own unwinder.
zig=("$tools"/lib/python3*/site-packages/ziglang)
if [ -n "$local" ]; then
  python3 scripts/third_party.py
else
  python3 scripts/third_party.py --zig "${zig[0]}"
fi
# maturin finds its tools on PATH. VIRTUAL_ENV stays: if it changed, cargo would compile the kernels again.
PATH="$tools/bin:$PATH" maturin "${arguments[@]}"
wheel=$(echo "$new"/*.whl)
bytes=$(stat -c %s "$wheel")
if [ -z "$local" ]; then
  report=$folder/auditwheel.txt
  PATH="$tools/bin:$PATH" auditwheel show "$wheel" | tee "$report"
  grep -q 'manylinux_2_\(1[0-9]\|2[0-8]\)_' "$report" || fail "${wheel##*/}: auditwheel finds no glibc up to 2.28"
  say "auditwheel's last sentence asks for nothing: the wheel is meant for glibc 2.28, of 2018, and later"
  [ "$bytes" -le "$most_bytes" ] || fail "${wheel##*/}: expected at most $most_bytes bytes, found $bytes"
fi
mv -f "$wheel" "$folder/"
say "$folder/${wheel##*/}: $bytes bytes, $cuda"
