#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Prints the table of speeds, each row a ratio against a reference taken in the same run.

usage: run.py --build DIR [--quick | --once] [--only REGEX]

Ours and the reference take turns, five times each (--quick: three, with fewer iterations); the medians count, of the
ratio too. --once is for tests: each is measured once, briefly, and what counts is that it can be. The exit status is 1 if
a row has failed, and 77 then if two hosts cannot be made here.
"""
import argparse
import collections
import contextlib
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import time

import hosts

KIB, MIB = 1 << 10, 1 << 20
ADDRESS = '127.0.0.1'
FAILED = 'failed'
SKIPPED_STATUS = 77

# ours, reference: functions that take one measurement; better: 'more' or 'less'; limit: of the ratio,
# or of our number where there is no reference; None: there is no target.
Row = collections.namedtuple('Row', 'name unit reference_name ours reference better limit')


def listening(port):
    for path in ('/proc/net/tcp', '/proc/net/tcp6'):
        with open(path, encoding='ascii') as file:
            if any(f':{port:04X} ' in line and ' 0A ' in line for line in file):
                return True
    return False


class Bench:
    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.scale = 0.02 if options.once else 0.1 if options.quick else 1.0
        self.environment = dict(os.environ, LC_ALL='C', LD_LIBRARY_PATH=os.path.join(self.build, 'lib'),
                                VERBATIM_AGENT_SOCKET=f'verbatim-bench-{os.getpid()}')
        self.port = random.randrange(19000, 30000)
        self.through_run = [os.path.join(self.build, 'bin', 'verbatim'), 'run', '--']
        self.gid = None
        self.hosts = hosts.Hosts(self.build, self.environment, self.scale)
        self.narrow_hosts = hosts.Hosts(self.build, self.environment, self.scale, 1500)

    def close(self):
        self.hosts.close()
        self.narrow_hosts.close()

    def iterations(self, count):
        return max(20, int(count * self.scale))

    def both_ends(self, command, client_words, environment):
        """Output of the client; the server is the same command without the client's words."""
        with subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as server:
            try:
                while not listening(self.port):
                    if server.poll() is not None:
                        raise RuntimeError(f'{command[0]}: the server ended before a client came')
                    time.sleep(0.01)
                return subprocess.run(command + client_words, env=environment, capture_output=True, text=True,
                                      timeout=120, check=True).stdout
            finally:
                try:
                    server.wait(5)
                except subprocess.TimeoutExpired:
                    server.kill()

    def perftest(self, program, size, count, column, more=()):
        """A column of the result row, counted from the size."""
        self.port += 1
        command = [f'ib_{program}', '-d', 'mlx5_0', '-F', '-p', str(self.port), '-s', str(size),
                   '-n', str(self.iterations(count)), *more]
        out = self.both_ends(command, [ADDRESS], self.environment)
        rows = [line.split() for line in out.splitlines() if re.match(rf'\s*{size}\s+\d+\s+[\d.]+', line)]
        return float(rows[-1][column])

    def ucx(self, test, size, count, column, transport='posix,cma'):
        """A column of the `Final:` row: 1 is the median latency (us), -3 MB/s, -1 messages/s."""
        self.port += 1
        environment = dict(os.environ, LC_ALL='C', UCX_TLS=f'{transport},self', UCX_WARN_UNUSED_ENV_VARS='n')
        command = ['ucx_perftest', '-p', str(self.port)]
        if transport != 'posix,cma':
            environment.update(UCX_NET_DEVICES='mlx5_0:1', UCX_IB_GID_INDEX=self.gid_index(),
                               VERBATIM_AGENT_SOCKET=self.environment['VERBATIM_AGENT_SOCKET'])
            command = self.through_run + command
        client = [ADDRESS, '-t', test, '-s', str(size), '-n', str(self.iterations(count)), '-w', '1000']
        out = self.both_ends(command, client, environment)
        return float(re.search(r'Final:\s+(.*)', out).group(1).split()[column])

    def gid_index(self):
        """Of the RoCE v2 entry of an IPv4 address."""
        if self.gid is None:
            out = subprocess.run(['ibv_devinfo', '-v', '-d', 'mlx5_0'], env=self.environment, capture_output=True,
                                 text=True, timeout=30, check=True).stdout
            self.gid = re.search(r'GID\[\s*(\d+)\]:\s+::ffff:[\d.]+, RoCE v2', out).group(1)
        return self.gid

    def own(self, program, *words):
        out = subprocess.run([os.path.join(self.build, 'bench', program), *map(str, words)], env=self.environment,
                             capture_output=True, text=True, timeout=120, check=True).stdout
        return float(out)

    def one_sided(self, operation, size, count):
        name = f'{size // MIB} MiB' if size >= MIB else f'{size // KIB} KiB'
        return Row(f'ib_{operation}_bw {name}', 'MiB/s', f'process_vm_{operation}v',
                   lambda: self.perftest(f'{operation}_bw', size, count, 3),
                   lambda: self.own('cross_memory', operation, size, self.iterations(count)), 'more', 0.9)

    def over_device(self, transport):
        """UCX over the device, beside UCX over what it has for one host."""
        yield Row(f'ucx tag_lat 8 B over {transport}', 'us', 'ucx tag_lat posix,cma',
                  lambda: self.ucx('tag_lat', 8, 20000, 1, transport), lambda: self.ucx('tag_lat', 8, 20000, 1),
                  'less', None)
        for size, name, count in ((64 * KIB, '64 KiB', 10000), (MIB, '1 MiB', 1000)):
            yield Row(f'ucx tag_bw {name} over {transport}', 'MB/s', 'ucx tag_bw posix,cma',
                      lambda size=size, count=count: self.ucx('tag_bw', size, count, -3, transport),
                      lambda size=size, count=count: self.ucx('tag_bw', size, count, -3), 'more', None)

    def idle(self):
        """Milliseconds of processor time in 10 s."""
        seconds = 10 if self.scale == 1.0 else 2
        return self.own('raw_idle', seconds) * 10 / seconds

    def rows(self):
        sizes = ((64 * KIB, 40000), (MIB, 4000), (4 * MIB, 1000))
        for operation in ('write', 'read'):
            for size, count in sizes:
                yield self.one_sided(operation, size, count)
        for size, name, count in ((64 * KIB, '64 KiB', 40000), (MIB, '1 MiB', 4000)):
            yield Row(f'ib_send_bw {name}', 'MiB/s', 'ucx tag_bw posix,cma',
                      lambda size=size, count=count: self.perftest('send_bw', size, count, 3),
                      lambda size=size, count=count: self.ucx('tag_bw', size, count, -3), 'more', 1.0)
        for size in (8, 64, 1024):
            yield Row(f'ib_send_lat {size} B', 'us', 'ucx tag_lat posix,cma',
                      lambda size=size: self.perftest('send_lat', size, 100000, 4),
                      lambda size=size: self.ucx('tag_lat', size, 100000, 1), 'less', 1.5)
        yield Row('ib_write_lat 8 B', 'us', 'process_vm_writev ping-pong', lambda: self.perftest('write_lat', 8, 100000, 4),
                  lambda: self.own('cross_memory', 'pingpong', 8, self.iterations(100000)), 'less', 1.3)
        yield Row('ib_send_bw 8 B, one QP', 'M msg/s', 'ucx tag_bw posix,cma', lambda: self.perftest('send_bw', 8, 1000000, 4),
                  lambda: self.ucx('tag_bw', 8, 1000000, -1) / 1e6, 'more', 0.7)
        yield Row('write 8 B inline, post + poll', 'ns', '8 B copy, 2 cache lines',
                  lambda: self.own('verbs_costs', 'inline_write'),
                  lambda: self.own('verbs_costs', 'reference_copy'), 'report', 150)
        yield Row('ibv_reg_mr of 1 GiB touched', 'us', '', lambda: self.own('verbs_costs', 'register'), None, 'less', 50)
        yield Row('the same, first of its process', 'us', '', lambda: self.own('verbs_costs', 'register_first'), None, 'less', 50)
        yield Row('create + connect RC pairs', 'pairs/s', '', lambda: self.own('verbs_costs', 'connect'), None, 'more', 20000)
        yield Row('DEVX commands, QUERY_HCA_CAP', '1/s', '', lambda: self.own('devx_costs', 'query'), None, 'more', 100000)
        yield Row('the same, keys made + destroyed', '1/s', '', lambda: self.own('devx_costs', 'objects'), None, 'more', 100000)
        yield Row('packet of 64 B, parse', 'ns', '', lambda: self.own('packet_costs', 'parse'), None, 'less', 50)
        yield Row('the same, headers and ICRC', 'ns', '', lambda: self.own('packet_costs', 'seal'), None, 'less', 100)
        yield Row('packet of 4 KiB, parse + check', 'ns', '', lambda: self.own('packet_costs', 'check'), None, 'less', 400)
        yield Row('ICRC of 4 KiB', 'GB/s', '', lambda: self.own('packet_costs', 'icrc'), None, 'more', 10)
        yield Row('idle RC QP beyond its queues', 'bytes', '', lambda: self.own('verbs_costs', 'memory'), None, 'less', 8192)
        for kind, count in (('contexts', 100), ('cqs', 10000), ('srqs', 10000), ('qps', 10000), ('mrs', 100000), ('ahs', 100000)):
            for what, unit in (('make', 'us'), ('bytes', 'bytes')):
                yield Row(f'each of {self.iterations(count)} {kind}: {what}', unit, '',
                          lambda kind=kind, count=count, what=what:
                          self.own('object_costs', kind, self.iterations(count), what), None, 'less', None)
        yield Row('idle, raw doorbells exposed', 'ms/10 s', '', self.idle, None, 'less', 10)
        for operation in ('write', 'read', 'send'):
            yield Row(f'rpma_{operation} 8 B round trip', 'ns', 'the same over verbs',
                      lambda operation=operation: self.own('rpma_costs', 'rpma', operation, 8),
                      lambda operation=operation: self.own('rpma_costs', 'verbs', operation, 8), 'less', 1.1)
        for transport in ('rc_v', 'ud_v', 'rc_x', 'ud_x', 'dc_x'):
            yield from self.over_device(transport)
        yield from hosts.rows(self.hosts, self.narrow_hosts, Row)


