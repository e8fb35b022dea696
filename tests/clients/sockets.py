#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Programs that know only TCP, over RDMA: librspreload.

usage: sockets.py --build DIR

A server and a client in Python move some megabytes each way, look for readiness in several ways, and see that their
sockets are what they should be. So do a server that forks for each of its clients (RDMAV_FORK_SAFE=1) and these. iperf3
and OpenBSD's nc do what they do, where they are installed.
"""
import argparse
import filecmp
import json
import os
import select
import shutil
import socket
import socketserver
import stat
import subprocess
import sys
import tempfile
import threading
import time

SOL_RDMA, RDMA_SQSIZE = 0x10000, 0
BYTES = 3_000_001
IPERF_BYTES, IPERF_ON_ITS_WAY = 64 << 20, 1 << 20


def data():
    return bytes(i * 31 & 0xff for i in range(65536)) * (BYTES // 65536 + 1)


def check_kind(end):
    size = end.getsockopt(SOL_RDMA, RDMA_SQSIZE)
    assert size > 0, f'send queue of {size} entries'
    assert stat.S_ISSOCK(os.fstat(end.fileno()).st_mode)


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


class Echo(socketserver.BaseRequestHandler):
    """In a process of its own: the connection becomes one over RDMA with the first byte."""

    def handle(self):
        sent = receive(self.request, BYTES)
        check_kind(self.request)
        self.request.sendall(sent)


class ForkingServer(socketserver.ForkingMixIn, socketserver.TCPServer):
    allow_reuse_address = True


def serve_forking():
    with ForkingServer(('127.0.0.1', 0), Echo) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def ask_for_echo(port, done):
    with socket.create_connection(('127.0.0.1', port)) as end:
        sender = threading.Thread(target=end.sendall, args=(data()[:BYTES],))
        sender.start()
        assert receive(end, BYTES) == data()[:BYTES]
        sender.join()
        check_kind(end)
        done.append(port)


def ask_forking(port):
    """One after the other, then several at once."""
    done = []
    for together in (1, 4):
        clients = [threading.Thread(target=ask_for_echo, args=(port, done)) for _ in range(together)]
        for client in clients:
            client.start()
        for client in clients:
            client.join()
    assert len(done) == 5, f'{len(done)} of 5 clients had their echo'
    print('all of it')


class Preloaded:
    """Runs programs with the library."""

    def __init__(self, build, **more):
        preloaded = os.path.join(build, 'lib', 'rsocket', 'librspreload.so')
        self.environment = dict(os.environ, LD_PRELOAD=preloaded, LD_LIBRARY_PATH=os.path.join(build, 'lib'), **more)
        self.environment.setdefault('VERBATIM_AGENT_SOCKET', f'verbatim-sockets-{os.getpid()}')

    def start(self, command, **options):
        return subprocess.Popen(command, env=self.environment, **options)

    def run(self, command, **options):
        return subprocess.run(command, env=self.environment, timeout=60, check=False, **options)

    def ask_until_heard(self, command, server, **options):
        """Nothing tells that a server listens: its client is refused until then, and comes again."""
        deadline = time.monotonic() + 20
        while True:
            client = self.run(command, **options)
            if client.returncode == 0 or server.poll() is not None or time.monotonic() > deadline:
                return client
            time.sleep(0.05)


def run_python(build, serving, asking, ends_by_itself, **more):
    programs = Preloaded(build, **more)
    script = [sys.executable, os.path.abspath(__file__)]
    with programs.start(script + [serving], stdout=subprocess.PIPE, text=True) as server:
        port = server.stdout.readline().strip()
        try:
            client = programs.run(script + [asking, port])
            if ends_by_itself:
                server.wait(20)
        finally:
            server.kill()
    ended_well = client.returncode == 0 and (server.returncode == 0 or not ends_by_itself)
    return None if ended_well else f'client {client.returncode}, server {server.returncode}'


def free_port():
    with socket.socket() as end:
        end.bind(('127.0.0.1', 0))
        return str(end.getsockname()[1])


def run_iperf(build):
    programs, port = Preloaded(build), free_port()
    command = ['iperf3', '-p', port]
    with programs.start(command + ['-s', '-1'], stdout=subprocess.DEVNULL) as server:
        client = programs.ask_until_heard(command + ['-c', '127.0.0.1', '-n', str(IPERF_BYTES), '-J'], server, capture_output=True)
        server.kill()
    if client.returncode != 0:
        return f'client {client.returncode}: {client.stdout[-200:]}'
    end = json.loads(client.stdout)['end']
    sent, received = end['sum_sent']['bytes'], end['sum_received']['bytes']
    # The server stops counting when the control connection says so, whatever is still on its way in the other one.
    whole = sent >= IPERF_BYTES and received >= IPERF_BYTES - IPERF_ON_ITS_WAY
    return None if whole else f'{sent} bytes sent, {received} received'


def run_netcat(build):
    programs, port = Preloaded(build), free_port()
    with tempfile.TemporaryDirectory() as folder:
        source, copy = os.path.join(folder, 'source'), os.path.join(folder, 'copy')
        with open(source, 'wb') as file:
            file.write(data()[:BYTES])
        with open(copy, 'wb') as output, open(source, 'rb') as original, \
                programs.start(['nc', '-l', '127.0.0.1', port], stdin=subprocess.DEVNULL, stdout=output) as server:
            client = programs.ask_until_heard(['nc', '-N', '127.0.0.1', port], server, stdin=original,
                                              stderr=subprocess.DEVNULL)
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
        if client.returncode != 0 or server.returncode != 0:
            return f'client {client.returncode}, server {server.returncode}'
        return None if filecmp.cmp(source, copy, shallow=False) else 'the copy differs'


def is_openbsd_netcat():
    return shutil.which('nc') and 'OpenBSD' in subprocess.run(['nc', '-h'], capture_output=True, text=True,
                                                               check=False).stderr


def run(build):
    wrong = {'a server and a client': run_python(build, '--serve', '--ask', True),
             'a server that forks': run_python(build, '--serve-forking', '--ask-forking', False, RDMAV_FORK_SAFE='1')}
    if shutil.which('iperf3'):
        wrong['iperf3'] = run_iperf(build)
    if is_openbsd_netcat():
        wrong['nc'] = run_netcat(build)
    for name, why in wrong.items():
        print(f'{"FAIL" if why else "ok":4} {name} {why or ""}')
    return any(wrong.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build')
    parser.add_argument('--serve', action='store_true')
    parser.add_argument('--ask', type=int)
    parser.add_argument('--serve-forking', action='store_true')
    parser.add_argument('--ask-forking', type=int)
    options = parser.parse_args()
    if options.serve:
        serve()
    elif options.ask:
        ask(options.ask)
    elif options.serve_forking:
        serve_forking()
    elif options.ask_forking:
        ask_forking(options.ask_forking)
    else:
        sys.exit(run(options.build))


if __name__ == '__main__':
    main()
