#!/usr/bin/env bash
# Compiles and tests for 64-bit ARM on another machine. It needs no root.
#
#   scripts/arm64.sh rust    print a rustc that compiles for 64-bit ARM: this machine's, if it has the standard
#                            library (rustup target add aarch64-unknown-linux-gnu). Otherwise Debian's, which
#                            apt downloads into .arm64/rust (600 MB). It changes nothing of the system
#   scripts/arm64.sh test    run the tests of the crates and of the wheel under qemu, bounded in time
#                            (make test-arm64). Its steps, which may be run alone: tools, system, crates, wheel.
#                            The last two take arguments of cargo test and pytest. The wheel: ARM64_WHEEL, otherwise
#                            the newest in dist/
#
# The tests need qemu-aarch64-static (Debian's qemu-user-static) and a Python for ARM, Debian's in .arm64/system. The
# golden files are those of x86-64: a bit that differs fails a test.
#
# Environment: PYTHON (makes .arm64/tools), CARGO_TARGET_DIR (default: build/arm64), ARM64_SECONDS (bound of each step's
# tests, default 3600).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

target=aarch64-unknown-linux-gnu
folder=$PWD/.arm64
# Debian's release of the Python, and the suite with a rustc that Cargo.toml's rust-version accepts.
release=trixie
suite=$release-backports
qemu='qemu-aarch64-static'

say() { printf 'arm64: %s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# --- Debian's packages, unpacked into folders of this repository -----------------------------------------------------

# Writes a configuration of apt that has its own lists and no installed packages but the compiler's, which this machine
# has. The mirror is that of the machine's own sources.
prepare_apt() {
  export APT_CONFIG=$folder/apt/apt.conf
  [ -e "$folder/apt/ready" ] && return
  local mirror key=/usr/share/keyrings/debian-archive-keyring.gpg package name
  command -v apt-get dpkg-deb >/dev/null || fail "expected apt and dpkg, or: rustup target add $target"
  # shellcheck disable=SC2016 # apt replaces these
  mirror=$(env -u APT_CONFIG apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
    grep '^Debian ' | grep -v -m 1 -- '-security' | cut -d' ' -f2) || true
  [ -n "$mirror" ] ||
    fail "expected the lists of a Debian (apt-get update), or: rustup target add $target"
  say "reading the lists of Debian's $release and $suite"
  rm -rf "$folder/apt"
  mkdir -p "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
  [ -e "$key" ] || fail "expected $key, from the package debian-archive-keyring"
  for name in "$release" "$suite"; do
    echo "deb [signed-by=$key] $mirror $name main"
  done >"$folder/apt/sources.list"
  for package in gcc binutils libc6-dev; do
    printf '%s\n' "Package: $package" 'Status: install ok installed' 'Architecture: amd64' 'Version: 99' \
      'Maintainer: none' 'Provides: libc-dev' 'Description: that of this machine' ''
  done >"$folder/apt/status"
  cat >"$APT_CONFIG" <<END
APT::Architecture "amd64";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Etc::SourceList "$folder/apt/sources.list";
Dir::Etc::SourceParts "/dev/null";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "/dev/null";
Dir::State "$folder/apt";
Dir::State::Lists "$folder/apt/lists";
Dir::State::status "$folder/apt/status";
Dir::Cache "$folder/apt/cache";
END
  apt-get -qq update
  touch "$folder/apt/ready"
}

# unpack PLACE PATTERN: unpacks the downloaded packages whose file names match into a folder.
unpack() {
  local package
  for package in "$folder"/apt/cache/archives/*.deb; do
    # shellcheck disable=SC2053 # a pattern
    [[ ${package##*/} != $2 ]] || dpkg-deb --extract "$package" "$1"
  done
}

download() { apt-get -qq --yes --download-only --no-install-recommends install "$@" >&2; }

# --- Rust ------------------------------------------------------------------------------------------------------------