def measure(row, repetitions):
    ours, reference = [], []
    for _ in range(repetitions):
        ours.append(row.ours())
        if row.reference:
            reference.append(row.reference())
    if not reference:
        return statistics.median(ours), None, None
    # Of each turn, not of the medians: a machine changes its speed while the turns go on.
    ratio = statistics.median(one / other for one, other in zip(ours, reference))
    return statistics.median(ours), statistics.median(reference), ratio


def judged(row, ours, ratio):
    """What is compared with the limit, and the words for it."""
    if row.limit is None:
        return '-' if ratio is None else f'{ratio:.2f}', '', ''
    value = ours if ratio is None or row.better == 'report' else ratio
    good = value >= row.limit if row.better == 'more' else value <= row.limit
    sign = '>=' if row.better == 'more' else '<='
    return ('-' if ratio is None else f'{ratio:.2f}'), f'{sign} {row.limit:g}', 'yes' if good else 'NO'


def report(row, repetitions):
    try:
        ours, reference, ratio = measure(row, repetitions)
    except (RuntimeError, OSError, subprocess.SubprocessError, IndexError, AttributeError) as error:
        return row.name, FAILED, '', '', str(error)[:80], '', '', 'NO'
    shown = '' if reference is None else f'{reference:.2f}'
    return row.name, f'{ours:.2f}', shown, row.unit, row.reference_name, *judged(row, ours, ratio)


