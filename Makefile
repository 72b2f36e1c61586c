# The commands of the README and of CI. Each installs its needs into .ros/ and .cuda/ of this folder.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build test test-ros test-slow test-release test-torch test-lerobot test-tfds test-real test-rust simulate wheel test-wheel test-arm64 sdist kernels release-check golden-live demo record demo-lerobot bench bench-replay fuzz soak image-test check rehearse lint format clean distclean
# Targets run one at a time, because colcon and cargo use all cores by themselves.
.NOTPARALLEL:

help:
	@echo 'make build      build the release into install/; the first run sets up ROS. With CUDA if'
	@echo '                there is an nvcc or a GPU; ROBOCACHE_CUDA=off: never, =on: always'
	@echo 'make demo       run a robot, the node and a policy for 15 s, let a policy move an arm; write demo/report.html'
	@echo 'make record     record the simulated robot into recordings/, RECORD_SECONDS (20); 80 MB/s of disk'
	@echo 'make demo-lerobot  record a robot, train ACT by LeRobot on it, serve it, and compare; PYTHON: one'
	@echo '                that has LeRobot (default: that of make test-torch); takes five minutes'
	@echo 'make test       run the tests, also those with real ROS processes, on a build of their own with checks of arithmetic'
	@echo 'make test-slow  run those that are long, or about real time: 10 to 20 minutes'
	@echo 'make test-release  run those that need the release, the wheel or another build: 30 minutes'
	@echo 'make test-ros   run those with real ROS processes; RMW=cyclonedds: with CycloneDDS in place of Fast DDS, for a'
	@echo '                sourced ROS that has it (last run at ed5f1504, not tested since);'
	@echo '                ROS=kilted: with ROS 2 Kilted, which has folders of its own beside Jazzy'
	@echo 'make test-rust  run those of them that need only cargo and a C and C++ compiler'
	@echo 'make simulate   run new seeds of the simulated graph for SECONDS (600): the loops of a node, and faults; FROM: the'
	@echo '                first seed'
	@echo 'make wheel      build the wheel of the Python package into dist/; takes ten minutes. With'
	@echo '                ROBOCACHE_CUDA=off it is quicker: a wheel for the CPU alone, in dist/without-cuda/'
	@echo '                TARGET=aarch64: for 64-bit ARM, from x86-64; without a Rust for it, that of Debian is taken'
	@echo 'make test-wheel install the wheel of dist/ into an environment of its own, and compare its bits with the golden ones'
	@echo 'make test-arm64 run tests of the crates and of that wheel for 64-bit ARM under qemu; takes an hour'
	@echo 'make sdist      pack the sources of the Python package into dist/, for machines that compile them'
	@echo 'make release-check  check version, licences, sdist, SBOM, fuzz targets and workflows; TAG: that of the release,'
	@echo '                such as v0.2.0. The first run compiles cargo-deny'
	@echo 'make kernels    compile the CUDA kernels for every chip, and the CUDA twins; runs none'
	@echo 'make test-torch run the tests of the Python package with PyTorch; PYTHON: one that has what'
	@echo '                scripts/requirements-torch.txt names (default: 8 GB are installed in .torch)'
	@echo 'make test-lerobot  those of them that load and train with LeRobot: 0.4.4 if PYTHON is a 3.11 that'
	@echo '                has it, 0.6.1 if PYTHON is a 3.12'
	@echo 'make test-tfds  import a dataset that TensorFlow Datasets writes; PYTHON: one that has what'
	@echo '                scripts/requirements-tfds.txt names (default: 2 GB are installed in .tfds)'
	@echo 'make test-real  read published data (BridgeData V2, Unitree G1, SO-101, lidars, cameras) and compare each value with'
	@echo '                other readers; DATA: the folder that has them, or ROBOCACHE_REAL_DATA'
	@echo 'make golden-live  compare the resize filters with Pillow, OpenCV and torch on photographs, and'
	@echo '                undistortion with OpenCV; PYTHON: one that has them, see'
	@echo '                tests/golden/make_filter_golden.py'
	@echo 'make bench      compare the node with a peer written with rclpy and NumPy, time its commands, and then:'
	@echo '                bench-replay'
	@echo 'make bench-replay  compare robocache replay with a script of rosbags, NumPy, Pillow and zarr, on a'
	@echo '                recording of 5 GB that is left in bench/; PYTHON: one that has them'
	@echo 'make fuzz       fuzz the readers of messages, files and configurations; FUZZ_SECONDS each, 60'
	@echo 'make image-test build the images of Dockerfile and run compose.yaml with podman: docs/deploy.md; needs'
	@echo '                root and, of Debian, podman, runc, docker-compose and debootstrap; takes fifteen minutes.'
	@echo '                INSTALLED=on: with what make build has installed, in two minutes'
	@echo 'make soak       run robot, node and policies for SOAK_S (300) while they are killed, suspended and restarted;'
	@echo '                SOAK_OPTIONS: of tests/soak/soak.py, such as --managed --seed 7; writes soak/verdict.txt'
	@echo 'make check      before a commit: formats, Clippy and the tests of the changed crates; needs no ROS and no nvcc'
	@echo 'make lint       check formats, lints, spelling and types: Rust, Python, shell'
	@echo 'make rehearse   do what CI will do with the last commit, in a clone under ~/.cache/robocache/rehearse'
	@echo '                (ROBOCACHE_REHEARSE: another folder), which stays warm; remove it for a cold run'
	@echo 'make format     format Rust and Python in place'
	@echo 'make setup      only set up ROS; afterwards: . .ros/env.sh'
	@echo 'make clean      remove the build; distclean: also remove ROS and nvcc'

