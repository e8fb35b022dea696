# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # (some variables are rxe.sh's)
# Programs between Linux's rxe in guest a and a peer, each of them serving once. Sourced by rxe.sh.
# The peer is Verbatim on this host, or guest b: with that, what fails is the harness's or Linux's own.
much_loss="delay 1ms reorder 80% loss 10%"  # what is not delayed overtakes what is
some_loss="delay 2ms reorder 99% loss 1%"

# Name, what shows the server to be ready, the server's command, the client's. @R runs a program on its node with the
# node's RDMA, @P plays a scenario of probe.py, @V is Verbatim's own program, @S the server's address, @S6 its other
# one, @C the client's.
case_table() {
  perftest_cases
  pingpong_cases
  lossy_cases
  manager_cases
  probe_cases
}

# NAME PROGRAM...: a program whose client takes what the server takes, and the address.
alike() {
  local name=$1
  shift
  echo "$name | tcp | @R $* | @R $* @S"
}

# A guest may be silent for longer than perftest waits for an acknowledgement. A device of Verbatim's has 16 reads or
# atomics outstanding, rxe 128, and perftest takes the other end's number without a look at its own.
perftest_cases() {
  local of size options="-F -u 17" asks="-F -u 17 -o 16"
  for of in send write read; do
    [ $of != read ] || options=$asks
    for size in 2 1000 65536 1048576; do
      alike "ib_${of}_bw_$size" "ib_${of}_bw $options -s $size -n 20"
    done
    alike "ib_${of}_lat" "ib_${of}_lat $options -s 10001 -n 50"
    alike "ib_${of}_lat_1024" "ib_${of}_lat $options -m 1024 -s 2 -n 100"
  done
  for of in FETCH_AND_ADD CMP_AND_SWAP; do
    alike "ib_atomic_bw_$of" "ib_atomic_bw $options -A $of -n 100"
    alike "ib_atomic_lat_$of" "ib_atomic_lat $options -A $of -n 100"
  done
  options="-F -u 17"
  for of in send write; do
    alike "ib_${of}_bw_uc" "ib_${of}_bw $options -c UC -s 65536 -t 4 -n 20"
    alike "ib_${of}_lat_uc" "ib_${of}_lat $options -c UC -s 1000 -n 100"
    alike "ib_${of}_bw_both" "ib_${of}_bw $options -b -s 10001 -n 50"
  done
  alike ib_send_bw_ud "ib_send_bw $options -c UD -s 1000 -t 16 -n 50"
  alike ib_send_lat_ud "ib_send_lat $options -c UD -s 2 -n 100"
  alike ib_send_bw_srq "ib_send_bw $options -r 64 --use-srq -q 4 -n 100"
  alike ib_send_bw_events "ib_send_bw $options -e -s 10001 -n 50"
}

# On a network that loses and reorders one packet in a hundred, both ways.
lossy_cases() {
  local of
  for of in send write; do alike "lossy_${of}_bw" "ib_${of}_bw -F -u 14 -s 65536 -n 50"; done
  alike lossy_read_bw "ib_read_bw -F -u 14 -o 16 -s 65536 -n 50"
  alike lossy_atomic_bw "ib_atomic_bw -F -u 14 -o 16 -n 200"
  alike lossy_pingpong "ibv_rc_pingpong -g 1 -c -s 20000 -n 50"
}

# They check what they receive. GID 1 is the IPv4 address's on all nodes, GID 2 the IPv6 address's.
pingpong_cases() {
  local of
  for of in rc uc ud srq; do
    alike "ibv_${of}_pingpong" "ibv_${of}_pingpong -g 1 -c -n 50"
    alike "ibv_${of}_pingpong_v6" "ibv_${of}_pingpong -g 2 -c -e -s 1500 -n 50"
  done
  alike ibv_rc_pingpong_4096 "ibv_rc_pingpong -g 1 -c -m 4096 -s 100000 -n 20"
}

