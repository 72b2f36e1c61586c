# Builds the executables with cargo.
#
# They load this package's messages by their names at run time, so cargo needs only those message
# packages that .cargo/config.toml lists.
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

set(ROBOCACHE_PROFILE release CACHE STRING "Profile of cargo: release, or dev for the tests")
if(ROBOCACHE_PROFILE STREQUAL "release")
  set(cargo_out release)
elseif(ROBOCACHE_PROFILE STREQUAL "dev")
  set(cargo_out debug)
else()
  message(FATAL_ERROR "robocache_ros: ROBOCACHE_PROFILE: expected release or dev, found ${ROBOCACHE_PROFILE}")
endif()

set(cargo_target_dir ${CMAKE_CURRENT_BINARY_DIR}/cargo)
if(NOT "$ENV{CARGO_TARGET_DIR}" STREQUAL "")
  get_filename_component(cargo_target_dir "$ENV{CARGO_TARGET_DIR}" ABSOLUTE
    BASE_DIR ${CMAKE_CURRENT_SOURCE_DIR})
endif()

# An earlier install of this package alone is left out: r2r compiles again if a name in this list
# changes, and needs nothing from there.
string(REPLACE ":" ";" prefixes "$ENV{AMENT_PREFIX_PATH}")
set(cargo_ament_prefix_path "")
foreach(prefix ${prefixes})
  file(GLOB packages RELATIVE ${prefix}/share/ament_index/resource_index/packages
    ${prefix}/share/ament_index/resource_index/packages/*)
  if(NOT "${packages}" STREQUAL "${PROJECT_NAME}")
    list(APPEND cargo_ament_prefix_path ${prefix})
  endif()
endforeach()
string(REPLACE ";" ":" cargo_ament_prefix_path "${cargo_ament_prefix_path}")

# cargo identifies a crate by its path, so a link in a workspace would make it another crate.
get_filename_component(crate_dir ${CMAKE_CURRENT_SOURCE_DIR} REALPATH)
configure_file(cmake/cargo.sh.in ${CMAKE_CURRENT_BINARY_DIR}/cargo.sh @ONLY)

# Each executable is split: its debug information goes into a file of its own, which debuggers and
# backtraces find by its name in the executable. The names of functions stay in the executable.
set(executables fusion_node sensor_sim robocache)
set(split_dir ${CMAKE_CURRENT_BINARY_DIR}/split)
set(split_commands COMMAND ${CMAKE_COMMAND} -E make_directory ${split_dir})
foreach(name ${executables})
  set(built ${cargo_target_dir}/${cargo_out}/${name})
  if(CMAKE_OBJCOPY)
    list(APPEND split_commands
      COMMAND ${CMAKE_OBJCOPY} --only-keep-debug --compress-debug-sections=zlib
        ${built} ${split_dir}/${name}.debug
      COMMAND ${CMAKE_OBJCOPY} --strip-debug --add-gnu-debuglink=${split_dir}/${name}.debug
        ${built} ${split_dir}/${name})
  else()
    list(APPEND split_commands COMMAND ${CMAKE_COMMAND} -E copy ${built} ${split_dir}/${name})
  endif()
endforeach()
add_custom_target(${PROJECT_NAME}_executables ALL
  COMMAND sh ${CMAKE_CURRENT_BINARY_DIR}/cargo.sh build
  ${split_commands}
  COMMENT "cargo build --profile ${ROBOCACHE_PROFILE}"
  VERBATIM)

# The compiled part of the Python package. Its name says that every CPython from 3.10 on loads it.
set(extension ${cargo_target_dir}/${cargo_out}/lib_native.so)
if(CMAKE_OBJCOPY)
  add_custom_command(TARGET ${PROJECT_NAME}_executables POST_BUILD
    COMMAND ${CMAKE_OBJCOPY} --strip-debug ${extension} ${split_dir}/_native.abi3.so VERBATIM)
else()
  add_custom_command(TARGET ${PROJECT_NAME}_executables POST_BUILD
    COMMAND ${CMAKE_COMMAND} -E copy ${extension} ${split_dir}/_native.abi3.so VERBATIM)
endif()
install(FILES ${split_dir}/_native.abi3.so DESTINATION ${PYTHON_INSTALL_DIR}/robocache)

foreach(name ${executables})
  install(PROGRAMS ${split_dir}/${name} DESTINATION lib/${PROJECT_NAME})
  install(FILES ${split_dir}/${name}.debug DESTINATION lib/${PROJECT_NAME}/.debug OPTIONAL)
  # For use without `ros2 run`.
  install(CODE "
    set(link \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin/${name}\")
    file(MAKE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/bin\")
    file(REMOVE \"\${link}\")
    file(CREATE_LINK ../lib/${PROJECT_NAME}/${name} \"\${link}\" SYMBOLIC)")
endforeach()
