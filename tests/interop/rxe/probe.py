#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plays one scenario of verbs between two processes that no stock program plays, and checks what both ends see.

usage: probe.py SCENARIO            the serving end
       probe.py SCENARIO ADDRESS    the end that begins
       probe.py --list
The last line is "ok", or says what came instead of what should.
"""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from pyverbs.mr import MW, MWBindInfo  # noqa: E402
from pyverbs.wr import SendWR  # noqa: E402
import pyverbs.enums as e  # noqa: E402
from probe_cm import connection, refusal, slow_accept  # noqa: E402
from probe_end import BUFFER, End, Surprise, expect  # noqa: E402

OK = e.IBV_WC_SUCCESS
GRH = 40  # bytes before a datagram in the buffer it is received into
IMM = 0x01020304
LARGE = 1 << 20
SCENARIOS = {}


def scenario(function):
    SCENARIOS[function.__name__] = function
    return function


def exchange(end, opcode, length, imm=0, seed=1, flags=0, **where):
    """One message with its receive: data, length and immediate are checked."""
    header = GRH if end.kind == 'ud' else 0
    if end.serves:
        end.receive()
        end.link.swap()
        done = end.wait()[0]
        expect('status', done.status, OK)
        if opcode != e.IBV_WR_RDMA_WRITE_WITH_IMM:
            expect('length', done.byte_len, length + header)
        if imm:
            expect('immediate', done.imm_data, imm)
        end.check(length, header, seed)
    else:
        end.fill(length, 0, seed)
        end.link.swap()
        end.post(opcode, length, imm=imm, flags=flags, **where)
        end.wait_status(OK)
    end.link.swap()


def refused(end, status, ready=None, **request):
    """A request of the client's that the server's device must refuse."""
    if end.serves:
        if ready:
            ready()
        end.link.swap()
    else:
        end.link.swap()
        end.post(**request)
        end.wait_status(status)
    end.link.swap()


@scenario
def empty(server):
    exchange(End(server), e.IBV_WR_SEND, 0)


@scenario
def odd(server):
    """Every length of padding, and what MTUs make of a message."""
    end = End(server)
    for length in (1, 2, 3, 4, 1023, 1024, 1025, 2048, 2049):
        exchange(end, e.IBV_WR_SEND, length, seed=length & 0xff)


@scenario
def solicited(server):
    exchange(End(server), e.IBV_WR_SEND, 1030, flags=e.IBV_SEND_SOLICITED)


@scenario
def send_imm(server):
    end = End(server)
    exchange(end, e.IBV_WR_SEND_WITH_IMM, 5, imm=IMM)
    exchange(end, e.IBV_WR_SEND_WITH_IMM, 2050, imm=IMM, seed=9)


@scenario
def write_imm(server):
    end = End(server)
    exchange(end, e.IBV_WR_RDMA_WRITE_WITH_IMM, 7, imm=IMM, remote=0)
    exchange(end, e.IBV_WR_RDMA_WRITE_WITH_IMM, 2050, imm=IMM, seed=9, remote=0)


@scenario
def uc_imm(server):
    end = End(server, transport='uc')
    exchange(end, e.IBV_WR_SEND_WITH_IMM, 1027, imm=IMM)
    exchange(end, e.IBV_WR_RDMA_WRITE_WITH_IMM, 1026, imm=IMM, seed=9, remote=0)


@scenario
def ud_imm(server):
    """With the fields of the address handle that become fields of the packet."""
    route = {'hop_limit': 7, 'traffic_class': 0x68, 'flow_label': 0x12345}
    exchange(End(server, transport='ud', route=route), e.IBV_WR_SEND_WITH_IMM, 61, imm=IMM)


@scenario
def route(server):
    """As ud_imm, for a connection."""
    where = {'hop_limit': 9, 'traffic_class': 0x2a, 'flow_label': 0x54321}
    exchange(End(server, route=where), e.IBV_WR_SEND, 61)


@scenario
def psn_wrap(server):
    exchange(End(server, psn=0xfffffd), e.IBV_WR_SEND, 5000)


@scenario
def read(server):
    """A read of several packets, one of none, and four at once."""
    end = End(server)
    if end.serves:
        end.fill(BUFFER)
    end.link.swap()
    if not end.serves:
        for length in (1, 2051, 0):
            end.post(e.IBV_WR_RDMA_READ, length, remote=0)
            end.wait_status(OK)
        end.check(2051)
        for index in range(4):
            end.post(e.IBV_WR_RDMA_READ, 1500, offset=4096 * index, remote=0)
        end.wait_status(OK, OK, OK, OK)
        for index in range(4):
            end.check(1500, offset=4096 * index)
    end.link.swap()


@scenario
def atomics(server):
    """Fetch-and-add and both outcomes of compare-and-swap; the server's eight bytes start at 0x10."""
    end = End(server)
    if end.serves:
        end.mr.write((0x10).to_bytes(8, 'little'), 8, 0)
    end.link.swap()
    if not end.serves:
        steps = [(e.IBV_WR_ATOMIC_FETCH_AND_ADD, (5,), 0x10), (e.IBV_WR_ATOMIC_CMP_AND_SWP, (0x15, 0x99), 0x15),
                 (e.IBV_WR_ATOMIC_CMP_AND_SWP, (0x15, 0x77), 0x99)]
        for opcode, operands, before in steps:
            end.post(opcode, 8, remote=0, atomic=operands)
            end.wait_status(OK)
            expect('value before', int.from_bytes(end.mr.read(8, 0), 'little'), before)
    end.link.swap()
    if end.serves:
        expect('value after', int.from_bytes(end.mr.read(8, 0), 'little'), 0x99)


