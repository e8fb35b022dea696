#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs Python tests of RDMA devices, those of rdma-core above all, against a build of the libraries.

usage: run.py --build DIR [--pyverbs DIR] [--except PATTERN]... [--seconds N] [--links] [--list] TESTS_DIR
              [options of the tests] [TEST...]

  --pyverbs  a build folder of rdma-core with its Python modules; without it those of the system are used
  --except   leaves tests out
  --seconds  how long a test may take (default: 60); it is killed then
  --links    runs all on an Ethernet device, then on one of InfiniBand, and ends with a table of both
  --list     prints the names of the tests and runs none

TEST is a module, class or method, or several with dots, and may hold * and ?: test_cq, test_mlx5_*, QPTest.test_create_*.
Without any all tests run. Options that are not among these go to the tests' own parser: --dev, --port, --gid, --pci-dev, ...

Prints a line for each test, with the reason if it failed or was skipped, and what the device said. Ends with
`N passed, N failed, N skipped`; exit status 1 if a test failed, 2 if there is none to run.
"""
import argparse
import collections
import fnmatch
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time

LOADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'load.py')
# What the tests of encryption are to know of the device: its secrets without a file of the user's, and keys.
SECRETS = os.path.join(os.path.dirname(LOADER), 'crypto.json')
# Debian's packages are for this one, whatever else is on PATH.
PYTHON = '/usr/bin/python3' if os.access('/usr/bin/python3', os.X_OK) else sys.executable
REFUSAL = re.compile(r'^verbatim: (.*)$', re.M)
REFUSALS_SHOWN = 2
LINKS = {'Ethernet': 'mlx5_0', 'InfiniBand': 'mlx5_0:mlx5:infiniband'}
LOAD_SECONDS_MAX = 60
END_SECONDS_MAX = 5


def fit(text, characters_max):
    line = ' '.join(text.split())
    return line if len(line) <= characters_max else line[:characters_max - 3] + '...'


class Loader:
    """A process of load.py."""

    def __init__(self, options, environment, log, tests):
        reading, writing = os.pipe()
        self.answers = os.fdopen(reading, 'rb', buffering=0)
        command = [os.path.join(options.build, 'bin', 'verbatim'), 'run', '--', PYTHON, LOADER]
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=log, stderr=log,
                                        pass_fds=[writing], start_new_session=True, text=True)
        os.close(writing)
        request = {'folder': options.folder, 'options': options.rest, 'tests': tests, 'report': writing}
        self.rest = b''
        try:
            json.dump(request, self.process.stdin)
            self.process.stdin.close()
        except BrokenPipeError:
            pass  # its status tells

    def next(self, deadline):
        """The next answer; None when there will be none, or none in time."""
        while b'\n' not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, min(0.5, deadline - time.monotonic())))
            if ready:
                data = self.answers.read(65536)
                if not data:
                    return None
                self.rest += data
            elif self.process.poll() is not None or time.monotonic() > deadline:
                return None  # what it forked may still hold the pipe
        line, self.rest = self.rest.split(b'\n', 1)
        return json.loads(line)

    def end(self):
        """Its exit status; None if it had to be killed. What it started goes with it."""
        try:
            status = self.process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.answers.close()
        return status


class Runner:
    def __init__(self, options, folder, devices=None):
        self.options = options
        self.count = collections.Counter()
        self.by_module = collections.defaultdict(collections.Counter)
        self.skips = collections.defaultdict(list)
        self.log_path = os.path.join(folder, 'log')
        self.log = open(self.log_path, 'ab')
        self.environment = dict(os.environ, LC_ALL='C.UTF-8', VERBATIM_EXPLAIN='1', PYTHONDONTWRITEBYTECODE='1')
        self.environment.setdefault('VERBATIM_AGENT_SOCKET', f'verbatim-pyverbs-{os.getpid()}')
        self.environment.setdefault('MLX5_CRYPTO_TEST_INFO', SECRETS)
        if devices:
            self.environment['VERBATIM_DEVICES'] = devices
        if options.pyverbs:
            self.environment['PYTHONPATH'] = os.path.join(options.pyverbs, 'python')

    def printed(self, begin, end=None):
        """What the processes of the tests have printed between two places."""
        with open(self.log_path, 'rb') as file:
            file.seek(begin)
            return file.read(None if end is None else end - begin).decode(errors='replace')

    def record(self, test, how, why, output=''):
        self.count[how] += 1
        self.by_module[test.split('.')[0]][how] += 1
        if how == 'skipped':
            self.skips[fit(why, 120)].append(test)
        print(f'{how:8} {test}{": " + fit(why, 300) if why else ""}', flush=True)
        if how != 'passed':
            reasons = list(dict.fromkeys(REFUSAL.findall(output)))
            for reason in reasons[-REFUSALS_SHOWN:]:
                print(f'{"":10}device: {fit(reason, 200)}')
        if how == 'failed':
            others = [line for line in output.splitlines() if line.strip() and not line.startswith('verbatim: ')]
            for line in others[-3:]:
                print(f'{"":10}printed: {fit(line, 200)}')

    def names(self):
        """The tests to run, in order; None if they cannot be listed."""
        loader = Loader(self.options, self.environment, self.log, None)
        found = loader.next(time.monotonic() + LOAD_SECONDS_MAX)
        loader.end()
        if found is None:
            print(f'run.py: the tests cannot be listed:\n{self.printed(0).strip()[-2000:]}', file=sys.stderr)
            return None
        kept = [test for test in found['tests'] if not self.left_out(test)]
        if self.options.list:
            print(*kept, sep='\n')
            return []
        for name, why in found['broken'].items():
            if not self.left_out(name):
                self.record(name, 'failed', 'it cannot be loaded: ' + why)
        return kept

    def left_out(self, test):
        return any(fnmatch.fnmatchcase(f'.{test}.', f'*.{pattern}.*') for pattern in self.options.without)

    def total(self):
        return f'{self.count["passed"]} passed, {self.count["failed"]} failed, {self.count["skipped"]} skipped'

    def run(self, tests):
        """Runs all, in as few processes as that takes: one that a test brings down is replaced."""
        while tests:
            done = self.run_some(tests)
            tests = tests[done:]

    def run_some(self, tests):
        """How many of them have been dealt with when the process ended."""
        place = os.path.getsize(self.log_path)
        loader = Loader(self.options, self.environment, self.log, tests)
        done, begun = 0, False
        deadline = time.monotonic() + LOAD_SECONDS_MAX
        while done < len(tests):
            answer = loader.next(deadline)
            if answer is None:
                break
            begun = 'start' in answer
            if begun:
                deadline = time.monotonic() + self.options.seconds
            else:
                self.record(answer['end'], answer['how'], answer['why'], self.printed(place, answer['at']))
                done += 1
                deadline = time.monotonic() + LOAD_SECONDS_MAX
            place = answer['at']
        late = done < len(tests) and time.monotonic() > deadline
        if late:
            loader.process.kill()
        status = loader.end()
        if done < len(tests):
            self.record(tests[done], 'failed', self.ending(status, late, begun), self.printed(place))
            return done + 1
        if status != 0:
            self.record('the end of the process', 'failed', self.ending(status, False, False), self.printed(place))
        return done

    def ending(self, status, late, begun):
        if late:
            return f'it took longer than {self.options.seconds if begun else LOAD_SECONDS_MAX} s'
        if status is None:
            return f'it did not end within {END_SECONDS_MAX} s'
        if status < 0:
            return f'its process ended with {signal.Signals(-status).name}'
        return f'its process ended with status {status}'


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     allow_abbrev=False, usage=argparse.SUPPRESS)
    parser.add_argument('--build', required=True)
    parser.add_argument('--except', dest='without', action='append', default=[], metavar='PATTERN')
    parser.add_argument('--pyverbs')
    parser.add_argument('--seconds', type=int, default=60)
    parser.add_argument('--links', action='store_true')
    parser.add_argument('--list', action='store_true')
    parser.add_argument('folder', metavar='TESTS_DIR')
    options, options.rest = parser.parse_known_args()
    options.build = os.path.abspath(options.build)
    options.folder = os.path.realpath(options.folder)
    if not os.path.isdir(options.folder):
        parser.error(f'{options.folder} is not a folder')
    if options.pyverbs:
        options.pyverbs = os.path.abspath(options.pyverbs)
        if not os.path.isdir(os.path.join(options.pyverbs, 'python', 'pyverbs')):
            parser.error(f'{options.pyverbs} holds no build of the Python modules (python/pyverbs)')
    return options


def run_on(options, devices):
    """Runs the tests on these devices; what came of it, or None if they cannot be listed."""
    with tempfile.TemporaryDirectory(prefix='verbatim-pyverbs-') as folder:
        runner = Runner(options, folder, devices)
        tests = runner.names()
        if tests is None:
            return None
        runner.run(tests)
        return runner


def print_table(runners):
    """A line for each module, and one for each reason to skip a test: as Markdown."""
    columns = ' | '.join(f'{link}: passed | failed | skipped' for link in runners)
    print(f'\n| module | {columns} |\n|---|{"---|" * 3 * len(runners)}')
    modules = sorted(set().union(*(runner.by_module for runner in runners.values())))
    for module in modules:
        counts = [str(runner.by_module[module][how]) for runner in runners.values()
                  for how in ('passed', 'failed', 'skipped')]
        print(f'| {module} | {" | ".join(counts)} |')
    print('\n| link | skipped | reason |\n|---|---|---|')
    for link, runner in runners.items():
        for reason, tests in sorted(runner.skips.items()):
            names = sorted({test.split('.')[0] for test in tests})
            print(f'| {link} | {len(tests)}: {", ".join(names)} | {reason} |')


def main():
    options = parse()
    runners = {}
    for link, devices in (LINKS if options.links and not options.list else {'': None}).items():
        if link:
            print(f'On {link} ({devices}):')
        runner = run_on(options, devices)
        if options.list and runner is not None:
            return 0
        if runner is None or not runner.count:
            print('run.py: no test to run', file=sys.stderr)
            return 2
        print(runner.total())
        runners[link] = runner
    if options.links:
        print_table(runners)
    return 1 if any(runner.count['failed'] for runner in runners.values()) else 0


if __name__ == '__main__':
    sys.exit(main())
