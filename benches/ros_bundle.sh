#!/usr/bin/env bash
# Packs the node and its ROS runtime for a machine without ROS: build/ros_bundle.tar.xz, about 15 MB.
#
#   benches/ros_bundle.sh          after `make build`
#
# On that machine, unpack it, source env.sh in its folder, and run bin/fusion_node and bin/robocache_load. The
# machine needs the same architecture, and a glibc at least as new as that of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
set +u # the set-up scripts of ROS read variables that may not be set
. .ros/env.sh
. install/local_setup.bash
set -u

bundle=build/ros_bundle
rm -rf "$bundle" "$bundle.tar.xz"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/share"

cargo build --release --locked -p robocache_bench --features ros --bin robocache_load \
  --target-dir build/robocache_ros/cargo
cp install/robocache_ros/lib/robocache_ros/{fusion_node,sensor_sim} build/robocache_ros/cargo/release/robocache_load \
  "$bundle/bin/"
strip --strip-debug "$bundle"/bin/*

# The middleware is loaded by name, and so are the descriptions of the message types.
packages=(builtin_interfaces std_msgs geometry_msgs nav_msgs sensor_msgs diagnostic_msgs
  lifecycle_msgs rcl_interfaces rosgraph_msgs robocache_ros rmw_dds_common service_msgs std_srvs
  type_description_interfaces)
find_library() { # the first file of this name in the prefixes
  local folder
  for folder in ${LD_LIBRARY_PATH//:/ }; do
    if [ -e "$folder/$1" ]; then echo "$folder/$1" && return; fi
  done
}
roots=("$bundle"/bin/* "$(find_library librmw_fastrtps_cpp.so)")
for package in "${packages[@]}"; do
  for kind in rosidl_typesupport_c rosidl_typesupport_fastrtps_c rosidl_typesupport_introspection_c \
    rosidl_typesupport_fastrtps_cpp rosidl_typesupport_cpp; do
    library=$(find_library "lib${package}__$kind.so")
    [ -n "$library" ] && roots+=("$library")
  done
done
for file in "${roots[@]}"; do
  case $file in "$bundle"/bin/*) ;; *) echo "$file" ;; esac
  ldd "$file" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p'
done | sort -u | grep -vE '/(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|ld-linux[^/]*)\.so' |
  while read -r file; do cp -Ln "$file" "$bundle/lib/"; done
strip --strip-debug "$bundle"/lib/*.so* 2>/dev/null || true

# Where programs look for packages.
for prefix in ${AMENT_PREFIX_PATH//:/ }; do
  [ -d "$prefix/share/ament_index" ] && cp -rn "$prefix/share/ament_index" "$bundle/share/"
done
mkdir -p "$bundle/share/robocache_ros"
cp -r config "$bundle/share/robocache_ros/"
cat >"$bundle/env.sh" <<'ENV'
bundle=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
export AMENT_PREFIX_PATH=$bundle LD_LIBRARY_PATH=$bundle/lib:${LD_LIBRARY_PATH:-}
export RMW_IMPLEMENTATION=rmw_fastrtps_cpp ROS_DISTRO=jazzy
ENV
tar -C build -cJf "$bundle.tar.xz" ros_bundle
du -h "$bundle.tar.xz"
