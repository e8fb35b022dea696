#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes what follows from the tables of the binary interface.

usage: generate.py [--tables DIR] [--private FILE] [--output FILE] map LIBRARY
       generate.py ... private-asm
       generate.py ... old-asm LIBRARY
       generate.py ... asserts HEADER

  map          linker version script of a library (libibverbs.so.1, libmlx5.so.1, ...)
  private-asm  C++ source that exports functions of libibverbs.so.1 under several private nodes at once
  old-asm      C++ source that exports a library's functions of which an older version exists, too. The function
               SYMBOL at node LIB_1.0 is to be defined as SYMBOL_1_0; the plain name is the newest version
  asserts      C++ source that fails to compile if a record or an enumerator of a header (infiniband/verbs.h)
               differs from the tables

  --tables     folder of symbols.tsv, structs.tsv and enums.tsv (default: tables/ beside this script)
  --private    list of private nodes (default: private_nodes.txt beside this script)
  --output     file to write, touched only if it changes (default: standard output)

One plain definition is one exported version. To export the same function under several nodes the sources use the
assembler's .symver, which wants a symbol of its own for each: a jump to the plain function. The compiler does not
see those jumps, so they do not go together with link-time optimization.
"""
import argparse
import collections
import csv
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# The interface of before 2006. Programs of that time do not run today; its node stays, for the symbols that never
# got another.
ANCIENT = 'IBVERBS_1.0'
IBVERBS = 'libibverbs.so.1'
BANNER = '// SPDX-License-Identifier: MIT\n// Written by abi/generate.py {}; change the tables instead.\n'

# Headers whose records the tables show as programs meet them: through another header.
SEEN_THROUGH = {'infiniband/ib_user_ioctl_verbs.h': 'infiniband/verbs.h'}

Version = collections.namedtuple('Version', 'symbol node')


def rows_of(path):
    with open(path, encoding='utf-8', newline='') as file:
        return list(csv.DictReader(file, delimiter='\t', quoting=csv.QUOTE_NONE))


def release_order(node):
    """MLX5_1.9 < MLX5_1.10 < MLX5_1.25 < MLX5_1.25.1"""
    return [int(part) for part in re.findall(r'\d+', node.rsplit('_', 1)[1])]


class Library:
    """The public symbols of one library: which node is each one's newest, and which older ones it has."""

    def __init__(self, tables, name):
        self.name = name
        self.newest = []
        self.older = []
        nodes = set()
        for row in rows_of(os.path.join(tables, 'symbols.tsv')):
            if row['library'] != name:
                continue
            versions = sorted(set(row['versions'].split(',')), key=release_order)
            nodes.update(versions)
            self.newest.append(Version(row['symbol'], versions[-1]))
            self.older += [Version(row['symbol'], node) for node in versions[:-1] if node != ANCIENT]
        if not nodes:
            sys.exit(f'generate.py: symbols.tsv knows no library {name}')
        self.nodes = sorted(nodes, key=release_order)


def private_versions(path):
    with open(path, encoding='utf-8') as file:
        rows = [line.split() for line in file if line.strip() and not line.startswith('#')]
    for row in rows:
        if len(row) != 2:
            sys.exit(f'{path}: expected NODE SYMBOL, found {" ".join(row)}')
    return [Version(symbol, node) for node, symbol in rows]


def shared_symbols(versions):
    """Those that more than one node exports."""
    count = collections.Counter(version.symbol for version in versions)
    return {symbol for symbol, number in count.items() if number > 1}


def node_text(node, symbols, parent=None, last=False):
    lines = [f'{node} {{']
    if symbols:
        lines += ['  global:'] + [f'    {symbol};' for symbol in sorted(symbols)]
    if last:
        lines += ['  local:', '    *;']
    return '\n'.join(lines + [f'}} {parent};' if parent else '};', ''])


def version_script(library, private):
    """Nodes chained from the oldest to the newest, then the private ones, which stand alone.

    A symbol exported with .symver must not be named here: the plain definition would take the place. `local: *`
    stands in the newest node, because in the node of such a symbol it would hide it."""
    symbols = collections.defaultdict(list)
    for version in library.newest:
        symbols[version.node].append(version.symbol)
    texts = ['/* SPDX-License-Identifier: MIT */\n'
             f'/* Written by abi/generate.py map {library.name}; change the tables instead. */\n']
    parent = None
    for node in library.nodes:
        texts.append(node_text(node, symbols[node], parent, last=node == library.nodes[-1]))
        parent = node
    shared = shared_symbols(private)
    for node in dict.fromkeys(version.node for version in private):
        texts.append(node_text(node, [v.symbol for v in private if v.node == node and v.symbol not in shared]))
    return '\n'.join(texts)


