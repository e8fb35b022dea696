#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# RoCEv2 against Linux: guests with the kernel's rxe in QEMU, and stock programs between them and this host.
# docs/interop.md says more. Needs root, and installs what it needs.
# usage: rxe.sh interop [--peer guest] [--build FOLDER] [NAME...]
#                                              all cases (or those named) between Linux's rxe and Verbatim, built in the
#                                              folder; --peer guest: between two guests, which need no Verbatim
#        rxe.sh boot [NODE...]                 brings up guests a and b (or one of them), until `down`
#        rxe.sh run [-t SECONDS] NODE COMMAND  runs a shell command in a guest, or in the host's namespace (NODE host)
#        rxe.sh capture FOLDER [NAME...]       guests a and b talk; leaves NAME.pcap in the folder
#        rxe.sh down                           ends the guests and removes the namespace
set -u
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck disable=SC2034
mtu=4200  # of the taps: room for packets of 4096 bytes
# shellcheck source=tests/interop/rxe/vm.sh
. "$here/rxe/vm.sh"
# shellcheck source=tests/interop/rxe/play.sh
. "$here/rxe/play.sh"
# shellcheck source=tests/interop/rxe/capture.sh
. "$here/rxe/capture.sh"
# shellcheck source=tests/interop/rxe/cases.sh
. "$here/rxe/cases.sh"

usage() {
  sed -n '/^# usage:/,/^[^#]/{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}" >&2
  exit 2
}

# The peer of guest a, and with Verbatim as the peer its build.
interop_with() {
  local build=
  peer=host
  while [ $# -gt 0 ]; do
    case $1 in
      --peer)
        [ "${2-}" = guest ] || usage
        peer=b
        shift 2
        ;;
      --build)
        [ $# -ge 2 ] || usage
        build=$2
        shift 2
        ;;
      -*) usage ;;
      *) break ;;
    esac
  done
  if [ "$peer" = host ]; then
    [ -n "$build" ] || build=$(bash "$here/../../scripts/build.sh" release product) || die "the build failed"
    verbatim=$(cd "$build" && pwd)/bin/verbatim
    [ -x "$verbatim" ] || die "there is no $build/bin/verbatim"
    boot_for_now a
  else
    boot_for_now a b
  fi
  interop "$@"
}

main() {
  [ $# -gt 0 ] || usage
  local action=$1 seconds=60 node
  shift
  need_root
  case $action in
    boot)
      [ $# -gt 0 ] || set -- a b
      boot_for_now "$@"
      trap - EXIT
      say "up: $*"
      ;;
    run)
      if [ "${1-}" = -t ]; then seconds=$2; shift 2; fi
      [ $# -ge 2 ] || usage
      node=$1
      shift
      on "$node" "$seconds" "$*"
      ;;
    capture)
      [ $# -ge 1 ] || usage
      boot_for_now a b
      capture "$@"
      ;;
    interop) interop_with "$@" ;;
    down) down ;;
    *) usage ;;
  esac
}

main "$@"
