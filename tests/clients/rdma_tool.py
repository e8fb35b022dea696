#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What iproute2's tool `rdma` shows of devices and ports under `verbatim run`.

usage: rdma_tool.py --build DIR        exit status 77: there is no such tool
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import unittest

DEVICES = 'mlx5_0,mlx5_1:mlx5:infiniband'
TOOL = ''


def rdma(*words):
    environment = dict(os.environ, VERBATIM_DEVICES=DEVICES, VERBATIM_AGENT_SOCKET=f'verbatim-rdma-{os.getpid()}')
    done = subprocess.run([TOOL, 'run', '--', 'rdma', *words], env=environment, capture_output=True, text=True,
                          timeout=20, check=False)
    return done.returncode, done.stdout, done.stderr


class Rdma(unittest.TestCase):
    def listed(self, *words):
        status, output, errors = rdma('-j', *words)
        self.assertEqual(status, 0, errors)
        return json.loads(output)

    def test_links(self):
        ethernet, infiniband = self.listed('link', 'show')
        self.assertEqual((ethernet['ifname'], ethernet['port'], ethernet['state']), ('mlx5_0', 1, 'ACTIVE'))
        self.assertEqual((infiniband['ifname'], infiniband['port']), ('mlx5_1', 1))
        self.assertEqual((infiniband['subnet_prefix'], infiniband['lid'], infiniband['sm_lid']),
                         ('fe80:0000:0000:0000', 3, 1))
        self.assertEqual(infiniband['physical_state'], 'LINK_UP')
        self.assertNotIn('netdev', infiniband)
        _, names, _ = rdma('link')
        self.assertIn('link mlx5_0/1 state ACTIVE physical_state LINK_UP', names)

    def test_interface(self):
        script = 'ls /sys/class/infiniband/mlx5_0/device/net'
        shown = subprocess.run([TOOL, 'run', '--', 'sh', '-c', script], capture_output=True, text=True, timeout=20,
                               check=False).stdout.split()
        self.assertEqual(self.listed('link', 'show', 'mlx5_0/1')[0].get('netdev'), shown[0] if shown else None)

    def test_devices(self):
        first, second = self.listed('dev', 'show')
        self.assertEqual((first['ifindex'], first['ifname'], first['node_type']), (0, 'mlx5_0', 'ca'))
        self.assertRegex(first['fw'], r'^\d+\.\d+\.\d+$')
        self.assertRegex(first['node_guid'], r'^([0-9a-f]{4}:){3}[0-9a-f]{4}$')
        self.assertNotEqual(first['node_guid'], second['node_guid'])
        self.assertEqual(self.listed('dev', 'show', 'mlx5_1')[0]['ifname'], 'mlx5_1')

    def test_what_is_not_there(self):
        self.assertNotEqual(rdma('link', 'show', 'mlx5_7/1')[0], 0)
        status, output, errors = rdma('resource', 'show', 'qp')
        self.assertNotEqual(status, 0, output)
        self.assertIn('Operation not supported', errors)


def main():
    global TOOL
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    TOOL = os.path.join(os.path.abspath(parser.parse_args().build), 'bin', 'verbatim')
    if shutil.which('rdma') is None:
        print('rdma_tool.py: iproute2 has no rdma here')
        return 77
    return 0 if unittest.main(argv=sys.argv[:1], exit=False).result.wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
