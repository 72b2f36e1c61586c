# Builds the executables with cargo, against the messages that this build generates.
#
# r2r finds message packages in the prefixes of AMENT_PREFIX_PATH. So this build copies the new
# messages into such a prefix inside cargo's target folder. r2r's build scripts run again only if
# the *name* of a prefix changes, so the name holds a hash of the messages. Then a changed message
# causes a new build, and another workspace with the same target folder does not.
#
# The node is built with CUDA if scripts/cuda.sh finds an nvcc. This file installs nothing for it.
#
# Environment: CARGO_TARGET_DIR (default: cargo/ in the build folder), CARGO_FLAGS (more
# arguments for cargo build), ROBOCACHE_CUDA (auto, on or off), NVCC, CUDA_HOME, and the variables
# of cargo itself (CARGO_NET_OFFLINE, RUSTFLAGS).

find_program(CARGO_EXECUTABLE cargo HINTS $ENV{CARGO_HOME}/bin $ENV{HOME}/.cargo/bin)
if(NOT CARGO_EXECUTABLE)
  message(FATAL_ERROR "robocache_ros: cargo was not found on PATH nor in ~/.cargo/bin. "
    "Install Rust (https://rustup.rs), or build the messages alone with "
    "--cmake-args -DROBOCACHE_MESSAGES_ONLY=ON")
endif()
if("$ENV{ROS_DISTRO}" STREQUAL "" OR "$ENV{AMENT_PREFIX_PATH}" STREQUAL "")
  message(FATAL_ERROR "robocache_ros: ROS_DISTRO or AMENT_PREFIX_PATH is not set. "
    "Source a ROS 2 first, or the repository's .ros/env.sh")
endif()

set(cargo_target_dir ${CMAKE_CURRENT_BINARY_DIR}/cargo)
if(NOT "$ENV{CARGO_TARGET_DIR}" STREQUAL "")
  get_filename_component(cargo_target_dir "$ENV{CARGO_TARGET_DIR}" ABSOLUTE
    BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
endif()

set(all_messages "")
foreach(message_file ${message_files})
  file(READ ${message_file} content)
  string(APPEND all_messages "${message_file}\n${content}\n")
endforeach()
string(SHA256 messages_hash "${all_messages}")
string(SUBSTRING ${messages_hash} 0 12 messages_hash)
set(staging_prefix ${cargo_target_dir}/messages-${messages_hash})

# A prefix that holds only an earlier install of this package is left out: it would only change the
# names.
string(REPLACE ":" ";" prefixes "$ENV{AMENT_PREFIX_PATH}")
set(cargo_ament_prefix_path ${staging_prefix})
foreach(prefix ${prefixes})
  file(GLOB packages RELATIVE ${prefix}/share/ament_index/resource_index/packages
    ${prefix}/share/ament_index/resource_index/packages/*)
  if(NOT "${packages}" STREQUAL "${PROJECT_NAME}")
    string(APPEND cargo_ament_prefix_path ":${prefix}")
  endif()
endforeach()

set(staged_libraries "")
set(message_targets ${PROJECT_NAME})
foreach(part generator_c typesupport_c typesupport_introspection_c typesupport_fastrtps_c)
  if(TARGET ${PROJECT_NAME}__rosidl_${part})
    list(APPEND staged_libraries $<TARGET_FILE:${PROJECT_NAME}__rosidl_${part}>)
    list(APPEND message_targets ${PROJECT_NAME}__rosidl_${part})
  endif()
endforeach()
set(index share/ament_index/resource_index/rosidl_interfaces)
# r2r reads lib, include, and the index of the packages that have messages.
add_custom_target(${PROJECT_NAME}_staging
  COMMAND ${CMAKE_COMMAND} -E make_directory ${staging_prefix}/lib ${staging_prefix}/${index}
  COMMAND ${CMAKE_COMMAND} -E copy_if_different ${staged_libraries} ${staging_prefix}/lib
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_CURRENT_BINARY_DIR}/rosidl_generator_c
    ${CMAKE_CURRENT_BINARY_DIR}/rosidl_typesupport_introspection_c
    ${staging_prefix}/include/${PROJECT_NAME}
  COMMAND ${CMAKE_COMMAND} -E copy_directory
    ${CMAKE_CURRENT_BINARY_DIR}/ament_cmake_index/${index} ${staging_prefix}/${index}
  VERBATIM)
add_dependencies(${PROJECT_NAME}_staging ${message_targets})

# cargo identifies a crate by its path, so a link in a workspace would make it another crate.
get_filename_component(crate_dir ${CMAKE_CURRENT_SOURCE_DIR} REALPATH)
configure_file(cmake/cargo.sh.in ${CMAKE_CURRENT_BINARY_DIR}/cargo.sh @ONLY)
add_custom_target(${PROJECT_NAME}_executables ALL
  COMMAND sh ${CMAKE_CURRENT_BINARY_DIR}/cargo.sh build --release --bins
  COMMENT "cargo build --release"
  VERBATIM)
add_dependencies(${PROJECT_NAME}_executables ${PROJECT_NAME}_staging)

install(PROGRAMS
  ${cargo_target_dir}/release/fusion_node
  ${cargo_target_dir}/release/sensor_sim
  ${cargo_target_dir}/release/robocache
  DESTINATION lib/${PROJECT_NAME})
# For use without `ros2 run`.
install(PROGRAMS
  ${cargo_target_dir}/release/fusion_node
  ${cargo_target_dir}/release/sensor_sim
  ${cargo_target_dir}/release/robocache
  DESTINATION bin)
