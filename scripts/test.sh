#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what is missing, builds and runs the tests.
# usage: test.sh [--preset release|debug|asan|tsan] [arguments of ctest, e.g. -R conformance]
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
preset=release
if [ "${1:-}" = --preset ]; then
  preset=${2:?"test.sh: --preset needs a name"}
  shift 2
fi

bash "$scripts/deps.sh"
echo "test.sh: building ($preset)"
build_dir=$(bash "$scripts/build.sh" "$preset")
# Two at a time: more than half of the tests wait for something, and those that measure run alone.
exec ctest --test-dir "$build_dir" --output-on-failure --no-tests=error --parallel 2 "$@"