setup:
	@scripts/setup.sh

build:
	@scripts/build.sh

test:
	@scripts/test.sh

test-ros:
	@ROBOCACHE_RMW='$(RMW)' ROBOCACHE_ROS='$(ROS)' scripts/test_ros.sh

test-slow:
	@scripts/slow.sh

test-release:
	@scripts/test_release.sh

test-rust:
	cargo test --locked

simulate:
	cargo test --release --locked -p robocache_simulation -- --for $(or $(SECONDS),600) $(if $(FROM),--from $(FROM))

# Only TARGET of the command line counts: a variable of the environment may mean something else.
wheel:
	@scripts/cuda.sh
	@WHEEL_TARGET=$(if $(filter command%,$(origin TARGET)),$(TARGET)) scripts/wheel.sh

test-wheel:
	@scripts/test_wheel.sh

test-arm64:
	@scripts/arm64.sh test

sdist:
	@scripts/wheel.sh --sdist

kernels:
	@scripts/cuda.sh
	cargo check --locked -p robocache_ops --all-targets --features cuda

release-check:
	@scripts/release_check.sh

test-torch:
	@scripts/test_extra.sh torch

test-lerobot:
	@scripts/test_extra.sh torch tests/python/torch/test_lerobot.py tests/python/torch/test_dialect.py tests/python/torch/test_serve_lerobot.py

test-tfds:
	@scripts/test_extra.sh tfds

test-real:
	@ROBOCACHE_REAL_DATA='$(or $(DATA),$(ROBOCACHE_REAL_DATA))' scripts/test_real.sh

golden-live:
	cargo build --release -p robocache_ops -p robocache_core --example image_filters --example undistort
	$${PYTHON:-python3} tests/golden/make_filter_golden.py \
		--live $${CARGO_TARGET_DIR:-target}/release/examples/image_filters
	$${PYTHON:-python3} tests/golden/make_undistort_golden.py \
		--live $${CARGO_TARGET_DIR:-target}/release/examples/undistort

demo: build
	@scripts/with_ros.sh python3 demo/demo.py

record: build
	@scripts/with_ros.sh python3 demo/record.py --seconds $${RECORD_SECONDS:-20}

# ROS usually has another Python: the demo takes rclpy from there.
demo-lerobot: build
	@scripts/with_ros.sh $${PYTHON:-.torch/bin/python} demo/lerobot_demo.py

bench: build
	@scripts/setup.sh --tests
	@scripts/with_ros.sh python3 benches/bench.py
	@scripts/with_ros.sh python3 benches/commands.py
	@scripts/with_ros.sh $(MAKE) bench-replay

bench-replay:
	@cargo build --release --locked --bin robocache --bin robocache_recording
	@$${PYTHON:-python3} benches/replay.py --out bench/replay

fuzz:
	@scripts/fuzz.sh

image-test:
	@python3 tests/image/run.py

soak: build
	@scripts/setup.sh --tests
	@scripts/with_ros.sh python3 tests/soak/soak.py --seconds $${SOAK_S:-300} $${SOAK_OPTIONS:-}

check:
	@scripts/check.sh

rehearse:
	@scripts/rehearse.sh

lint:
	@scripts/lint.sh

format:
	cargo fmt --all
	@scripts/setup.sh --tests
	@scripts/with_ros.sh ruff check --fix-only --quiet .
	@scripts/with_ros.sh ruff format .

clean:
	rm -rf build install log target bench dist soak demo/report.html demo/report.json demo/*.log

distclean: clean
	rm -rf .ros .cuda .arm64 .torch .tfds .wheel .release THIRD_PARTY.txt robocache.cyclonedx.json