has_library() { compgen -G "$("$1" --print target-libdir --target $target)/libstd-*.rlib" >/dev/null; }

rust() {
  local rustc=$folder/rustc loader='lib64/ld-linux-x86-64.so.2'
  if has_library rustc; then
    command -v rustc
    return
  fi
  if [ ! -x "$rustc" ]; then
    [ "$(uname -m)" = x86_64 ] || fail "expected Rust's standard library: rustup target add $target"
    prepare_apt
    say "downloading Debian's rustc and its standard library for ARM. A Rust of rustup needs less: rustup target add $target"
    download --target-release "$suite" rustc
    (cd "$folder/apt/cache/archives" && apt-get -qq download "libstd-rust-dev:arm64/$suite" >&2)
    rm -rf "$folder/rust"
    unpack "$folder/rust" '*_amd64.deb'
    unpack "$folder/rust" 'libstd-rust-dev_*_arm64.deb'
    # Its own loader and libraries, because this machine's may be older.
    printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s" "$@"\n' "$folder/rust/usr/$loader" \
      "$folder/rust/usr/lib/x86_64-linux-gnu" "$folder/rust/usr/bin/rustc" >"$rustc"
    chmod +x "$rustc"
    has_library "$rustc" || { rm "$rustc"; fail "Debian's rustc does not compile for ARM (above)"; }
  fi
  echo "$rustc"
}

# --- Tests under qemu ------------------------------------------------------------------------------------------------

# What the tests of the wheel need, with the versions of the other tests.
needed() {
  grep -E '^(pillow|pytest|pytest-timeout|xxhash|rosbags|mcap|mcap-ros2-support|zarr|xarray|imagecodecs|h5py|protobuf|google-crc32c|pyarrow|scipy)==' \
    scripts/requirements-test.txt
  grep -E '^(numpy|pyyaml)==' scripts/requirements-ros.txt
}

# download_wheels FOLDER PACKAGE...: wheels for ARM, of Debian's Python.
download_wheels() {
  local version
  version=$(basename "$folder"/system/usr/bin/python3.*)
  "$folder/tools/bin/pip" download --quiet --disable-pip-version-check --only-binary=:all: --implementation cp \
    --python-version "${version#python}" --platform manylinux_2_28_aarch64 --platform manylinux_2_17_aarch64 \
    --platform manylinux2014_aarch64 --dest "$@"
}

tools() {
  cmp -s scripts/requirements-arm64.txt "$folder/tools/installed.txt" && return
  rm -rf "$folder/tools"
  "${PYTHON:-python3}" -m venv "$folder/tools"
  "$folder/tools/bin/pip" install --quiet --disable-pip-version-check -r scripts/requirements-arm64.txt
  cp scripts/requirements-arm64.txt "$folder/tools/installed.txt"
}

