# The image that stands in for ros:jazzy where only Debian's mirror and PyPI are reached: Debian with the ROS of
# `make setup`, at the place and with the environment of ros:jazzy. run.py builds it.
ARG BASE
FROM ${BASE}
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt ROS_DISTRO=jazzy
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y g++ git make python3-dev python3-venv \
    && rm -rf /var/lib/apt/lists/*
# Only what `make setup` reads, so that this layer outlives changes of the code.
COPY config/fastdds.xml /opt/standin/config/
COPY interfaces /opt/standin/interfaces
COPY scripts/setup.sh scripts/requirements-ros.txt scripts/requirements-test.txt /opt/standin/scripts/
# The set-up asks for a cargo and does not call it. It knows interfaces that ros:jazzy lacks: the build makes those.
RUN mkdir /opt/standin/bin && ln -s /bin/false /opt/standin/bin/cargo \
    && PATH=/opt/standin/bin:$PATH bash /opt/standin/scripts/setup.sh \
    && rm -rf /opt/standin/.ros/interfaces.* /opt/standin/bin /root/.cache \
    && mkdir -p /opt/ros/jazzy \
    && { grep -v interfaces /opt/standin/.ros/env.sh; \
         echo 'unset FASTRTPS_DEFAULT_PROFILES_FILE ROS_AUTOMATIC_DISCOVERY_RANGE LIBCLANG_PATH BINDGEN_EXTRA_CLANG_ARGS VIRTUAL_ENV'; \
       } >/opt/ros/jazzy/setup.bash
