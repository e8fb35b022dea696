#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes the layouts and commands of the ConnectX command interface as C++.

usage: generate_prm.py [--tables DIR] [--prm DIR] --output DIR

  --tables  folder of prm_layouts.tsv and prm_enums.tsv (default: tables/ beside this script)
  --prm     folder of commands.txt, which explains itself, and more_layouts.tsv (default: prm/ beside this script)
  --output  folder to write into: GROUP.h for each group of commands.txt, commands.cpp, fields.cpp. Files are touched
            only if they change.

A layout is written into the header of the first group that needs it; headers of later groups include that one.
"""
import argparse
import collections
import os
import re
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from generate import HERE, rows_of, write  # noqa: E402

BANNER = '// SPDX-License-Identifier: MIT\n// Written by abi/generate_prm.py; change abi/prm/commands.txt instead.\n'
KINDS = ('create', 'query', 'modify', 'destroy', 'general', 'owner')
KEYS = {'id', 'undo', 'in', 'out', 'in>', 'out>', 'op', 'mod'}
# Fields of a create's head that say nothing to the command that undoes it.
NOT_KEPT = {'opcode', 'uid', 'op_mod', 'vhca_tunnel_id', 'obj_id', 'log_obj_range'}
KEYWORDS = {'auto', 'bool', 'case', 'char', 'class', 'const', 'default', 'delete', 'do', 'double', 'else', 'enum',
            'export', 'false', 'float', 'for', 'friend', 'goto', 'if', 'int', 'long', 'new', 'operator', 'private',
            'protected', 'public', 'register', 'return', 'short', 'signed', 'static', 'struct', 'switch', 'template',
            'this', 'throw', 'true', 'try', 'union', 'unsigned', 'using', 'virtual', 'void', 'volatile', 'while'}

Field = collections.namedtuple('Field', 'name offset width count inner')
Layout = collections.namedtuple('Layout', 'name bits fields')
Enum = collections.namedtuple('Enum', 'name constants')


class Mistake(Exception):
    """Something in commands.txt that does not fit the tables."""


def camel(name):
    """create_cq_in -> CreateCqIn"""
    return ''.join(part[:1].upper() + part[1:].lower() for part in name.split('_'))


def field_of(row):
    """The field of a table's row, or None where the table gives no layout for it."""
    name, offset, width, kind = row['field'], int(row['bit_offset']), int(row['bit_width']), row['type']
    name = re.sub(r'\W', '_', name)
    if name in KEYWORDS:
        name += '_'
    array = re.fullmatch(r'bits\[(\d+) x (\d+)\]', kind)
    nested = re.fullmatch(r'(?:struct|union) (\w+?)(?:\[(\d+)\])?', kind)
    if array:
        count, each = int(array[1]), int(array[2])
        if each > 64:
            count, each = count * each // 8, 8
        return Field(name, offset, each, count, None)
    if nested:
        return Field(name, offset, None, int(nested[2]) if nested[2] else 1, nested[1])
    if width > 64:
        return Field(name, offset, 8, width // 8, None)
    return Field(name, offset, width, 1, None)


class Tables:
    """Layouts and constants, by name."""

    def __init__(self, tables, prm):
        self.layouts = {}
        for path in (os.path.join(tables, 'prm_layouts.tsv'), os.path.join(prm, 'more_layouts.tsv')):
            for row in rows_of(path):
                layout = self.layouts.setdefault(row['layout'], Layout(row['layout'], int(row['total_bits']), []))
                if any(field.name == row['field'] for field in layout.fields):
                    raise Mistake(f'{path}: {layout.name} has a field {row["field"]} already')
                layout.fields.append(field_of(row))
        for layout in self.layouts.values():
            layout.fields[:] = [field for field in layout.fields
                                if field.inner is None or field.inner in self.layouts]
        self.constants = {row['constant']: int(row['value'])
                          for row in rows_of(os.path.join(tables, 'prm_enums.tsv'))}

    def layout(self, name):
        if name not in self.layouts:
            raise Mistake(f'no layout {name}')
        return self.layouts[name]

    def opcode(self, command):
        constant = f'MLX5_CMD_OP_{command}'
        if constant not in self.constants:
            raise Mistake(f'no constant {constant}')
        return self.constants[constant]

    def enum(self, name, prefixes):
        found = {}
        for prefix in prefixes:
            for constant, value in self.constants.items():
                if constant.startswith(prefix):
                    found.setdefault(camel(constant[len(prefix):]), value)
        if not found:
            raise Mistake(f'no constants {" ".join(prefixes)}')
        return Enum(name, found)


class Command:
    """One line of commands.txt, complete."""

    def __init__(self, tables, kind, name, options):
        unknown = set(options) - KEYS
        if unknown:
            raise Mistake(f'unknown {" ".join(sorted(unknown))}')
        self.kind, self.name = kind, name
        self.opcode = tables.opcode(options.get('op', name))
        self.mod = tables.constants.get(options['mod']) if 'mod' in options else None
        if 'mod' in options and self.mod is None:
            raise Mistake(f'no constant {options["mod"]}')
        self.input = tables.layout(options.get('in', name.lower() + '_in'))
        self.output = tables.layout(options.get('out', name.lower() + '_out'))
        self.in_bytes = int(options.get('in>', self.input.bits // 8))
        self.out_bytes = int(options.get('out>', self.output.bits // 8))
        self.undo = options.get('undo')
        self.id = options.get('id')
        carrier = self.output if kind in ('create', 'owner') and self.undo else self.input
        self.id_range = self.find_id(tables, carrier) if self.id else None
        self.id_in = self.id_range if carrier is self.input else None
        self.id_out = self.id_range if carrier is self.output else None

    def find_id(self, tables, layout, base=0):
        """Where the id lies; it may be in a header within the layout."""
        for field in layout.fields:
            if field.name == self.id:
                return base + field.offset, field.width
        for field in layout.fields:
            if field.inner and field.name.endswith('hdr'):
                return self.find_id(tables, tables.layout(field.inner), base + field.offset)
        raise Mistake(f'{layout.name} has no field {self.id}')


class Group:
    """One header."""

    def __init__(self, name):
        self.name = name
        self.commands, self.enums, self.roots = [], [], []
        self.layouts, self.includes = [], set()


def read_line(tables, groups, words):
    kind, name, rest = words[0], words[1], words[2:]
    if kind == 'group':
        groups.append(Group(name))
        return
    if not groups:
        raise Mistake('before the first group')
    group = groups[-1]
    if kind == 'also':
        group.roots += [tables.layout(layout) for layout in words[1:]]
    elif kind == 'enum':
        group.enums.append(tables.enum(name, rest))
    elif kind in KINDS:
        options = {}
        for word in rest:
            key, equals, value = word.partition('=')
            if not equals or not value:
                raise Mistake(f'expected KEY=VALUE, found {word}')
            options[key] = value
        command = Command(tables, kind, name, options)
        group.commands.append(command)
        group.roots += [command.input, command.output]
    else:
        raise Mistake(f'unknown {kind}')


def read_groups(tables, path):
    groups = []
    with open(path, encoding='utf-8') as file:
        for number, line in enumerate(file, 1):
            words = line.split('#', 1)[0].split()
            if not words:
                continue
            try:
                read_line(tables, groups, words)
            except (Mistake, IndexError, ValueError) as mistake:
                sys.exit(f'{path}:{number}: {mistake}')
    pair_with_undo(path, tables, groups)
    place_layouts(tables, groups)
    return groups


def header_fields(tables, layout):
    """{name: (offset, width)} of a mailbox, what is in its contexts left out."""
    found = {}
    for field in layout.fields:
        if field.inner and field.name.endswith('hdr'):
            found.update(header_fields(tables, tables.layout(field.inner)))
        elif not field.inner:
            found[field.name] = (field.offset, field.width * field.count)
    return found


def pair_with_undo(path, tables, groups):
    """Finds, for each create, its destroy command and the fields that are the same in both."""
    commands = {command.name: command for group in groups for command in group.commands}
    for command in commands.values():
        command.undo_opcode, command.kept = 0, []
        if not command.undo:
            continue
        undo = commands.get(command.undo)
        if not undo or undo.kind != 'destroy':
            sys.exit(f'{path}: {command.name} is undone by {command.undo}, which is no destroy command')
        command.undo_opcode = undo.opcode
        made, destroyed = header_fields(tables, command.input), header_fields(tables, undo.input)
        kept = [name for name in destroyed if name in made and name not in NOT_KEPT and name != undo.id]
        if len(kept) > 2 or any(made[name] != destroyed[name] for name in kept):
            sys.exit(f'{path}: {command.name} and {command.undo} do not fit together: {" ".join(kept)}')
        command.kept = [made[name] for name in kept]


def place_layouts(tables, groups):
    """Each layout goes to the first group that needs it, those within it first."""
    home = {}

    def place(layout, group):
        if layout.name in home:
            if home[layout.name] is not group:
                group.includes.add(home[layout.name].name)
            return
        home[layout.name] = group
        for field in layout.fields:
            if field.inner:
                place(tables.layout(field.inner), group)
        group.layouts.append(layout)

    for group in groups:
        for layout in group.roots:
            place(layout, group)


def field_text(layout, field):
    owner = camel(layout.name)
    if field.inner:
        of = f'<{owner}, {camel(field.inner)}>'
        kind = f'Nested{of}' if field.count == 1 else f'NestedArray{of}'
    else:
        kind = f'{"Field" if field.count == 1 else "Array"}<{owner}, {field.width}>'
    values = f'{field.offset}' if field.count == 1 else f'{field.offset}, {field.count}'
    return f'  static constexpr {kind} {field.name}{{{values}}};\n'


def layout_text(layout):
    fields = ''.join(field_text(layout, field) for field in layout.fields)
    return (f'struct {camel(layout.name)} {{\n  static constexpr const char* kName = "{layout.name}";\n'
            f'  static constexpr uint32_t kBits = {layout.bits};\n{fields}}};\n\n')


def enum_text(enum):
    wide = 'uint64_t' if max(enum.constants.values()) >= 2**32 else 'uint32_t'
    constants = ''.join(f'  k{name} = {value},\n' for name, value in enum.constants.items())
    return f'enum class {enum.name} : {wide} {{\n{constants}}};\n\n'


def command_text(command):
    mod = 'CommandInfo::kAnyMod' if command.mod is None else f'{command.mod}'
    return (f'/// {command.name}\nstruct {camel(command.name)} {{\n'
            f'  using In = {camel(command.input.name)};\n  using Out = {camel(command.output.name)};\n'
            f'  static constexpr uint16_t kOpcode = {command.opcode:#x};\n'
            f'  static constexpr uint32_t kMod = {mod};\n}};\n\n')


def header_text(group):
    includes = ''.join(f'#include "abi/prm/{name}.h"\n' for name in sorted(group.includes | {'layout'}))
    return (BANNER + f'#pragma once\n\n{includes}\nnamespace verbatim::prm {{\n\n'
            + ''.join(map(layout_text, group.layouts)) + ''.join(map(enum_text, group.enums))
            + ''.join(map(command_text, group.commands)) + '}  // namespace verbatim::prm\n')


def info_text(command):
    def bits(where):
        return f'{{{where[0]}, {where[1]}}}' if where else '{}'
    mod = 'CommandInfo::kAnyMod' if command.mod is None else f'{command.mod}'
    kept = ', '.join(map(bits, command.kept))
    return (f'    {{"{command.name}", {command.opcode:#x}, {mod}, Kind::k{command.kind.capitalize()}, '
            f'{command.in_bytes}, {command.out_bytes}, {bits(command.id_in)}, {bits(command.id_out)}, '
            f'{command.undo_opcode:#x}, {{{kept}}}, '
            f'"{command.input.name}", "{command.output.name}"}},\n')


def commands_text(groups):
    commands = sorted((command for group in groups for command in group.commands),
                      key=lambda command: (command.opcode, 0x10000 if command.mod is None else command.mod))
    return (BANNER + '#include "abi/prm/layout.h"\n\nnamespace verbatim::prm {\n\n'
            'std::span<const CommandInfo> all_commands() {\n  static constexpr CommandInfo kCommands[] = {\n'
            + ''.join(map(info_text, commands)) + '  };\n  return kCommands;\n}\n\n}  // namespace verbatim::prm\n')


def flat_fields(tables, layout, path='', base=0):
    for field in layout.fields:
        name = path + field.name
        if not field.inner:
            yield name, base + field.offset, field.width, field.count
        elif field.count:
            yield from flat_fields(tables, tables.layout(field.inner), name + '.', base + field.offset)


def fields_text(tables, groups):
    names = dict.fromkeys(layout.name for group in groups for layout in group.roots)
    rows = (f'    {{"{name}", "{path}", {offset}, {width}, {count}}},\n' for name in names
            for path, offset, width, count in flat_fields(tables, tables.layout(name)))
    return (BANNER + '#include "abi/prm/layout.h"\n\nnamespace verbatim::prm {\n\n'
            'std::span<const FieldInfo> all_fields() {\n  static constexpr FieldInfo kFields[] = {\n'
            + ''.join(rows) + '  };\n  return kFields;\n}\n\n}  // namespace verbatim::prm\n')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tables', default=os.path.join(HERE, 'tables'))
    parser.add_argument('--prm', default=os.path.join(HERE, 'prm'))
    parser.add_argument('--output', required=True)
    options = parser.parse_args()
    try:
        tables = Tables(options.tables, options.prm)
    except Mistake as mistake:
        sys.exit(f'generate_prm.py: {mistake}')
    groups = read_groups(tables, os.path.join(options.prm, 'commands.txt'))
    for group in groups:
        write(os.path.join(options.output, group.name + '.h'), header_text(group))
    write(os.path.join(options.output, 'commands.cpp'), commands_text(groups))
    write(os.path.join(options.output, 'fields.cpp'), fields_text(tables, groups))


if __name__ == '__main__':
    main()
