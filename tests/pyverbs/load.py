# SPDX-License-Identifier: MIT
"""Loads and runs Python tests in a process of its own, for run.py.

Reads a request from standard input, as JSON: the folder, the options for the tests' own parser, the tests to run (null:
only list them) and the descriptor that takes the answers, one JSON object a line.
"""
import fnmatch
import importlib
import json
import os
import sys
import traceback
import types
import unittest

PACKAGE = 'tests'


def import_package(folder):
    """The folder as a package, without its own __init__: that imports everything, so that one module would spoil all."""
    package = types.ModuleType(PACKAGE)
    package.__path__ = [folder]
    sys.modules[PACKAGE] = package
    sys.path.insert(0, folder)


def parse_options(options):
    """Gives the tests' own parser its options; returns what it leaves, which names tests."""
    sys.argv = [PACKAGE, *options]
    try:
        from args_parser import parser
    except ImportError:
        return options
    parser.parse_args()
    if parser.args.get('pci_dev', '') is None:
        parser.args['pci_dev'] = pci_address(parser.args.get('dev'))
    return sys.argv[1:]


def pci_address(device):
    """Of the device, or of the first one: which the tests of VFIO must be told."""
    devices = '/sys/class/infiniband'
    try:
        name = device or sorted(os.listdir(devices))[0]
    except (OSError, IndexError):
        return None
    path = os.path.join(devices, name, 'device')
    return os.path.basename(os.path.realpath(path)) if os.path.exists(path) else None


def short_id(test):
    return test.id().removeprefix(PACKAGE + '.')


def cases_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases_of(test)
        else:
            yield test


def load(folder, modules):
    """{short id: test} and {module: why it cannot be loaded}."""
    cases, broken = {}, {}
    for name in modules:
        try:
            module = importlib.import_module(f'{PACKAGE}.{name}')
            found = unittest.defaultTestLoader.loadTestsFromModule(module)
        except Exception as error:  # pylint: disable=broad-except
            broken[name] = why(error, folder)
        else:
            cases.update((short_id(case), case) for case in cases_of(found))
    return cases, broken


def wanted(test, patterns):
    """Whether a pattern names the test or what it is in, from any dot to any dot."""
    plain = (pattern.removeprefix(PACKAGE + '.').removesuffix('.py') for pattern in patterns)
    return any(fnmatch.fnmatchcase(f'.{test}.', f'*.{pattern}.*') for pattern in plain)


def why(error, folder):
    """An exception in a line, with the last place in the tests where it passed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(folder)]
    place = f'{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}: ' if frames else ''
    return place + f'{type(error).__name__}: {error}'.strip()


class Reporter(unittest.TestResult):
    def __init__(self, folder, tell):
        super().__init__()
        self.folder = folder
        self.tell = tell
        self.outcome = ('passed', '')

    def startTest(self, test):
        self.outcome = ('passed', '')
        self.tell(start=short_id(test))

    def stopTest(self, test):
        how, text = self.outcome
        self.tell(end=short_id(test), how=how, why=text)

    def failed(self, text):
        self.outcome = ('failed', text)

    def addError(self, test, err):
        self.failed(why(err[1], self.folder))

    def addFailure(self, test, err):
        self.failed(why(err[1], self.folder))

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.failed(f'{subtest._subDescription()} {why(err[1], self.folder)}')  # pylint: disable=protected-access

    def addSkip(self, test, reason):
        if self.outcome[0] != 'failed':
            self.outcome = ('skipped', reason)

    def addUnexpectedSuccess(self, test):
        self.failed('passed, although it is expected to fail')


def main():
    request = json.load(sys.stdin)
    folder = request['folder']
    report = os.fdopen(request['report'], 'w', buffering=1, encoding='utf-8')
    os.set_inheritable(report.fileno(), False)
    owner = os.getpid()

    def tell(**message):
        if os.getpid() == owner:  # tests fork
            sys.stdout.flush()
            report.write(json.dumps(dict(message, at=os.fstat(1).st_size)) + '\n')

    import_package(folder)
    patterns = parse_options(request['options'])
    modules = sorted(name.removesuffix('.py') for name in os.listdir(folder)
                     if name.startswith('test_') and name.endswith('.py'))
    tests = request['tests']
    # All of them, in this order: some import each other in circles that only close from one side.
    cases, broken = load(folder, modules)
    if tests is None:
        chosen = [test for test in cases if not patterns or wanted(test, patterns)]
        unloaded = {name: text for name, text in broken.items() if not patterns or wanted(name, patterns)}
        tell(tests=chosen, broken=unloaded)
        return
    reporter = Reporter(folder, tell)
    for test in tests:
        cases[test].run(reporter)


if __name__ == '__main__':
    main()
