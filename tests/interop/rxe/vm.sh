# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # (some variables are rxe.sh's)
# Guests with Linux's rxe: packages, kernel, initial memory, network namespace, QEMU, commands. Sourced by rxe.sh.
#
#   namespace $netns:  $bridge 10.77.0.1 fd77::1 --+-- tap-a -- guest a: eth0 10.77.0.2 fd77::2, rxe0
#                                                  +-- tap-b -- guest b: eth0 10.77.0.3 fd77::3, rxe0

netns=verbatim-rxe
bridge=rxebr
state=/run/verbatim-rxe   # pids and consoles of the guests that run
cache=/var/cache/verbatim-rxe  # kernels, unpacked: they need not be fetched twice
boot_seconds=180          # in software, on a busy machine
# What rxe, its connection manager and the root over 9p need; what these depend on is found.
modules=(virtio_pci virtio_net virtio_rng 9pnet_virtio 9p overlay crc32_generic
         ib_core ib_uverbs rdma_cm rdma_ucm rdma_rxe sch_prio sch_netem sch_ingress cls_u32 act_mirred ifb)

say() { echo "rxe.sh: $*" >&2; }

die() {
  say "$*"
  exit 1
}

node_byte() {  # the last byte of a node's addresses
  case $1 in
    host) echo 1 ;;
    a) echo 2 ;;
    b) echo 3 ;;
    *) die "there is no node $1: host, a and b are" ;;
  esac
}

address() { echo "10.77.0.$(node_byte "$1")"; }
address6() { echo "fd77::$(node_byte "$1")"; }

inside() { ip netns exec "$netns" "$@"; }  # on the host, in the namespace that holds the taps

# --- what is needed -------------------------------------------------------------------------------------------------

# The machine cannot do it at all, as opposed to failing.
skip() {
  say "$*"
  exit 77
}

need_root() { [ "$(id -u)" -eq 0 ] || skip "root is needed, for network namespaces and taps"; }

need_packages() {
  [ -c /dev/net/tun ] || skip "/dev/net/tun is missing: this machine offers no taps"
  bash "$here/../../scripts/deps.sh" qemu-system-x86 busybox-static iproute2 procps socat cpio tcpdump \
    perftest rdmacm-utils ibverbs-utils ibverbs-providers python3-pyverbs || die "not all packages are there"
}

# Leaves the version of an unpacked Debian kernel in $kernel, and its folder in $kernel_root.
need_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  if [ -z "$package" ]; then
    apt-get update >/dev/null 2>&1 || true
    package=$(apt-cache depends linux-image-amd64 2>/dev/null | awk '/Depends: linux-image/ {print $2; exit}')
  fi
  [ -n "$package" ] || die "apt knows no kernel under the name linux-image-amd64"
  kernel=${package#linux-image-}
  kernel_root=$cache/$kernel
  [ -e "$kernel_root/complete" ] && return
  say "fetching $package"
  rm -rf "$kernel_root"
  mkdir -p "$kernel_root"
  (cd "$kernel_root" && apt-get download -o APT::Sandbox::User=root "$package") >"$kernel_root/log" 2>&1 \
    || (apt-get update && cd "$kernel_root" && apt-get download "$package") >"$kernel_root/log" 2>&1 \
    || die "the kernel could not be fetched: $(tail -n 1 "$kernel_root/log")"
  dpkg -x "$kernel_root"/*.deb "$kernel_root" || die "the kernel's package could not be unpacked"
  rm "$kernel_root"/*.deb
  busybox depmod -b "$kernel_root" "$kernel" || die "the kernel's modules could not be listed"
  touch "$kernel_root/complete"
}

# The kernel's folder names its modules with - or _; so does nobody's list of them.
module_file() {
  local pattern=${1//_/[-_]}
  grep -oE "^[^:]*/$pattern\.ko(\.xz|\.zst)?:" "$modules_folder/modules.dep" | head -n 1 | tr -d :
}