manager_cases() {
  cat <<'TABLE'
ib_write_bw_cm    | cm    | @R ib_write_bw -F -R -n 100                    | @R ib_write_bw -F -R -n 100 @S
ib_send_lat_cm    | cm    | @R ib_send_lat -F -R -n 100                    | @R ib_send_lat -F -R -n 100 @S
ib_read_bw_cm     | cm    | @R ib_read_bw -F -R -o 16 -n 100                   | @R ib_read_bw -F -R -o 16 -n 100 @S
rping             | cm    | @R rping -s -a @S -V -C 10 -S 4000             | @R rping -c -a @S -V -C 10 -S 4000
rping_v6          | cm    | @R rping -s -a @S6 -V -C 10                    | @R rping -c -a @S6 -V -C 10
rping_nobody      | cm    | timeout 12 @R rping -s -a @S; test $? = 124    | ! @R rping -c -a @S -p 9999 -C 1
ucmatose          | cm    | @R ucmatose -b @S -c 4 -C 4                    | @R ucmatose -s @S -c 4 -C 4
rdma_client       | cm    | @R rdma_server -s @S                           | @R rdma_client -s @S
rdma_xclient      | cm    | @R rdma_xserver -c r                           | @R rdma_xclient -s @S -c r
rstream           | cm    | @R rstream -b @S -T v -S 4000 -C 10            | @R rstream -s @S -T v -S 4000 -C 10
riostream         | cm    | @R riostream -b @S -T v -S 4000 -C 10          | @R riostream -s @S -T v -S 4000 -C 10
rcopy             | cm    | cd /tmp; seq 99999 >rxe-1; timeout 15 @R rcopy; cmp rxe-1 rxe-2 && rm rxe-1 rxe-2 | cd /tmp; seq 99999 >rxe-3; @R rcopy rxe-3 @S:rxe-2; rm rxe-3
cmtime            | cm    | timeout 20 @R cmtime -b @S -c 10; test $? = 124 | @R cmtime -s @S -c 10
udaddy            | cm    | @R udaddy -b @S -c 4 -C 4                      | @R udaddy -s @S -c 4 -C 4
udaddy_v6         | cm    | @R udaddy -b @S6 -c 4 -C 4                     | @R udaddy -s @S6 -c 4 -C 4
doctor            | wait  | true                                           | @V doctor @S
mckey             | group | @R mckey -m 239.7.7.7 -b @S -C 4 -S 64         | @R mckey -m 239.7.7.7 -s -b @C -C 4 -S 64
TABLE
}

probe_cases() {
  local name
  for name in $("$python" "$here/rxe/probe.py" --list); do
    echo "$name | probe | @P $name | @P $name @S"
    case $name in
      odd | read | ud_imm | connection) echo "${name}_v6 | probe | @P $name | @P $name @S6" ;;
    esac
  done
}

fill_in() {  # fill_in COMMAND NODE SERVER CLIENT
  local text=$1
  text=${text//@V/$(verbatim_here)}
  text=${text//@P/@R $(probe "$2")}
  text=${text//@R/$(run_on "$2")}
  text=${text//@S6/$(address6 "$3")}
  text=${text//@C/$(address "$4")}
  echo "${text//@S/$(address "$3")}"
}

verbatim_here() { echo "env VERBATIM_AGENT_SOCKET=verbatim-rxe-$$ ${verbatim-}"; }

run_on() { [ "$1" != host ] || echo "$(verbatim_here) run --"; }

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

# may_repeat NAME TRY: whether a failure says nothing of either side. perftest's client connects a second time without a
# look whether the server listens again, and may be too fast; a guest that gets no processor does not answer.
may_repeat() {
  case $1 in
    ib_*_cm) [ "$2" -lt 5 ] ;;
    *) [ "$2" -lt 3 ] && grep -qw 125 "$state/out/status" ;;
  esac
}

play_case() {  # NAME SEEN SERVER COMMAND CLIENT COMMAND SERVER NODE CLIENT NODE
  local name=$1 seen=$2 server=$5 client=$6 status try
  [ "$server$seen" != hostcm ] || seen="wait"
  case $name in
    lossy) lose a "$much_loss" || return 1 ;;
    lossy_*) lose a "$some_loss" || return 1 ;;
  esac
  for try in 1 2 3 4 5; do
    status=0
    play "$seen" "$server" "$(fill_in "$3" "$server" "$server" "$client")" \
      "$client" "$(fill_in "$4" "$client" "$server" "$client")" && break
    status=1
    may_repeat "$name" $try || break
  done
  [[ $name != lossy* ]] || lose_nothing a
  return $status
}

interop() {  # interop [NAME...]
  local name seen serve run server client passed=0 failed=0 there=1
  peer_is_there || there=0
  while IFS='|' read -r name seen serve run; do
    name=${name// /} seen=${seen// /}
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    for server in a "$peer"; do
      [ "$name" != doctor ] || [ "$server$peer" = ahost ] || continue  # it is Verbatim's
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
