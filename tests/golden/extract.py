#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Takes RoCEv2 packets out of captures, as text that the golden tests read.

usage: extract.py --output DIR CAPTURE.pcap...

Of each capture, NAME.hex gets the first packet of each kind: same sender, opcode, length, what an acknowledgement says
and, of management datagrams, attribute. A packet begins with its IP header; a line that begins with # says which frame it was.
"""
import argparse
import os
import struct

ETHERNET = 1
IPV4, IPV6 = 0x0800, 0x86dd
ROCE_PORT = 4791
RC_ACKNOWLEDGE, UD_SEND_ONLY = 0x11, 0x64
COLUMNS = 96


def frames(path):
    with open(path, 'rb') as file:
        data = file.read()
    order = {b'\xd4\xc3\xb2\xa1': '<', b'\x4d\x3c\xb2\xa1': '<', b'\xa1\xb2\xc3\xd4': '>', b'\xa1\xb2\x3c\x4d': '>'}[data[:4]]
    if struct.unpack(order + 'I', data[20:24])[0] != ETHERNET:
        raise SystemExit(f'{path}: not a capture of Ethernet')
    at = 24
    while at + 16 <= len(data):
        captured, length = struct.unpack(order + 'II', data[at + 8:at + 16])
        if captured == length:
            yield data[at + 16:at + 16 + captured]
        at += 16 + captured


def roce_packet(frame):
    """The IP packet and the offset of the BTH, or None."""
    kind = struct.unpack('!H', frame[12:14])[0]
    packet = frame[14:]
    if kind == IPV4 and packet[0] == 0x45 and packet[9] == 17:
        length, udp = struct.unpack('!H', packet[2:4])[0], 20
    elif kind == IPV6 and packet[6] == 17:
        length, udp = 40 + struct.unpack('!H', packet[4:6])[0], 40
    else:
        return None
    if struct.unpack('!H', packet[udp + 2:udp + 4])[0] != ROCE_PORT:
        return None
    return packet[:length], udp + 8


def kind_of(packet, bth):
    sender = packet[12:16] if packet[0] >> 4 == 4 else packet[8:24]
    more = b''
    if packet[bth] == RC_ACKNOWLEDGE:
        more = packet[bth + 12:bth + 13]
    elif packet[bth] == UD_SEND_ONLY and len(packet) == bth + 280:
        more = packet[bth + 36:bth + 38]
    return sender, packet[bth], len(packet), more


def extract(path, output):
    name = os.path.splitext(os.path.basename(path))[0]
    seen, text = set(), [f'# Linux rxe, {name}']
    for number, frame in enumerate(frames(path), 1):
        found = roce_packet(frame)
        if found is None or kind_of(*found) in seen:
            continue
        seen.add(kind_of(*found))
        digits = found[0].hex()
        text += ['', f'# frame {number}'] + [digits[i:i + COLUMNS] for i in range(0, len(digits), COLUMNS)]
    if seen:
        with open(os.path.join(output, f'{name}.hex'), 'w', encoding='ascii') as file:
            file.write('\n'.join(text) + '\n')
    return len(seen)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--output', required=True)
    parser.add_argument('captures', nargs='+')
    options = parser.parse_args()
    for path in options.captures:
        print(f'{path}: {extract(path, options.output)} packets')


if __name__ == '__main__':
    main()
