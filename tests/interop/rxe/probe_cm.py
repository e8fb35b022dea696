# SPDX-License-Identifier: MIT
"""Scenarios of the connection manager: what rdmacm-utils do not do."""
import errno
import time

from pyverbs.cmid import AddrInfo, CMID, ConnParam
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QPCap, QPInitAttr
import pyverbs.cm_enums as ce
import pyverbs.enums as e
from probe_end import Link, expect

SERVICE = '7470'


def endpoint(link, server):
    """The listener, or the id that is about to connect to it; both synchronous."""
    attributes = QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(4, 4, 1, 1, 0), sq_sig_all=1)
    if server is None:
        info = AddrInfo(src=link.local_address(), src_service=SERVICE, port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE)
        end = CMID(creator=info, qp_init_attr=attributes)
        end.listen(backlog=4)
    else:
        info = AddrInfo(src=link.local_address(), dst=server, dst_service=SERVICE, port_space=ce.RDMA_PS_TCP)
        end = CMID(creator=info, qp_init_attr=attributes)
    link.swap()
    return end


def parameters(words):
    param = ConnParam(resources=3, depth=2, retry=6, rnr_retry=5, data_len=len(words))
    param.set_private_data(words)
    return param


def connect(server, accept_after=0):
    """Private data both ways, one message, and an orderly end."""
    link = Link(server)
    end = endpoint(link, server)
    if server is None:
        child = end.get_request()
        time.sleep(accept_after)
        buffer = child.reg_msgs(64)
        child.post_recv(buffer)
        child.accept(parameters(b'the server accepts'))
        expect('status', child.get_recv_comp().status, e.IBV_WC_SUCCESS)
        expect('message', bytes(buffer.read(5, 0)), b'hello')
    else:
        end.connect(parameters(b'the client asks'))
        buffer = end.reg_msgs(64)
        buffer.write(b'hello', 5)
        end.post_send(buffer, length=5)
        expect('status', end.get_send_comp().status, e.IBV_WC_SUCCESS)
    link.swap()
    if server is None:
        time.sleep(0.5)  # The client's request to end comes first; this answers it.
        child.disconnect()
    else:
        end.disconnect()
    link.swap()


def connection(server):
    connect(server)


def slow_accept(server):
    """So slow that the client asks again, and must be told to wait (MRA)."""
    connect(server, accept_after=8)


def refusal(server):
    """The server's program refuses, with private data."""
    link = Link(server)
    end = endpoint(link, server)
    if server is None:
        end.get_request().reject(b'not today')
    else:
        error = 0
        try:
            end.connect(parameters(b'the client asks'))
        except PyverbsRDMAError as refused:
            error = refused.error_code
        expect('error of connect', error, errno.ECONNREFUSED)
    link.swap()
