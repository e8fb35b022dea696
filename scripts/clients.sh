#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs every case of the stock programs (tests/clients/cases.py): plainly, with cross-memory copies off,
# and through `verbatim run`.
# usage: clients.sh [arguments of tests/clients/run.py, e.g. --only write --repeat 20]
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bash "$scripts/deps.sh"
build_dir=$(bash "$scripts/build.sh" release product)
runner=(python3 "$scripts/../tests/clients/run.py" --build "$build_dir" "$@")
status=0
echo "clients.sh: plainly" && "${runner[@]}" || status=1
echo "clients.sh: without cross-memory copies" && VERBATIM_NO_CMA=1 "${runner[@]}" || status=1
echo "clients.sh: through verbatim run" && "${runner[@]}" --wrapped || status=1
exit $status
