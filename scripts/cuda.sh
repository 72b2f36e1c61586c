#!/usr/bin/env bash
# The one place that knows whether the node is built with CUDA, and with which nvcc.
#
#   scripts/cuda.sh [get]      make sure of an nvcc: this machine's, or else the pinned wheels from
#                              PyPI, into .cuda/ of the repository, without root (make lint, test)
#   scripts/cuda.sh find       print the nvcc to use (build.rs asks), or say what to do without one
#   scripts/cuda.sh prepare    `get` where a GPU is, or where ROBOCACHE_CUDA=on (make build)
#   scripts/cuda.sh features   print cargo's arguments: without CUDA where no nvcc is found that fits
#                              the driver, which it says in one line. Installs nothing (colcon build)
#
# A driver runs what nvcc made if its CUDA has at least the major version of the nvcc: for another
# driver `prepare` installs nothing. Where the driver's CUDA cannot be told, any nvcc fits.
#
# Environment: ROBOCACHE_CUDA (auto; on: never without; off: never with, and nothing is installed),
# NVCC (the compiler: this one or an error), CUDA_HOME, PYTHON (makes .cuda/).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The trial below and build.rs agree on the options: those in a user's shell could change the bits.
unset NVCC_APPEND_FLAGS NVCC_PREPEND_FLAGS driver
pins=scripts/requirements-cuda.txt
without='--no-default-features --features ros'

