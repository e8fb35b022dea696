#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Configures and builds one preset, and prints nothing else but what goes wrong.
# usage: build.sh [PRESET [TARGET...]]    release (default), debug, asan or tsan; all targets
# VERBATIM_BUILD names another build folder than the preset's.
set -eu

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
preset=${1:-release}
[ $# -eq 0 ] || shift
case $preset in
  release) build_dir=$source_dir/build ;;
  debug | asan | tsan) build_dir=$source_dir/build/$preset ;;
  *) echo "build.sh: no preset '$preset': release, debug, asan or tsan" >&2; exit 2 ;;
esac
build_dir=${VERBATIM_BUILD:-$build_dir}

if ! mkdir -p "$build_dir" 2>/dev/null || [ ! -w "$build_dir" ]; then
  echo "build.sh: $build_dir is not writable for $(id -un); set VERBATIM_BUILD to another folder" >&2
  exit 1
fi

cd "$source_dir"
log=$build_dir/build.log
build() {
  cmake --preset "$preset" -B "$build_dir" &&
    cmake --build "$build_dir" --parallel "$(nproc)" --target "${@:-all}"
}
if ! build "$@" >"$log" 2>&1; then
  grep -nE 'error|Error|FAILED|missing' "$log" | head -n 30 >&2 || true
  tail -n 20 "$log" >&2
  echo "build.sh: the $preset build failed; all of it is in $log" >&2
  exit 1
fi
echo "$build_dir"
