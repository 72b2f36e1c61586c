#!/usr/bin/env bash
# The one place that knows whether the node is built with CUDA, and with which nvcc.
#
#   scripts/cuda.sh [get]      make sure of an nvcc: this machine's, or else the pinned wheels from
#                              PyPI, into .cuda/ of the repository, without root (make lint, test)
#   scripts/cuda.sh find       print the nvcc to use (build.rs asks), or say what to do without one
#   scripts/cuda.sh prepare    `get` where a GPU is, or where ROBOCACHE_CUDA=on (make build)
#   scripts/cuda.sh features   print cargo's arguments: without CUDA where no nvcc is found, which
#                              it says in one line. Installs nothing (colcon build)
#
# Environment: ROBOCACHE_CUDA (auto; on: never without; off: never with, and nothing is installed),
# NVCC (the compiler: this one or an error), CUDA_HOME, PYTHON (makes .cuda/).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

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

# Sets `nvcc` to the first that works; fails without one.
find_nvcc() {
  local candidate
  if [ -n "${NVCC:-}" ]; then
    nvcc=$(command -v "$NVCC") && works "$nvcc" && return
    fail "NVCC=$NVCC: expected an nvcc that compiles; correct it, or unset NVCC"
  fi
  while IFS= read -r candidate; do
    if works "$candidate"; then
      nvcc=$candidate
      return
    fi
  done < <(places)
  return 1
}

has_gpu() {
  compgen -G '/dev/nvidia[0-9]*' >/dev/null ||
    PATH=$PATH:/usr/lib/wsl/lib nvidia-smi -L 2>/dev/null | grep '^GPU' >/dev/null ||
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null | grep -F libcuda.so.1 >/dev/null
}

# A Jetson's driver is part of JetPack, and so is the nvcc that fits it.
is_jetson() { [ -e /etc/nv_tegra_release ]; }

get() {
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
    printf '%s\n' "$nvcc"
    ;;
  prepare)
    case $ROBOCACHE_CUDA in
      on) get ;;
      auto) is_jetson || ! has_gpu || get ;;
    esac
    ;;
  features)
    if [ "$ROBOCACHE_CUDA" = off ]; then
      echo "$without"
    elif [ "$ROBOCACHE_CUDA" = auto ] && ! find_nvcc; then
      remedy="'$PWD/scripts/cuda.sh'"
      ! is_jetson || remedy='sudo apt install nvidia-jetpack'
      say "no nvcc: building for the CPU alone. For a GPU: $remedy, then build again"
      echo "$without"
    fi
    ;;
  *) fail "expected get, find, prepare or features, found '$1'" ;;
esac