say() { printf 'cuda: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# True if the compiler works as a whole: a toolkit without its headers, or with a host compiler that
# it refuses, compiles nothing. 12.0 is the oldest driver interface that the backend is bound to.
works() {
  [ -f "$1" ] && [ -x "$1" ] || return
  local folder reason status=0
  folder=$(mktemp -d)
  printf '%s\n' '#if __CUDACC_VER_MAJOR__ < 12' '#error expected CUDA 12.0 or later' '#endif' \
    '__global__ void trial() {}' >"$folder/trial.cu"
  "$1" -fatbin -std=c++17 -o "$folder/trial.fatbin" "$folder/trial.cu" >"$folder/log" 2>&1 ||
    status=$?
  if [ "$status" -ne 0 ]; then
    reason=$(grep -m 1 -i error "$folder/log" || tail -n 1 "$folder/log")
    say "passing over $1: ${reason:-exit code $status}"
  fi
  rm -rf "$folder"
  return "$status"
}

# Where an nvcc may be, the likeliest to be meant first; what does not exist is passed over.
places() {
  [ -z "${CUDA_HOME:-}" ] || echo "$CUDA_HOME/bin/nvcc"
  type -aP nvcc || true
  # Where the toolkit's own installers (JetPack's too) and distributions put it, off PATH.
  printf '%s\n' /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc
  printf '%s\n' /usr/local/cuda-*/bin/nvcc | sort -rV
  # The list of what was installed is written last: without it the environment is half made.
  [ ! -e .cuda/installed.txt ] || wheels "$PWD/.cuda"
  [ -z "${VIRTUAL_ENV:-}" ] || wheels "$VIRTUAL_ENV"
  wheels "$PWD/.venv"
}

wheels() { printf '%s\n' "$1"/lib/python3*/site-packages/nvidia/*/bin/nvcc; }

# The major version of CUDA, each of the three: of an nvcc, of the pinned one, of the driver. Nothing
# is printed where it cannot be told.
cuda_of() { [[ ! $("$1" --version 2>/dev/null) =~ release\ ([0-9]+)\. ]] || echo "${BASH_REMATCH[1]}"; }
pinned_cuda() { [[ ! $(<"$pins") =~ cuda-toolkit[^=]*==([0-9]+)\. ]] || echo "${BASH_REMATCH[1]}"; }
driver_cuda() {
  local text
  text=$(PATH=$PATH:/usr/lib/wsl/lib nvidia-smi 2>/dev/null) || true
  # The heading says "CUDA UMD Version" since driver 610.
  if [[ $text =~ CUDA(\ UMD)?\ Version\ *:\ *([0-9]+)\. ]]; then
    echo "${BASH_REMATCH[2]}"
  elif has_libcuda; then # without nvidia-smi, as in a Jetson's container: ask as the node will
    text=$("${PYTHON:-python3}" -c 'import ctypes
version = ctypes.c_int()
assert ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0
print(version.value // 1000)' 2>/dev/null) || true
    [[ ! $text =~ ^[0-9]+$ ]] || echo "$text"
  fi
}

# True if what an nvcc of this CUDA makes runs on this machine's driver, as far as one can tell.
fits() {
  driver=${driver-$(driver_cuda)}
  [ -z "$driver" ] || [ -z "$1" ] || [ "$1" -le "$driver" ]
}

# misfit WHAT ITS_CUDA CONSEQUENCE: says in one line what to do about a driver that is too old.
misfit() {
  local remedy="a driver for CUDA $2"
  [ "$2" != 13 ] || remedy+=' (580 or later)'
  [ "$driver" -lt 12 ] || remedy+=", or an nvcc of CUDA $driver in NVCC"
  say "this machine's driver is for CUDA $driver, $1 for CUDA $2: $3. For the GPU: $remedy"
}

# Sets `nvcc` to the first that works, and `cuda` to its major version. One that fits the driver
# goes before all that do not. Fails without any.
find_nvcc() {
  local candidate found
  nvcc=
  if [ -n "${NVCC:-}" ]; then
    nvcc=$(command -v "$NVCC") && works "$nvcc" ||
      fail "NVCC=$NVCC: expected an nvcc that compiles; correct it, or unset NVCC"
    cuda=$(cuda_of "$nvcc")
    return
  fi
  while IFS= read -r candidate; do
    works "$candidate" || continue
    found=$(cuda_of "$candidate")
    if [ -z "$nvcc" ] || fits "$found"; then
      nvcc=$candidate cuda=$found
    fi
    ! fits "$cuda" || return 0
  done < <(places)
  [ -n "$nvcc" ]
}

has_libcuda() { PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -F libcuda.so.1 >/dev/null; }

has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null ||
    PATH=$PATH:/usr/lib/wsl/lib nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null ||
    has_libcuda
}

# A Jetson's driver is part of JetPack, and so is the nvcc that fits it.
is_jetson() { [ -e /etc/nv_tegra_release ]; }

get() {
  install
  fits "$cuda" || misfit "$nvcc" "$cuda" 'what it builds computes on the CPU here'
}

install() {
  if find_nvcc; then
    case $nvcc in
      "$PWD"/.cuda/*) ! cmp -s "$pins" .cuda/installed.txt || return 0 ;; # else of older pins
      *) return 0 ;;
    esac
  fi
  say 'installing nvcc from PyPI into .cuda (about 300 MB)'
  rm -rf .cuda
  if ! "${PYTHON:-python3}" -m venv .cuda ||
    ! .cuda/bin/python3 -m pip install --quiet --disable-pip-version-check --no-input -r "$pins"; then
    fail 'could not install nvcc (above); ROBOCACHE_CUDA=off make build builds without CUDA'
  fi
  cp "$pins" .cuda/installed.txt
  find_nvcc || fail 'the nvcc from PyPI does not work here (above); it needs a C++ compiler'
}

# True if the GPU can be built for; else it says why not.
usable_nvcc() {
  local alone='building for the CPU alone' remedy="'$PWD/scripts/cuda.sh'" pin
  pin=$(pinned_cuda)
  if find_nvcc; then
    fits "$cuda" && return
    misfit "$nvcc" "$cuda" "$alone"
  elif ! is_jetson && ! fits "$pin"; then
    misfit 'the nvcc from PyPI' "$pin" "no nvcc, $alone"
  else
    ! is_jetson || remedy='sudo apt install nvidia-jetpack'
    say "no nvcc: $alone. For a GPU: $remedy, then build again"
  fi
  return 1
}

case ${ROBOCACHE_CUDA:=auto} in
  auto | on | off) ;;
  *) fail "ROBOCACHE_CUDA: expected auto, on or off, found '$ROBOCACHE_CUDA'" ;;
esac
case ${1:-get} in
  get) [ "$ROBOCACHE_CUDA" = off ] || get ;;
  find)
    find_nvcc || fail "no nvcc of CUDA 12.0 or later in CUDA_HOME, on PATH, in /usr/local/cuda*, \
/opt/cuda, .cuda or a Python environment
install one from PyPI, without root:  scripts/cuda.sh
or build for the CPU alone:           cargo build $without"
    fits "$cuda" || misfit "$nvcc" "$cuda" 'what it builds computes on the CPU here'
    printf '%s\n' "$nvcc"
    ;;
  prepare)
    case $ROBOCACHE_CUDA in
      on) get ;;
      auto) is_jetson || ! has_gpu || ! fits "$(pinned_cuda)" || get ;; # `features` says why not
    esac
    ;;
  features)
    case $ROBOCACHE_CUDA in
      off) echo "$without" ;;
      auto) usable_nvcc || echo "$without" ;;
    esac
    ;;
  *) fail "expected get, find, prepare or features, found '$1'" ;;
esac