def trampolines(command, versions, target, linked=()):
    """A jump to target(version) for each version, exported as version.symbol at version.node.

    Programs are linked against those in `linked`."""
    parts = [BANNER.format(command), '''
#if defined(__x86_64__)
#define TAIL_CALL "jmp "
#elif defined(__aarch64__)
#define TAIL_CALL "b "
#else
#error "no jump instruction known for this processor"
#endif

#define EXPORT(symbol, node, name, target)           \\
  asm(".pushsection .text\\n"                         \\
      ".globl " name "\\n"                            \\
      ".type " name ", @function\\n" name ":\\n"      \\
      TAIL_CALL target "\\n"                          \\
      ".size " name ", . - " name "\\n"               \\
      ".symver " name ", " symbol "@" node "\\n"      \\
      ".popsection\\n")

''']
    for version in versions:
        name = f'{version.symbol}_at_{version.node.replace(".", "_")}'
        node = ('@' if version in linked else '') + version.node
        parts.append(f'EXPORT("{version.symbol}", "{node}", "{name}", "{target(version)}");\n')
    return ''.join(parts)


def private_asm(private):
    shared = shared_symbols(private)
    versions = [version for version in private if version.symbol in shared]
    newest = {version.symbol: version for version in versions}
    return trampolines('private-asm', versions, lambda version: version.symbol, set(newest.values()))


def old_asm(library):
    def definition(version):
        return version.symbol + '_' + version.node.rsplit('_', 1)[1].replace('.', '_')
    return trampolines(f'old-asm {library.name}', library.older, definition)


def record_asserts(rows):
    """Size of each record, and offset of each field that has an address."""
    seen = set()
    for row in rows:
        record = row['record']
        if record not in seen:
            seen.add(record)
            yield f'static_assert(sizeof({record}) == {row["size"]});\n'
        if row['field'] and not row['bit_width']:
            yield f'static_assert(offsetof({record}, {row["field"]}) == {row["byte_offset"]});\n'


def asserts(tables, header):
    of_header = [[row for row in rows_of(os.path.join(tables, name)) if row['header'] == header]
                 for name in ('structs.tsv', 'enums.tsv')]
    if not any(of_header):
        sys.exit(f'generate.py: the tables know no header {header}')
    records, enumerators = of_header
    included = SEEN_THROUGH.get(header, header)
    parts = [BANNER.format(f'asserts {header}'), f'#include <{included}>\n\n#include <cstddef>\n#include <cstdint>\n']
    if records:
        parts += ['\n', *record_asserts(records)]
    if enumerators:
        parts.append('\n')
    # As 32 bits, because C and C++ disagree on the sign of enumerators above 2^31.
    parts += [f'static_assert(static_cast<std::uint32_t>({row["constant"]}) == {int(row["value"]) % 2**32}U);\n'
              for row in enumerators]
    return ''.join(parts)


def write(path, text):
    if path is None:
        sys.stdout.write(text)
        return
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            if file.read() == text:
                return
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--tables', default=os.path.join(HERE, 'tables'))
    parser.add_argument('--private', default=os.path.join(HERE, 'private_nodes.txt'))
    parser.add_argument('--output')
    commands = parser.add_subparsers(dest='command', required=True)
    commands.add_parser('map').add_argument('library')
    commands.add_parser('private-asm')
    commands.add_parser('old-asm').add_argument('library')
    commands.add_parser('asserts').add_argument('header')
    options = parser.parse_args()
    if options.command == 'map':
        private = private_versions(options.private) if options.library == IBVERBS else []
        text = version_script(Library(options.tables, options.library), private)
    elif options.command == 'private-asm':
        text = private_asm(private_versions(options.private))
    elif options.command == 'old-asm':
        text = old_asm(Library(options.tables, options.library))
    else:
        text = asserts(options.tables, options.header)
    write(options.output, text)


if __name__ == '__main__':
    main()
