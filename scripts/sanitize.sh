#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds with the sanitizers and runs the tests. A report of any process, agents and peers included, is a failure.
# usage: sanitize.sh [asan|tsan|both] [--short] [--build DIR] [arguments of ctest, e.g. -R engine]
#   --short   only engine, links and a part of the conformance tests: at most four minutes from nothing
#   --build   the folder that holds the build folders asan and tsan (default: build)
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# What --short builds and runs.
short_tests=(engine_test connectx_queues_test shm_fabric_test shm_hostile_test conformance_data_path)

presets=(asan tsan)
short=
builds=$scripts/../build
case ${1:-} in
  asan | tsan) presets=("$1"); shift ;;
  both) shift ;;
esac
while :; do
  case ${1:-} in
    --short) short=1; shift ;;
    --build) builds=$(realpath -m "${2:?"sanitize.sh: --build needs a folder"}"); shift 2 ;;
    *) break ;;
  esac
done

# Reports go to files: those of processes whose output nobody reads would be lost otherwise.
run_tests() {  # BUILD_DIR, arguments of ctest
  local build_dir=$1 reports=$1/reports status=0
  shift
  rm -rf "$reports" && mkdir -p "$reports"
  ASAN_OPTIONS=log_path=$reports/address:detect_stack_use_after_return=1 \
    UBSAN_OPTIONS=log_path=$reports/undefined:print_stacktrace=1 \
    TSAN_OPTIONS=log_path=$reports/thread:second_deadlock_stack=1:die_after_fork=0 \
    ctest --test-dir "$build_dir" --output-on-failure --no-tests=error --parallel 2 "$@" || status=1
  # Whoever asks for more memory than there can be is told so, and the sanitizer warns: that is no report.
  local report
  for report in "$reports"/*; do
    [ ! -e "$report" ] || grep -qv 'AddressSanitizer failed to allocate' "$report" || rm "$report"
  done
  if [ -n "$(ls "$reports")" ]; then
    echo "sanitize.sh: reports in $reports:" >&2
    head -n 60 "$reports"/* >&2
    status=1
  fi
  return $status
}

status=0
for preset in "${presets[@]}"; do
  echo "sanitize.sh: $preset: building"
  if [ -n "$short" ]; then
    tests=("${short_tests[@]}")
    # Its queue pairs write over each other's memory.
    [ "$preset" = tsan ] || tests+=(verbs_fuzz)
    build_dir=$(VERBATIM_BUILD=$builds/$preset bash "$scripts/build.sh" "$preset" \
      "${tests[@]/#/verbatim_test_}" verbatim_program_verbatimd)
    only="^($(IFS='|'; echo "${tests[*]}"))\$"
    run_tests "$build_dir" -R "$only" "$@" || status=1
  else
    build_dir=$(VERBATIM_BUILD=$builds/$preset bash "$scripts/build.sh" "$preset")
    run_tests "$build_dir" "$@" || status=1
  fi
done
[ $status -eq 0 ] && echo "sanitize.sh: passed"
exit $status
