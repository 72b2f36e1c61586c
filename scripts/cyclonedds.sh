#!/usr/bin/env bash
# Makes CycloneDDS ready as the middleware of the tests: `scripts/cyclonedds.sh`, after scripts/setup.sh.
# It writes a file `cyclonedds.env` into the folder of the set-up, which scripts/with_ros.sh sources if ROBOCACHE_RMW is
# cyclonedds.
#
# If the sourced ROS has rmw_cyclonedds_cpp, that is used. Otherwise this compiles Cyclone DDS and
# rmw_cyclonedds_cpp in two minutes, from archives in the folder CYCLONEDDS_SOURCES: cyclonedds-*.tar.* and
# rmw_cyclonedds-*.tar.*, the sources of releases/0.10.x of eclipse-cyclonedds/cyclonedds and of the branch of this ROS
# of ros2/rmw_cyclonedds.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$repo/scripts/ros_folders.sh"
[ -e "$ros_dir/env.sh" ] || { echo 'cyclonedds: run scripts/setup.sh first' >&2; exit 1; }
set +u
. "$ros_dir/env.sh"
set -u

work=$ros_dir/cyclonedds
prefix=$work/prefix
library=$prefix/lib/librmw_cyclonedds_cpp.so
sources=${CYCLONEDDS_SOURCES:-}
log=$work/build.log

fail() { printf 'cyclonedds: error: %s\n' "$*" >&2; exit 1; }

# Prints the prefix of this ROS that has the middleware, or nothing.
installed() {
  local folder
  local -a folders
  IFS=: read -ra folders <<<"$AMENT_PREFIX_PATH"
  for folder in "${folders[@]}"; do
    if [ -e "$folder/share/rmw_cyclonedds_cpp/package.xml" ]; then
      echo "$folder"
      return
    fi
  done
}

# Configures, compiles and installs the package $1 of the sources; the other arguments are those of CMake.
compile() {
  local name=$1 folder
  shift
  folder=$(grep -rlF --include=package.xml "<name>$name</name>" "$work/src" | head -n 1)
  [ -n "$folder" ] || fail "the archives in $sources have no package $name"
  # Each folder of an rpath is found also by a process without the environment of this ROS.
  cmake -S "$(dirname "$folder")" -B "$work/build/$name" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX="$prefix" -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_TESTING=OFF \
    -DCMAKE_INSTALL_RPATH="$prefix/lib;${LD_LIBRARY_PATH//:/;}" "$@" >>"$log" 2>&1 &&
    cmake --build "$work/build/$name" --target install --parallel "$(nproc)" >>"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail "$name does not compile (above: the end of $log)"
  }
}

build() {
  local archive
  rm -rf "$work"
  mkdir -p "$work/src" "$work/stub"
  for archive in "$@"; do
    tar -xf "$archive" -C "$work/src"
  done
  # The library alone: without the compiler of IDL, security and iceoryx, which would need more packages.
  compile cyclonedds -DBUILD_IDLC=OFF -DBUILD_DDSPERF=OFF -DBUILD_EXAMPLES=OFF -DBUILD_DOCS=OFF \
    -DENABLE_SSL=OFF -DENABLE_SECURITY=OFF -DENABLE_SHM=OFF
  # CMake's file of tracetools asks for lttng-ust, which the wheels have under another name. Nothing here
  # uses it, so an empty archive serves the linker.
  ar crs "$work/stub/liblttng-ust.a"
  compile rmw_cyclonedds_cpp -DCMAKE_PREFIX_PATH="$prefix;${CMAKE_PREFIX_PATH//:/;}" \
    -DPython3_EXECUTABLE="$(command -v python3)" -DCMAKE_SHARED_LINKER_FLAGS="-L$work/stub"
}

write_env() { # the preloaded library, or nothing
  cat <<END
# Chooses CycloneDDS. Source it after the environment of ROS. scripts/cyclonedds.sh writes it.
export RMW_IMPLEMENTATION=rmw_cyclonedds_cpp
# All traffic is on the loopback interface, which CycloneDDS by itself does not choose.
export CYCLONEDDS_URI='file://$repo/config/cyclonedds.xml,<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces></General></Domain></CycloneDDS>'
unset FASTRTPS_DEFAULT_PROFILES_FILE FASTDDS_DEFAULT_PROFILES_FILE
END
  [ -z "$1" ] || cat <<END
# The wheels link Fast DDS itself, so only a preloaded library comes before it.
export LD_PRELOAD='$1'
END
}

# config/cyclonedds.xml asks for a receive buffer of 4 MB, and no process starts without it.
limit=$(cat /proc/sys/net/core/rmem_max)
[ "$limit" -ge 4194304 ] ||
  fail "expected net.core.rmem_max of 4194304 or more, found $limit: sudo sysctl -w net.core.rmem_max=4194304"
if [ -n "$(installed)" ]; then
  write_env '' >"$ros_dir/cyclonedds.env"
  exit
fi
archives=("$sources"/cyclonedds-*.tar.* "$sources"/rmw_cyclonedds-*.tar.*)
for archive in "${archives[@]}"; do
  [ -e "$archive" ] || fail "this ROS has no rmw_cyclonedds_cpp, and CYCLONEDDS_SOURCES (${sources:-not set}) has no
  sources of it. Install ros-${ROS_DISTRO:-jazzy}-rmw-cyclonedds-cpp and source that ROS, or set CYCLONEDDS_SOURCES
  (scripts/cyclonedds.sh says which archives it must have)"
done
key=$(cat "${archives[@]}" <(declare -f compile build) <(echo "$AMENT_PREFIX_PATH $prefix") | cksum)
if [ "$(cat "$work/built" 2>/dev/null)" != "$key" ] || [ ! -e "$library" ]; then
  echo 'cyclonedds: compiling CycloneDDS (two minutes on two cores)' >&2
  build "${archives[@]}"
  echo "$key" >"$work/built"
fi
write_env "$library" >"$ros_dir/cyclonedds.env"
