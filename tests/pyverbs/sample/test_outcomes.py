# SPDX-License-Identifier: MIT
"""One test for each way in which a test can end. run_test.py knows what must be printed of each."""
import ctypes
import os
import signal
import time
import unittest

from args_parser import parser


class Good(unittest.TestCase):
    def test_passes(self):
        self.assertEqual(os.path.basename(__file__), 'test_outcomes.py')

    def test_options(self):
        self.assertEqual(parser.args['dev'], 'mlx5_0')

    def test_address(self):
        self.assertRegex(parser.args['pci_dev'], r'^[0-9a-f]{4}:[0-9a-f]{2}:00\.0$')

    def test_libraries(self):
        loaded = ctypes.CDLL('libibverbs.so.1')
        self.assertTrue(loaded.ibv_get_device_list)
        with open('/proc/self/maps', encoding='ascii') as maps:
            self.assertIn(os.environ['SAMPLE_LIBRARIES'], maps.read())


class Bad(unittest.TestCase):
    def test_fails(self):
        print('printed by the test')
        self.assertEqual(1, 2, 'one is not two')

    def test_raises(self):
        raise ValueError('a value')

    def test_part_fails(self):
        for part in range(3):
            with self.subTest(part=part):
                self.assertNotEqual(part, 1)

    def test_crashes(self):
        os.kill(os.getpid(), signal.SIGSEGV)

    def test_hangs(self):
        time.sleep(600)

    def test_leaves(self):
        os._exit(3)


class Skipped(unittest.TestCase):
    def test_skipped(self):
        raise unittest.SkipTest('not on a Monday')

    @unittest.skip('never')
    def test_always(self):
        self.fail('ran')


class Modules(unittest.TestCase):
    def test_modules(self):
        if 'SAMPLE_PYVERBS' not in os.environ:
            self.skipTest('not with --pyverbs')
        import pyverbs
        self.assertEqual(os.path.dirname(pyverbs.__file__), os.environ['SAMPLE_PYVERBS'])
