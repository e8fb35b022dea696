# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # (some variables are rxe.sh's)
# Captures of Linux's rxe talking to itself, guest a serving guest b: few packets each. Sourced by rxe.sh.
#
# Name, what shows the server to be ready, the server's command, the client's. @S is the server's address, @S6 its other.
capture_table() {
  local perf="-d rxe0 -F -x 1" perf6="-d rxe0 -F -x 2" p
  p=$(probe a)
  cat <<TABLE
send_rc        | tcp | ib_send_bw $perf -m 1024 -s 2501 -n 5           | ib_send_bw $perf -m 1024 -s 2501 -n 5 @S
send_rc_4096   | tcp | ib_send_bw $perf -m 4096 -s 8193 -n 5           | ib_send_bw $perf -m 4096 -s 8193 -n 5 @S
send_lat_rc_v6 | tcp | ib_send_lat $perf6 -s 13 -n 5                   | ib_send_lat $perf6 -s 13 -n 5 @S
send_uc        | tcp | ib_send_bw $perf -c UC -m 1024 -s 2502 -n 5     | ib_send_bw $perf -c UC -m 1024 -s 2502 -n 5 @S
send_ud        | tcp | ib_send_bw $perf -c UD -s 63 -n 5               | ib_send_bw $perf -c UD -s 63 -n 5 @S
send_ud_v6     | tcp | ib_send_lat $perf6 -c UD -s 62 -n 5             | ib_send_lat $perf6 -c UD -s 62 -n 5 @S
write_rc       | tcp | ib_write_bw $perf -m 1024 -s 2503 -n 5          | ib_write_bw $perf -m 1024 -s 2503 -n 5 @S
write_lat_rc   | tcp | ib_write_lat $perf -s 16 -n 5                   | ib_write_lat $perf -s 16 -n 5 @S
write_uc       | tcp | ib_write_bw $perf -c UC -m 1024 -s 2500 -n 5    | ib_write_bw $perf -c UC -m 1024 -s 2500 -n 5 @S
read_rc        | tcp | ib_read_bw $perf -m 1024 -s 3001 -n 5           | ib_read_bw $perf -m 1024 -s 3001 -n 5 @S
read_rc_4096   | tcp | ib_read_bw $perf -m 4096 -s 8192 -n 5           | ib_read_bw $perf -m 4096 -s 8192 -n 5 @S
fetch_add      | tcp | ib_atomic_bw $perf -A FETCH_AND_ADD -n 5        | ib_atomic_bw $perf -A FETCH_AND_ADD -n 5 @S
cmp_swap       | tcp | ib_atomic_bw $perf -A CMP_AND_SWAP -n 5         | ib_atomic_bw $perf -A CMP_AND_SWAP -n 5 @S
rping          | cm  | rping -s -a @S -C 1 -S 64 -v                    | rping -c -a @S -C 1 -S 64 -v
rping_v6       | cm  | rping -s -a @S6 -C 1 -S 64 -v                   | rping -c -a @S6 -C 1 -S 64 -v
ucmatose       | cm  | ucmatose -b @S -c 1 -C 1 -S 64                  | ucmatose -s @S -c 1 -C 1 -S 64
rstream        | cm  | rstream -b @S -S 64 -C 2                        | rstream -s @S -S 64 -C 2
udaddy         | cm  | udaddy -b @S -c 1 -C 1 -S 64                    | udaddy -s @S -c 1 -C 1 -S 64
udaddy_v6      | cm  | udaddy -b @S6 -c 1 -C 1 -S 64                   | udaddy -s @S6 -c 1 -C 1 -S 64
mckey          | wait | mckey -m 239.7.7.7 -b @S -C 2 -S 64            | mckey -m 239.7.7.7 -s -b @C -C 2 -S 64
reject         | wait | true                                           | ! rping -c -a @S -p 9999 -C 1
reject_ud      | wait | true                                           | ! udaddy -s @S -c 1 -C 1
TABLE
  local name
  for name in empty odd solicited send_imm write_imm uc_imm ud_imm route psn_wrap read atomics send_inv rnr \
    rnr_exceeded bad_key_write bad_key_read out_of_range long_send gone lossy \
    connection slow_accept refusal; do
    echo "$name | probe | $p $name | $p $name @S"
  done
  echo "ud_imm_v6 | probe | $p ud_imm | $p ud_imm @S6"
  echo "send_imm_v6 | probe | $p send_imm | $p send_imm @S6"
}

capture_one() {  # NAME SEEN SERVER CLIENT
  local file=$captures/$1.pcap pid status=0
  rm -f "$file"
  ip netns exec "$netns" tcpdump -i tap-a --immediate-mode -U -Z root -c 150 -w "$file" \
    'udp port 4791 or (ip6 proto 17 and dst port 4791)' >"$state/tcpdump" 2>&1 &
  pid=$!
  for _ in $(seq 50); do grep -q "listening on" "$state/tcpdump" && break; sleep 0.1; done
  [ "$1" != lossy ] || lose b "$much_loss" || return 1
  play "$2" a "$3" b "$4" || status=1
  [ "$1" != lossy ] || lose_nothing b
  sleep 0.3
  kill $pid 2>/dev/null
  wait $pid 2>/dev/null
  chmod 644 "$file"
  return $status
}

capture() {  # capture FOLDER [NAME...]
  local name seen serve run passed=0 failed=0
  captures=$1
  shift
  if ! mkdir -p "$captures" || ! chmod 755 "$captures"; then die "no captures can be put into $captures"; fi
  while IFS='|' read -r name seen serve run; do
    name=${name// /} seen=${seen// /}
    [ $# -eq 0 ] || [[ " $* " == *" $name "* ]] || continue
    serve=${serve//@S6/$(address6 a)} serve=${serve//@S/$(address a)}
    run=${run//@S6/$(address6 a)} run=${run//@S/$(address a)}
    serve=$(trim "$serve") run=${run//@C/$(address b)}
    if capture_one "$name" "$seen" "$serve" "$(trim "$run")" && [ "$(stat -c %s "$captures/$name.pcap")" -gt 24 ]; then
      passed=$((passed + 1))
      echo "ok   $name"
    else
      failed=$((failed + 1))
      echo "FAIL $name"
      if [ -e "$state/out/status" ]; then explain_play; else echo "    no packet was seen"; fi
    fi
  done < <(capture_table)
  [ $((passed + failed)) -gt 0 ] || { say "no capture has such a name: $*"; failed=1; }
  echo "$passed passed, $failed failed"
  [ $failed -eq 0 ]
}

trim() { local text=${1#"${1%%[! ]*}"}; echo "${text%"${text##*[! ]}"}"; }
