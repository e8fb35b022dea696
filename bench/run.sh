#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and prints the table of speeds, each beside a reference taken in the same run.
# usage: run.sh [--quick] [--only REGEX]    --quick: three repetitions of fewer iterations
set -eu

bench=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bash "$bench/../scripts/deps.sh" iperf3
build_dir=$(bash "$bench/../scripts/build.sh" release)
cmake --build "$build_dir" --target verbatim_bench >"$build_dir/bench.log" 2>&1 || { cat "$build_dir/bench.log" >&2; exit 1; }
exec python3 "$bench/run.py" --build "$build_dir" "$@"
