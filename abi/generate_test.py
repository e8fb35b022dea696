#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of generate.py: links a stub of each library with what it writes, and reads back what that exports.

usage: generate_test.py [CC [CXX]]
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import generate  # noqa: E402

CC = sys.argv[1] if len(sys.argv) > 1 else 'cc'
CXX = sys.argv[2] if len(sys.argv) > 2 else 'c++'
TABLES = os.path.join(HERE, 'tables')
PRIVATE = os.path.join(HERE, 'private_nodes.txt')


def run(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def exported(path):
    """{(symbol, node)} and those of them that programs link to."""
    found, default = set(), set()
    for symbol, mark, node in re.findall(r'(?:GLOBAL|WEAK)\s+DEFAULT\s+(?!UND)\S+\s+(\w+)(@@?)(\S+)',
                                         run('readelf', '--dyn-syms', '-W', path)):
        found.add((symbol, node))
        if mark == '@@':
            default.add((symbol, node))
    return found, default


class Stub:
    """A shared library whose functions return the length of their names."""

    def __init__(self, folder, name, version_script, functions, aliases=None):
        self.path = os.path.join(folder, name)
        script, sources = self.path + '.map', [self.path + '.c']
        generate.write(script, version_script)
        generate.write(sources[0], ''.join(f'int {f}(void) {{ return {len(f)}; }}\n' for f in functions))
        if aliases:
            sources.append(self.path + '.cpp')
            generate.write(sources[1], aliases)
        objects = []
        for source in sources:
            objects.append(source + '.o')
            run(CC if source.endswith('.c') else CXX, '-fPIC', '-fvisibility=default', '-w', '-c', source, '-o',
                objects[-1])
        run(CC, '-shared', *objects, '-o', self.path, f'-Wl,--version-script={script}', f'-Wl,-soname,{name}',
            '-Wl,-z,defs')
        self.exported, self.default = exported(self.path)

    def call(self, symbol, node):
        library = ctypes.CDLL(self.path)
        dlvsym = ctypes.CDLL(None).dlvsym
        dlvsym.restype = ctypes.c_void_p
        dlvsym.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
        return ctypes.CFUNCTYPE(ctypes.c_int)(dlvsym(library._handle, symbol.encode(), node.encode()))()


class GenerateTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def stub(self, name, extra=(), aliases=None, private=()):
        library = generate.Library(TABLES, name)
        functions = [version.symbol for version in library.newest] + list(extra)
        stub = Stub(self.folder.name, name, generate.version_script(library, list(private)), functions, aliases)
        return library, stub

    def test_every_library_exports_its_table_and_nothing_else(self):
        names = {row['library'] for row in generate.rows_of(os.path.join(TABLES, 'symbols.tsv'))}
        self.assertEqual(len(names), 8)
        for name in names:
            with self.subTest(name):
                library, stub = self.stub(name, extra=['internal'])
                self.assertEqual(stub.exported, {(v.symbol, v.node) for v in library.newest})
                self.assertEqual(stub.default, stub.exported)

    def test_nodes_are_chained_in_release_order(self):
        script = generate.version_script(generate.Library(TABLES, 'libmlx5.so.1'), [])
        chain = re.findall(r'^(MLX5_\S+) \{.*?^\}\s*(\S*);', script, re.S | re.M)
        self.assertEqual(chain[0], ('MLX5_1.0', ''))
        self.assertEqual([parent for _, parent in chain[1:]], [node for node, _ in chain[:-1]])
        nodes = [node for node, _ in chain]
        self.assertLess(nodes.index('MLX5_1.9'), nodes.index('MLX5_1.10'))
        self.assertEqual(nodes[nodes.index('MLX5_1.25') + 1], 'MLX5_1.25.1')

    def test_private_nodes_share_one_function(self):
        private = generate.private_versions(PRIVATE)
        _, stub = self.stub('libibverbs.so.1', {version.symbol for version in private},
                            generate.private_asm(private), private)
        for version in private:
            self.assertIn((version.symbol, version.node), stub.exported)
            self.assertEqual(stub.call(*version), len(version.symbol))
        numbers = {version.node for version in private if version.symbol == 'ibv_query_gid_type'}
        self.assertLessEqual({'IBVERBS_PRIVATE_34', 'IBVERBS_PRIVATE_65'}, numbers)
        self.assertNotIn('IBVERBS_PRIVATE_VERBATIM', numbers)

    def test_old_version_calls_its_own_definition(self):
        library = generate.Library(TABLES, 'libmlx5.so.1')
        _, stub = self.stub('libmlx5.so.1', ['mlx5dv_init_obj_1_0'], generate.old_asm(library))
        self.assertEqual(stub.call('mlx5dv_init_obj', 'MLX5_1.0'), len('mlx5dv_init_obj_1_0'))
        self.assertEqual(stub.call('mlx5dv_init_obj', 'MLX5_1.2'), len('mlx5dv_init_obj'))
        self.assertIn(('mlx5dv_init_obj', 'MLX5_1.2'), stub.default)

    def test_ancient_node_keeps_what_never_moved(self):
        _, stub = self.stub('libibverbs.so.1')
        self.assertIn(('ibv_get_sysfs_path', 'IBVERBS_1.0'), stub.exported)
        self.assertIn(('ibv_alloc_pd', 'IBVERBS_1.1'), stub.exported)
        self.assertNotIn(('ibv_alloc_pd', 'IBVERBS_1.0'), stub.exported)

    def test_asserts_hold_and_can_fail(self):
        include = os.path.join(os.path.dirname(HERE), 'include')
        text = generate.asserts(TABLES, 'infiniband/tm_types.h')
        command = [CXX, '-x', 'c++', '-std=c++20', '-I', include, '-fsyntax-only', '-']
        run(*command, text=text)
        wrong = text.replace('sizeof(struct ibv_tmh) == 16', 'sizeof(struct ibv_tmh) == 20')
        self.assertNotEqual(wrong, text)
        with self.assertRaises(subprocess.CalledProcessError):
            run(*command, text=wrong)

    def test_unchanged_output_is_left_alone(self):
        path = os.path.join(self.folder.name, 'out')
        generate.write(path, 'a')
        os.utime(path, (1, 1))
        generate.write(path, 'a')
        self.assertEqual(os.stat(path).st_mtime, 1)
        generate.write(path, 'b')
        self.assertNotEqual(os.stat(path).st_mtime, 1)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