# A Python for ARM with its libraries, and .arm64/python and .arm64/robocache, which run it and the wheel's command under
# qemu. A program that they start is one of this machine, so these two stand for Python and the command.
system() {
  local python=$folder/python wheel
  if [ ! -e "$folder/system/ready" ]; then
    prepare_apt
    say "downloading Debian's Python for ARM"
    rm -rf "$folder/system" "$folder/apt/cache/archives"/*_a{rm64,ll}.deb
    download python3-minimal:arm64 libpython3-stdlib:arm64 libstdc++6:arm64
    unpack "$folder/system" '*_a@(rm64|ll).deb'
    ln -s usr/lib "$folder/system/lib"
    touch "$folder/system/ready"
  fi
  cat >"$python" <<END
#!/bin/sh
export PYTHONHOME="$folder/system/usr" PYTHONPATH="$folder/wheel:$folder/packages\${PYTHONPATH:+:\$PYTHONPATH}"
exec $qemu -L "$folder/system" -0 "$python" "$(echo "$folder"/system/usr/bin/python3.*)" "\$@"
END
  printf '#!/bin/sh\nexec "%s" -m robocache "$@"\n' "$python" >"$folder/robocache"
  chmod +x "$python" "$folder/robocache"
  if [ "$(needed)" != "$(cat "$folder/packages/installed.txt" 2>/dev/null)" ]; then
    say 'installing the packages of the tests for ARM'
    rm -rf "$folder/packages" "$folder/wheels"
    # shellcheck disable=SC2046 # a list
    download_wheels "$folder/wheels" $(needed)
    for wheel in "$folder"/wheels/*.whl; do
      python3 -m zipfile -e "$wheel" "$folder/packages"
    done
    needed >"$folder/packages/installed.txt"
  fi
}

# The tests of the crates below the node. Those that start programs or measure times are left out.
test_crates() {
  local cuda
  cuda=$(scripts/cuda.sh features 2>/dev/null) # as for the wheel, so that both share what is compiled
  export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="$qemu -L $folder/system"
  export ROBOCACHE_TEST_CASES=${ROBOCACHE_TEST_CASES:-200} PROPTEST_CASES=${PROPTEST_CASES:-32}
  local command=(cargo-zigbuild test --release --locked --target "$target.2.28"
    -p robocache_ops -p robocache_core -p robocache_data
    --features "robocache_core/nasm${cuda:+,robocache_core/$cuda}" --lib --test core)
  # The bound is for the tests. How long the compiler takes depends on what else the machine does.
  PATH="$folder/tools/bin:$PATH" "${command[@]}" --no-run
  PATH="$folder/tools/bin:$PATH" timeout "${ARM64_SECONDS:-3600}" "${command[@]}" "$@"
}

# The tests of the Python package that need neither ROS nor torch, and start no shell script or compiler.
wheel_tests=$(printf 'tests/python/test_%s.py ' golden decode same_bits encoders operations sampler windows \
  cache_arrays pipeline replay_time stores jpeg_rows import_rlds import_hdf5)

test_wheel() {
  local wheel
  # shellcheck disable=SC2012 # our own names
  wheel=${ARM64_WHEEL:-$(ls -t dist/*manylinux*_aarch64.whl dist/without-cuda/*manylinux*_aarch64.whl 2>/dev/null | head -n 1 || true)}
  [ -n "$wheel" ] || fail 'expected a wheel in dist/: make wheel TARGET=aarch64'
  # An old wheel would prove nothing.
  [ -n "${ARM64_WHEEL:-}" ] || [ "$(stat -c %Y "$wheel")" -ge "$(git log -1 --format=%ct 2>/dev/null || echo 0)" ] ||
    fail "$wheel is older than the last commit: make wheel TARGET=aarch64, or name it by ARM64_WHEEL"
  say "testing $wheel"
  rm -rf "$folder/wheel"
  python3 -m zipfile -e "$wheel" "$folder/wheel"
  # shellcheck disable=SC2086 # a list
  [ $# -gt 0 ] || set -- $wheel_tests
  ROBOCACHE=$folder/robocache timeout "${ARM64_SECONDS:-3600}" "$folder/python" -m pytest -q -p no:cacheprovider \
    --timeout 900 "$@"
}

shopt -s extglob
case "${1:-}" in
  rust | tools | system) "$1" ;;
  crates | wheel)
    command -v "$qemu" >/dev/null || fail "expected $qemu: apt install qemu-user-static"
    RUSTC=$(rust)
    export RUSTC CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$PWD/build/arm64}
    "test_$1" "${@:2}"
    ;;
  test)
    . scripts/phases.sh
    for step in tools system; do
      needed_phase "$step" scripts/arm64.sh "$step"
    done
    # Each bounds its tests itself.
    for step in crates wheel; do
      limit_s=0 phase "tests of the $step" scripts/arm64.sh "$step"
    done
    summary
    ;;
  *) fail "expected rust, test or a step of it (tools, system, crates, wheel), found '${1:-}'" ;;
esac
