# SPDX-License-Identifier: MIT
"""Tests of run.py on the sample beside it.

usage: run_test.py BUILD_DIR
"""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = ''


def run(*words, **variables):
    command = [sys.executable, os.path.join(HERE, 'run.py'), '--build', BUILD, *words]
    environment = dict(os.environ, SAMPLE_LIBRARIES=os.path.join(os.path.realpath(BUILD), 'lib'), **variables)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def sample(*words, **variables):
    return run('--seconds', '2', os.path.join(HERE, 'sample'), *words, **variables)


class Run(unittest.TestCase):
    def expect(self, done, status, *lines):
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        for line in lines:
            self.assertIn(line + '\n', done.stdout)

    def test_passed(self):
        done = sample('--dev', 'mlx5_0', 'Good')
        self.expect(done, 0, 'passed   test_outcomes.Good.test_passes')
        self.assertEqual(done.stdout.splitlines()[-1], '4 passed, 0 failed, 0 skipped')

    def test_skipped(self):
        done = sample('tests.test_outcomes.Skipped')
        self.expect(done, 0, 'skipped  test_outcomes.Skipped.test_skipped: not on a Monday',
                    'skipped  test_outcomes.Skipped.test_always: never')
        self.assertEqual(done.stdout.splitlines()[-1], '0 passed, 0 failed, 2 skipped')

    def test_failed(self):
        bad = 'failed   test_outcomes.Bad.'
        done = sample('Bad', 'test_passes')
        self.assertEqual(done.returncode, 1)
        for text in (bad + 'test_fails: test_outcomes.py:', 'AssertionError: 1 != 2 : one is not two\n',
                     '          printed: printed by the test\n', 'ValueError: a value\n',
                     bad + 'test_part_fails: (part=1) test_outcomes.py:',
                     bad + 'test_crashes: its process ended with SIGSEGV\n',
                     bad + 'test_hangs: it took longer than 2 s\n',
                     bad + 'test_leaves: its process ended with status 3\n'):
            self.assertIn(text, done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], '1 passed, 6 failed, 0 skipped')

    def test_unloadable(self):
        done = sample('test_unload*', 'test_passes')
        self.expect(done, 1, 'failed   test_unloadable: it cannot be loaded: test_unloadable.py:3: '
                             'ImportError: made to fail')
        self.assertEqual(done.stdout.splitlines()[-1], '1 passed, 1 failed, 0 skipped')

    def test_list(self):
        done = sample('--list', '--except', 'Bad', '--except', 'test_always', '--except', 'Modules')
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stdout.split(), [f'test_outcomes.{name}' for name in (
            'Good.test_address', 'Good.test_libraries', 'Good.test_options', 'Good.test_passes',
            'Skipped.test_skipped')])

    def test_links(self):
        done = sample('--links', 'test_passes', 'Skipped')
        self.expect(done, 0, 'On Ethernet (mlx5_0):', 'On InfiniBand (mlx5_0:mlx5:infiniband):',
                    '| test_outcomes | 1 | 0 | 2 | 1 | 0 | 2 |',
                    '| InfiniBand | 1: test_outcomes | not on a Monday |')

    def test_modules_of_a_build(self):
        with tempfile.TemporaryDirectory() as folder:
            modules = os.path.join(folder, 'python', 'pyverbs')
            self.assertEqual(sample('--pyverbs', folder, 'Modules').returncode, 2)
            os.makedirs(modules)
            with open(os.path.join(modules, '__init__.py'), 'w', encoding='ascii'):
                pass
            done = sample('--pyverbs', folder, 'Modules', SAMPLE_PYVERBS=modules)
            self.expect(done, 0, 'passed   test_outcomes.Modules.test_modules')

    def test_nothing_to_run(self):
        self.assertEqual(sample('no_such_test').returncode, 2)
        self.assertEqual(run(os.path.join(HERE, 'no_such_folder')).returncode, 2)


if __name__ == '__main__':
    BUILD = sys.argv.pop(1)
    unittest.main()
