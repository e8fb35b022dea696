#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Captures what stock programs send to each other on one host, through memory and as UDP, and looks at each packet.

usage: run.py --build DIR [--keep FILE]

Runs in a network namespace of its own. Exit status 77: none can be made, or programs are missing. tshark, where it is
installed, has to understand every packet.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import pcapng  # noqa: E402

SKIPPED_STATUS = 77
INSIDE = 'VERBATIM_CAPTURE_TEST_INSIDE'
DEVICE = 'mlx5_0'
ADDRESSES = ('10.78.0.1', 'fd78::1')

# Opcodes that have to be there: RC, UC, UD, the connection manager's among the latter.
EXPECTED = {
    0x00: 'RC send first', 0x01: 'RC send middle', 0x02: 'RC send last', 0x04: 'RC send only',
    0x06: 'RC write first', 0x07: 'RC write middle', 0x08: 'RC write last', 0x0a: 'RC write only',
    0x0c: 'RC read request', 0x0d: 'RC read response first', 0x0f: 'RC read response last',
    0x10: 'RC read response only', 0x11: 'RC acknowledge', 0x12: 'RC atomic acknowledge', 0x13: 'RC compare and swap',
    0x14: 'RC fetch and add', 0x26: 'UC write first', 0x2a: 'UC write only', 0x24: 'UC send only',
    0x64: 'UD send only', 0x65: 'UD send only with immediate',
}


def enter_namespace():
    """This script again, alone on a network; False: that is not allowed here."""
    if INSIDE in os.environ:
        for command in ('ip link set lo up', 'ip link add d0 mtu 9000 type veth peer name d1',
                        f'ip addr add {ADDRESSES[0]}/24 dev d0',
                        f'ip addr add {ADDRESSES[1]}/64 dev d0 nodad', 'ip link set d0 up', 'ip link set d1 up'):
            if subprocess.run(command.split(), check=False).returncode != 0:
                return False
        return True
    wanted = ['unshare', '-n'] if os.geteuid() == 0 else ['unshare', '-rn']
    if subprocess.run([*wanted, 'true'], check=False, stderr=subprocess.DEVNULL).returncode != 0:
        return False
    os.execvpe(wanted[0], [*wanted, sys.executable, *sys.argv], dict(os.environ, **{INSIDE: '1'}))
    return False


def perftest(program, port, *arguments):
    command = [f'ib_{program}', '-d', DEVICE, '-F', '-p', str(port), '-n', '8', *arguments]
    return command, [*command, ADDRESSES[0]]


def pairs(gids):
    """(server, client, environment), all of which run at the same time."""
    ipv4, ipv6 = gids
    udp = {'VERBATIM_WIRE': 'udp'}
    yield *perftest('send_bw', 7101, '-x', ipv4, '-s', '20000'), {}
    yield *perftest('send_lat', 7102, '-x', ipv6, '-s', '100'), {}
    yield *perftest('write_bw', 7103, '-x', ipv6, '-s', '70001'), {}
    yield *perftest('write_lat', 7104, '-x', ipv4, '-s', '8'), {}
    yield *perftest('read_bw', 7105, '-x', ipv4, '-s', '9000'), {}
    yield *perftest('read_lat', 7106, '-x', ipv6, '-s', '16'), udp
    yield *perftest('atomic_lat', 7107, '-x', ipv4, '-A', 'FETCH_AND_ADD'), {}
    yield *perftest('atomic_bw', 7108, '-x', ipv6, '-A', 'CMP_AND_SWAP'), udp
    yield *perftest('send_lat', 7109, '-x', ipv4, '-c', 'UD', '-s', '64'), {}
    yield *perftest('send_lat', 7110, '-x', ipv6, '-c', 'UD', '-s', '64'), udp
    yield *perftest('write_bw', 7111, '-x', ipv4, '-c', 'UC', '-s', '20000'), {}
    yield *perftest('write_lat', 7112, '-x', ipv4, '-c', 'UC', '-s', '8'), udp
    yield *perftest('send_lat', 7113, '-x', ipv6, '-c', 'UC', '-s', '64'), {}
    yield ['rping', '-s', '-a', ADDRESSES[0], '-C', '3', '-S', '5000'], ['rping', '-c', '-a', ADDRESSES[0], '-C', '3', '-S', '5000'], {}
    yield ['udaddy'], ['udaddy', '-s', ADDRESSES[0]], {}


