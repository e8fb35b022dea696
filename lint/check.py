#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The style rules that can fail.

usage: check.py [--root DIR] [--exceptions FILE]

Rules, by the name used in exceptions.tsv:
  file-length      at most 800 lines (public headers under include/ may be longer)
  function-length  at most 70 lines
  include          folders use only what is below them; base/, wire/, engine/ know no provider
  banned-call      nothing that prints to a program's standard output or ends its process in what runs inside it
  clock            engine/ reads no clock and opens no socket
  spdx             an SPDX line on top
  dead-file        sources are built, headers included, scripts named by another file
  words            no note of unfinished work, no file named after nothing

An exception (rule, path, number) allows that many lines or occurrences and no more; one that allows more than
there is must be lowered, so the list can only shrink. Prints one line per finding; exits 1 if there is any.
"""
import argparse
import ast
import collections
import csv
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import source  # noqa: E402

MAX_FILE_LINES = 800
MAX_FUNCTION_LINES = 70
CPP = ('.cpp', '.h', '.c')
COMMENTED = CPP + ('.py', '.sh', '.cmake', '.map', '.in')

# For each room, the rooms whose headers it may include, besides itself and include/.
BELOW = {
    'base': set(),
    'wire': {'base'},
    'engine': {'base', 'wire'},
    'device': {'base', 'wire', 'engine', 'abi'},
    'abi': set(),
    'agent': {'base', 'wire', 'engine', 'abi'},
    'runtime': {'base', 'wire', 'engine', 'device', 'agent', 'abi'},
    'lib': {'base', 'wire', 'engine', 'device', 'agent', 'runtime', 'abi'},
    'tools': {'base', 'wire', 'engine', 'device', 'agent', 'runtime', 'abi', 'lib'},
}
TEST_ROOMS = {'testing', 'tests', 'bench'}
ROOMS = set(BELOW) | TEST_ROOMS
PROVIDER_HEADERS = re.compile(r'infiniband/(mlx5|mlx4|efa|hns|mana)\w*')
# Run inside a program that is not ours.
IN_PROCESS = {'base', 'wire', 'engine', 'device', 'runtime', 'lib'}
BANNED = re.compile(
    r'(?<![\w.>])((?:std::|::)?(?:printf|puts|putchar|vprintf|exit|_exit|quick_exit|abort|terminate|system|popen))\s*\('
    r'|(std::cout)\b|\bfprintf\s*\(\s*(stdout)\b')
CLOCKS = re.compile(r'\b(\w+_clock::now|clock_gettime|gettimeofday|time\s*\(\s*(?:nullptr|NULL)|::socket\s*\(|sys/socket\.h)')
UNFINISHED = re.compile(r'\b(TODO|FIXME|XXX|HACK)\b')
NAMELESS = re.compile(r'(^|[_/])(utils?|misc|helpers?|common|stuff)(\.|/|$)')

Finding = collections.namedtuple('Finding', 'rule path line number text')


def room_of(path):
    first = path.split('/', 1)[0]
    return first if first in ROOMS and '/' in path else None


def is_test(path):
    return room_of(path) in TEST_ROOMS or re.search(r'_(test|fuzz|bench)\.(cpp|h|c)$', path) is not None


class Tree:
    """The files of the project, read once."""

    def __init__(self, root):
        self.root = root
        self.paths = self._list()
        self.texts = {}
        for path in self.paths:
            if path.endswith(COMMENTED + ('.txt', '.md', '.json', '.yml')) or '.' not in os.path.basename(path):
                with open(os.path.join(root, path), encoding='utf-8', errors='replace') as file:
                    self.texts[path] = file.read()

    def _list(self):
        try:
            out = subprocess.run(['git', '-C', self.root, 'ls-files', '-co', '--exclude-standard'],
                                 capture_output=True, text=True, check=True).stdout.splitlines()
        except (OSError, subprocess.CalledProcessError):
            out = [os.path.relpath(os.path.join(folder, name), self.root)
                   for folder, _, names in os.walk(self.root) for name in names]
            out = [path for path in out if not path.startswith(('build/', '.git/'))]
        return sorted(path for path in set(out) if os.path.isfile(os.path.join(self.root, path)))

    def of(self, *suffixes):
        return [path for path in self.paths if path.endswith(suffixes)]


def file_length(tree):
    for path in tree.of(*CPP, '.py', '.sh', '.cmake'):
        lines = tree.texts[path].count('\n')
        if lines > MAX_FILE_LINES and not path.startswith('include/'):
            yield Finding('file-length', path, lines, lines, f'{lines} lines (at most {MAX_FILE_LINES})')


def function_length(tree):
    for path in tree.of(*CPP):
        for name, line, length in source.functions(tree.texts[path]):
            if length > MAX_FUNCTION_LINES:
                yield Finding('function-length', path, line, length,
                              f'{name}: {length} lines (at most {MAX_FUNCTION_LINES})')
    for path in tree.of('.py'):
        for node in ast.walk(ast.parse(tree.texts[path])):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                length = node.end_lineno - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    yield Finding('function-length', path, node.lineno, length,
                                  f'{node.name}: {length} lines (at most {MAX_FUNCTION_LINES})')


def include_direction(tree):
    for path in tree.of(*CPP):
        room = room_of(path)
        if room is None or room in TEST_ROOMS:
            continue
        allowed = BELOW[room] | {room} | (TEST_ROOMS if is_test(path) else set())
        for line, target, quoted in source.includes(tree.texts[path]):
            if not quoted:
                if room in ('base', 'wire', 'engine') and PROVIDER_HEADERS.match(target):
                    yield Finding('include', path, line, 1, f'{room}/ includes a provider\'s <{target}>')
                continue
            other = room_of(target)
            if other is None:
                continue
            if other not in allowed:
                yield Finding('include', path, line, 1, f'{room}/ includes "{target}"')
            elif other == room == 'device' and not is_test(path):
                model, used = path.split('/')[1], target.split('/')[1]
                if used not in (model, 'hw'):
                    yield Finding('include', path, line, 1, f'device/{model} includes "{target}"')
            elif room == 'wire' and path.startswith('wire/format/') and target.startswith('wire/link/'):
                yield Finding('include', path, line, 1, f'wire/format includes "{target}"')


def _matches(tree, rule, paths, pattern, why):
    for path in paths:
        for number, content in enumerate(source.blank(tree.texts[path]).split('\n'), 1):
            for match in pattern.finditer(content):
                word = next(group for group in match.groups() if group)
                yield Finding(rule, path, number, 1, f'{word.strip("( ")} {why}')


def banned_calls(tree):
    paths = [path for path in tree.of(*CPP) if room_of(path) in IN_PROCESS and not is_test(path)]
    yield from _matches(tree, 'banned-call', paths, BANNED, 'has no place inside a program that is not ours')


def engine_clock(tree):
    paths = [path for path in tree.of(*CPP) if room_of(path) == 'engine' and not is_test(path)]
    yield from _matches(tree, 'clock', paths, CLOCKS, 'in engine/: clock and wire are passed in')


def spdx(tree):
    for path in tree.of(*COMMENTED, 'CMakeLists.txt'):
        if 'SPDX-License-Identifier: MIT' not in '\n'.join(tree.texts[path].split('\n')[:4]):
            yield Finding('spdx', path, 1, 1, 'no SPDX-License-Identifier line on top')


def dead_files(tree):
    builds = {path: text for path, text in tree.texts.items()
              if os.path.basename(path) == 'CMakeLists.txt' or path.endswith('.cmake')}
    included = collections.defaultdict(set)
    for path in tree.of(*CPP):
        for _, target, _ in source.includes(tree.texts[path]):
            included[os.path.basename(target)].add(path)
    for path in tree.of('.cpp', '.c'):
        name = re.escape(os.path.basename(path))
        if not any(re.search(rf'(^|[\s/("]){name}\b', text) for build, text in builds.items()
                   if path.startswith(os.path.dirname(build))):
            yield Finding('dead-file', path, 1, 1, 'no CMakeLists.txt builds it')
    for path in tree.of('.h'):
        if not path.startswith('include/') and not included[os.path.basename(path)] - {path}:
            yield Finding('dead-file', path, 1, 1, 'nothing includes it')
    for path in tree.of('.py', '.sh'):
        name = re.escape(os.path.basename(path))
        module = re.escape(os.path.splitext(os.path.basename(path))[0])
        pattern = re.compile(rf'\b{name}\b|^\s*(import|from) {module}\b', re.M)
        if not any(pattern.search(text) for other, text in tree.texts.items() if other != path):
            yield Finding('dead-file', path, 1, 1, 'no other file names it')


def words(tree):
    for path, text in tree.texts.items():
        if NAMELESS.search(path):
            yield Finding('words', path, 1, 1, 'name it after what it holds')
        if path.startswith('lint/') or not path.endswith(COMMENTED + ('.txt', '.md')):
            continue
        for number, content in enumerate(text.split('\n'), 1):
            if UNFINISHED.search(content):
                yield Finding('words', path, number, 1, 'note of unfinished work')


RULES = (file_length, function_length, include_direction, banned_calls, engine_clock, spdx, dead_files, words)


def read_exceptions(path):
    if not os.path.exists(path):
        return {}
    with open(path, encoding='utf-8') as file:
        rows = csv.DictReader((line for line in file if not line.startswith('#')), delimiter='\t')
        return {(row['rule'], row['path']): int(row['number']) for row in rows}


def apply_exceptions(findings, allowed):
    """Findings that no exception covers, plus a line for every exception that allows more than there is.

    Lengths are compared by the longest one in the file, everything else by the number of findings."""
    grouped = collections.defaultdict(list)
    for finding in findings:
        grouped[finding.rule, finding.path].append(finding)
    left = []
    for key, group in grouped.items():
        number = max(f.number for f in group) if key[0].endswith('-length') else len(group)
        if number > allowed.get(key, 0):
            left += group
        elif number < allowed[key]:
            left.append(Finding(*key, 0, 0, f'the exception allows {allowed[key]}, there are {number}: lower it'))
    for key in allowed.keys() - grouped.keys():
        left.append(Finding(*key, 0, 0, 'the exception is no longer needed: remove it'))
    return left


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--root', default=os.path.dirname(here))
    parser.add_argument('--exceptions', default=os.path.join(here, 'exceptions.tsv'))
    options = parser.parse_args()
    tree = Tree(os.path.abspath(options.root))
    findings = [finding for rule in RULES for finding in rule(tree)]
    left = apply_exceptions(findings, read_exceptions(options.exceptions))
    for finding in sorted(left, key=lambda f: (f.path, f.line)):
        print(f'{finding.path}:{finding.line}: {finding.text} [{finding.rule}]')
    print(f'lint: {len(tree.paths)} files, {len(left)} findings')
    sys.exit(1 if left else 0)


if __name__ == '__main__':
    main()
