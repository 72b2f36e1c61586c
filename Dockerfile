# The images of robocache. docs/deploy.md says how to run them.
#
#   docker build -t robocache .                          the node, sensor_sim and the command line, on ROS 2
#   docker build -t robocache-policy --target policy .   a policy in Python without ROS
#
# The images contain no CUDA: the kernels are in the node, and the driver comes from the host.
#
# BASE: a ROS 2 with the tools that build packages. The node is compiled and run on it.
ARG BASE=ros:jazzy
# RUST: its compiler is taken from /usr/local/cargo and /usr/local/rustup.
ARG RUST=rust:1.95-slim
# POLICY_BASE: a Debian or Ubuntu whose glibc is not older than that of BASE.
ARG POLICY_BASE=ubuntu:24.04
# What the labels of both images say.
ARG VERSION=0.1.0
ARG REVISION=unknown

FROM ${RUST} AS rust

FROM ${BASE} AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# Without versions: a distribution's mirror keeps only the newest.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y libclang-dev nasm python3-venv \
    && rm -rf /var/lib/apt/lists/*
COPY --from=rust /usr/local/rustup /usr/local/rustup
COPY --from=rust /usr/local/cargo /usr/local/cargo
ENV CARGO_HOME=/usr/local/cargo RUSTUP_HOME=/usr/local/rustup PATH=/usr/local/cargo/bin:$PATH
# The folder that the package is installed in, also in the image of the node.
WORKDIR /opt/robocache
COPY . .
# on: with kernels for GPUs. scripts/cuda.sh installs the compiler for them from PyPI.
ARG ROBOCACHE_CUDA=off
# Only downloads are kept between builds. Kept objects of another commit could pass for those of this one, because
# cargo compares times of files.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    . "/opt/ros/$ROS_DISTRO/setup.bash" \
    && scripts/build.sh \
    && rm -rf install/robocache_ros/lib/robocache_ros/.debug \
    && python3 scripts/third_party.py --node install \
    && mkdir install/interfaces \
    && find .ros -maxdepth 1 -type d -name 'interfaces.*' -exec cp -a {}/. install/interfaces \;

FROM ${POLICY_BASE} AS policy
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends -y python3-minimal python3-numpy \
    && rm -rf /var/lib/apt/lists/*
COPY LICENSE /opt/robocache/
COPY --from=build /opt/robocache/install/THIRD_PARTY.txt /opt/robocache/
COPY --from=build /opt/robocache/install/robocache_ros/lib/python3*/site-packages/robocache /opt/robocache/robocache
COPY examples/policy_without_ros.py /opt/robocache/
ENV PYTHONPATH=/opt/robocache PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
# The user of the node: nobody else may read its tensors.
ARG UID=1000
USER ${UID}:${UID}
# Python ends on SIGINT with its last words. As the first process of a container it would ignore SIGTERM.
STOPSIGNAL SIGINT
CMD ["python3", "/opt/robocache/policy_without_ros.py", "robot/fused_tensor"]
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="robocache-policy" \
      org.opencontainers.image.description="A policy in Python that reads robocache's tensors in shared memory" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# The last stage is what is built if no --target is given.
FROM ${BASE} AS node
COPY LICENSE docker/entrypoint.sh docker/health.sh /opt/robocache/
COPY --from=build /opt/robocache/install /opt/robocache/install
# /tmp is all that a container writes, beside /dev/shm: the root may be read-only.
ENV HOME=/tmp ROS_HOME=/tmp/ros ROBOCACHE_HEALTH_FILE=/tmp/robocache_health PYTHONDONTWRITEBYTECODE=1
# What the container toolkit of NVIDIA puts into the container, if a GPU is asked for.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
ARG UID=1000
USER ${UID}:${UID}
ENTRYPOINT ["/opt/robocache/entrypoint.sh"]
CMD ["fusion_node", "--help"]
# The node reports once per second. Two failures in a row make the container unhealthy.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s --retries=2 CMD ["/opt/robocache/health.sh"]
ARG VERSION
ARG REVISION
LABEL org.opencontainers.image.title="robocache" \
      org.opencontainers.image.description="Every sensor of a robot at the same instants, in one tensor per control tick" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
