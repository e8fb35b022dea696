#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The long form of the stress tests: 10 GiB through every opcode in each way of reaching a peer, 200 kills, 10 s of idling.
# usage: soak.sh [BYTES [KILLS]]     VERBATIM_BUILD names the build folder
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bytes=${1:-10GiB}
kills=${2:-200}
build_dir=$(bash "$scripts/build.sh" release verbatim_test_stress_integrity verbatim_test_stress_kill \
  verbatim_test_stress_idle verbatim_program_verbatimd verbatim_program_verbatim verbatim_mlx5)
for how in none:before env:before dumpable:before dumpable:after seccomp:before seccomp:after; do
  echo "soak.sh: $bytes with cross-memory attach forbidden: $how"
  "$build_dir/tests/stress_integrity" --bytes "$bytes" --forbid "${how%:*}" --when "${how#*:}"
done
"$build_dir/tests/stress_kill" --rounds "$kills"
"$build_dir/tests/stress_idle" --seconds 10
echo "soak.sh: passed"
