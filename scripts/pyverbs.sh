#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs rdma-core's Python tests, or any subset, on Debian's python3-pyverbs against a build. docs/pyverbs.md says more.
# usage: pyverbs.sh TESTS_DIR [--pyverbs DIR] [--except PATTERN]... [--seconds N] [--links] [--list] [options of the tests, e.g. --dev] [TEST...]
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ $# -eq 0 ] || [ ! -d "$1" ]; then
  echo "pyverbs.sh: the first argument is the folder with the tests: tests/ of rdma-core's tag v44.0" >&2
  exit 2
fi
bash "$scripts/deps.sh" python3-pyverbs python3-scapy iproute2
build_dir=$(bash "$scripts/build.sh" release product)
exec python3 "$scripts/../tests/pyverbs/run.py" --build "$build_dir" "$@"
