#!/usr/bin/env bash
# Decides whether the node is built with CUDA, and with which nvcc. Nothing else decides this.
#
#   scripts/cuda.sh [get]      find an nvcc on this machine, else install the pinned one from PyPI
#                              into .cuda/ of the repository, without root (make lint, test)
#   scripts/cuda.sh find       print the nvcc to use, or say how to get one (crates/kernels/build.rs)
#   scripts/cuda.sh prepare    `get` if there is a GPU, or if ROBOCACHE_CUDA=on (make build)
#   scripts/cuda.sh features   print `cuda`, the feature of cargo. If no nvcc fits the driver, print nothing, and one
#                              line says so on stderr. Installs nothing (colcon build)
#
# A driver runs the nvcc's code if the driver's CUDA has at least the nvcc's major version. If no
# pinned nvcc fits the driver, `prepare` installs nothing. If the driver's CUDA is unknown, any nvcc
# fits.
#
# Environment: ROBOCACHE_CUDA (auto; on: always with CUDA; off: never, and nothing is installed),
# NVCC (use this compiler or fail), CUDA_HOME, PYTHON (makes .cuda/).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The trial below and crates/kernels/build.rs use the same options. Options in a user's shell could change the
# results of the kernels.
unset NVCC_APPEND_FLAGS NVCC_PREPEND_FLAGS driver
pins=scripts/requirements-cuda.txt

say() { printf 'cuda: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# True if the compiler compiles a trial kernel. It fails if the toolkit has no headers, or refuses the
# host compiler. The backend needs the driver interface of CUDA 12.0 or later.
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
    say "skipping $1: ${reason:-exit code $status}"
  fi
  rm -rf "$folder"
  return "$status"
}

# Prints possible places of an nvcc, the most likely first. Not all of them exist.
places() {
  [ -z "${CUDA_HOME:-}" ] || echo "$CUDA_HOME/bin/nvcc"
  type -aP nvcc || true
  # The toolkit's own installers (also JetPack's) and distributions put it here, not on PATH.
  printf '%s\n' /usr/local/cuda/bin/nvcc /opt/cuda/bin/nvcc
  printf '%s\n' /usr/local/cuda-*/bin/nvcc | sort -rV
  # installed.txt is written last: if it is missing, the environment is incomplete.
  [ ! -e .cuda/installed.txt ] || wheels "$PWD/.cuda"
  [ -z "${VIRTUAL_ENV:-}" ] || wheels "$VIRTUAL_ENV"
  wheels "$PWD/.venv"
}

wheels() { printf '%s\n' "$1"/lib/python3*/site-packages/nvidia/*/bin/nvcc; }

# Each of these three prints a major version of CUDA: of an nvcc, of the pinned nvcc, of the driver.
# If the version is unknown, it prints nothing.
cuda_of() { [[ ! $("$1" --version 2>/dev/null) =~ release\ ([0-9]+)\. ]] || echo "${BASH_REMATCH[1]}"; }
pinned_cuda() { [[ ! $(<"$pins") =~ cuda-toolkit[^=]*==([0-9]+)\. ]] || echo "${BASH_REMATCH[1]}"; }
driver_cuda() {
  local text
  text=$(PATH=$PATH:/usr/lib/wsl/lib nvidia-smi 2>/dev/null) || true
  # The heading says "CUDA UMD Version" since driver 610.
  if [[ $text =~ CUDA(\ UMD)?\ Version\ *:\ *([0-9]+)\. ]]; then
    echo "${BASH_REMATCH[2]}"
  elif has_libcuda; then # no nvidia-smi, as in a Jetson's container: ask libcuda as the node does
    text=$("${PYTHON:-python3}" -c 'import ctypes
version = ctypes.c_int()
assert ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version)) == 0
print(version.value // 1000)' 2>/dev/null) || true
    [[ ! $text =~ ^[0-9]+$ ]] || echo "$text"
  fi
}

# True if this machine's driver runs the code of an nvcc of this CUDA, or if that is unknown.
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

# Sets `nvcc` to the first working compiler, and `cuda` to its major version. It prefers one that fits the
# driver. Fails if no compiler works.
find_nvcc() {
  local candidate found
  nvcc=
  if [ -n "${NVCC:-}" ]; then
    { nvcc=$(command -v "$NVCC") && works "$nvcc"; } ||
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

# A Jetson's driver is part of JetPack, and JetPack also has the nvcc that fits.
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
  if ! "${PYTHON:-python3}" -m venv .cuda || ! download; then
    fail 'could not install nvcc (above); ROBOCACHE_CUDA=off make build builds without CUDA'
  fi
  cp "$pins" .cuda/installed.txt
  find_nvcc || fail 'the nvcc from PyPI does not work here (above); it needs a C++ compiler'
}

# Downloads the pinned nvcc, up to three times while the package index does not answer. pip itself gives up after seconds.
download() {
  local try said
  for try in 1 2 3; do
    said=$(.cuda/bin/python3 -m pip install --quiet --disable-pip-version-check --no-input -r "$pins" 2>&1) && return
    printf '%s\n' "$said" >&2
    grep -qE 'connection broken by|Max retries exceeded|timed out|IncompleteRead|HTTP error (429|5)' <<<"$said" || return
    [ "$try" -eq 3 ] || { say 'the package index was not reachable: again in 20 s'; sleep 20; }
  done
  say 'ENVIRONMENT: the package index was not reachable, three times'
  return 1
}

# True if an nvcc can build for the GPU; otherwise says why not.
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
or build for the CPU alone:           ROBOCACHE_CUDA=off make build"
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
      on) echo cuda ;;
      auto) ! usable_nvcc || echo cuda ;;
    esac
    ;;
  *) fail "expected get, find, prepare or features, found '$1'" ;;
esac
