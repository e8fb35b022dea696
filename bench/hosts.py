# SPDX-License-Identifier: MIT
"""Two hosts for bench/run.py, and what is measured between them: RoCEv2 beside plain sockets on the same link."""
import json
import os
import re
import shutil
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', 'tests', 'clients'))
from run import TwoHosts, free_port, listening  # noqa: E402

KIB, MIB = 1 << 10, 1 << 20
UDP_HEADERS, TCP_HEADERS = 28, 52
SERVER, CLIENT = '10.77.0.1', '10.77.0.2'
# VERBATIM_IPERF3 may name one that sends UDP in segments (--gsro, since 3.19), which the system's need not.
IPERF = os.environ.get('VERBATIM_IPERF3', 'iperf3')


def can_be_made():
    try:
        TwoHosts(1500).close()
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def iperf_has_segments():
    if not shutil.which(IPERF):
        return False
    shown = subprocess.run([IPERF, '--help'], capture_output=True, text=True, timeout=30, check=False)
    return '--gsro' in shown.stdout + shown.stderr


class Hosts:
    """One end in each of two network namespaces joined by a link of that MTU."""

    def __init__(self, build, environment, scale, mtu=9000):
        self.build, self.environment, self.scale, self.mtu = build, environment, scale, mtu
        self.place = None
        self.gid = None

    def open(self):
        if not self.place:
            self.place = TwoHosts(self.mtu)

    def close(self):
        if self.place:
            self.place.close()
            self.place = None

    def gid_index(self):
        """Of the server's RoCE v2 entry of an IPv4 address."""
        if self.gid is None:
            out = subprocess.run([*self.place.server_prefix, 'ibv_devinfo', '-v', '-d', 'mlx5_0'], env=self.environment,
                                 capture_output=True, text=True, timeout=30, check=True).stdout
            self.gid = re.search(r'GID\[\s*(\d+)\]:\s+::ffff:[\d.]+, RoCE v2', out).group(1)
        return self.gid

    def both_ends(self, server_command, client_command, port):
        """Output of the client."""
        with subprocess.Popen([*self.place.server_prefix, *server_command], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                while not listening(port, server.pid):
                    if server.poll() is not None:
                        raise RuntimeError(f'{server_command[0]}: the server ended before a client came')
                    time.sleep(0.01)
                return subprocess.run([*self.place.client_prefix, *client_command], env=self.environment,
                                      capture_output=True, text=True, timeout=120, check=True).stdout
            finally:
                try:
                    server.wait(5)
                except subprocess.TimeoutExpired:
                    server.kill()

    def perftest(self, program, size, count, column, *more):
        """A column of the result row, counted from the size."""
        self.open()
        port = free_port()
        command = [f'ib_{program}', '-d', 'mlx5_0', '-F', '-x', self.gid_index(), '-p', str(port), '-s', str(size),
                   '-n', str(max(20, int(count * self.scale))), *more]
        out = self.both_ends(command, [*command, SERVER], port)
        rows = [line.split() for line in out.splitlines() if re.match(rf'\s*{size}\s+\d+\s+[\d.]+', line)]
        return float(rows[-1][column])

    def with_loss(self, share, measure):
        """What `measure` gives while the server's host loses so many of the packets that come in."""
        self.open()
        inject = [*self.place.server_prefix, os.path.join(self.build, 'bin', 'verbatim'), 'inject']
        subprocess.run([*inject, 'add', '--drop', share, '--direction', 'in'], env=self.environment, check=True, timeout=30,
                       stdout=subprocess.DEVNULL)
        try:
            return measure()
        finally:
            subprocess.run([*inject, 'clear'], env=self.environment, check=True, timeout=30, stdout=subprocess.DEVNULL)

    def datagrams(self, what, size, length):
        """Of bench/datagrams.cpp; `length`: seconds or turns."""
        self.open()
        ends = [f'{prefix[-1]},{address}' for prefix, address in
                ((self.place.client_prefix, CLIENT), (self.place.server_prefix, SERVER))]
        if isinstance(length, int):
            length = max(100, int(length * self.scale))
        out = subprocess.run([os.path.join(self.build, 'bench', 'datagrams'), *ends, what, str(size), str(length)],
                             env=self.environment, capture_output=True, text=True, timeout=120, check=True).stdout
        return float(out)

    def iperf(self, *more):
        """MiB/s that the server gets."""
        self.open()
        port = free_port()
        seconds = 1 if self.scale < 1 else 2
        out = self.both_ends([IPERF, '-s', '-1', '-p', str(port)],
                             [IPERF, '-c', SERVER, '-p', str(port), '-t', str(seconds), '-J', *more], port)
        end = json.loads(out)['end']
        return (end.get('sum_received') or end['sum'])['bits_per_second'] / 8 / MIB

    def iperf_segments(self):
        """The same of UDP that the kernel cuts, in packets no longer than a TCP segment, as iperf3 wants them."""
        return self.iperf('-u', '-b', '0', '--gsro', '-w', '8M', '-l', str(self.mtu - TCP_HEADERS))

    def connections(self, count):
        """Connections that cmtime makes and ends, all its steps, in a second."""
        self.open()
        self.gid_index()  # which starts the server's agent: without one nobody refuses a client that is early
        count = max(10, int(count * self.scale))
        command = ['cmtime', '-p', str(free_port()), '-c', str(count)]
        with subprocess.Popen([*self.place.server_prefix, *command, '-b', SERVER], env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
            try:
                for _ in range(100):  # until the server listens
                    out = subprocess.run([*self.place.client_prefix, *command, '-b', CLIENT, '-s', SERVER],
                                         env=self.environment, capture_output=True, text=True, timeout=60, check=False).stdout
                    steps = dict(re.findall(r'^(\w[\w ]*?)\s*:\s+([\d.]+)', out, re.MULTILINE))
                    if 'disconnect' in steps:
                        return count / sum(map(float, steps.values())) * 1000
                    time.sleep(0.05)
            finally:
                server.kill()
        raise RuntimeError('cmtime: no connections')

    def stream(self):
        """MiB/s of UDP packets that fill the link, in runs that the kernel cuts."""
        return self.datagrams('stream', self.mtu - UDP_HEADERS, 0.5 if self.scale == 1 else 0.3)


def rows(hosts, narrow, row):
    """`narrow`: the same over a link of the usual MTU; `row`: the type of bench/run.py."""
    udp = 'UDP_SEGMENT, UDP_GRO'

    def bandwidth(place, operation, reference_name, reference, better, limit):
        return row(f'ib_{operation} 1 MiB, MTU {place.mtu}', 'MiB/s', reference_name,
                   lambda: place.perftest(operation, MIB, 4000, 3), reference, better, limit)
    yield bandwidth(hosts, 'write_bw', udp, hosts.stream, 'more', 0.8)
    if iperf_has_segments():
        yield bandwidth(hosts, 'write_bw', 'iperf3 --udp --gsro', hosts.iperf_segments, 'more', 0.8)
    if shutil.which(IPERF):
        yield bandwidth(hosts, 'write_bw', 'iperf3, TCP', hosts.iperf, 'more', 1.0)
        yield bandwidth(hosts, 'write_bw', 'iperf3 --udp, no segments', lambda: hosts.iperf('-u', '-b', '0'), 'more', None)
    yield bandwidth(hosts, 'read_bw', udp, hosts.stream, 'more', None)
    yield bandwidth(hosts, 'send_bw', udp, hosts.stream, 'more', None)
    yield bandwidth(narrow, 'write_bw', udp, narrow.stream, 'more', None)
    def write():
        return hosts.perftest('write_bw', MIB, 4000, 3)
    yield row('ib_write_bw 1 MiB, 0.1 % lost', 'MiB/s', 'the same without loss',
              lambda: hosts.with_loss('0.1%', write), write, 'more', 0.7)
    for name, more, what, turns in (('polling', (), 'spin', 50000), ('sleeping', ('-e',), 'sleep', 10000)):
        yield row(f'ib_send_lat 64 B, {name}', 'us', f'sendto, recvfrom, {name}',
                  lambda more=more, turns=turns: hosts.perftest('send_lat', 64, turns, 4, *more),
                  lambda what=what, turns=turns: hosts.datagrams(what, 64, turns), 'less', 1.5)
    yield row('cmtime', 'conn/s', '', lambda: hosts.connections(500), None, 'more', None)
    yield row('ib_send_bw 64 B', 'M msg/s', 'sendmmsg, recvmmsg',
              lambda: hosts.perftest('send_bw', 64, 500000, 4), lambda: hosts.datagrams('rate', 64, 0.5), 'more', 1.0)
