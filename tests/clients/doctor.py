#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `verbatim doctor` says of two hosts between which something is wrong, or nothing.

usage: doctor.py --build DIR [--only REGEX]

The hosts are network namespaces, which takes root: exit status 77 without. Otherwise 1 if a case failed.
"""
import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from run import SKIPPED_STATUS, TwoHosts  # noqa: E402

HERE, THERE = '10.77.0.1', '10.77.0.2'
SECONDS_MAX = 20
NOBODY = 65534
SOON = ('--patience', '0.6')  # where nothing is to come

# Has UDP port 4791 as another user until its input ends.
HOLD_PORT = f"""
import os, socket, sys
os.setuid({NOBODY})
held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
held.bind(('0.0.0.0', 4791))
print('ready', flush=True)
sys.stdin.read()
"""


class Hosts(TwoHosts):
    """Doctor runs on the first one; the second one has an agent or not."""

    def __init__(self, build):
        super().__init__(1500)
        self.tool = os.path.join(build, 'bin', 'verbatim')
        self.environment = dict(os.environ, LC_ALL='C', VERBATIM_AGENT_SOCKET=f'verbatim-doctor-{os.getpid()}')
        self.environment.pop('VERBATIM_DEVICES', None)
        for name in self.names:  # nobody is looked for as long as usual
            self.sysctl(name, 'net.ipv4.neigh.eth0.retrans_time_ms=100')
            self.sysctl(name, 'net.ipv6.neigh.eth0.retrans_time_ms=100')
            self.sysctl(name, 'net.ipv4.icmp_ratemask=0')

    def sysctl(self, name, setting):
        subprocess.run(['ip', 'netns', 'exec', name, 'sysctl', '-qw', setting], check=False)

    def here(self, arguments):
        self.ip(f'-n {self.names[0]} {arguments}')

    def there(self, arguments):
        self.ip(f'-n {self.names[1]} {arguments}')

    @contextlib.contextmanager
    def running(self, prefix, *command):
        """A process of a host that says a line when it is ready and ends with its input, or when asked to."""
        process = subprocess.Popen([*prefix, *command], env=self.environment, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        try:
            line = process.stdout.readline()
            if not line:
                raise RuntimeError(f'{command} did not start')
            yield line
        finally:
            process.stdin.close()
            process.terminate()
            process.wait()
            process.stdout.close()

    def peer(self):
        return self.running(self.client_prefix, self.tool, 'doctor', '--listen')

    def stranger(self, prefix):
        return self.running(prefix, sys.executable, '-c', HOLD_PORT)

    def ask(self, *arguments):
        """Status and JSON of the doctor here."""
        done = subprocess.run([*self.server_prefix, self.tool, 'doctor', '--json', *arguments], env=self.environment,
                              capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
        try:
            return done.returncode, json.loads(done.stdout)
        except json.JSONDecodeError as error:
            raise RuntimeError(f'{done.stdout}{done.stderr}') from error


class Wrong(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise Wrong(what)


def well(hosts, *arguments):
    status, said = hosts.ask(*arguments)
    expect(status == 0 and said['can_talk'], f'{arguments}: {said["conclusion"]}')
    return said


def problem(hosts, check, pattern, *arguments):
    """The first problem is this one, and has a remedy."""
    status, said = hosts.ask(*arguments)
    problems = [each for each in said['findings'] if each['verdict'] == 'problem']
    expect(status == 1 and problems and not said['can_talk'], f'no problem is seen with {arguments}: {said}')
    first = problems[0]
    expect(first['check'] == check and re.search(pattern, first['text']), f'not {check}, {pattern}: {first}')
    expect(first['remedy'], f'no remedy: {first}')
    expect(first['text'] in said['conclusion'], said['conclusion'])
    return first


def finding(said, check):
    found = [each for each in said['findings'] if each['check'] == check]
    expect(found, f'nothing is said of {check}: {said}')
    return found[0]


def note(hosts, check, pattern, *arguments):
    """All is well but for a note."""
    first = finding(well(hosts, *arguments), check)
    expect(first['verdict'] == 'note' and first['remedy'] and re.search(pattern, first['text']), first)
    return first


def alone(hosts):
    said = well(hosts)
    expect(re.search(rf'{HERE} \(GID \d+, eth0, path MTU 1024\)', finding(said, 'addresses')['text']), said)
    expect('UDP port 4791 is this user' in finding(said, 'port')['text'], said)


def all_well(hosts):
    with hosts.peer():
        for address in (THERE, 'fd77::2', '0000:0000:0000:0000:0000:ffff:0a4d:0002'):
            said = well(hosts, address)
            expect('answers' in finding(said, 'answer')['text'], said)
            expect('path MTU 1024 arrive' in finding(said, 'sizes')['text'], said)


def rules(hosts):
    with hosts.peer(), hosts.running(hosts.server_prefix, hosts.tool, 'doctor', '--listen'):  # its agent stays
        inject = [*hosts.server_prefix, hosts.tool, 'inject']
        subprocess.run([*inject, 'add', '--corrupt', '1%'], env=hosts.environment, check=True, stdout=subprocess.DEVNULL)
        first = note(hosts, 'rules', 'packets are damaged on purpose: .*corrupt', THERE)
        expect('verbatim inject clear' in first['remedy'], first)
        subprocess.run([*inject, 'clear'], env=hosts.environment, check=True, stdout=subprocess.DEVNULL)


def itself(hosts):
    for address in (HERE, '127.0.0.1'):
        said = well(hosts, address)
        expect('this host itself' in finding(said, 'route')['text'], said)


def no_peer(hosts):
    first = problem(hosts, 'answer', f'{THERE} is up, and nobody there has UDP port 4791', THERE)
    expect('--listen' in first['remedy'], first)
    problem(hosts, 'answer', 'nobody there has UDP port 4791', 'fd77::2')


def no_route(hosts):
    problem(hosts, 'route', '10.99.0.1: the kernel has no route', '10.99.0.1')
    problem(hosts, 'route', 'fd99::1: the kernel has no route', 'fd99::1')
    for kind in ('unreachable', 'prohibit', 'blackhole'):
        for network, address in (('10.99.0.0/24', '10.99.0.1'), ('fd99::/64', 'fd99::1')):
            hosts.here(f'route add {kind} {network}')
            problem(hosts, 'route', f"of the kind '{kind}'", address)
            hosts.here(f'route del {kind} {network}')


def no_name(hosts):
    problem(hosts, 'name', 'no-such-host.invalid', 'no-such-host.invalid')
    problem(hosts, 'name', "no host's address", '224.0.0.1')
    problem(hosts, 'name', 'does not say on which interface', 'fe80::1')


def taken_here(hosts):
    with hosts.stranger(hosts.server_prefix):
        first = problem(hosts, 'port', r'python3\S* \(process \d+, user \w+\)', THERE)
        expect('UDP port 4791 belongs to a process of user 65534' in first['text'], first)


def taken_there(hosts):
    with hosts.stranger(hosts.client_prefix):
        problem(hosts, 'answer', f'{THERE} is up, and says nothing about packets to UDP port 4791', THERE, *SOON)


def no_way_back(hosts):
    with hosts.peer():
        hosts.there(f'route add blackhole {HERE}/32')
        try:
            problem(hosts, 'answer', f'{THERE} says nothing at all', THERE, *SOON)
        finally:
            hosts.there(f'route del blackhole {HERE}/32')


def nobody_on_the_link(hosts):
    problem(hosts, 'answer', 'no machine on the link says that it has 10.77.0.9', '10.77.0.9')
    hosts.here('route add default via 10.77.0.8')
    problem(hosts, 'answer', 'the gateway 10.77.0.8 does not answer', '10.99.0.1')
    hosts.here('route del default')


def router_refuses(hosts):
    for setting in ('net.ipv4.ip_forward=1', 'net.ipv6.conf.all.forwarding=1'):
        hosts.sysctl(hosts.names[1], setting)
    hosts.here(f'route add default via {THERE}')
    hosts.here('route add fd99::/64 via fd77::2')
    hosts.there('route add prohibit fd99::/64')
    problem(hosts, 'answer', f'{THERE} cannot deliver packets to 10.99.0.1', '10.99.0.1')
    problem(hosts, 'answer', 'fd77::2 says that packets .* are prohibited', 'fd99::1')
    hosts.here('route del default')
    hosts.here('route del fd99::/64')


def sizes(hosts):
    with hosts.peer():
        hosts.there('link set eth0 mtu 700')  # what is larger is lost on its way in
        first = problem(hosts, 'sizes', r'packets of path MTU 1024 \(1088 bytes\) are lost on the way', THERE)
        expect('path MTU 512' in first['remedy'], first)
        hosts.there('link set eth0 mtu 1500')
        hosts.here(f'route add {THERE}/32 dev eth0 mtu lock 700')
        note(hosts, 'mtu', 'the route takes 700, packets of path MTU 1024 have 1088 bytes: they go in fragments', THERE)
        note(hosts, 'sizes', r'\(1088 bytes\) are too big for this host.s kernel.*: they go in fragments', THERE)
        hosts.here(f'route del {THERE}/32')
        hosts.here('link set eth0 mtu 310')
        note(hosts, 'mtu', 'eth0 takes 310, packets of path MTU 256 have 320 bytes: they go in fragments', THERE)
        hosts.here('link set eth0 mtu 300')
        problem(hosts, 'mtu', 'eth0 takes 300, messages of the connection manager have 308 bytes', THERE)
        hosts.here('link set eth0 mtu 1500')


def foreign_source(hosts):
    hosts.here('route add local 10.88.0.1 dev lo')
    hosts.here(f'route add {THERE}/32 dev eth0 src 10.88.0.1')
    problem(hosts, 'source', '10.88.0.1, which is not in the GID table', THERE)
    hosts.here(f'route del {THERE}/32')
    hosts.here('route del local 10.88.0.1 dev lo')


def no_link(hosts):
    hosts.there('link set eth0 down')
    problem(hosts, 'link', 'no interface besides loopback has a link', THERE)
    hosts.there('link set eth0 up')
    deadline = time.monotonic() + 10
    while not hosts.is_up(hosts.names[0]) and time.monotonic() < deadline:
        time.sleep(0.02)
    hosts.there('addr replace fd77::2/64 dev eth0 nodad')


CASES = (alone, all_well, rules, itself, no_peer, no_route, no_name, taken_here, taken_there, no_way_back,
         nobody_on_the_link, router_refuses, sizes, foreign_source, no_link)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--only', default='')
    options = parser.parse_args()
    try:
        hosts = Hosts(os.path.abspath(options.build))
    except (OSError, subprocess.CalledProcessError):
        print('no network namespaces may be made here')
        sys.exit(SKIPPED_STATUS)
    failed = 0
    with contextlib.closing(hosts):
        for case in CASES:
            if not re.search(options.only, case.__name__):
                continue
            begin = time.monotonic()
            try:
                case(hosts)
                print(f'ok   {case.__name__:20} {time.monotonic() - begin:.1f} s', flush=True)
            except (Wrong, RuntimeError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f'FAIL {case.__name__:20} {error}', flush=True)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
