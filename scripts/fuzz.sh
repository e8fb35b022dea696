#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes queue memory, doorbell records and shared segments for ten minutes in the sanitizer's build.
# usage: fuzz.sh [SECONDS]        another time than 600; VERBATIM_BUILD names the build folder
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=${1:-600}
build_dir=$(bash "$scripts/build.sh" asan)
"$build_dir/tests/queue_fuzz" --seconds "$seconds"
"$build_dir/tests/scribble_fuzz" --seconds "$((seconds / 10 + 1))"
echo "fuzz.sh: passed"
