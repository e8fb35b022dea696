#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The example programs of librpma's authors against this library: a checkout of them is built with this project's
# header, or with another librpma's, and run with this project's libraries. Fetches nothing.
# usage: examples.sh CHECKOUT [--build DIR] [--stock DIR] [--mixed END] [--files] [--hosts] [NAME...]
#   CHECKOUT   the project's tree, with examples/ in it
#   --build    a build of this project (default: build/ of this tree)
#   --stock    header and library that the programs are built with: DIR/include, DIR/lib/x86_64-linux-gnu, as a
#              distribution's librpma-dev unpacks to DIR (default: this project's own)
#   --mixed    the server or the client (END) runs with the stock librpma itself, on this project's libraries below it, so
#              that each reads what the other has written; with --stock
#   --files    with memory of files, which libpmem maps; its development files must be there
#   --hosts    the two programs in two network namespaces joined by a link; needs root
#   NAME       only these examples, by the beginning of their names
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
# shellcheck source=tests/rpma/place.sh
. "$here/place.sh"

usage() {
  sed -n '/^# usage:/,/^[^#]/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[ $# -ge 1 ] && [ -d "$1/examples" ] || usage
examples=$(cd "$1/examples" && pwd)
shift
build=$root/build stock='' mixed='' files='' hosts=''
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$(cd "$2" && pwd) && shift 2 || usage ;;
    --stock) stock=$(cd "$2" && pwd) && shift 2 || usage ;;
    --mixed) mixed=$2 && shift 2 || usage ;;
    --files) files=1 && shift ;;
    --hosts) hosts=1 && shift ;;
    -*) usage ;;
    *) break ;;
  esac
done
only=("$@")
[ -z "$mixed" ] || [ -n "$stock" ] || usage

work=$(mktemp -d /tmp/rpma-examples.XXXXXX)
trap 'leave_place; rm -rf "$work"' EXIT
make_place "$hosts"
export LD_LIBRARY_PATH=$build/lib VERBATIM_AGENT_SOCKET=rpma-examples-$$
passed=0 failed=''
# The stock librpma without the libraries that lie beside it.
[ -z "$mixed" ] || { mkdir "$work/stock" && cp -L "$stock"/lib/x86_64-linux-gnu/librpma.so.0 "$work/stock/"; }

# compile NAME: its server and its client.
compile() {
  local name=$1 end sources libraries=(-lrpma -libverbs) flags=(-I"$root/include" -L"$build/lib")
  [ -z "$stock" ] || flags=(-I"$stock/include" -L"$stock/lib/x86_64-linux-gnu")
  sources=("$examples"/common/common-{conn,epoll,hello,messages-ping-pong,utils}.c)
  if [ -n "$files" ]; then
    sources+=("$examples"/common/common-{pmem_map_file,map_file_with_signature_check}.c)
    flags+=(-DUSE_LIBPMEM -DIBV_ADVISE_MR_FLAGS_SUPPORTED=1)
    libraries+=(-lpmem)
  fi
  case $name in
    09*)
      sources+=("$examples"/common/gpspm/GPSPM_flush.pb-c.c)
      libraries+=(-lprotobuf-c)
      ;;
    12-*) sources+=("$examples/$name"/receive-completion-queue-common.c) ;;
  esac
  mkdir -p "$work/$name"
  for end in server client; do
    cc -O1 -w "${flags[@]}" -I"$examples/common" -I"$examples/common/gpspm" -o "$work/$name/$end" \
      "$examples/$name/$end.c" "${sources[@]}" "${libraries[@]}" > "$work/$name/$end.build" 2>&1 || return 1
  done
}

# The server's and the clients' arguments after address and port; clients are separated by a semicolon, and run one after
# the other, or together after an ampersand.
arguments() {
  case $1 in
    06*) clients='8 ; 9 ; 11 ; 12' ;;
    07*) clients='1st_word 2nd_word 3rd_word' ;;
    08*) clients='7 3' ;;
    10*) clients='1234 1st_word' ;;
    11*) clients=1234 ;;
    12*) clients='7 3' ;;
    13*) server=3 clients='1 3 & 5 3 & 10 3' ;;
    0[3459]*)
      if [ -n "$files" ]; then
        server=$work/server.memory clients=$work/client.memory
        [[ $1 != 05* ]] || server+=' on'
      fi
      ;;
  esac
}

