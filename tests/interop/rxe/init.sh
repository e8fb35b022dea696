#!/bin/busybox sh
# shellcheck shell=dash
# SPDX-License-Identifier: MIT
# The first process of a guest, in its initial memory: modules, the host's root under an overlay, rxe0, and serve.sh.
# The kernel's command line carries node=LAST_BYTE_OF_THE_ADDRESS and mtu=BYTES.
fail() {
  echo "guest: $*"
  poweroff -f
}

/bin/busybox mkdir -p /proc /sys /dev /host /upper /root
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
read -r words </proc/cmdline
for word in $words; do
  case $word in
    node=*) node=${word#node=} ;;
    mtu=*) mtu=${word#mtu=} ;;
  esac
done

while read -r module; do
  modprobe "$module" || fail "module $module does not load"
done </modules

mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host || fail "no root over 9p"
mount -t tmpfs tmpfs /upper
mkdir -p /upper/data /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/data,workdir=/upper/work overlay /root || fail "no overlay"
mount -t proc proc /root/proc
mount -t sysfs sysfs /root/sys
mount -t devtmpfs devtmpfs /root/dev
mkdir -p /root/dev/shm /root/dev/pts
mount -t devpts devpts /root/dev/pts
for folder in run tmp dev/shm; do mount -t tmpfs tmpfs "/root/$folder"; done
cp -r /rxe /root/run/rxe

hostname "guest$node"
ulimit -l unlimited
ip link set lo up
ip link set eth0 mtu "$mtu" up || fail "no eth0"
ip addr add "10.77.0.$node/24" dev eth0
echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
ip -6 addr add "fd77::$node/64" dev eth0
chroot /root rdma link add rxe0 type rxe netdev eth0 || fail "no rxe0"

echo "guest: up"
# One connection is one command; they run side by side.
chroot /root socat -t 600 TCP-LISTEN:9,reuseaddr,fork EXEC:"/bin/sh /run/rxe/serve.sh"
fail "nothing takes commands"