class Programs:
    def __init__(self, build, folder):
        self.build, self.folder = build, folder
        self.environment = dict(os.environ, LC_ALL='C', LD_LIBRARY_PATH=os.path.join(build, 'lib'),
                                VERBATIM_AGENT_SOCKET=f'verbatim-capture-{os.getpid()}')
        self.tool = os.path.join(build, 'bin', 'verbatim')

    def gids(self):
        """The indices of the addresses in the GID table."""
        shown = subprocess.run([self.tool, 'devices'], env=self.environment, capture_output=True, text=True,
                               check=True).stdout.splitlines()
        tails = ('ffff:0a4e:0001', 'fd78:0000:0000:0000:0000:0000:0000:0001')
        return [next(line.split()[1] for line in shown if tail in line and 'RoCE v2' in line) for tail in tails]

    def start(self, command, log, more):
        with open(os.path.join(self.folder, log), 'w', encoding='utf-8') as out:
            return subprocess.Popen(command, env=dict(self.environment, **more), stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=subprocess.STDOUT)

    def run(self, all_pairs):
        """Pairs of which one end failed. Clients come again until their server listens."""
        servers = [self.start(server, f'{i}.server', more) for i, (server, _, more) in enumerate(all_pairs)]
        deadline = time.monotonic() + 60
        waiting = dict(enumerate(all_pairs))
        clients = {}
        while waiting and time.monotonic() < deadline:
            time.sleep(0.1)
            for i, (_, command, more) in list(waiting.items()):
                if i not in clients:
                    clients[i] = self.start(command, f'{i}.client', more)
                elif clients[i].poll() == 0:
                    del waiting[i]
                elif clients[i].poll() is not None:
                    del clients[i]
        for process in [*servers, *clients.values()]:
            try:
                process.wait(max(0.1, deadline - time.monotonic()) if not waiting else 0.1)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        return [i for i, server in enumerate(servers) if i in waiting or server.returncode != 0]


def check_with_tshark(path, packets):
    if not shutil.which('tshark'):
        print('tshark is not installed: one reader less')
        return
    shown = subprocess.run(['tshark', '-n', '--disable-protocol', 'rpcordma', '-r', path, '-T', 'fields', '-E', 'separator=;',
                            '-e', 'frame.protocols', '-e', '_ws.malformed', '-e', 'infiniband.bth.opcode', '-e',
                            'infiniband.bth.psn', '-e', 'frame.interface_name', '-e', 'frame.cap_len'],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(shown) == len(packets), f'tshark sees {len(shown)} packets of {len(packets)}'
    for number, (line, packet) in enumerate(zip(shown, packets), 1):
        protocols, malformed, opcode, psn, name, length = line.split(';')
        assert 'infiniband' in protocols and not malformed, f'packet {number}: {line}'
        assert (int(opcode, 0), int(psn, 0)) == (packet.opcode, packet.psn), f'packet {number}: {line}'
        assert name == DEVICE and int(length) == packet.original, f'packet {number}: {line}'


def check(path, said):
    capture = pcapng.read(path)
    packets = capture.packets
    assert capture.interfaces == [DEVICE], capture.interfaces
    assert capture.statistics == {0: (len(packets), 0)}, capture.statistics
    assert f'{len(packets)} packets, 0 more were lost' in said, said
    missing = [name for code, name in EXPECTED.items() if not any(packet.opcode == code for packet in packets)]
    assert not missing, f'not in the capture: {", ".join(missing)}'
    assert all(packet.outbound for packet in packets), 'on one host a packet is captured where it is sent'
    assert {len(packet.ip) for packet in packets} == {8, 32}, 'both IPv4 and IPv6'
    connections = pcapng.check_sequences(packets)
    acknowledged = sum(packet.opcode & 0x1f == 0x11 for packet in packets)
    to_manager = sum(packet.qpn == 1 for packet in packets)
    assert acknowledged > 20 and to_manager >= 7, f'{acknowledged} acknowledgements, {to_manager} of the manager'
    check_with_tshark(path, packets)
    print(f'{len(packets)} packets in {connections} directions of connections, all as they have to be')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--build', required=True)
    parser.add_argument('--keep', help='where the capture stays')
    options = parser.parse_args()
    if not shutil.which('ib_send_bw') or not shutil.which('rping') or not enter_namespace():
        print('perftest, rdmacm-utils or a network namespace is not to be had here')
        sys.exit(SKIPPED_STATUS)
    with tempfile.TemporaryDirectory(prefix='verbatim-capture-') as folder:
        programs = Programs(os.path.abspath(options.build), folder)
        path = options.keep or os.path.join(folder, 'capture.pcapng')
        with subprocess.Popen([programs.tool, 'capture', '-w', path], env=programs.environment, stderr=subprocess.PIPE,
                              text=True) as capture:
            assert capture.stderr.readline().strip() == 'verbatim capture: begun'
            all_pairs = list(pairs(programs.gids()))
            failed = programs.run(all_pairs)
            capture.send_signal(signal.SIGINT)
            said = capture.stderr.read()
        for i in failed:
            print('FAILED', ' '.join(all_pairs[i][1]))
            for end in ('server', 'client'):
                with open(os.path.join(folder, f'{i}.{end}'), encoding='utf-8', errors='replace') as log:
                    print(log.read()[-800:])
        check(path, said)
    sys.exit(1 if failed else 0)


if __name__ == '__main__':
    main()
