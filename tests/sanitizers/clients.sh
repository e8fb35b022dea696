#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The stock programs, which were built without a sanitizer, with the runtime that this build's libraries need.
# usage: clients.sh BUILD_DIR RUNTIME [arguments of tests/clients/run.py]     RUNTIME: libasan.so or libtsan.so
set -eu

runner=$(cd "$(dirname "${BASH_SOURCE[0]}")/../clients" && pwd)/run.py
build_dir=$1
runtime=$(gcc -print-file-name="$2")
shift 2
# What these programs keep until their end is theirs.
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:detect_leaks=0
VERBATIM_TEST_PRELOAD=$runtime exec python3 "$runner" --build "$build_dir" "$@"
