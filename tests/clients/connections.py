#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Stock programs of the connection manager whose servers stay, with many connections.

usage: connections.py --build DIR [--only NAME] [--connections N]

rping to a server that stays, one client after the other; cmtime and ucmatose with N connections at once (default: 100);
udpong both ways; rcopy of a file, which is compared. Exit status 1 if one failed, 77 if they are not installed.
"""
import argparse
import filecmp
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

ADDRESS = '127.0.0.1'
SKIPPED_STATUS = 77
SECONDS_MAX = 60


class Programs:
    def __init__(self, build, folder):
        self.folder = folder
        self.environment = dict(os.environ, LC_ALL='C', LD_LIBRARY_PATH=os.path.join(build, 'lib'))
        self.environment.setdefault('VERBATIM_AGENT_SOCKET', f'verbatim-connections-{os.getpid()}')

    def start(self, command):
        return subprocess.Popen(command.split(), env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def run(self, command):
        return subprocess.run(command.split(), env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=SECONDS_MAX, check=False)

    def run_until_heard(self, command, server):
        """Nothing tells that a server listens: its client is refused until then, and comes again."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            client = self.run(command)
            if client.returncode == 0 or server.poll() is not None or time.monotonic() > deadline:
                return client
            time.sleep(0.05)


def expect(client, pattern=''):
    assert client.returncode == 0, f'{client.args}: status {client.returncode}: {client.stderr[-200:]}'
    assert re.search(pattern, client.stdout, re.M), f'{client.args} printed {client.stdout[-200:]}'


def port():
    return random.randrange(19000, 31000)


def with_server(programs, command, clients):
    server = programs.start(command)
    try:
        clients(server)
        assert server.poll() is None, f'{command}: the server ended with {server.returncode}'
    finally:
        server.kill()
        server.wait()


def rping(programs, _connections):
    at = f'-a {ADDRESS} -p {port()}'

    def clients(server):
        for _ in range(5):
            expect(programs.run_until_heard(f'rping -c -v -V -C 5 {at}', server), 'ping data: rdma-ping-4:')

    with_server(programs, f'rping -s -P -V {at}', clients)


def cmtime(programs, connections):
    at = f'-p {port()} -c {connections}'

    def clients(server):
        for _ in range(2):
            expect(programs.run_until_heard(f'cmtime {at} -b {ADDRESS} -s {ADDRESS}', server), r'^disconnect\s*:')

    with_server(programs, f'cmtime {at} -b {ADDRESS}', clients)


def ucmatose(programs, connections):
    at = f'-p {port()} -c {connections}'
    server = programs.start(f'ucmatose {at}')
    try:
        expect(programs.run_until_heard(f'ucmatose {at} -s {ADDRESS}', server), 'return status 0')
        assert server.wait(SECONDS_MAX) == 0
    finally:
        server.kill()
        server.wait()


def udpong(programs, _connections):
    at = f'-p {port()}'

    def clients(server):
        for arguments in ('-T e -S 64 -C 500', '-S 1000 -C 1000', '-T b -T e -S 1500 -C 500'):
            expect(programs.run_until_heard(f'udpong {at} {arguments} -s {ADDRESS}', server), r'^custom\s')

    with_server(programs, f'udpong {at} -b {ADDRESS}', clients)


def rcopy(programs, _connections):
    source, copy = (os.path.join(programs.folder, name) for name in ('source', 'copy'))
    with open(source, 'wb') as file:
        file.write(bytes(i * 17 & 0xff for i in range(65536)) * 40 + b'end')
    at = f'-p {port()}'

    def clients(server):
        expect(programs.run_until_heard(f'rcopy {source} {ADDRESS}:{copy} {at}', server))
        assert filecmp.cmp(source, copy, shallow=False), 'the copy differs'

    with_server(programs, f'rcopy {at}', clients)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--only', default='')
    parser.add_argument('--connections', type=int, default=100)
    options = parser.parse_args()
    cases = [case for case in (rping, cmtime, ucmatose, udpong, rcopy) if options.only in case.__name__]
    if not all(shutil.which(case.__name__) for case in cases):
        sys.exit(SKIPPED_STATUS)
    failed = False
    with tempfile.TemporaryDirectory(prefix='verbatim-connections-') as folder:
        programs = Programs(options.build, folder)
        for case in cases:
            begin = time.monotonic()
            try:
                case(programs, options.connections)
                print(f'ok   {case.__name__} {time.monotonic() - begin:.1f} s', flush=True)
            except (AssertionError, subprocess.TimeoutExpired) as wrong:
                failed = True
                print(f'FAIL {case.__name__} {wrong}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
