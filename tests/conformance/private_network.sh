#!/bin/sh
# SPDX-License-Identifier: MIT
# private_network.sh PROGRAM [ARGUMENT...]: runs a program in a network namespace of its own, where nobody else has
# the port of RoCEv2. Exit status 77: none may be made here.
for how in -n -rn; do
  unshare $how true 2>/dev/null && exec unshare $how sh -c 'ip link set lo up && exec "$@"' sh "$@"
done
echo "no network namespace may be made here"
exit 77
