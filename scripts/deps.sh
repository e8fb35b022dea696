#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what Verbatim is built and tested with, on Debian and its relatives; does nothing when all is there.
# Needs root or sudo only when something is missing.
# usage: deps.sh [PACKAGE...]    installs these, too
set -u

needed=(g++ cmake ninja-build pkg-config python3 binutils git
        libgtest-dev libcli11-dev libfmt-dev nlohmann-json3-dev libssl-dev
        perftest ibverbs-utils rdmacm-utils ucx-utils "$@")
# Their absence costs time or one check, not the build.
helpful=(ccache tshark)

installed() { dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep -q '^install ok installed'; }

missing_of() {
  local package
  for package in "$@"; do installed "$package" || echo "$package"; done
}

fail() {
  echo "deps.sh: $*" >&2
  exit 1
}

if ! command -v dpkg-query >/dev/null; then
  fail "this is not a Debian system; install the counterparts of: ${needed[*]}"
fi

mapfile -t missing < <(missing_of "${needed[@]}")
mapfile -t wanted < <(missing_of "${helpful[@]}")
[ ${#missing[@]} -eq 0 ] && exit 0

root=()
if [ "$(id -u)" -ne 0 ]; then
  if sudo -n true 2>/dev/null; then
    root=(sudo -n)
  else
    fail "missing packages: ${missing[*]}
Neither root nor password-less sudo is at hand. Have root run:
  apt-get install ${missing[*]}"
  fi
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    -o DPkg::Lock::Timeout=120 "$@" >>"$log" 2>&1
}

echo "deps.sh: installing ${missing[*]} ${wanted[*]}"
"${root[@]}" apt-get update >>"$log" 2>&1 || echo "deps.sh: apt-get update failed; trying with the lists at hand" >&2
if ! install "${missing[@]}"; then
  tail -n 20 "$log" >&2
  fail "apt-get could not install: $(missing_of "${missing[@]}" | tr '\n' ' ')"
fi
if [ ${#wanted[@]} -gt 0 ] && ! install "${wanted[@]}"; then
  echo "deps.sh: going on without ${wanted[*]}" >&2
fi
exit 0
