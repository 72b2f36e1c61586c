# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154 # the caller has set `repo`, and uses the others
# Names the folders of a ROS. Scripts source it, after they have set `repo`.
#
# ROBOCACHE_ROS says which ROS comes from wheels: jazzy (the default) or kilted. Each has folders of its own, so that
# both can be there. A sourced ROS uses those of jazzy.
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
