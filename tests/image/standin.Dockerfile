# The image in place of ros:jazzy where only Debian's mirror and PyPI are reached: Debian with the ROS of `make setup`, at
# the place and with the environment of ros:jazzy. standins.py builds it.
ARG BASE
FROM ${BASE}
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt ROS_DISTRO=jazzy
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y g++ git make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
# Only what the set-up reads, so that this layer outlives changes of the code.
COPY config/fastdds.xml /opt/standin/config/
COPY scripts/setup.sh scripts/ros_folders.sh scripts/requirements-ros.txt /opt/standin/scripts/
# The set-up asks for a cargo, but does not call it. Without interfaces it warns: ros:jazzy lacks some, too, and the build of
# the node makes them.
RUN mkdir /opt/standin/bin /opt/standin/interfaces \
    && touch /opt/standin/scripts/requirements-test.txt \
    && ln -s /bin/false /opt/standin/bin/cargo \
    && PATH=/opt/standin/bin:$PATH bash /opt/standin/scripts/setup.sh \
    && rm -rf /opt/standin/bin /root/.cache \
    && mkdir -p /opt/ros/jazzy \
    && { grep -v interfaces /opt/standin/.ros/env.sh; \
         echo 'unset FASTRTPS_DEFAULT_PROFILES_FILE FASTDDS_DEFAULT_PROFILES_FILE ROS_AUTOMATIC_DISCOVERY_RANGE'; \
         echo 'unset LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS VIRTUAL_ENV'; \
       } >/opt/ros/jazzy/setup.bash
