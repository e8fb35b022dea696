#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes docs/coverage.md: what of the interface works, from the build itself and from the list of tests.

usage: coverage.py --lib DIR [--tables DIR] [--tests FILE] [--missing FILE] [--include DIR] [--output FILE] [--check]

  --lib      folder with the libraries of a build; their exported symbols are read with readelf
  --tables   folder with documented.tsv and symbols.tsv (default: abi/tables, or the folder in VERBATIM_ABI)
  --tests    name<TAB>test: which test exercises a function (default: tests/coverage.tsv). A test is the name of
             a CTest, or Suite.Case of a GoogleTest
  --missing  names of functions that are there and say EOPNOTSUPP, one a line (default: abi/missing.txt)
  --check    write nothing; exit 1 if the file differs from what would be written

A row is `works` when the build has it and a test exercises it, `untested` when the build has it and none does,
`missing` when the build lacks it or it is on the list of missing ones, and `overview` when its page is about
no function of its own. Inline functions are there when a header defines them.
"""
import argparse
import collections
import csv
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STATES = ('works', 'untested', 'missing', 'overview')
# Node of the interface before 2006, which only programs of that time import.
ANCIENT = 'IBVERBS_1.0'


def rows_of(path):
    with open(path, encoding='utf-8') as file:
        return list(csv.DictReader((line for line in file if not line.startswith('#')), delimiter='\t',
                                   quoting=csv.QUOTE_NONE))


def exported(path):
    """{symbol: version nodes} of a shared library, empty if it is not there."""
    symbols = collections.defaultdict(set)
    if os.path.exists(path):
        out = subprocess.run(['readelf', '--dyn-syms', '-W', path], capture_output=True, text=True, check=True).stdout
        for match in re.finditer(r'(?:GLOBAL|WEAK)\s+DEFAULT\s+(?!UND)\S+\s+(\w+)@@?(\S+)', out):
            symbols[match.group(1)].add(match.group(2))
    return symbols


def words_of(folder):
    """Every identifier in the headers below a folder, comments aside."""
    words = set()
    for base, _, names in os.walk(folder):
        for name in names:
            if name.endswith('.h'):
                with open(os.path.join(base, name), encoding='utf-8') as file:
                    code = re.sub(r'/\*.*?\*/|//[^\n]*', ' ', file.read(), flags=re.S)
                words.update(re.findall(r'\w+', code))
    return words


def known_tests(root):
    """Names of CTests and Suite.Case of GoogleTests in the sources."""
    names = set()
    for base, folders, files in os.walk(root):
        folders[:] = [folder for folder in folders if folder not in ('.git', 'build')]
        for file_name in files:
            if not file_name.endswith(('.cpp', '.txt', '.cmake')):
                continue
            with open(os.path.join(base, file_name), encoding='utf-8') as file:
                text = file.read()
            if file_name.endswith('.cpp'):
                names.update(f'{suite}.{case}' for suite, case in
                             re.findall(r'\b(?:TYPED_)?TEST(?:_[FP])?\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)', text))
            else:
                names.update(re.findall(r'\bverbatim_test\s*\(\s*([\w.-]+)', text))
                names.update(re.findall(r'\badd_test\s*\(\s*NAME\s+([\w.-]+)', text))
    return names


class Facts:
    """What the build, the headers, the tests and the list of missing functions say."""

    def __init__(self, options):
        self.lib = options.lib
        self.libraries = {}
        self.declared = words_of(options.include)
        self.tests = {}
        if os.path.exists(options.tests):
            for row in rows_of(options.tests):
                self.tests.setdefault(row['name'], row['test'])
        self.missing = set()
        if os.path.exists(options.missing):
            with open(options.missing, encoding='utf-8') as file:
                self.missing = {line.split('#')[0].strip() for line in file} - {''}

    def symbols(self, library):
        if library not in self.libraries:
            self.libraries[library] = exported(os.path.join(self.lib, library))
        return self.libraries[library]

    def state(self, name, there):
        if not there or name in self.missing:
            return 'missing'
        return 'works' if name in self.tests else 'untested'

    def documented(self, row):
        name = row['name']
        if not row['linkage']:
            return 'works' if name in self.tests else 'overview'
        if row['linkage'] == 'extern':
            return self.state(name, name in self.symbols(row['library']))
        return self.state(name, name in self.declared)

    def symbol(self, row):
        versions = set(row['versions'].split(','))
        if len(versions) > 1:
            versions.discard(ANCIENT)
        return self.state(row['symbol'], versions <= self.symbols(row['library'])[row['symbol']])

    def complaints(self, names):
        """Claims that cannot be true."""
        tests = known_tests(ROOT)
        for name, test in sorted(self.tests.items()):
            if test not in tests:
                yield f'{name}: there is no test {test}'
            if name in self.missing:
                yield f'{name} is on the list of missing functions and on that of tested ones'
        for name in sorted((self.missing | set(self.tests)) - names):
            yield f'{name} is in neither table'


def section(title, column, rows, facts):
    """One table per library. rows: [(library, name, detail, state)]"""
    groups = collections.defaultdict(list)
    for library, name, detail, state in rows:
        groups[library or 'headers and overviews'].append((name, detail, state))
    lines = [f'## {title}', '', '| | ' + ' | '.join(STATES) + ' | all |', '|---' * (len(STATES) + 2) + '|']
    for library in sorted(groups) + ['all']:
        states = [state for group, members in groups.items() if library in (group, 'all') for _, _, state in members]
        counts = [str(states.count(state)) for state in STATES]
        lines.append(f'| {library} | ' + ' | '.join(counts) + f' | {len(states)} |')
    for library in sorted(groups):
        lines += ['', f'### {title}: {library}', '', f'| name | {column} | state | test |', '|---|---|---|---|']
        for name, detail, state in sorted(groups[library]):
            test = facts.tests[name.split('(')[0]] if state == 'works' else ''
            lines.append(f'| {name} | {detail} | {state} | {test} |')
    return lines + ['']


def document(documented, symbols, facts):
    lines = [
        '# Coverage', '',
        'Generated by scripts/coverage.py from the tables in abi/, the built libraries and tests/coverage.tsv;',
        'the test `coverage` fails when it is out of date.', '',
        '- **works**: the build has it and the named test exercises it',
        '- **untested**: the build has it, no listed test exercises it',
        '- **missing**: the build lacks it, or it is there and reports that it is not supported',
        '- **overview**: a manual page about no function of its own', '']
    lines += section('Manual pages', 'defined in', [
        (row['library'], f"{row['name']}({row['section']})" if not row['linkage'] else row['name'],
         row['header'], facts.documented(row)) for row in documented], facts)
    lines += section('Exported symbols', 'version nodes', [
        (row['library'], row['symbol'], row['versions'].replace(',', ', '), facts.symbol(row)) for row in symbols], facts)
    return '\n'.join(lines).rstrip() + '\n'


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--lib', required=True)
    parser.add_argument('--tables', default=os.environ.get('VERBATIM_ABI', os.path.join(ROOT, 'abi', 'tables')))
    parser.add_argument('--tests', default=os.path.join(ROOT, 'tests', 'coverage.tsv'))
    parser.add_argument('--missing', default=os.path.join(ROOT, 'abi', 'missing.txt'))
    parser.add_argument('--include', default=os.path.join(ROOT, 'include'))
    parser.add_argument('--output', default=os.path.join(ROOT, 'docs', 'coverage.md'))
    parser.add_argument('--check', action='store_true')
    return parser.parse_args()


def main():
    options = parse()
    documented = rows_of(os.path.join(options.tables, 'documented.tsv'))
    symbols = rows_of(os.path.join(options.tables, 'symbols.tsv'))
    facts = Facts(options)
    complaints = list(facts.complaints({row['name'] for row in documented} | {row['symbol'] for row in symbols}))
    for complaint in complaints:
        print(f'coverage: {complaint}')
    text = document(documented, symbols, facts)
    if options.check:
        current = ''
        if os.path.exists(options.output):
            with open(options.output, encoding='utf-8') as file:
                current = file.read()
        if current != text:
            print(f'coverage: {os.path.relpath(options.output)} is out of date: run scripts/coverage.py --lib {options.lib}')
            sys.exit(1)
    else:
        with open(options.output, 'w', encoding='utf-8') as file:
            file.write(text)
    sys.exit(1 if complaints else 0)


if __name__ == '__main__':
    main()
