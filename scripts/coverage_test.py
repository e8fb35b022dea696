# SPDX-License-Identifier: MIT
"""Tests of coverage.py on a library made for the purpose."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))

DOCUMENTED = '''name\tsection\tlibrary\tlinkage\theader\tmanual
f_tested\t3\tlibt.so.1\textern\tt.h\t
f_untested\t3\tlibt.so.1\textern\tt.h\t
f_refused\t3\tlibt.so.1\textern\tt.h\t
f_absent\t3\tlibt.so.1\textern\tt.h\t
f_inline\t3\t\tinline\tt.h\t
f_undeclared\t3\t\tinline\tt.h\t
t_overview\t7\t\t\t\t
'''
SYMBOLS = '''library\tsymbol\tversions
libt.so.1\tf_tested\tT_1
libt.so.1\tf_untested\tT_1,T_2
'''
SOURCE = 'int f_tested(void){return 0;} int f_untested(void){return 0;} int f_refused(void){return 95;}\n'


class Coverage(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.write('documented.tsv', DOCUMENTED)
        self.write('symbols.tsv', SYMBOLS)
        self.write('tests.tsv', 'name\ttest\nf_tested\tcoverage_test\n')
        self.write('missing.txt', '# says EOPNOTSUPP\nf_refused\n')
        self.write('t.h', '/* f_undeclared */\nstatic inline int f_inline(void) { return 0; }\n')
        self.write('t.c', SOURCE)
        self.write('t.map', 'T_1 { global: f_*; local: *; };\n')
        subprocess.run(['cc', '-shared', '-fPIC', f'-Wl,--version-script={self.path("t.map")}', self.path('t.c'),
                        '-o', self.path('libt.so.1')], check=True)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, name, text):
        with open(self.path(name), 'w', encoding='utf-8') as file:
            file.write(text)

    def run_it(self, *more):
        return subprocess.run(
            [sys.executable, os.path.join(HERE, 'coverage.py'), '--lib', self.folder.name, '--tables', self.folder.name,
             '--tests', self.path('tests.tsv'), '--missing', self.path('missing.txt'),
             '--include', self.folder.name, '--output', self.path('out.md'), *more],
            capture_output=True, text=True, check=False)

    def test_states(self):
        result = self.run_it()
        self.assertEqual(result.stdout, '')
        self.assertEqual(result.returncode, 0)
        with open(self.path('out.md'), encoding='utf-8') as file:
            pages, symbols = file.read().split('\n## Exported symbols\n')
        for line in ('| f_tested | t.h | works | coverage_test |', '| f_untested | t.h | untested |  |',
                     '| f_refused | t.h | missing |  |', '| f_absent | t.h | missing |  |',
                     '| f_inline | t.h | untested |  |', '| f_undeclared | t.h | missing |  |',
                     '| t_overview(7) |  | overview |  |', '| all | 1 | 2 | 3 | 1 | 7 |'):
            self.assertIn(line + '\n', pages)
        self.assertIn('| f_tested | T_1 | works | coverage_test |\n', symbols)
        self.assertIn('| f_untested | T_1, T_2 | missing |  |\n', symbols)

    def test_check_sees_a_stale_file(self):
        self.run_it()
        self.assertEqual(self.run_it('--check').returncode, 0)
        self.write('tests.tsv', 'name\ttest\n')
        self.assertEqual(self.run_it('--check').returncode, 1)

    def test_false_claims(self):
        for claim in ('f_tested\tno_such_test\n', 'f_refused\tcoverage_test\n', 'f_unknown\tcoverage_test\n'):
            self.write('tests.tsv', 'name\ttest\n' + claim)
            self.assertEqual(self.run_it().returncode, 1, claim)


if __name__ == '__main__':
    unittest.main()
