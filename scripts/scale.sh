#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Many of everything: 64 processes, each connected with each other one, and what 10,000 queue pairs, 1,000,000 memory
# regions and so on cost in one process, in time and memory.
# usage: scale.sh [PROCESSES [ROUNDS]]     VERBATIM_BUILD names the build folder
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build_dir=$(bash "$scripts/build.sh" release verbatim_test_stress_crowd verbatim_bench_object_costs \
  verbatim_program_verbatimd verbatim_mlx5)
"$build_dir/tests/stress_crowd" --processes "${1:-64}" --rounds "${2:-3}"
"$build_dir/bench/object_costs"
