#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The clock of a device (PTP), as programs find and read it under `verbatim run`.

usage: device_clock.py --build DIR
"""
import argparse
import os
import subprocess
import sys

PROGRAM = '''
import os, time
name, = os.listdir('/sys/class/infiniband/mlx5_0/device/ptp')
with open('/dev/' + name, 'rb') as clock:
    before, shown, after = time.time(), time.clock_gettime((~clock.fileno() << 3) | 3), time.time()
assert before - 1e-3 <= shown <= after + 1e-3, (before, shown, after)
with open('/sys/class/infiniband/mlx5_0/device/ptp/' + name + '/clock_name') as file:
    print(name, file.read().strip())
try:
    with open('/proc/self/maps', 'rb') as other:
        time.clock_gettime((~other.fileno() << 3) | 3)
    print('a file that is no clock shows a time')
except OSError:
    pass
'''


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    tool = os.path.join(os.path.abspath(parser.parse_args().build), 'bin', 'verbatim')
    environment = dict(os.environ, VERBATIM_AGENT_SOCKET=f'verbatim-clock-{os.getpid()}')
    environment.pop('VERBATIM_DEVICES', None)
    done = subprocess.run([tool, 'run', '--', '/usr/bin/python3', '-c', PROGRAM], env=environment, capture_output=True,
                          text=True, timeout=30, check=False)
    if (done.returncode, done.stdout) == (0, 'ptp564200 mlx5_ptp\n'):
        print('passed')
        return 0
    print(done.stdout + done.stderr, file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
