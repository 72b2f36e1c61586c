#!/usr/bin/env bash
# Fuzzes everything that reads bytes from elsewhere: each target of fuzz/ for FUZZ_SECONDS (default 60), one
# after the other, at the lowest priority. Arguments: names of targets; without any, all. The first finding ends
# the run; its input is in fuzz/artifacts/TARGET. It needs cargo-fuzz, but no nightly toolchain, because it uses no sanitizer.
set -eu -o pipefail

cd "$(dirname "$0")/.."
if ! cargo fuzz --version >/dev/null 2>&1; then
    echo 'expected cargo-fuzz, found none: cargo install --locked cargo-fuzz' >&2
    exit 1
fi
seconds=${FUZZ_SECONDS:-60}
targets=("$@")
((${#targets[@]})) || mapfile -t targets < <(sed -n 's/^    ("\([a-z_]*\)", .*/\1/p' fuzz/fuzz.rs)

cargo fuzz build --sanitizer none --target-dir fuzz/target
program=fuzz/target/$(rustc -vV | sed -n 's/^host: //p')/release/fuzz
"$program"
for target in "${targets[@]}"; do
    echo "== $target, $seconds s"
    mkdir -p "fuzz/artifacts/$target"
    # An input may take 10 s and 512 MB at most. On a busy machine, run what took longer once more, alone.
    FUZZ_TARGET=$target nice -n 19 "$program" "fuzz/corpus/$target" -max_total_time="$seconds" -timeout=10 \
        -rss_limit_mb=512 -artifact_prefix="fuzz/artifacts/$target/" -print_final_stats=1 -verbosity=0
done
