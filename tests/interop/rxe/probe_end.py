# SPDX-License-Identifier: MIT
"""One end of a queue pair and its link to the other end's process: what probe.py's scenarios are played with."""
import functools
import ipaddress
import json
import socket
import time

from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE
import pyverbs.enums as e

BUFFER = 32768
PORT = 7471
QKEY = 0x11223344
ACCESS = (e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE | e.IBV_ACCESS_REMOTE_READ
          | e.IBV_ACCESS_REMOTE_ATOMIC | e.IBV_ACCESS_MW_BIND)
MTU = {1024: e.IBV_MTU_1024, 4096: e.IBV_MTU_4096}
PSN = {True: 0x123000, False: 0xabc000}  # the server's, the client's: easy to tell apart in a capture
WAIT_SECONDS = 20
PERIOD = 65536  # of the bytes that are sent


class Surprise(Exception):
    """What came is not what the scenario expects."""


def expect(what, got, wanted):
    if got != wanted:
        raise Surprise(f'{what}: {got}, not {wanted}')


class Link:
    """Lines of JSON to the process at the other end, over TCP."""

    def __init__(self, server):
        family = socket.AF_INET6 if ':' in (server or '::') else socket.AF_INET
        if server is None:
            listener = socket.create_server(('::', PORT), family=family, dualstack_ipv6=True)
            listener.settimeout(WAIT_SECONDS)
            print('listening', flush=True)
            self.socket, _ = listener.accept()
        else:
            self.socket = self._connect(server)
        self.socket.settimeout(WAIT_SECONDS)
        self.lines = self.socket.makefile('r')

    @staticmethod
    def _connect(server):
        end = time.monotonic() + WAIT_SECONDS
        while True:
            try:
                return socket.create_connection((server, PORT), timeout=WAIT_SECONDS)
            except ConnectionRefusedError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.2)

    def swap(self, value=None):
        """Gives the other end a value and takes its; both wait for each other."""
        self.socket.sendall(json.dumps(value).encode() + b'\n')
        line = self.lines.readline()
        if not line:
            raise Surprise('the other end has gone')
        return json.loads(line)

    def local_address(self):
        return self.socket.getsockname()[0].removeprefix('::ffff:')


