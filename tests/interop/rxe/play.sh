# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # (some variables are rxe.sh's)
# Plays a program's two ends on two nodes: what captures and cases have in common. Sourced by rxe.sh.
python=/usr/bin/python3  # Debian's, which knows python3-pyverbs
play_seconds=40  # for each end, on a busy machine

# probe NODE: how that node calls probe.py
probe() {
  case $1 in
    host) echo "$python $here/rxe/probe.py" ;;
    *) echo "$python /run/rxe/probe.py" ;;
  esac
}

# Waits in one command on the node until the server's end listens; what cannot be seen gets a moment.
await() {
  local look
  case $2 in
    probe) look="ss -Htln sport = :7471 | grep -q ." ;;
    tcp) look="ss -Htln sport = :18515 | grep -q ." ;;
    cm) look="rdma res show cm_id | grep -q LISTEN" ;;
    group) look="ip maddr show | grep -qF 239.7.7.7" ;;
    *) look="sleep 3" ;;
  esac
  on "$1" 35 "for i in \$(seq 300); do $look && exit 0; sleep 0.1; done; exit 1"
}

# play SEEN SERVER COMMAND CLIENT COMMAND: SEEN says what shows that the server is ready: probe, tcp, cm, group or wait.
# 0 when both ends succeed. Their output is left in $state/out.
play() {
  local seen=$1 server=$2 serve=$3 client=$4 run=$5 server_status=0 client_status pid
  rm -rf "$state/out"
  mkdir -p "$state/out"
  on "$server" "$play_seconds" "$serve" >"$state/out/server" &
  pid=$!
  if await "$server" "$seen" >/dev/null; then
    on "$client" "$play_seconds" "$run" >"$state/out/client"
    client_status=$?
  else
    echo "the server was not ready in time" >"$state/out/client"
    client_status=125
  fi
  if [ $client_status -ne 0 ]; then  # it may wait for ever for a client that has gone
    sleep 1
    if [ "$server" = host ]; then
      pkill -P $pid
    else
      on "$server" 5 "pkill -o -x timeout" >/dev/null  # the oldest there is the server's
    fi
  fi
  wait $pid || server_status=$?
  [ $client_status -eq 0 ] && [ $server_status -eq 0 ] && return 0
  echo "$client_status $server_status" >"$state/out/status"
  return 1
}

# What a failed play has said, for a person.
explain_play() {
  local client_status server_status
  read -r client_status server_status <"$state/out/status"
  echo "    client: $(status_words "$client_status")"
  tail -n 4 "$state/out/client" | sed '/^$/d; s/^/      /'
  echo "    server: $(status_words "$server_status")"
  tail -n 4 "$state/out/server" | sed '/^$/d; s/^/      /'
}

status_words() {
  case $1 in
    0) echo "ended well" ;;
    124 | 137) echo "ran out of time ($play_seconds s)" ;;
    125) echo "did not run" ;;
    *) echo "ended with status $1" ;;
  esac
}

# A network that loses and reorders what a guest sends and gets over UDP: lose NODE NETEM_OPTIONS.
lose() {
  on "$1" 10 "ip link set ifb0 up &&
    tc qdisc add dev eth0 root handle 1: prio &&
    tc qdisc add dev eth0 parent 1:3 handle 30: netem $2 &&
    tc filter add dev eth0 parent 1: protocol ip u32 match ip protocol 17 0xff flowid 1:3 &&
    tc qdisc add dev ifb0 root netem $2 &&
    tc qdisc add dev eth0 handle ffff: ingress &&
    tc filter add dev eth0 parent ffff: protocol ip u32 match ip protocol 17 0xff \
      action mirred egress redirect dev ifb0"
}

lose_nothing() {
  on "$1" 10 "tc qdisc del dev eth0 root; tc qdisc del dev eth0 ingress; tc qdisc del dev ifb0 root"
}