def version(package):
    out = subprocess.run(['dpkg-query', '-W', '-f=${Version}', package], capture_output=True, text=True, check=False)
    return out.stdout or 'unknown'


def machine():
    with open('/proc/cpuinfo', encoding='utf-8') as file:
        model = re.search(r'model name\s*:\s*(.*)', file.read())
    return f'{model.group(1) if model else platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--quick', action='store_true')
    parser.add_argument('--once', action='store_true')
    parser.add_argument('--only', default='')
    options = parser.parse_args()
    repetitions = 1 if options.once else 3 if options.quick else 5
    print(machine())
    print(f'perftest {version("perftest")}, ucx-utils {version("ucx-utils")}; '
          f'medians of {repetitions}, load {os.getloadavg()[0]:.1f} at the start')
    layout = '{:30} {:>11} {:>11} {:8} {:28} {:>7} {:>9} {}'
    print(layout.format('what', 'ours', 'reference', 'unit', 'reference is', 'ratio', 'target', 'reached'))
    failed = False
    with contextlib.closing(Bench(options)) as bench:
        for row in bench.rows():
            if re.search(options.only, row.name):
                columns = report(row, repetitions)
                failed |= columns[1] == FAILED
                print(layout.format(*columns), flush=True)
    sys.exit(0 if not failed else 1 if hosts.can_be_made() else SKIPPED_STATUS)


if __name__ == '__main__':
    main()
