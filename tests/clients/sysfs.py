#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What programs find in place of /sys/class/infiniband.

usage: sysfs.py --build DIR

Looks through `verbatim run` with ordinary programs, kills one, and asks UCX, where it is installed. Prints what is not
as it should be; exit status 1 if anything is.
"""
import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

DEVICE = '/sys/class/infiniband/mlx5_0'
FILES = {
    DEVICE + '/node_type': r'1: CA',
    DEVICE + '/node_guid': r'([0-9a-f]{4}:){3}[0-9a-f]{4}',
    DEVICE + '/fw_ver': r'\d+\.\d+\.\d+',
    DEVICE + '/hca_type': r'MT4129',
    DEVICE + '/device/vendor': r'0x15b3',
    DEVICE + '/device/device': r'0x1021',
    DEVICE + '/device/numa_node': r'-1',
    DEVICE + '/device/local_cpus': r'[0-9a-f]+(,[0-9a-f]{8})*',
    DEVICE + '/ports/1/state': r'4: ACTIVE|1: DOWN',
    DEVICE + '/ports/1/link_layer': r'Ethernet',
    DEVICE + '/ports/1/pkeys/0': r'0xffff',
    DEVICE + '/ports/1/gids/0': r'([0-9a-f]{4}:){7}[0-9a-f]{4}',
    DEVICE + '/ports/1/gids/255': r'(0000:){7}0000',
    DEVICE + '/ports/1/gid_attrs/types/0': r'RoCE v2',
    DEVICE + '/ports/1/gid_attrs/ndevs/0': r'\S+',
    '/sys/class/infiniband_verbs/abi_version': r'6',
    '/sys/class/infiniband_verbs/uverbs0/ibdev': r'mlx5_0',
}
# Of unused entries, and of what has no interface: they can be opened and not be read (EINVAL), as the kernel's.
UNREADABLE = [DEVICE + f'/ports/1/gid_attrs/{kind}/255' for kind in ('types', 'ndevs')]
SUBNET_UNREADABLE = [DEVICE + '/ports/1/gid_attrs/types/7', DEVICE + '/ports/1/gid_attrs/ndevs/0']
# What differs on a device whose port is InfiniBand.
SUBNET_FILES = {
    DEVICE + '/ports/1/state': r'4: ACTIVE',
    DEVICE + '/ports/1/link_layer': r'InfiniBand',
    DEVICE + '/ports/1/lid': r'0x2',
    DEVICE + '/ports/1/sm_lid': r'0x1',
    DEVICE + '/ports/1/pkeys/0': r'0xffff',
    DEVICE + '/ports/1/pkeys/127': r'0x0000',
    DEVICE + '/ports/1/gids/0': r'fe80:0000:0000:0000:([0-9a-f]{4}:){3}[0-9a-f]{4}',
    DEVICE + '/ports/1/gids/7': r'(0000:){7}0000',
    DEVICE + '/ports/1/gid_attrs/types/0': r'IB/RoCE v1',
}
SECONDS_MAX = 20


class Check:
    def __init__(self, build):
        self.tool = os.path.join(build, 'bin', 'verbatim')
        self.environment = dict(os.environ, LC_ALL='C', VERBATIM_AGENT_SOCKET=f'verbatim-sysfs-{os.getpid()}')
        self.environment.pop('VERBATIM_DEVICES', None)
        self.wrong = 0

    def expect(self, holds, what):
        if not holds:
            self.wrong += 1
            print('not so:', what, flush=True)

    def run(self, *command):
        done = subprocess.run([self.tool, 'run', '--', *command], env=self.environment, capture_output=True, text=True,
                              timeout=60, check=False)
        return done.stdout + done.stderr

    def hold(self, files):
        for path, pattern in files.items():
            text = self.run('cat', path)
            self.expect(re.fullmatch(f'(?:{pattern})\n', text), f'{path} holds {pattern}: {text!r}')

    def hold_nothing(self, paths):
        for path in paths:
            text = self.run('sh', '-c', f'[ -f {path} ] && : < {path} && cat {path}')
            self.expect('Invalid argument' in text, f'{path} is a file that cannot be read: {text!r}')

    def subnet(self):
        self.environment['VERBATIM_DEVICES'] = 'mlx5_0:mlx5:infiniband'
        self.hold(SUBNET_FILES)
        self.hold_nothing(SUBNET_UNREADABLE)
        self.expect('No such file' in self.run('ls', DEVICE + '/device/net'), 'it has no interface')
        del self.environment['VERBATIM_DEVICES']

    def contents(self):
        self.hold(FILES)
        self.hold_nothing(UNREADABLE)
        for kind in ('types', 'ndevs'):
            names = self.run('ls', DEVICE + '/ports/1/gid_attrs/' + kind).split()
            self.expect(sorted(map(int, names)) == list(range(256)), f'{kind} has all entries: {names}')
        listed = self.run('ibv_devinfo', '-v') if shutil.which('ibv_devinfo') else ''
        guid = re.search(r'node_guid:\s+(\S+)', listed)
        if guid:
            self.expect(self.run('cat', DEVICE + '/node_guid').strip() == guid[1], 'the GUID is that of ibv_devinfo')

    def ways_of_looking(self):
        names = self.run('ls', '-l', '/sys/class/infiniband/', DEVICE + '/ports/1')
        self.expect('mlx5_0 -> ' in names and 'gid_attrs' in names and 'cannot' not in names, f'ls lists: {names}')
        script = f'cd {DEVICE} && read x < ports/1/lid && [ -d ports ] && [ ! -e nothing ] && echo "$x"'
        self.expect(self.run('bash', '-c', script) == '0x0\n', 'a shell finds its way')
        driver = self.run('readlink', DEVICE + '/device/driver').strip()
        self.expect(os.path.basename(driver) == 'mlx5_core', f'the driver is mlx5_core: {driver}')
        function = self.run('readlink', '-f', DEVICE + '/device').strip()
        self.expect(function.startswith('/sys/devices/pci'), f'links lead below /sys: {function}')
        self.expect(self.run('cat', function + '/vendor') == '0x15b3\n', 'and what they lead to is there')
        node = self.run('stat', '-L', '-c', '%F', '/dev/infiniband/uverbs0').strip()
        self.expect(node == 'character special file', f'uverbs0 is a device: {node}')
        self.expect('No such file' in self.run('ls', '/sys/class/infiniband_mad'), 'there is no infiniband_mad')
        self.expect(self.run('cat', '/sys/class/net/lo/ifindex') == '1\n', 'other paths are as they were')

    def ibstat(self):
        if shutil.which('ibstat'):
            text = self.run('ibstat', 'mlx5_0')
            self.expect(re.search(r"CA 'mlx5_0'[\s\S]*State: (Active|Down)[\s\S]*Link layer: Ethernet", text), text)

    def counters(self):
        for counter in ('counters/port_xmit_data', 'counters/port_rcv_packets', 'hw_counters/out_of_sequence'):
            text = self.run('cat', f'{DEVICE}/ports/1/{counter}')
            self.expect(re.fullmatch(r'\d+\n', text), f'{counter} is a number: {text!r}')
        text = self.run('grep', '-rc', '.', f'{DEVICE}/ports/1/counters', f'{DEVICE}/ports/1/hw_counters')
        self.expect(text.count(':1\n') > 40 and 'unavailable' not in text, f'all can be read at once: {text}')
        if not shutil.which('ib_write_bw'):
            return
        script = (f'ib_write_bw -d mlx5_0 -F -p 18599 -n 500 >/dev/null 2>&1 & sleep 0.6; '
                  f'ib_write_bw -d mlx5_0 -F -p 18599 -n 500 -W counters/port_xmit_data 127.0.0.1; wait; '
                  f'sleep 0.02; cat {DEVICE}/ports/1/counters/port_xmit_data')
        text = self.run('bash', '-c', script)
        told = re.search(r'port_xmit_data=(\d+)', text)
        words = 500 * 65536 // 4
        self.expect(told and words < int(told[1]) < words * 1.1, f'perftest sees its traffic: {text}')
        self.expect(told and int(text.split()[-1]) >= int(told[1]), f'which is still there afterwards: {text}')

    def root(self):
        return re.search(r':(/.*)', self.run('sh', '-c', 'echo "$VERBATIM_SYSFS"'))[1]

    def killed(self):
        """A tree is kept as long as a program runs, and goes when the program was killed."""
        root = self.root()
        sleeper = subprocess.Popen([self.tool, 'run', '--', 'sh', '-c', 'echo up; exec sleep 60'], env=self.environment,
                                   stdout=subprocess.PIPE, text=True)
        try:
            self.expect(sleeper.stdout.readline() == 'up\n', 'the program runs')
            self.run('true')
            self.expect(os.path.isdir(root), 'a running program keeps its tree')
        finally:
            sleeper.send_signal(signal.SIGKILL)
            sleeper.wait()
            sleeper.stdout.close()
        unfinished = os.path.join(os.path.dirname(root), f'.sys-{sleeper.pid}-*')
        deadline = time.monotonic() + SECONDS_MAX  # the agent removes both when it leaves, one after the other
        while (os.path.isdir(root) or glob.glob(unfinished)) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.expect(not os.path.isdir(root), 'nothing is left of a killed program')
        self.expect(not glob.glob(unfinished), f'nothing unfinished is left: {glob.glob(unfinished)}')

    def ucx(self):
        if not shutil.which('ucx_info'):
            return
        text = self.run('env', 'UCX_NET_DEVICES=mlx5_0:1', 'UCX_WARN_UNUSED_ENV_VARS=n', 'ucx_info', '-d')
        for transport in ('rc_verbs', 'ud_verbs'):
            self.expect(f'Transport: {transport}' in text, f'UCX finds {transport}')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    check = Check(os.path.abspath(parser.parse_args().build))
    for part in (check.contents, check.subnet, check.ways_of_looking, check.ibstat, check.counters, check.ucx, check.killed):
        part()
    sys.exit(1 if check.wrong else 0)


if __name__ == '__main__':
    main()
