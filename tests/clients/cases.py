# SPDX-License-Identifier: MIT
"""Which stock programs are run, with which arguments, and what they must print."""
import collections

# A case of two ends has the same command twice, and the client's gets the server's address; or it has a command for
# the server, which cannot be seen to listen, so that its client is tried until it is let in.
Case = collections.namedtuple('Case', 'name command two_ends patterns status seconds_max short server', defaults=[None])

RESULT_ROW = r'^\s*\d+\s+\d+\s+[\d.]+\s+[\d.]+'
LAST_SIZE_ROW = r'^\s*8388608\s+20\s'
PINGPONG_LINES = (r'\d+ bytes in [\d.]+ seconds = [\d.]+ Mbit/sec', r'iters in [\d.]+ seconds = [\d.]+ usec/iter')

# Those that a run of a minute can afford; the rest runs with scripts/clients.sh.
SHORT = {
    'ibv_devices', 'ibv_devinfo', 'ibv_devinfo_verbose', 'rc_pingpong', 'rc_pingpong_events', 'uc_pingpong',
    'ud_pingpong', 'srq_pingpong', 'send_lat_RC', 'send_bw_UD', 'write_bw_RC', 'write_lat_UC', 'read_bw_RC',
    'send_lat_DC', 'send_bw_events', 'send_bw_srq', 'send_bw_sizes', 'atomic_bw_FETCH_AND_ADD',
    'atomic_lat_CMP_AND_SWAP', 'rc_pingpong_1M',
    'rping', 'ucmatose_bound', 'udaddy', 'rdma_client', 'rstream_checked',
    'send_lat_XRC', 'read_bw_XRC', 'xsrq_pingpong', 'rdma_xclient_xrc',
}


def alone(name, command, *patterns, status=0):
    return Case(name, command, False, patterns, status, 10, name in SHORT)


def pingpong(name, program, arguments=''):
    command = f'ibv_{program}_pingpong -p {{port}} -d {{device}} -g {{gid}} -c {arguments}'
    return Case(name, command, True, PINGPONG_LINES, 0, 30, name in SHORT)


def perftest(name, program, arguments, pattern=RESULT_ROW, seconds_max=60):
    command = f'ib_{program} -p {{port}} -d {{device}} -F -x {{gid}} {arguments}'
    return Case(name, command, True, (pattern,), 0, seconds_max, name in SHORT)


def connected(name, server, client, *patterns):
    return Case(name, client, True, patterns, 0, 20, name in SHORT, server)


def information():
    yield alone('ibv_devices', 'ibv_devices', r'\S+\s+[0-9a-f]{16}')
    yield alone('ibv_devinfo', 'ibv_devinfo -d {device}', r'hca_id:\s+\S+', r'PORT_ACTIVE \(4\)',
                r'node_guid:\s+[0-9a-f:]{19}')
    yield alone('ibv_devinfo_verbose', 'ibv_devinfo -v -d {device}', r'max_qp_wr:\s+\d+', r'GID\[\s*\d+\]')
    yield alone('ibv_devinfo_list', 'ibv_devinfo -l', r'\d+ HCAs? found:')
    yield alone('asyncwatch', 'timeout 2 ibv_asyncwatch -d {device}', r'\S+: async event FD \d+', status=124)


def pingpongs():
    yield pingpong('rc_pingpong', 'rc')
    yield pingpong('rc_pingpong_events', 'rc', '-e')
    yield pingpong('rc_pingpong_1M', 'rc', '-s 1048576 -n 50 -m 4096')
    yield pingpong('rc_pingpong_new_send', 'rc', '-N')
    yield pingpong('rc_pingpong_timestamps', 'rc', '-t')
    yield pingpong('rc_pingpong_implicit_odp', 'rc', '-O')
    yield pingpong('uc_pingpong', 'uc')
    yield pingpong('uc_pingpong_events', 'uc', '-e')
    yield pingpong('ud_pingpong', 'ud', '-s 1024')
    yield pingpong('ud_pingpong_events', 'ud', '-s 1024 -e')
    yield pingpong('srq_pingpong', 'srq', '-n 200')
    yield pingpong('srq_pingpong_events', 'srq', '-e -n 200')
    for name, arguments in (('xsrq_pingpong', ''), ('xsrq_pingpong_events', '-e')):
        yield Case(name, f'ibv_xsrq_pingpong -p {{port}} -d {{device}} -g {{gid}} -n 200 {arguments}', True,
                   (r'^success',), 0, 30, name in SHORT)


