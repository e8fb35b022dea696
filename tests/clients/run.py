#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs stock RDMA programs against a build of the libraries.

usage: run.py --build DIR [--short] [--wrapped] [--only REGEX] [--repeat N] [--hosts [--mtu N]]

  --short    the cases of about a minute
  --wrapped  through `verbatim run --` in place of LD_LIBRARY_PATH
  --only     cases whose name matches
  --repeat   all of it so many times
  --hosts    the two ends in two network namespaces joined by a link of that MTU, 1500 by default, without those cases
             that only one host knows; needs root

VERBATIM_TEST_PRELOAD names a library that the programs, and nothing else, are to preload.

Each run has an agent and TCP ports of its own. Ends with `N passed, N failed, N skipped`; exit status 1 if a case
failed, 77 if all were skipped because their programs are not installed.
"""
import argparse
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cases import CASES  # noqa: E402

ADDRESS = '127.0.0.1'
DEVICE = 'mlx5_0'
SKIPPED_STATUS = 77
TCP_LISTEN = '0A'


class OneHost:
    """Both ends here."""
    address = own = ADDRESS
    server_prefix = client_prefix = ()

    def close(self):
        pass


class TwoHosts:
    """Each end in a network namespace of its own."""
    address, own = '10.77.0.1', '10.77.0.2'  # of the server, of the client
    addresses = (('10.77.0.1', 'fd77::1'), ('10.77.0.2', 'fd77::2'))

    def __init__(self, mtu):
        self.names = [f'verbatim-{os.getpid()}-{mtu}-{end}' for end in 'ab']
        self.server_prefix, self.client_prefix = [('ip', 'netns', 'exec', name) for name in self.names]
        for name in self.names:
            self.ip(f'netns add {name}')
        self.ip(f'link add eth0 netns {self.names[0]} type veth peer name eth0 netns {self.names[1]}')
        for name, (ipv4, ipv6) in zip(self.names, self.addresses):
            self.ip(f'-n {name} addr add {ipv4}/24 dev eth0')
            self.ip(f'-n {name} addr add {ipv6}/64 dev eth0 nodad')
            self.ip(f'-n {name} link set eth0 mtu {mtu} up')
            self.ip(f'-n {name} link set lo up')
        deadline = time.monotonic() + 10
        while not all(self.is_up(name) for name in self.names) and time.monotonic() < deadline:
            time.sleep(0.02)

    @staticmethod
    def is_up(name):
        shown = subprocess.run(['ip', '-n', name, 'link', 'show', 'eth0'], check=False, capture_output=True, text=True)
        return 'state UP' in shown.stdout

    @staticmethod
    def ip(arguments):
        subprocess.run(['ip'] + arguments.split(), check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def close(self):
        for name in self.names:
            subprocess.run(['ip', 'netns', 'del', name], check=False)


def listening(port, process='self'):
    for path in (f'/proc/{process}/net/tcp', f'/proc/{process}/net/tcp6'):
        try:
            with open(path, encoding='ascii') as file:
                rows = [line.split() for line in list(file)[1:]]
        except OSError:
            continue
        if any(row[3] == TCP_LISTEN and int(row[1].rsplit(':', 1)[1], 16) == port for row in rows):
            return True
    return False


def free_port():
    while True:
        port = random.randrange(19000, 31000)
        if not listening(port):
            return port


def end_group(process, grace_s):
    """True if the process ended by itself in that time; otherwise it is killed with its children."""
    try:
        process.wait(grace_s)
        return True
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


class Runner:
    def __init__(self, options, folder, place):
        self.folder = folder
        self.place = place
        self.environment = dict(os.environ, LC_ALL='C')
        self.environment.setdefault('VERBATIM_AGENT_SOCKET', f'verbatim-clients-{os.getpid()}')
        if 'VERBATIM_TEST_PRELOAD' in os.environ:
            self.environment['LD_PRELOAD'] = os.environ['VERBATIM_TEST_PRELOAD']
        self.prefix = []
        if options.wrapped:
            self.prefix = [os.path.join(options.build, 'bin', 'verbatim'), 'run', '--']
        else:
            self.environment['LD_LIBRARY_PATH'] = os.path.join(options.build, 'lib')
        self.gid = self.gid_index()

    def gid_index(self):
        """Index of the RoCE v2 entry of an IPv4 address, as ibv_devinfo lists it."""
        if not shutil.which('ibv_devinfo'):
            return '0'
        text = subprocess.run([*self.place.server_prefix, *self.prefix, 'ibv_devinfo', '-v', '-d', DEVICE], env=self.environment,
                              capture_output=True, text=True, timeout=30, check=False).stdout
        found = re.search(r'GID\[\s*(\d+)\]:\s+::ffff:[\d.]+, RoCE v2', text)
        return found.group(1) if found else '0'

    def start(self, command, log, prefix=()):
        with open(log, 'w', encoding='utf-8') as out:
            return subprocess.Popen([*prefix, *self.prefix, *command.split()], env=self.environment, stdin=subprocess.DEVNULL,
                                    stdout=out, stderr=subprocess.STDOUT, start_new_session=True)

    def start_server(self, command, log, port):
        server = self.start(command, log, self.place.server_prefix)
        deadline = time.monotonic() + 10
        while not listening(port, server.pid) and server.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return server

    def run_client(self, case, command, log, server):
        """The client's process, and whether it ended in time. Nothing tells that a server of the connection manager
        listens: its client is refused until then, and comes again."""
        deadline = time.monotonic() + 10
        while True:
            client = self.start(command, log, self.place.client_prefix)
            ended = end_group(client, case.seconds_max)
            refused = case.server and ended and client.returncode != case.status and server.poll() is None
            if not refused or time.monotonic() > deadline:
                return client, ended
            time.sleep(0.1)

    def run(self, case):
        """None if the case passed, otherwise what went wrong."""
        port = free_port()
        server_command, command = (
            text.format(port=port, device=DEVICE, gid=self.gid, folder=self.folder, address=self.place.address, own=self.place.own)
            for text in (case.server or case.command, case.command))
        logs = [os.path.join(self.folder, f'{case.name}.{end}') for end in ('server', 'client')]
        server = None
        if case.server:
            server = self.start(server_command, logs[0], self.place.server_prefix)
        elif case.two_ends:
            server = self.start_server(server_command, logs[0], port)
            command = f'{command} {self.place.address}'
        try:
            client, ended = self.run_client(case, command, logs[1], server)
        finally:
            server_ended = end_group(server, 5) if server else True
        text = ''
        for log in logs:
            if os.path.exists(log):
                with open(log, encoding='utf-8', errors='replace') as file:
                    text += file.read() + '\n'
        return self.verdict(case, ended, client.returncode, server_ended, server and server.returncode, text)

    @staticmethod
    def verdict(case, ended, status, server_ended, server_status, text):
        last = ' | '.join(line.strip() for line in text.splitlines() if line.strip())[-200:]
        if not ended:
            return f'the client still ran after {case.seconds_max} s: {last}'
        if status != case.status:
            return f'the client ended with status {status}: {last}'
        if not server_ended:
            return f'the server outlived its client: {last}'
        if server_status:
            return f'the server ended with status {server_status}: {last}'
        for pattern in case.patterns:
            if not re.search(pattern, text, re.M):
                return f'nothing printed matches {pattern}: {last}'
        return None


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--short', action='store_true')
    parser.add_argument('--wrapped', action='store_true')
    parser.add_argument('--only', default='')
    parser.add_argument('--repeat', type=int, default=1)
    parser.add_argument('--hosts', action='store_true')
    parser.add_argument('--mtu', type=int, default=1500)
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    return options


def main():
    options = parse()
    cases = [case for case in CASES if re.search(options.only, case.name) and (case.short or not options.short)]
    if options.hosts:
        cases = [case for case in cases if case.two_ends]
    passed = failed = skipped = 0
    try:
        place = TwoHosts(options.mtu) if options.hosts else OneHost()
    except (OSError, subprocess.CalledProcessError):
        print('no network namespaces may be made here')
        sys.exit(SKIPPED_STATUS)
    with tempfile.TemporaryDirectory(prefix='verbatim-clients-') as folder, contextlib.closing(place):
        runner = Runner(options, folder, place)
        for case in cases * options.repeat:
            words = case.command.split()
            if not shutil.which(words[2] if words[0] == 'timeout' else words[0]):
                skipped += 1
                continue
            begin = time.monotonic()
            wrong = runner.run(case)
            passed, failed = passed + (wrong is None), failed + (wrong is not None)
            print(f'{"FAIL" if wrong else "ok":4} {case.name:28} {wrong or f"{time.monotonic() - begin:.1f} s"}', flush=True)
    print(f'{passed} passed, {failed} failed, {skipped} skipped')
    sys.exit(1 if failed else SKIPPED_STATUS if not passed else 0)


if __name__ == '__main__':
    main()
