# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # (some variables are rxe.sh's)
# Programs between Linux's rxe in guest a and a peer, each of them serving once. Sourced by rxe.sh.
# The peer is Verbatim on this host, or guest b: with that, what fails is the harness's or Linux's own.
#
# Name, what shows the server to be ready, the server's command, the client's. @R runs a program on its node with the
# node's RDMA, @P plays a scenario of probe.py, @S is the server's address, @S6 its other one.
case_table() {
  cat <<'TABLE'
ib_send_bw        | tcp   | @R ib_send_bw -F -s 65536 -n 100               | @R ib_send_bw -F -s 65536 -n 100 @S
ib_send_bw_1024   | tcp   | @R ib_send_bw -F -m 1024 -s 10001 -n 100       | @R ib_send_bw -F -m 1024 -s 10001 -n 100 @S
ib_send_bw_srq    | tcp   | @R ib_send_bw -F -r 64 --use-srq -q 4 -n 100   | @R ib_send_bw -F -r 64 --use-srq -q 4 -n 100 @S
ib_send_lat       | tcp   | @R ib_send_lat -F -n 100                       | @R ib_send_lat -F -n 100 @S
ib_send_lat_uc    | tcp   | @R ib_send_lat -F -c UC -n 100                 | @R ib_send_lat -F -c UC -n 100 @S
ib_send_lat_ud    | tcp   | @R ib_send_lat -F -c UD -n 100                 | @R ib_send_lat -F -c UD -n 100 @S
ib_write_bw       | tcp   | @R ib_write_bw -F -n 100                       | @R ib_write_bw -F -n 100 @S
ib_write_bw_both  | tcp   | @R ib_write_bw -F -b -s 10001 -n 100           | @R ib_write_bw -F -b -s 10001 -n 100 @S
ib_write_lat      | tcp   | @R ib_write_lat -F -n 100                      | @R ib_write_lat -F -n 100 @S
ib_write_lat_uc   | tcp   | @R ib_write_lat -F -c UC -n 100                | @R ib_write_lat -F -c UC -n 100 @S
ib_read_bw        | tcp   | @R ib_read_bw -F -n 100                        | @R ib_read_bw -F -n 100 @S
ib_read_lat       | tcp   | @R ib_read_lat -F -s 10001 -n 100              | @R ib_read_lat -F -s 10001 -n 100 @S
ib_atomic_bw      | tcp   | @R ib_atomic_bw -F -n 100                      | @R ib_atomic_bw -F -n 100 @S
ib_atomic_bw_cas  | tcp   | @R ib_atomic_bw -F -A CMP_AND_SWAP -n 100      | @R ib_atomic_bw -F -A CMP_AND_SWAP -n 100 @S
ib_atomic_lat     | tcp   | @R ib_atomic_lat -F -n 100                     | @R ib_atomic_lat -F -n 100 @S
ib_write_bw_cm    | cm    | @R ib_write_bw -F -R -n 100                    | @R ib_write_bw -F -R -n 100 @S
rping             | cm    | @R rping -s -a @S -V -C 10 -S 4000             | @R rping -c -a @S -V -C 10 -S 4000
rping_v6          | cm    | @R rping -s -a @S6 -V -C 10                    | @R rping -c -a @S6 -V -C 10
rping_nobody      | wait  | true                                           | ! @R rping -c -a @S -p 9999 -C 1
ucmatose          | cm    | @R ucmatose -b @S -c 4 -C 4                    | @R ucmatose -s @S -c 4 -C 4
rstream           | cm    | @R rstream -b @S -T v -S 4000 -C 10            | @R rstream -s @S -T v -S 4000 -C 10
riostream         | cm    | @R riostream -b @S -T v -S 4000 -C 10          | @R riostream -s @S -T v -S 4000 -C 10
udaddy            | cm    | @R udaddy -b @S -c 4 -C 4                      | @R udaddy -s @S -c 4 -C 4
TABLE
  local name
  for name in $("$python" "$here/rxe/probe.py" --list); do
    echo "$name | probe | @P $name | @P $name @S"
    case $name in
      odd | read | ud_imm) echo "${name}_v6 | probe | @P $name | @P $name @S6" ;;
    esac
  done
}

fill_in() {  # fill_in COMMAND NODE SERVER NODE
  local text=$1
  text=${text//@P/@R $(probe "$2")}
  text=${text//@R/$(run_on "$2")}
  text=${text//@S6/$(address6 "$3")}
  echo "${text//@S/$(address "$3")}"
}

run_on() {
  [ "$1" != host ] || echo "env VERBATIM_AGENT_SOCKET=verbatim-rxe-$$ $verbatim run --"
}

# Verbatim's devices must be reachable where the taps are, or no case can pass: better said once than of each.
peer_is_there() {
  [ "$peer" = host ] || return 0
  on host 30 "$(run_on host) ibv_devinfo -v" >"$state/devices"
  grep -qE "GID\[.*(::ffff:)?10\.77\.0\.1\b|ffff:0a4d:0001" "$state/devices" && return 0
  say "Verbatim has no GID for $(address host), the address of the bridge: it does not speak RoCEv2 there"
  grep -E "hca_id|link_layer|GID\[" "$state/devices" >&2 || tail -n 3 "$state/devices" >&2
  return 1
}

guests_answer() {
  on a 20 true && { [ "$peer" = host ] || on "$peer" 20 true; } && return 0
  say "no case after this one is run"
  return 1
} >/dev/null

play_case() {  # NAME SEEN SERVER COMMAND CLIENT COMMAND SERVER NODE CLIENT NODE
  local name=$1 seen=$2 server=$5 client=$6 status=0
  [ "$server$seen" != hostcm ] || seen="wait"
  [ "$name" != lossy ] || lose a || return 1
  play "$seen" "$server" "$(fill_in "$3" "$server" "$server")" "$client" "$(fill_in "$4" "$client" "$server")" \
    || status=1
  [ "$name" != lossy ] || lose_nothing a
  return $status
}

interop() {  # interop [NAME...]
  local name seen serve run server client passed=0 failed=0 there=1
  peer_is_there || there=0
  while IFS='|' read -r name seen serve run; do
    name=${name// /} seen=${seen// /}
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    for server in a "$peer"; do
      client=$peer
      [ "$server" = a ] || client=a
      if [ $there -eq 1 ] && play_case "$name" "$seen" "$(trim "$serve")" "$(trim "$run")" "$server" "$client"; then
        passed=$((passed + 1))
        echo "ok   $name, $(node_words "$server") serving"
      else
        failed=$((failed + 1))
        echo "FAIL $name, $(node_words "$server") serving"
        [ $there -eq 0 ] || { explain_play; guests_answer || there=0; }
      fi
    done
  done < <(case_table)
  [ $((passed + failed)) -gt 0 ] || { say "no case has such a name: $*"; failed=1; }
  echo "$passed passed, $failed failed"
  [ $failed -eq 0 ]
}

node_words() {
  case $1 in
    a) echo "rxe" ;;
    b) echo "the other rxe" ;;
    host) echo "Verbatim" ;;
  esac
}
