#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every public header compiles alone, as C and as C++, without a warning.

usage: headers.py INCLUDE_DIR
"""
import os
import subprocess
import sys

LANGUAGES = (('cc', 'c', '-std=gnu11'), ('c++', 'c++', '-std=gnu++11'))


def main():
    include = os.path.abspath(sys.argv[1])
    headers = sorted(os.path.relpath(os.path.join(folder, name), include)
                     for folder, _, names in os.walk(include) for name in names if name.endswith('.h'))
    failed = 0
    for header in headers:
        for compiler, language, standard in LANGUAGES:
            argv = [compiler, '-x', language, standard, '-Wall', '-Wextra', '-Werror', '-fsyntax-only', '-I', include, '-']
            result = subprocess.run(argv, input=f'#include <{header}>\n', capture_output=True, text=True, check=False)
            if result.returncode:
                failed += 1
                print(f'{header} ({language}):\n{result.stderr[:2000]}')
    print(f'headers: {len(headers)} headers, {failed} failures')
    sys.exit(1 if failed or not headers else 0)


if __name__ == '__main__':
    main()