class End:
    """A queue pair with one buffer, connected to the other end's."""

    def __init__(self, server, transport='rc', mtu=1024, psn=None, timeout=16, rnr_timer=12,
                 rnr_retry=7, retries=7, route=None, buffer=BUFFER):
        self.serves = server is None
        self.link = Link(server)
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        self.mr = MR(self.pd, buffer, ACCESS)
        self.kind = transport
        kind = {'rc': e.IBV_QPT_RC, 'uc': e.IBV_QPT_UC, 'ud': e.IBV_QPT_UD}[transport]
        self.qp = QP(self.pd, QPInitAttr(qp_type=kind, scq=self.cq, rcq=self.cq, cap=QPCap(32, 32, 2, 2, 64)))
        self.gid_index, gid = self._gid(self.link.local_address())
        self.psn = PSN[self.serves] if psn is None else psn
        self.peer = self.link.swap({'qpn': self.qp.qp_num, 'psn': self.psn, 'gid': gid,
                                    'rkey': self.mr.rkey, 'address': self.mr.buf})
        path = GlobalRoute(dgid=GID(self.peer['gid']), sgid_index=self.gid_index,
                           **{'hop_limit': 64, 'traffic_class': 0, 'flow_label': 0, **(route or {})})
        self.path = AHAttr(port_num=1, is_global=1, gr=path)
        self._connect(mtu, timeout, retries, rnr_timer, rnr_retry)
        self.link.swap()

    def _gid(self, address):
        address = ipaddress.ip_address(address.split('%')[0])
        wanted = address if address.version == 6 else ipaddress.ip_address(f'::ffff:{address}')
        for index in range(16):
            gid = self.context.query_gid(1, index)
            if ipaddress.ip_address(str(gid)) == wanted:
                return index, str(gid)
        raise Surprise(f'no entry of the GID table is {address}')

    def _connect(self, mtu, timeout, retries, rnr_timer, rnr_retry):
        attr = QPAttr(port_num=1)
        if self.kind == 'ud':
            attr.qkey = QKEY
            attr.sq_psn = self.psn
            self.qp.to_rts(attr)
            self.ah = AH(self.pd, attr=self.path)
            return
        attr.qp_access_flags = ACCESS & ~(e.IBV_ACCESS_MW_BIND | e.IBV_ACCESS_LOCAL_WRITE)
        if self.kind == 'uc':
            attr.qp_access_flags = e.IBV_ACCESS_REMOTE_WRITE
        attr.dest_qp_num = self.peer['qpn']
        attr.path_mtu = MTU[mtu]
        attr.rq_psn = self.peer['psn']
        attr.sq_psn = self.psn
        attr.ah_attr = self.path
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 4
        attr.min_rnr_timer = rnr_timer
        attr.timeout = timeout
        attr.retry_cnt = retries
        attr.rnr_retry = rnr_retry
        self.qp.to_rts(attr)

    # --- work ---------------------------------------------------------------------------------------------------------

    def receive(self, length=None, offset=0):
        length = self.mr.length - offset if length is None else length
        self.qp.post_recv(RecvWR(num_sge=1, sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)]))

    def post(self, opcode, length=0, offset=0, flags=0, imm=0, remote=None, rkey=None, atomic=None):
        """Posts one signaled work request; remote is an offset in the other end's buffer."""
        request = SendWR(opcode=opcode, num_sge=1, imm_data=imm,
                         sg=[SGE(self.mr.buf + offset, length, self.mr.lkey)],
                         send_flags=e.IBV_SEND_SIGNALED | flags)
        rkey = self.peer['rkey'] if rkey is None else rkey
        if self.kind == 'ud':
            request.set_wr_ud(self.ah, self.peer['qpn'], QKEY)
        elif atomic is not None:
            request.set_wr_atomic(rkey, self.peer['address'] + (remote or 0), *atomic)
        elif remote is not None:
            request.set_wr_rdma(rkey, self.peer['address'] + remote)
        self.qp.post_send(request)

    def wait(self, count=1):
        """The next completions, as many as wanted."""
        done = []
        end = time.monotonic() + WAIT_SECONDS
        while len(done) < count:
            _, got = self.cq.poll(count - len(done))
            done += got
            if not got and time.monotonic() > end:
                raise Surprise(f'{len(done)} of {count} completions came')
            if not got:
                time.sleep(0.002)
        return done

    def wait_status(self, *wanted):
        """Completions in order; where devices differ, a tuple has all that is right."""
        for completion, status in zip(self.wait(len(wanted)), wanted):
            if completion.status not in (status if isinstance(status, tuple) else (status,)):
                raise Surprise(f'completion: {completion.status}, not {status}')

    # --- data ---------------------------------------------------------------------------------------------------------

    @staticmethod
    @functools.lru_cache(maxsize=16)
    def _period(length, seed):
        return bytes((seed + 7 * index + (index >> 8)) & 0xff for index in range(length))

    def pattern(self, length, seed):
        return (self._period(min(length, PERIOD), seed) * (length // PERIOD + 1))[:length]

    def fill(self, length, offset=0, seed=1):
        self.mr.write(self.pattern(length, seed), length, offset)

    def check(self, length, offset=0, seed=1):
        got = bytes(self.mr.read(length, offset))
        wanted = self.pattern(length, seed)
        if got != wanted:
            wrong = next(index for index in range(length) if got[index] != wanted[index])
            raise Surprise(f'byte {wrong} of {length} is {got[wrong]:#x}, not {wanted[wrong]:#x}')
