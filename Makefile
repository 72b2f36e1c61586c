# The commands of the README and of CI. Each sets up what it needs, into .ros/ and .cuda/ of this
# folder.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build test demo bench lint format clean distclean
# One at a time: colcon and cargo use all cores by themselves.
.NOTPARALLEL:

help:
	@echo 'make build      build the node, release, into install/ (sets up ROS first, once); with CUDA'
	@echo '                where an nvcc or a GPU is; ROBOCACHE_CUDA=off, on: without, with'
	@echo 'make demo       a synthetic robot, the node and a policy for 15 s; then demo/report.html'
	@echo 'make test       all tests, among them those against real ROS processes'
	@echo 'make bench      this node beside the one written with rclpy and NumPy'
	@echo 'make lint       formats and lints: Rust, Python, shell'
	@echo 'make format     format Rust and Python in place'
	@echo 'make setup      only the set-up; afterwards: . .ros/env.sh'
	@echo 'make clean      remove what was built; distclean: and what was installed'

setup:
	@scripts/setup.sh

build:
	@scripts/build.sh

test:
	@scripts/test.sh

demo: build
	@scripts/with_ros.sh python3 scripts/demo.py

bench: build
	@scripts/setup.sh --tests
	@scripts/with_ros.sh python3 benches/bench.py

lint:
	@scripts/lint.sh

format:
	cargo fmt
	@scripts/setup.sh --tests
	@scripts/with_ros.sh ruff check --fix-only --quiet .
	@scripts/with_ros.sh ruff format .

clean:
	rm -rf build install log target demo bench

distclean: clean
	rm -rf .ros .cuda
