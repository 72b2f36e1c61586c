#!/usr/bin/env bash
# Makes CycloneDDS ready as the middleware of the tests: `scripts/cyclonedds.sh`, after scripts/setup.sh.
# It writes `cyclonedds.env` into the folder of the set-up. With ROBOCACHE_RMW=cyclonedds, scripts/with_ros.sh sources it.
# The sourced ROS must have rmw_cyclonedds_cpp, because no wheel of PyPI has it.
set -euo pipefail
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
. "$repo/scripts/ros_folders.sh"
[ -e "$ros_dir/env.sh" ] || { echo 'cyclonedds: run scripts/setup.sh first' >&2; exit 1; }
set +u
. "$ros_dir/env.sh"
set -u

fail() { printf 'cyclonedds: error: %s\n' "$*" >&2; exit 1; }

# True if this ROS has the middleware.
installed() {
  local folder
  local -a folders
  IFS=: read -ra folders <<<"$AMENT_PREFIX_PATH"
  for folder in "${folders[@]}"; do
    [ ! -e "$folder/share/rmw_cyclonedds_cpp/package.xml" ] || return 0
  done
  return 1
}

write_env() {
  cat <<END
# Chooses CycloneDDS. Source it after the environment of ROS. scripts/cyclonedds.sh writes it.
export RMW_IMPLEMENTATION=rmw_cyclonedds_cpp
# All traffic is on the loopback interface, which CycloneDDS by itself does not choose.
export CYCLONEDDS_URI='file://$repo/config/cyclonedds.xml,<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces></General></Domain></CycloneDDS>'
unset FASTRTPS_DEFAULT_PROFILES_FILE FASTDDS_DEFAULT_PROFILES_FILE
END
}

distro=${ROS_DISTRO:-jazzy}
installed || fail "this ROS ($distro) has no rmw_cyclonedds_cpp. Install it, source that ROS, and call make again:
  sudo apt install ros-$distro-rmw-cyclonedds-cpp && . /opt/ros/$distro/setup.bash"
# config/cyclonedds.xml asks for a receive buffer of 4 MB, and no process starts without it.
limit=$(cat /proc/sys/net/core/rmem_max)
[ "$limit" -ge 4194304 ] ||
  fail "expected net.core.rmem_max of 4194304 or more, found $limit: sudo sysctl -w net.core.rmem_max=4194304"
write_env >"$ros_dir/cyclonedds.env"