def transports():
    for operation, kinds in (('send', ('RC', 'UC', 'UD', 'DC', 'XRC')), ('write', ('RC', 'UC', 'DC', 'XRC')),
                             ('read', ('RC', 'DC', 'XRC'))):
        for kind in kinds:
            size = 1024 if kind == 'UD' else 65536
            yield perftest(f'{operation}_lat_{kind}', f'{operation}_lat', f'-c {kind} -n 500')
            yield perftest(f'{operation}_bw_{kind}', f'{operation}_bw', f'-c {kind} -n 500 -s {size}')
    for kind in ('FETCH_AND_ADD', 'CMP_AND_SWAP'):
        for measure in ('lat', 'bw'):
            yield perftest(f'atomic_{measure}_{kind}', f'atomic_{measure}', f'-A {kind} -n 500')
            yield perftest(f'atomic_{measure}_{kind}_XRC', f'atomic_{measure}', f'-c XRC -A {kind} -n 500')


def options():
    for operation in ('send', 'write', 'read'):
        for measure in ('bw', 'lat'):
            yield perftest(f'{operation}_{measure}_sizes', f'{operation}_{measure}', '-a -n 20', LAST_SIZE_ROW, 120)
        for name, arguments in (('queues', '-q 4 -n 200'), ('both_ways', '-b -n 200'),
                                ('lists', '-l 16 -n 320 -s 4096'), ('timed', '-D 2'),
                                ('old_post', '--use_old_post_send -n 200'), ('mr_per_qp', '--mr_per_qp -q 2 -n 200')):
            yield perftest(f'{operation}_bw_{name}', f'{operation}_bw', arguments)
    yield perftest('send_bw_events', 'send_bw', '-e -n 200')
    yield perftest('send_lat_events', 'send_lat', '-e -n 200')
    yield perftest('read_lat_events', 'read_lat', '-e -n 200')
    yield perftest('send_bw_srq', 'send_bw', '--use-srq -q 4 -n 200')
    yield perftest('send_lat_srq', 'send_lat', '--use-srq -n 200')
    yield perftest('send_bw_inline', 'send_bw', '-I 64 -s 64 -n 500')
    yield perftest('write_lat_inline', 'write_lat', '-I 64 -s 64 -n 500')
    yield perftest('send_bw_json', 'send_bw', '-n 200 --out_json --out_json_file={folder}/result.json')
    yield perftest('write_bw_gbits', 'write_bw', '-n 200 --report_gbits', r'BW average\[Gb/sec\]')


def manager():
    """Programs of the connection manager. The server's command has no address, or the one to listen at."""
    done = r'return status 0'
    for name, arguments in (('rping', ''), ('rping_queues', '-q'), ('rping_big', '-S 65000')):
        yield connected(name, f'rping -s -a {{address}} -p {{port}} -C 10 -V {arguments}',
                        f'rping -c -a {{address}} -p {{port}} -C 10 -v -V {arguments}', r'ping data: rdma-ping-9:')
    yield connected('ucmatose', 'ucmatose -p {port} -c 4 -C 20 -S 1000',
                    'ucmatose -p {port} -c 4 -C 20 -S 1000 -s {address}', done)
    yield connected('ucmatose_migrate', 'ucmatose -p {port} -m -c 2', 'ucmatose -p {port} -m -c 2 -s {address}', done)
    yield connected('ucmatose_bound', 'ucmatose -p {port} -b {address} -c 2',
                    'ucmatose -p {port} -b {own} -s {address} -c 2', done)
    yield connected('udaddy', 'udaddy -c 2 -C 20', 'udaddy -c 2 -C 20 -s {address}', done)
    for name, kind in (('rdma_xclient', 'r'), ('rdma_xclient_xrc', 'x')):
        yield connected(name, f'rdma_xserver -p {{port}} -c {kind}', f'rdma_xclient -p {{port}} -s {{address}} -c {kind}',
                        r'rdma_xclient: end 0')
    yield connected('rdma_client', 'rdma_server -p {port}', 'rdma_client -p {port} -s {address}', r'rdma_client: end 0')
    for name, arguments in (('rstream', '-S 4096 -C 500'), ('rstream_blocking', '-T b -S 4096 -C 500'),
                            ('rstream_async', '-T a -S 4096 -C 500'), ('rstream_checked', '-T v -S 4096 -C 500')):
        yield connected(name, f'rstream -p {{port}} {arguments}', f'rstream -p {{port}} {arguments} -s {{address}}',
                        r'4k\s+500\s')
    yield connected('riostream_checked', 'riostream -p {port} -T v -S 4096 -C 500',
                    'riostream -p {port} -T v -S 4096 -C 500 -s {address}', r'4k\s+500\s')
    for name, program, arguments in (('send_bw_R', 'send_bw', ''), ('write_lat_R', 'write_lat', ''),
                                     ('send_lat_datagrams_R', 'send_lat', '-c UD')):
        command = f'ib_{program} -p {{port}} -d {{device}} -F -R -n 200 {arguments}'
        yield connected(name, command, f'{command} {{address}}', RESULT_ROW)


CASES = [case for group in (information, pingpongs, transports, options, manager) for case in group()]
