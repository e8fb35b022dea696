#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The long form of the simulation: connections over a network that loses, delays, doubles, reorders and damages
# packets, with crashes. A seed that fails prints its packets; --seeds 1 --first SEED plays it again.
# usage: simulate.sh [SEEDS [FIRST]]     100000 seeds from 1 on; VERBATIM_BUILD names the build folder
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seeds=${1:-100000}
first=${2:-1}
build_dir=$(bash "$scripts/build.sh" release verbatim_test_simulation)
"$build_dir/tests/simulation" --seeds "$seeds" --first "$first"
echo "simulate.sh: passed"
