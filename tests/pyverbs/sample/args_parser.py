# SPDX-License-Identifier: MIT
"""The options of the sample, as those of the tests that run.py is for: parsed once, then read by the tests."""
import argparse
import sys


class Options:
    args = None

    def parse_args(self):
        parser = argparse.ArgumentParser()
        parser.add_argument('--dev')
        parser.add_argument('--pci-dev')
        known, sys.argv[1:] = parser.parse_known_args()
        self.args = vars(known)


parser = Options()
