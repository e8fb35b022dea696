#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The multithreaded programs of librpma's authors against this library, plainly or under one of valgrind's tools that look
# for races: a checkout of them is built with this project's header and run with its libraries. Fetches nothing.
# usage: multithreaded.sh CHECKOUT [--build DIR] [--tool helgrind|drd|memcheck] [--threads N] [--reports DIR] [NAME...]
#   CHECKOUT   the project's tree, with tests/multithreaded/ in it
#   --build    a build of this project (default: build/ of this tree)
#   --tool     valgrind's; a report that races.supp and the authors' own list do not name is a failure
#   --threads  threads of each program (default: 8)
#   --reports  keeps valgrind's reports there
#   NAME       only these programs, as it prints them
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)

usage() {
  sed -n '/^# usage:/,/^[^#]/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}
[ $# -ge 1 ] && [ -d "$1/tests/multithreaded" ] || usage
checkout=$(cd "$1" && pwd)
programs=$checkout/tests/multithreaded
shift
build=$root/build tool='' threads=8 reports=''
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=$(cd "$2" && pwd) && shift 2 || usage ;;
    --tool) tool=$2 && shift 2 || usage ;;
    --threads) threads=$2 && shift 2 || usage ;;
    --reports) mkdir -p "$2" && reports=$(cd "$2" && pwd) && shift 2 || usage ;;
    -*) usage ;;
    *) break ;;
  esac
done
only=("$@")

work=$(mktemp -d /tmp/rpma-multithreaded.XXXXXX)
trap 'rm -rf "$work"' EXIT
[ -n "$reports" ] || reports=$work
export LD_LIBRARY_PATH=$build/lib VERBATIM_AGENT_SOCKET=rpma-multithreaded-$$

# FOLDER NAME SOURCE... of each program that the authors' build files name.
list() {
  local folder
  for folder in "$programs"/*/CMakeLists.txt; do
    tr -s '\n\t' '  ' < "$folder" | grep -o 'add_multithreaded([^)]*)' |
      sed -E "s|add_multithreaded\(NAME [^ ]+ BIN ([^ ]+)( USE_LIBIBVERBS)? SRCS|$(dirname "$folder") \1|; s|\)||"
  done
}

# compile FOLDER NAME SOURCE...
compile() {
  local folder=$1 name=$2
  shift 2
  cc -g -O1 -w -I"$root/include" -I"$programs/common" -I"$folder" -o "$work/$name" "${@/#/$folder/}" \
    "$programs/common/mtt.c" -L"$build/lib" -lrpma -libverbs -lpthread > "$work/build.out" 2>&1
}

under_tool() {
  if [ -z "$tool" ]; then
    timeout 300 "$@"
  else
    timeout 300 valgrind --tool="$tool" --error-exitcode=99 --trace-children=no --fair-sched=yes --num-callers=24 \
      --suppressions="$here/races.supp" --log-file="$reports/$label.%p.$tool" "$@"
  fi
}

# Nothing was reported of the program's own processes, its children included.
is_clean() {
  [ -z "$tool" ] || ! grep -l 'ERROR SUMMARY: [1-9]' "$reports/$label".*."$tool"
}

wanted() {
  local each
  [ ${#only[@]} -gt 0 ] || return 0
  for each in "${only[@]}"; do [[ $label != "$each" ]] || return 0; done
  return 1
}

passed=0 failed='' port=7300
while read -r folder name sources; do
  label=$(basename "$folder")/$name
  wanted || continue
  label=${label//\//-}
  port=$((port + 1))
  [ -z "$tool" ] || rm -f "$reports/$label".*."$tool"
  # shellcheck disable=SC2086
  if compile "$folder" "$label" $sources && under_tool "$work/$label" "$threads" 127.0.0.1 $port \
    > "$work/run.out" 2>&1 && is_clean; then
    passed=$((passed + 1))
    echo "ok    $label"
  else
    echo "WRONG $label ($?)"
    failed+=" $label"
    sed 's/^/      /' "$work"/*.out
  fi
  : > "$work/run.out"
done < <(list)
echo "$passed passed${failed:+, failed:$failed}"
[ -z "$failed" ] && [ $passed -gt 0 ]
