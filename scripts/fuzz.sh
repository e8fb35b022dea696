#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes queue memory and doorbell records, command mailboxes, the calls of libibverbs, shared segments, packets, the port
# of RoCEv2 and the connection manager, for ten minutes each in the sanitizer's build.
# usage: fuzz.sh [SECONDS]        another time than 600; VERBATIM_BUILD names the build folder
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
seconds=${1:-600}
build_dir=$(bash "$scripts/build.sh" asan verbatim_test_queue_fuzz verbatim_test_mailbox_fuzz verbatim_test_verbs_fuzz \
  verbatim_test_scribble_fuzz \
  verbatim_test_packet_fuzz verbatim_test_wire_fuzz verbatim_test_cm_fuzz verbatim_program_verbatimd verbatim_program_verbatim verbatim_mlx5)
"$build_dir/tests/queue_fuzz" --seconds "$seconds"
"$build_dir/tests/mailbox_fuzz" --seconds "$seconds" --tally
"$build_dir/tests/verbs_fuzz" --seconds "$seconds" --tally
"$build_dir/tests/scribble_fuzz" --seconds "$seconds"
"$build_dir/tests/packet_fuzz" --seconds "$seconds"
"$build_dir/tests/wire_fuzz" --seconds "$seconds"
"$build_dir/tests/cm_fuzz" --seconds "$seconds"
echo "fuzz.sh: passed"
