#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Tests of generate_prm.py: what it makes of commands.txt, and what it says to mistakes in one."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import generate_prm  # noqa: E402

TABLES = os.path.join(HERE, 'tables')
PRM = os.path.join(HERE, 'prm')
HEAD = 'layout\ttotal_bits\tfield\tbit_offset\tbit_width\ttype\n'
PAIR = 'group one\ncreate CREATE_QP id=qpn undo=DESTROY_QP\ndestroy DESTROY_QP id=qpn\n'


def read(path):
    with open(path, encoding='utf-8') as file:
        return file.read()


class GeneratePrmTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def generate(self, text=None):
        """The outputs for a commands.txt, or what is said instead."""
        prm = PRM
        if text is not None:
            prm = os.path.join(self.folder, 'prm')
            os.makedirs(prm, exist_ok=True)
            for name, content in (('commands.txt', text), ('more_layouts.tsv', HEAD)):
                with open(os.path.join(prm, name), 'w', encoding='utf-8') as file:
                    file.write(content)
        output = os.path.join(self.folder, 'out')
        done = subprocess.run([sys.executable, os.path.join(HERE, 'generate_prm.py'), '--prm', prm,
                               '--output', output], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode == 0, not done.stderr)
        if done.stderr:
            return done.stderr
        return {name: read(os.path.join(output, name)) for name in os.listdir(output)}

    def test_every_group_has_a_header_and_every_layout_one_place(self):
        files = self.generate()
        structs = [line for text in files.values() for line in text.split('\n') if line.startswith('struct ')]
        self.assertEqual(len(structs), len(set(structs)))
        self.assertIn('struct Qpc {', structs)
        self.assertIn('static constexpr Field<Qpc, 24> pd{40};', files['queue_pairs.h'])

    def test_a_layout_is_included_from_the_first_group_that_needs_it(self):
        files = self.generate(PAIR + 'group two\nquery QUERY_QP id=qpn\n')
        self.assertIn('struct Qpc {', files['one.h'])
        self.assertNotIn('struct Qpc {', files['two.h'])
        self.assertIn('#include "abi/prm/one.h"', files['two.h'])
        self.assertIn('{"QUERY_QP", 0x50b, CommandInfo::kAnyMod, Kind::kQuery, 16, 464, {72, 24}, {}, 0x0, {}, '
                      '"query_qp_in", "query_qp_out"}', files['commands.cpp'])

    def test_fields_within_structures_are_flat_at_run_time(self):
        fields = self.generate(PAIR)['fields.cpp']
        self.assertIn('{"create_qp_in", "qpc.primary_address_path.rgid_rip", 512, 8, 16}', fields)
        self.assertIn('{"create_qp_in", "pas", 2176, 64, 0}', fields)

    def test_options_change_lengths_layouts_and_opcode(self):
        files = self.generate('group one\nquery QUERY_DEK op=QUERY_GENERAL_OBJECT mod=MLX5_OBJ_TYPE_DEK id=obj_id '
                              'in=general_obj_in_cmd_hdr out=query_encryption_key_obj_out out>=20\n')
        self.assertIn('{"QUERY_DEK", 0xa02, 12, Kind::kQuery, 16, 20, {64, 32}', files['commands.cpp'])

    def test_a_create_knows_what_undoes_it(self):
        commands = self.generate()['commands.cpp']
        for line in ('{"CREATE_QP", 0x500, CommandInfo::kAnyMod, Kind::kCreate, 272, 16, {}, {72, 24}, 0x501, {}, ',
                     'Kind::kCreate, 128, 64, {}, {128, 32}, 0x783, {{64, 8}}, "create_scheduling_element_in"',
                     '{"ATTACH_TO_MCG", 0x806, CommandInfo::kAnyMod, Kind::kCreate, 32, 16, {}, {}, 0x807, '
                     '{{72, 24}, {128, 128}}, ',
                     '{"CREATE_DEK", 0xa00, 12, Kind::kCreate, 272, 16, {}, {64, 32}, 0xa03, {{48, 16}}, '):
            self.assertIn(line, commands)

    def test_mistakes_are_named_with_their_line(self):
        for text, complaint in (
                ('general NOP\n', 'commands.txt:1: before the first group'),
                ('group one\n\ngeneral NO_SUCH\n', 'commands.txt:3: no constant MLX5_CMD_OP_NO_SUCH'),
                ('group one\ngeneral NOP in=nothing\n', 'commands.txt:2: no layout nothing'),
                ('group one\nquery QUERY_QP id=cqn\n', 'commands.txt:2: query_qp_in has no field cqn'),
                ('group one\ngeneral NOP color=red\n', 'commands.txt:2: unknown color'),
                ('group one\ngeneral NOP in\n', 'commands.txt:2: expected KEY=VALUE, found in'),
                ('group one\nenum E MLX5_NOTHING_\n', 'commands.txt:2: no constants MLX5_NOTHING_'),
                ('group one\nother NOP\n', 'commands.txt:2: unknown other'),
                ('group one\ncreate ALLOC_PD id=pd undo=NOP\ngeneral NOP\n', 'ALLOC_PD is undone by NOP')):
            with self.subTest(text):
                self.assertIn(complaint, self.generate(text))

    def test_a_field_that_the_tables_have_is_not_added_again(self):
        tables = generate_prm.Tables(TABLES, PRM)
        for layout in tables.layouts.values():
            names = [field.name for field in layout.fields]
            self.assertEqual(len(names), len(set(names)), layout.name)


if __name__ == '__main__':
    unittest.main(argv=sys.argv[:1])
