#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Connections between two hosts (network namespaces joined by a link) when programs, agents and hosts go.

usage: hosts.py --build DIR [--long] [--only REGEX] [--mtu N]

  --long  those too that wait until a host is given up

Needs root. Ends with `N passed, N failed`; exit status 1 if one failed, 77 if no namespaces may be made here or the
programs (rdmacm-utils) are not installed.
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run import SKIPPED_STATUS, TwoHosts, end_group, free_port  # noqa: E402

SECONDS_MAX = 20


class Failure(Exception):
    pass


class Program:
    """A stock program at one of the ends, its output in a file."""

    def __init__(self, bench, end, command):
        prefix = (bench.place.server_prefix, bench.place.client_prefix)[end]
        bench.started += 1
        self.command, self.log = command, os.path.join(bench.folder, f'{bench.started}.log')
        with open(self.log, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen([*prefix, 'stdbuf', '-oL', *command.split()], env=bench.environment, stdout=log,
                                            stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True)
        bench.programs.append(self)

    def output(self):
        with open(self.log, encoding='utf-8', errors='replace') as file:
            return file.read()

    def await_output(self, pattern):
        deadline = time.monotonic() + SECONDS_MAX
        while not re.search(pattern, self.output()):
            if time.monotonic() > deadline or self.process.poll() is not None:
                self.fail(f'never printed {pattern}')
            time.sleep(0.01)

    def await_in(self, table, entry):
        """Waits for an entry of a table of its network."""
        deadline = time.monotonic() + SECONDS_MAX
        while self.process.poll() is None and time.monotonic() < deadline:
            with open(f'/proc/{self.process.pid}/net/{table}', encoding='ascii') as file:
                if entry in file.read():
                    return
            time.sleep(0.01)
        self.fail(f'never showed {entry} in {table}')

    def end(self, seconds_max=SECONDS_MAX):
        """Its exit status."""
        if not end_group(self.process, seconds_max):
            self.fail(f'still ran after {seconds_max} s')
        return self.process.returncode

    def end_well(self):
        status = self.end()
        if status != 0:
            self.fail(f'ended with status {status}')

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def fail(self, what):
        last = ' | '.join(line.strip() for line in self.output().splitlines() if line.strip())[-200:]
        raise Failure(f'{self.command.split()[0]} {what}: {last}')


class Bench:
    def __init__(self, build, place, folder):
        self.build, self.place, self.folder = build, place, folder
        self.agent = f'verbatim-hosts-{os.getpid()}'
        self.environment = dict(os.environ, LC_ALL='C', VERBATIM_AGENT_SOCKET=self.agent,
                                LD_LIBRARY_PATH=os.path.join(build, 'lib'))
        self.programs = []
        self.started = 0

    def start(self, end, command):
        return Program(self, end, command)

    def agents(self):
        """Process ids of this test's agents."""
        found = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            with contextlib.suppress(OSError):
                with open(f'/proc/{pid}/comm', encoding='ascii') as comm, open(f'/proc/{pid}/environ', 'rb') as environ:
                    mine = f'VERBATIM_AGENT_SOCKET={self.agent}'.encode() in environ.read().split(b'\0')
                    if comm.read().strip() == 'verbatimd' and mine:
                        found.append(int(pid))
        return found

    def kill_agents(self):
        before = self.agents()
        if len(before) < 2:
            raise Failure('there are no two agents')
        for pid in before:
            os.kill(pid, signal.SIGKILL)

    def inject(self, arguments):
        """The same rule for what is sent by both hosts."""
        for prefix in (self.place.server_prefix, self.place.client_prefix):
            subprocess.run([*prefix, os.path.join(self.build, 'bin', 'verbatim'), 'inject', *arguments.split()], check=True,
                           env=self.environment, stdout=subprocess.DEVNULL, timeout=SECONDS_MAX)

    def clear(self):
        for program in self.programs:
            if program.process.poll() is None:
                program.kill()
        self.programs.clear()


def pinging(bench, count, address=None):
    """An rping server and its client, which is connected."""
    arguments = f'-a {address or bench.place.address} -p {free_port()} -C {count} -V'
    server = bench.start(0, f'rping -s {arguments}')
    server.await_in('udp6', ':12B7 ')  # what is asked before its host listens is asked again seconds later
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        client = bench.start(1, f'rping -c -v {arguments}')
        while client.process.poll() is None and 'ping data' not in client.output() and time.monotonic() < deadline:
            time.sleep(0.01)
        if 'ping data' in client.output():
            return server, client
        if time.monotonic() > deadline:
            client.fail('was not let in')
        client.kill()


def joined(bench, address, table, entry):
    """A receiver of what is sent to a group."""
    receiver = bench.start(0, f'mckey -m {address} -b {bench.place.addresses[0][":" in address]} -C 10')
    receiver.await_in(table, entry)
    return receiver


def datagrams_to_groups(bench):
    """They come to the other host, without a route to the group here."""
    groups = (('239.1.1.7', 'igmp', '070101EF'), ('ff0e::77', 'igmp6', 'ff0e0000000000000000000000000077'))
    receivers = [joined(bench, *each) for each in groups]
    senders = [bench.start(1, f'mckey -m {address} -b {bench.place.addresses[1][":" in address]} -s -C 10')
               for address, _, _ in groups]
    for program in senders + receivers:
        program.end_well()


def ipv6_connection(bench):
    for end in pinging(bench, 50, bench.place.addresses[0][True]):
        end.end_well()


def link_local_connection(bench):
    shown = subprocess.run([*bench.place.server_prefix, *'ip -6 addr show dev eth0 scope link'.split()], check=True,
                           capture_output=True, text=True).stdout
    found = re.search(r'inet6 (fe80:[0-9a-f:]+)/', shown)
    for end in pinging(bench, 50, f'{found.group(1)}%eth0'):
        end.end_well()


def nobody_there(bench):
    """An address that nobody has is not resolved."""
    client = bench.start(1, f'rping -c -a {bench.place.address}9 -p {free_port()} -C 1')
    client.end()
    if 'RDMA_CM_EVENT_ADDR_ERROR, error -110' not in client.output():
        client.fail('was not told')


def many_connections(bench, count, seconds_max):
    port = free_port()
    server = bench.start(0, f'ucmatose -p {port} -c {count} -C 10')
    client = None
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        client = bench.start(1, f'ucmatose -p {port} -c {count} -C 10 -s {bench.place.address}')
        if client.end(seconds_max) == 0:
            break
        if time.monotonic() > deadline or server.process.poll() is not None:
            client.fail('was not let in')
    server.end_well()


def messages_doubled(bench):
    """Those of the connection manager come twice, and not in their order."""
    bench.inject('add --duplicate 100% --reorder 30% --opcode cm --seed 1')
    many_connections(bench, 20, SECONDS_MAX)
    for end in pinging(bench, 50):
        end.end_well()
    bench.inject('clear')


def messages_lost(bench):
    """They are sent again, some seconds later."""
    bench.inject('add --drop 25% --opcode cm --seed 1')
    many_connections(bench, 10, 120)
    bench.inject('clear')


def agents_killed(bench):
    """Data goes on as if nothing had happened, and the end of the connection is told, too."""
    server, client = pinging(bench, 6000)
    for line in (500, 2000):
        client.await_output(f'ping data: rdma-ping-{line}:')
        bench.kill_agents()
        deadline = time.monotonic() + SECONDS_MAX
        while len(bench.agents()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
    client.end_well()
    server.end_well()


def program_killed(bench):
    """Its peer on the other host is told at once."""
    server, client = pinging(bench, 1000000)
    server.kill()
    client.end()
    if 'DISCONNECT EVENT' not in client.output():
        client.fail('was not told')


def host_gone(bench):
    """Its peer gives up when its retries are used up (about 20 s)."""
    _, client = pinging(bench, 1000000)
    bench.place.ip(f'-n {bench.place.names[0]} link set eth0 down')
    try:
        if client.end(90) == 0 or 'status 12' not in client.output():
            client.fail('did not notice')
    finally:
        bench.place.ip(f'-n {bench.place.names[0]} link set eth0 up')


def host_forgets(bench):
    """Both the program and its agent are killed: nobody is left who could tell."""
    server, client = pinging(bench, 1000000)
    bench.kill_agents()
    server.kill()
    if client.end(90) == 0:
        client.fail('did not notice')


SHORT = (datagrams_to_groups, ipv6_connection, link_local_connection, nobody_there, messages_doubled, agents_killed, program_killed)
LONG = (messages_lost, host_gone, host_forgets)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--long', action='store_true')
    parser.add_argument('--only', default='')
    parser.add_argument('--mtu', type=int, default=1500)
    options = parser.parse_args()
    try:
        place = TwoHosts(options.mtu)
    except (OSError, subprocess.CalledProcessError):
        print('no network namespaces may be made here')
        sys.exit(SKIPPED_STATUS)
    failed = passed = 0
    with tempfile.TemporaryDirectory(prefix='verbatim-hosts-') as folder, contextlib.closing(place):
        if not shutil.which('rping'):
            print('rping is not installed')
            sys.exit(SKIPPED_STATUS)
        bench = Bench(os.path.abspath(options.build), place, folder)
        for case in SHORT + LONG * options.long:
            if not re.search(options.only, case.__name__):
                continue
            begin, wrong = time.monotonic(), None
            try:
                case(bench)
            except Failure as failure:
                wrong = failure
            bench.clear()
            passed, failed = passed + (wrong is None), failed + (wrong is not None)
            print(f'{"FAIL" if wrong else "ok":4} {case.__name__:28} {wrong or f"{time.monotonic() - begin:.1f} s"}', flush=True)
    print(f'{passed} passed, {failed} failed')
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
