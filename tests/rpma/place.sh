# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Where the two ends of a case run: on one host, or in two network namespaces joined by a link. Sourced.
#   make_place HOSTS   HOSTS empty: one host. Sets server_address
#   at_server, at_client COMMAND...
#   leave_place
#   await FILE PATTERN  until a line of the file matches, ten seconds at most

make_place() {
  server_address=127.0.0.1 spaces=()
  [ -n "$1" ] || return 0
  spaces=("rpma$$a" "rpma$$b")
  server_address=192.0.2.1
  local number=1 space
  for space in "${spaces[@]}"; do ip netns add "$space"; done
  ip link add eth0 netns "${spaces[0]}" type veth peer name eth0 netns "${spaces[1]}"
  for space in "${spaces[@]}"; do
    ip -n "$space" addr add 192.0.2.$number/24 dev eth0
    ip -n "$space" link set lo up
    ip -n "$space" link set eth0 up
    number=$((number + 1))
  done
}

leave_place() {
  local space
  for space in "${spaces[@]}"; do ip netns del "$space"; done
}

at_server() { in_space "${spaces[0]-}" "$@"; }
at_client() { in_space "${spaces[1]-}" "$@"; }
in_space() {
  local space=$1
  shift
  if [ -n "$space" ]; then ip netns exec "$space" "$@"; else "$@"; fi
}

await() {
  local tries=0
  until grep -Eq -- "$2" "$1" 2> /dev/null; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || return 1
    sleep 0.05
  done
}
