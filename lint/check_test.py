# SPDX-License-Identifier: MIT
"""Tests of the style checks: each rule on a small tree that breaks it, and on one that does not."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check  # noqa: E402
import source  # noqa: E402

SPDX = '// SPDX-License-Identifier: MIT\n'


class Functions(unittest.TestCase):
    def names(self, text):
        return [(name, length) for name, _, length in source.functions(text)]

    def test_free_and_member(self):
        text = 'namespace a {\nint f(int x) {\n return x;\n}\nclass B {\n  int g() const { return 1; }\n};\n}\n'
        self.assertEqual(self.names(text), [('f', 3), ('g', 1)])

    def test_braces_in_literals_and_comments(self):
        text = 'void f() {\n  const char* s = "{{{"; // }\n  char c = \'{\';\n  auto r = R"x(}})x";\n}\nvoid g() {}\n'
        self.assertEqual(self.names(text), [('f', 5), ('g', 1)])

    def test_initialisers_are_not_functions(self):
        text = 'constexpr int k[] = {1, 2};\nstruct S { int x{3}; };\nenum class E { kA };\n'
        self.assertEqual(self.names(text), [])

    def test_gtest_case_is_named(self):
        self.assertEqual(self.names('TEST(Ring, Wraps) {\n}\n'), [('TEST(Ring, Wraps)', 2)])

    def test_digit_separators_do_not_open_literals(self):
        self.assertEqual(self.names("void f() { g(1'000'000); }\nvoid h() {}\n"), [('f', 1), ('h', 1)])


class Rules(unittest.TestCase):
    def findings(self, rule, files):
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), 'w', encoding='utf-8') as file:
                    file.write(text)
            return [(f.path, f.line) for f in rule(check.Tree(root))]

    def test_file_length(self):
        files = {'base/a.cpp': '\n' * 801, 'base/b.cpp': '\n' * 800, 'include/infiniband/c.h': '\n' * 2000}
        self.assertEqual(self.findings(check.file_length, files), [('base/a.cpp', 801)])

    def test_function_length(self):
        body = 'void f() {\n' + 'x();\n' * 69 + '}\n'
        self.assertEqual(self.findings(check.function_length, {'base/a.cpp': body}), [('base/a.cpp', 1)])
        body = 'void f() {\n' + 'x();\n' * 68 + '}\n'
        self.assertEqual(self.findings(check.function_length, {'base/a.cpp': body}), [])

    def test_include_direction(self):
        files = {'base/a.h': '#include "wire/format/b.h"\n', 'engine/c.h': '#include "wire/format/b.h"\n',
                 'engine/d.h': '#include <infiniband/mlx5dv.h>\n', 'wire/format/e.h': '#include "wire/link/f.h"\n',
                 'device/efa/g.h': '#include "device/connectx/h.h"\n', 'device/efa/i.h': '#include "device/hw/j.h"\n',
                 'engine/k_test.cpp': '#include "testing/world.h"\n'}
        self.assertEqual(self.findings(check.include_direction, files),
                         [('base/a.h', 1), ('device/efa/g.h', 1), ('engine/d.h', 1), ('wire/format/e.h', 1)])

    def test_banned_calls(self):
        text = 'void f() {\n  printf("x");\n  snprintf(b, 1, "x");\n  std::cout << 1;\n  world.exit();\n  // abort()\n  std::abort();\n}\n'
        files = {'lib/ibverbs/a.cpp': text, 'tools/b.cpp': text, 'engine/c_test.cpp': text}
        self.assertEqual(self.findings(check.banned_calls, files),
                         [('lib/ibverbs/a.cpp', 2), ('lib/ibverbs/a.cpp', 4), ('lib/ibverbs/a.cpp', 7)])

    def test_engine_clock(self):
        text = 'auto t = std::chrono::steady_clock::now();\n'
        self.assertEqual(self.findings(check.engine_clock, {'engine/a.cpp': text, 'base/b.cpp': text}),
                         [('engine/a.cpp', 1)])

    def test_spdx(self):
        files = {'base/a.cpp': SPDX, 'base/b.cpp': 'int x;\n', 'base/CMakeLists.txt': 'verbatim_room(base)\n'}
        self.assertEqual(self.findings(check.spdx, files), [('base/CMakeLists.txt', 1), ('base/b.cpp', 1)])

    def test_dead_files(self):
        files = {'base/CMakeLists.txt': 'verbatim_room(base SOURCES a.cpp)\n', 'base/a.cpp': '#include "base/a.h"\n',
                 'base/a.h': '', 'base/unused.h': '', 'base/not_a.cpp': '', 'scripts/lost.sh': ''}
        self.assertEqual(self.findings(check.dead_files, files),
                         [('base/not_a.cpp', 1), ('base/unused.h', 1), ('scripts/lost.sh', 1)])

    def test_words(self):
        files = {'base/a.cpp': '// TO' + 'DO: x\n', 'base/utils.h': '', 'base/b.cpp': ''}
        self.assertEqual(self.findings(check.words, files), [('base/a.cpp', 1), ('base/utils.h', 1)])


class Exceptions(unittest.TestCase):
    finding = check.Finding('function-length', 'a.cpp', 3, 90, 'long')

    def test_covered(self):
        self.assertEqual(check.apply_exceptions([self.finding], {('function-length', 'a.cpp'): 90}), [])

    def test_grown(self):
        self.assertEqual(check.apply_exceptions([self.finding], {('function-length', 'a.cpp'): 89}), [self.finding])

    def test_must_shrink(self):
        for allowed in ({('function-length', 'a.cpp'): 91}, {('function-length', 'a.cpp'): 90, ('spdx', 'b.cpp'): 1}):
            self.assertEqual(len(check.apply_exceptions([self.finding], allowed)), 1)


class CommandLine(unittest.TestCase):
    def test_exit_status_says_whether_there_are_findings(self):
        with tempfile.TemporaryDirectory() as root:
            argv = [sys.executable, os.path.join(HERE, 'check.py'), '--root', root, '--exceptions', '/nonexistent']
            self.assertEqual(subprocess.run(argv, capture_output=True, check=False).returncode, 0)
            with open(os.path.join(root, 'a.cpp'), 'w', encoding='utf-8') as file:
                file.write('int x;\n')
            self.assertEqual(subprocess.run(argv, capture_output=True, check=False).returncode, 1)


if __name__ == '__main__':
    unittest.main()
