#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# From nothing to a stock ib_write_bw result between two processes on this machine.
# usage: demo.sh [further arguments of ib_write_bw]
set -eu

scripts=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bash "$scripts/deps.sh"
echo "demo.sh: building"
build_dir=$(bash "$scripts/build.sh" release product)

logs=$(mktemp -d)
server=
cleanup() {
  [ -z "$server" ] || kill "$server" 2>/dev/null || true
  rm -rf "$logs"
}
trap cleanup EXIT

fail() {
  echo "demo.sh: $*" >&2
  for end in server client; do
    [ -s "$logs/$end" ] && sed "s/^/  $end: /" "$logs/$end" >&2
  done
  exit 1
}

verbatim=$build_dir/bin/verbatim
if [ -x "$verbatim" ]; then
  run=("$verbatim" run --)
else
  run=(env "LD_LIBRARY_PATH=$build_dir/lib")
fi

listening() {  # is the TCP port of the test programs' handshake open?
  cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -qiE ":$(printf %04X "$1") [0-9A-F]+:0000 0A"
}

port=$((20000 + RANDOM % 10000))
while listening "$port"; do port=$((port + 1)); done
program=(ib_write_bw -d mlx5_0 -F -p "$port" "$@")

"${run[@]}" "${program[@]}" >"$logs/server" 2>&1 &
server=$!
for _ in $(seq 100); do
  listening "$port" && break
  kill -0 "$server" 2>/dev/null || { server=; fail "the server ended before a client came"; }
  sleep 0.1
done
listening "$port" || fail "the server did not listen within 10 s"

echo "demo.sh: server: ${program[*]}    client: ${program[*]} 127.0.0.1"
timeout 60 "${run[@]}" "${program[@]}" 127.0.0.1 >"$logs/client" 2>&1 || fail "the client ended with status $?"
wait "$server" || fail "the server ended with status $?"
server=
cat "$logs/client"
