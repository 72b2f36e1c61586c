# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the caller has set `repo`, and uses the others
# Names the folders of a ROS. Scripts source it, after they have set `repo`.
#
# ROBOCACHE_ROS says which ROS comes from wheels: jazzy (the default) or kilted. Each has folders of its own, so that
# both can be there. A sourced ROS uses those of jazzy.
#
# ROBOCACHE_PROFILE is the profile of cargo: release (the default), what is used and shipped; or dev, with checks of
# arithmetic, what `make test` tests. It has folders of its own, so that tests never replace an install that is in use.
: "${ROBOCACHE_ROS:=jazzy}"
export ROBOCACHE_ROS
# If .ros is a link, its target: several working trees may share it, and its files hold paths.
ros_root=$(readlink -f "$repo/.ros")
case $ROBOCACHE_ROS in
  jazzy) ros_dir=$ros_root build_dir=build install_dir=install ;;
  kilted) ros_dir=$ros_root/kilted build_dir=build/kilted install_dir=install/kilted ;;
  *)
    echo "ROBOCACHE_ROS: expected jazzy or kilted, found $ROBOCACHE_ROS" >&2
    exit 1
    ;;
esac
: "${ROBOCACHE_PROFILE:=release}"
export ROBOCACHE_PROFILE
case $ROBOCACHE_PROFILE in
  release) cargo_dir=$build_dir/robocache_ros/cargo cargo_out=release ;;
  dev)
    build_dir=$build_dir/dev install_dir=$install_dir/dev cargo_out=debug
    # The folder of plain cargo: crates of others are compiled once for both.
    cargo_dir=target
    [ "$ROBOCACHE_ROS" = jazzy ] || cargo_dir=$build_dir/robocache_ros/cargo
    ;;
  *)
    echo "ROBOCACHE_PROFILE: expected release or dev, found $ROBOCACHE_PROFILE" >&2
    exit 1
    ;;
esac
cargo_dir=${CARGO_TARGET_DIR:-$cargo_dir}
case $cargo_dir in /*) ;; *) cargo_dir=$repo/$cargo_dir ;; esac

# The package in the source tree gets the compiled part of this build, if there is one: programs of this repository import
# the package from there.
link_extension() {
  local link=$repo/python/robocache/_native.abi3.so built
  built=$(readlink -f "$cargo_dir/$cargo_out/lib_native.so") && [ -e "$built" ] || return 0
  [ "$(readlink "$link")" != "$built" ] || return 0
  # In one step, because another program may import it now.
  ln -sfn "$built" "$link.$$" && mv -T "$link.$$" "$link"
}