@scenario
def send_inv(server):
    """The server binds a window and the client's send invalidates it; a write through it fails after that."""
    end = End(server)
    key = None
    if end.serves:
        window = MW(end.pd, e.IBV_MW_TYPE_2)
        bind = SendWR(opcode=e.IBV_WR_BIND_MW, num_sge=0, send_flags=e.IBV_SEND_SIGNALED)
        bind.set_bind_wr(window, MWBindInfo(end.mr, end.mr.buf, BUFFER, e.IBV_ACCESS_REMOTE_WRITE))
        end.qp.post_send(bind)
        end.wait_status(OK)
        key = bind.rkey if hasattr(bind, 'rkey') and bind.rkey else window.rkey
        end.receive()
    key = end.link.swap(key) or key
    if not end.serves:
        end.fill(64)
        end.post(e.IBV_WR_RDMA_WRITE, 64, remote=0, rkey=key)
        end.wait_status(OK)
        end.post(e.IBV_WR_SEND_WITH_INV, 16, imm=key)
        end.wait_status(OK)
        end.post(e.IBV_WR_RDMA_WRITE, 64, remote=0, rkey=key)
        end.wait_status(e.IBV_WC_REM_ACCESS_ERR)
    else:
        end.wait_status(OK)  # (Linux's rxe reports the kernel's bit of its flags, so they are not asked.)
    end.link.swap()


@scenario
def rnr(server):
    """The receive comes late: NAKs tell the client to wait, and the message arrives."""
    end = End(server, rnr_timer=24)
    if end.serves:
        end.link.swap()
        time.sleep(0.3)
        end.receive()
        end.wait_status(OK)
        end.check(2050)
    else:
        end.fill(2050)
        end.link.swap()
        end.post(e.IBV_WR_SEND, 2050)
        end.wait_status(OK)
    end.link.swap()


@scenario
def rnr_exceeded(server):
    end = End(server, rnr_timer=20, rnr_retry=2)
    refused(end, e.IBV_WC_RNR_RETRY_EXC_ERR, opcode=e.IBV_WR_SEND, length=16)


@scenario
def bad_key_write(server):
    refused(End(server), e.IBV_WC_REM_ACCESS_ERR, opcode=e.IBV_WR_RDMA_WRITE, length=2050, remote=0, rkey=0xdead00)


@scenario
def bad_key_read(server):
    refused(End(server), e.IBV_WC_REM_ACCESS_ERR, opcode=e.IBV_WR_RDMA_READ, length=2050, remote=0, rkey=0xdead00)


@scenario
def out_of_range(server):
    refused(End(server), e.IBV_WC_REM_ACCESS_ERR, opcode=e.IBV_WR_RDMA_WRITE, length=64, remote=BUFFER - 32)


@scenario
def long_send(server):
    """More than the receive takes; Linux's rxe calls that its own failure, most others a request's."""
    end = End(server)
    refused(end, (e.IBV_WC_REM_INV_REQ_ERR, e.IBV_WC_REM_OP_ERR), ready=lambda: end.receive(8),
            opcode=e.IBV_WR_SEND, length=64)


@scenario
def lossy(server):
    """Enough of every kind for a network that loses some: all arrives once, in order and intact."""
    end = End(server, timeout=15)
    for round_ in range(3):
        exchange(end, e.IBV_WR_SEND, 3000, seed=round_)
        exchange(end, e.IBV_WR_RDMA_WRITE_WITH_IMM, 2050, imm=IMM, seed=round_ + 100, remote=0)
        end.link.swap()
        if not end.serves:
            end.post(e.IBV_WR_RDMA_READ, 2050, offset=4096, remote=0)
            end.wait_status(OK)
            end.check(2050, 4096, seed=round_ + 100)
        end.link.swap()


def large(end):
    """A mebibyte of every kind, apart from what a receive needs."""
    exchange(end, e.IBV_WR_SEND, LARGE, seed=3)
    exchange(end, e.IBV_WR_RDMA_WRITE_WITH_IMM, LARGE - 3, imm=IMM, seed=4, remote=0)
    if not end.serves:
        end.post(e.IBV_WR_RDMA_READ, LARGE - 3, offset=LARGE, remote=0)
        end.wait_status(OK)
        end.check(LARGE - 3, LARGE, seed=4)
    end.link.swap()


@scenario
def large_1024(server):
    large(End(server, buffer=2 * LARGE))


@scenario
def large_4096(server):
    large(End(server, mtu=4096, buffer=2 * LARGE))


@scenario
def lossy_large(server):
    large(End(server, mtu=4096, timeout=15, buffer=2 * LARGE))


@scenario
def gone(server):
    """Nobody answers: the client's retries run out. (Seven would mean for ever to Linux's rxe.)"""
    end = End(server, timeout=12, retries=3)
    if end.serves:
        end.qp.close()
    refused(end, e.IBV_WC_RETRY_EXC_ERR, opcode=e.IBV_WR_SEND, length=16)


for cm_scenario in (connection, slow_accept, refusal):
    scenario(cm_scenario)


def main():
    if sys.argv[1:] == ['--list']:
        print('\n'.join(SCENARIOS))
        return 0
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in SCENARIOS:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    try:
        SCENARIOS[sys.argv[1]](sys.argv[2] if len(sys.argv) == 3 else None)
    except Surprise as surprise:
        print(surprise)
        return 1
    print('ok')
    return 0


if __name__ == '__main__':
    sys.exit(main())