# What the two ends print when data went where it should.
expected() {
  case $1 in
    01*) echo 'server:Received a message: Hello server!' 'client:Received a message: Hello client!' ;;
    02*) echo 'client:Read a message: ' ;;
    03*) echo 'server:New value: .*(Hello|Hola)' ;;
    04* | 05*) echo 'server:New value: .*(Hello|Hola)' 'client:translating' ;;
    06*) echo 'server:- .' 'client:My names is: .' ;;
    07*) echo 'client:used value: ' 'server:3rd_word' ;;
    08* | 12*) echo 'client:Value received: 1[0-9]|Value received: [89]' 'server:Value sent: ' ;;
    09*) echo 'server:Flush request received' 'server:New value: .*(Hello|Hola)' ;;
    10*) echo "server:Received value '1st_word' with immediate data '1234'" ;;
    11*) echo "server:The value '1234' was written together with immediate data '1234'" ;;
    13*) echo 'server:\[server\] value sent: 13' 'client:value received: 13' ;;
  esac
}

# libraries END: where it finds them.
libraries() {
  if [ "$1" = "$mixed" ]; then echo "$work/stock:$build/lib"; else echo "$build/lib"; fi
}

# play NAME: runs the ends. 0: both ended well and printed what was expected.
play() {
  local name=$1 server='' clients='' result=0 pid ended
  local port=7204
  arguments "$name"
  if [ -n "$files" ]; then
    rm -f "$work"/*.memory
    truncate -s 16M "$work"/{server,client}.memory
  fi
  # libpmem takes an ordinary file for persistent memory when it is told to.
  export PMEM_IS_PMEM_FORCE=1
  # shellcheck disable=SC2086
  at_server env LD_LIBRARY_PATH="$(libraries server)" timeout 60 stdbuf -oL "$work/$name/server" "$server_address" $port $server > "$work/server.out" 2>&1 &
  pid=$!
  await "$work/server.out" 'listening at|Waiting for incoming connection' || result=1
  : > "$work/client.out"
  run_clients "$name" "$clients" || result=1
  wait $pid
  ended=$?
  [ $ended -eq 0 ] || { echo "the server ended with $ended" >> "$work/server.out" && result=1; }
  check "$name" || result=1
  return $result
}

# run_clients NAME ARGUMENTS
run_clients() {
  local name=$1 rest=$2 each pids=() result=0 pid
  while [ -n "$rest" ] || [ ${#pids[@]} -eq 0 ]; do
    each=${rest%%[;&]*}
    # shellcheck disable=SC2086
    at_client env LD_LIBRARY_PATH="$(libraries client)" timeout 60 stdbuf -oL "$work/$name/client" "$server_address" 7204 $each >> "$work/client.out" 2>&1 &
    pids+=($!)
    case ${rest#"$each"} in
      \;*) wait "${pids[-1]}" || result=1 ;;
      '') break ;;
    esac
    rest=${rest#"$each"}
    rest=${rest#[;&]}
  done
  for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null || result=1; done
  return $result
}

check() {
  local name=$1 line end result=0
  while IFS= read -r line; do
    end=${line%%:*}
    grep -Eq -- "${line#*:}" "$work/$end.out" || { echo "not found: $line" >> "$work/$end.out" && result=1; }
  done < <(expected_lines "$name")
  return $result
}

# One expectation a line: a space before server: or client: ends one.
expected_lines() { expected "$1" | sed -E 's/ (server|client):/\n\1:/g'; }

wanted() {
  local each
  [ ${#only[@]} -gt 0 ] || return 0
  for each in "${only[@]}"; do [[ $1 != "$each"* ]] || return 0; done
  return 1
}

for folder in "$examples"/[01][0-9]*/; do
  name=$(basename "$folder")
  wanted "$name" || continue
  : > "$work/server.out"
  : > "$work/client.out"
  if compile "$name" && play "$name"; then
    passed=$((passed + 1))
    echo "ok    $name"
  else
    failed+=" $name"
    echo "WRONG $name"
    sed 's/^/      server: /' "$work/server.out"
    sed 's/^/      client: /' "$work/client.out"
    head -20 "$work/$name"/*.build
  fi
done
echo "$passed passed${failed:+, failed:$failed}"
[ -z "$failed" ] && [ $passed -gt 0 ]
