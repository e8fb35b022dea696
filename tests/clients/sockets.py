#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that know only TCP, over RDMA: a server and a client in Python, with librspreload.

usage: sockets.py --build DIR

Both move some megabytes each way, look for readiness in three ways, and see that their sockets are what they should be.
"""
import argparse
import os
import select
import socket
import subprocess
import sys

SOL_RDMA, RDMA_SQSIZE = 0x10000, 0
BYTES = 3_000_001


def data():
    return bytes(i * 31 & 0xff for i in range(65536)) * (BYTES // 65536 + 1)


def check_kind(end):
    size = end.getsockopt(SOL_RDMA, RDMA_SQSIZE)
    assert size > 0, f'send queue of {size} entries'


def receive(end, count):
    parts = []
    while count > 0:
        part = end.recv(min(count, 1 << 20))
        assert part, 'the peer has gone'
        parts.append(part)
        count -= len(part)
    return b''.join(parts)


def serve():
    with socket.socket() as listening:
        listening.bind(('127.0.0.1', 0))
        listening.listen()
        print(listening.getsockname()[1], flush=True)
        end, peer = listening.accept()
    with end:
        assert peer[0] == '127.0.0.1', peer
        check_kind(end)
        assert receive(end, BYTES) == data()[:BYTES]
        end.sendall(data()[:BYTES])
        readable, _, _ = select.select([end], [], [], 10)
        assert readable == [end]
        assert receive(end, 4) == b'done'
        assert end.recv(1) == b''


def ask(port):
    with socket.create_connection(('127.0.0.1', port)) as end:
        check_kind(end)
        end.sendall(data()[:BYTES])
        waiting = select.poll()
        waiting.register(end, select.POLLIN)
        assert waiting.poll(10000) == [(end.fileno(), select.POLLIN)]
        assert receive(end, BYTES) == data()[:BYTES]
        with select.epoll() as waiting:
            waiting.register(end, select.EPOLLOUT)
            assert waiting.poll(10) == [(end.fileno(), select.EPOLLOUT)]
        end.sendall(b'done')
        end.shutdown(socket.SHUT_WR)
    print('all of it')


def run(build):
    preloaded = os.path.join(build, 'lib', 'rsocket', 'librspreload.so')
    environment = dict(os.environ, LD_PRELOAD=preloaded, LD_LIBRARY_PATH=os.path.join(build, 'lib'))
    environment.setdefault('VERBATIM_AGENT_SOCKET', f'verbatim-sockets-{os.getpid()}')
    script = [sys.executable, os.path.abspath(__file__)]
    with subprocess.Popen(script + ['--serve'], env=environment, stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().strip()
        try:
            client = subprocess.run(script + ['--ask', port], env=environment, timeout=60, check=False)
            server.wait(20)
        finally:
            server.kill()
    print(f'client {client.returncode}, server {server.returncode}')
    return client.returncode or server.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build')
    parser.add_argument('--serve', action='store_true')
    parser.add_argument('--ask', type=int)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif options.ask:
        ask(options.ask)
    else:
        sys.exit(run(options.build))


if __name__ == '__main__':
    main()
