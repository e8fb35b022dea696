# SPDX-License-Identifier: MIT
"""Reads a pcapng file, and the RoCEv2 packets in it, and checks both: without the code that wrote them."""
import collections
import struct
import zlib

Packet = collections.namedtuple('Packet', 'interface time_ns outbound frame original ip opcode qpn psn a body')
Capture = collections.namedtuple('Capture', 'interfaces packets statistics')

ROCE_PORT = 4791
SECTION, INTERFACE, PACKET, STATISTICS = 0x0a0d0d0a, 1, 6, 5


def options_of(data):
    options = {}
    while len(data) >= 4:
        code, length = struct.unpack_from('<HH', data)
        if code == 0:
            break
        options[code] = data[4:4 + length]
        data = data[4 + (length + 3) // 4 * 4:]
    return options


def blocks(data):
    at = 0
    while at < len(data):
        kind, length = struct.unpack_from('<II', data, at)
        assert length % 4 == 0 and length >= 12, f'block length {length}'
        assert struct.unpack_from('<I', data, at + length - 4)[0] == length, 'the lengths of a block differ'
        yield kind, data[at + 8:at + length - 4]
        at += length


def masked(ip):
    """What the invariant CRC covers of an IP packet, but for itself."""
    image = bytearray(ip[:-4])
    if ip[0] >> 4 == 4:
        image[1] = image[8] = image[10] = image[11] = 0xff
        udp = 20
    else:
        image[0:4] = bytes((0x6f, 0xff, 0xff, 0xff))
        image[7] = 0xff
        udp = 40
    image[udp + 6] = image[udp + 7] = 0xff
    image[udp + 8 + 4] = 0xff
    return b'\xff' * 8 + bytes(image)


def ones_sum(data):
    data += b'\0' * (len(data) % 2)
    total = sum(struct.unpack(f'>{len(data) // 2}H', data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def check_ip(ip, length):
    if ip[0] >> 4 == 4:
        assert ip[0] == 0x45 and ones_sum(ip[:20]) == 0xffff, 'the IPv4 checksum is wrong'
        assert struct.unpack_from('>H', ip, 2)[0] == length, 'the IPv4 length is wrong'
        return 20
    assert struct.unpack_from('>H', ip, 4)[0] == length - 40 and ip[6] == 17, 'the IPv6 header is wrong'
    if length == len(ip):
        pseudo = ip[8:40] + struct.pack('>II', length - 40, 17)
        assert ones_sum(pseudo + ip[40:]) == 0xffff, 'the UDP checksum is wrong'
    return 40


def packet_of(interface, time_ns, flags, frame, original):
    kind = struct.unpack_from('>H', frame, 12)[0]
    assert kind in (0x0800, 0x86dd), f'the frame holds {kind:#x}'
    ip = frame[14:]
    udp = check_ip(ip, original - 14)
    assert struct.unpack_from('>H', ip, udp + 2)[0] == ROCE_PORT, 'another port'
    bth = ip[udp + 8:]
    if len(frame) == original:
        crc = zlib.crc32(masked(ip)) & 0xffffffff
        assert struct.unpack_from('<I', ip, len(ip) - 4)[0] == crc, 'the invariant CRC is wrong'
    qpn, psn = (struct.unpack_from('>I', bth, at)[0] & 0xffffff for at in (4, 8))
    hosts = ip[12:20] if udp == 20 else ip[8:40]
    return Packet(interface, time_ns, flags & 3 == 2, frame, original, hosts, bth[0], qpn, psn, bth[8] >> 7, bth[12:])


def read(path):
    with open(path, 'rb') as file:
        data = file.read()
    capture = Capture([], [], {})
    for number, (kind, body) in enumerate(blocks(data)):
        if kind == SECTION:
            assert number == 0 and struct.unpack_from('<I', body)[0] == 0x1a2b3c4d, 'a second section'
        elif kind == INTERFACE:
            options = options_of(body[8:])
            assert struct.unpack_from('<H', body)[0] == 1 and options[9] == b'\x09', 'not Ethernet, or not nanoseconds'
            capture.interfaces.append(options[2].decode())
        elif kind == PACKET:
            interface, high, low, held, original = struct.unpack_from('<5I', body)
            flags = struct.unpack('<I', options_of(body[20 + (held + 3) // 4 * 4:])[2])[0]
            capture.packets.append(packet_of(interface, high << 32 | low, flags, body[20:20 + held], original))
        elif kind == STATISTICS:
            options = options_of(body[12:])
            interface = struct.unpack_from('<I', body)[0]
            capture.statistics[interface] = tuple(struct.unpack('<Q', options[code])[0] for code in (4, 5))
    return capture


# Opcodes of RC and UC, without the transport's bits.
REQUESTS = set(range(0x0c + 1)) | {0x13, 0x14, 0x16, 0x17}
READ_REQUEST = 0x0c


MTUS = (256, 512, 1024, 2048, 4096)


def check_sequences(packets):
    """Where nothing is lost, the PSNs of each direction of a connection have no gaps. A read takes one for each packet of its
    answer. What was sent already may be sent again, when its answer is late on a busy machine."""
    following = {}
    sent = {}
    for packet in packets:
        transport, operation = packet.opcode >> 5, packet.opcode & 0x1f
        if transport not in (0, 1) or operation not in REQUESTS:
            continue
        way = (packet.ip, packet.qpn)
        expected = following.get(way, {packet.psn})
        if packet.psn in sent.setdefault(way, set()):
            continue
        assert packet.psn in expected, f'PSN {packet.psn:#x} towards QP {packet.qpn:#x}, not one of {expected}'
        sent[way].add(packet.psn)
        taken = {1}
        if operation == READ_REQUEST:
            taken = {max(1, (struct.unpack_from('>I', packet.body, 12)[0] + mtu - 1) // mtu) for mtu in MTUS}
        following[way] = {(packet.psn + each) & 0xffffff for each in taken}
    return len(following)