make_initial_memory() {  # into $state/initrd
  local tree=$state/tree module file needed
  modules_folder=$kernel_root/lib/modules/$kernel
  rm -rf "$tree"
  mkdir -p "$tree/bin" "$tree/sbin" "$tree/lib/modules/$kernel"
  cp "$(command -v busybox)" "$tree/bin/busybox"
  ln -s ../bin/busybox "$tree/sbin/modprobe"
  cp "$here/rxe/init.sh" "$tree/init"
  chmod 755 "$tree/init"
  mkdir "$tree/rxe"
  cp "$here"/rxe/serve.sh "$here"/rxe/*.py "$tree/rxe"
  for module in "${modules[@]}"; do
    file=$(module_file "$module")
    if [ -z "$file" ]; then
      grep -qE "/${module//_/[-_]}\.ko" "$modules_folder/modules.builtin" || die "kernel $kernel has no module $module"
      continue
    fi
    echo "$module" >>"$tree/modules"
    for needed in "$file" $(grep "^$file:" "$modules_folder/modules.dep" | cut -d: -f2); do
      mkdir -p "$tree/lib/modules/$kernel/$(dirname "$needed")"
      cp "$modules_folder/$needed" "$tree/lib/modules/$kernel/$needed"
    done
  done
  busybox depmod -b "$tree" "$kernel" || die "the guest's modules could not be listed"
  (cd "$tree" && find . | cpio -o -H newc --quiet | gzip -1) >"$state/initrd" || die "no initial memory could be made"
  rm -rf "$tree"
}

# --- up and down ----------------------------------------------------------------------------------------------------

make_namespace() {
  [ -e "/run/netns/$netns" ] && return
  ip netns add "$netns" || die "no network namespace could be made"
  inside ip link set lo up
  inside ip link add "$bridge" type bridge || die "no bridge could be made"
  inside ip link set "$bridge" mtu "$mtu" up
  inside ip addr add "$(address host)/24" dev "$bridge"
  inside ip -6 addr add "$(address6 host)/64" dev "$bridge" nodad
}

guest_runs() {  # is the process of this pid file ours still?
  local pid
  pid=$(cat "$state/$1.pid" 2>/dev/null) || return 1
  { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep -q "verbatim-rxe-$1 "
}

start_guest() {
  local node=$1 byte
  guest_runs "$node" && return
  byte=$(node_byte "$node")
  inside ip tuntap add dev "tap-$node" mode tap 2>/dev/null
  inside ip link set dev "tap-$node" mtu "$mtu" master "$bridge" up || die "no tap could be made for guest $node"
  ip netns exec "$netns" nice -n 19 qemu-system-x86_64 -name "verbatim-rxe-$node" -accel tcg -cpu max -smp 1 -m 768 \
    -nodefaults -no-user-config -no-reboot -display none -serial "file:$state/$node.console" \
    -kernel "$kernel_root/boot/vmlinuz-$kernel" -initrd "$state/initrd" \
    -append "console=ttyS0 quiet panic=-1 node=$byte mtu=$mtu" \
    -netdev "tap,id=net,ifname=tap-$node,script=no,downscript=no" \
    -device "virtio-net-pci,netdev=net,mac=52:54:00:77:00:0$byte,host_mtu=$mtu,romfile=" \
    -fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
    -device virtio-9p-pci,fsdev=root,mount_tag=host -device virtio-rng-pci \
    </dev/null >"$state/$node.qemu" 2>&1 9>&- &
  echo $! >"$state/$node.pid"
  disown
}

wait_for_guest() {
  local node=$1 end=$((SECONDS + boot_seconds))
  until on "$node" 10 true >/dev/null 2>&1; do
    if ! guest_runs "$node"; then
      tail -n 5 "$state/$node.qemu" "$state/$node.console" >&2 2>/dev/null
      die "guest $node ended while it started"
    fi
    [ "$SECONDS" -lt "$end" ] || { tail -n 5 "$state/$node.console" >&2; die "guest $node is not up after $boot_seconds s"; }
    sleep 1
  done
}

boot() {  # boot NODE...: brings up what is not up
  local node
  need_packages
  need_kernel
  mkdir -p "$state"
  make_namespace
  [ -e "$state/initrd" ] || make_initial_memory
  for node in "$@"; do start_guest "$node"; done
  for node in "$@"; do wait_for_guest "$node"; done
}

# As boot, and takes down at the end of this script what it has brought up. One at a time.
boot_for_now() {
  exec 9>/run/lock/verbatim-rxe
  flock -n 9 || die "another rxe.sh is at work"
  [ -e "$state" ] || trap down EXIT
  trap 'exit 130' INT TERM
  boot "$@"
}

down() {
  local node
  for node in a b; do
    guest_runs "$node" && kill "$(cat "$state/$node.pid")"
  done
  for node in a b; do
    for _ in $(seq 50); do guest_runs "$node" || break; sleep 0.1; done
    guest_runs "$node" && kill -KILL "$(cat "$state/$node.pid")"
  done
  [ -e "/run/netns/$netns" ] && ip netns del "$netns"
  rm -rf "$state"
}

# --- commands -------------------------------------------------------------------------------------------------------

# on NODE SECONDS COMMAND: runs a shell command there; its output and status become ours. 124: time ran out.
# 125: the guest did not answer.
on() {
  local node=$1 seconds=$2 output status
  if [ "$node" = host ]; then
    inside nice -n 19 timeout -k 2 "$seconds" sh -c "$3" </dev/null 2>&1 9>&-  # as slow as the guests
    return
  fi
  output=$(printf '%d %s\n' "$seconds" "$(printf %s "$3" | base64 -w 0)" |
    inside timeout "$((seconds + 40))" socat -t "$((seconds + 30))" - \
      "TCP:$(address "$node"):9,connect-timeout=20" 2>"$state/$node.socat")
  status=${output##*$'\nstatus '}
  case $status in
    '' | *[!0-9]*)
      say "guest $node did not answer${output:+ in full}: $(tail -n 1 "$state/$node.socat" 2>/dev/null)"
      return 125
      ;;
  esac
  output=${output%$'\nstatus '*}
  [ -z "$output" ] || printf '%s\n' "$output"
  return "$status"
}
