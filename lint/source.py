# SPDX-License-Identifier: MIT
"""Just enough reading of C and C++ for the style checks: comments and literals blanked, functions found."""
import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<tag>[^()\\\s]*)\(.*?\)(?P=tag)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.S)


def blank(text):
    """The text with comments and literals replaced by spaces; line numbers stay the same."""
    return _TOKEN.sub(lambda m: re.sub(r'[^\n]', ' ', m.group(0)), text)


def _header_kind(header):
    """What the brace after this text opens: 'container', 'function' or 'other'."""
    header = re.sub(r'^\s*#[^\n]*$', '', header, flags=re.M).strip()
    header = re.sub(r'\balignas\s*\([^()]*\)|\[\[[^\]]*\]\]|__attribute__\s*\(\(.*?\)\)', ' ', header)
    if re.match(r'(inline\s+)?namespace\b|extern\s*$', header):
        return 'container'
    before_paren = header.split('(', 1)[0]
    if re.search(r'\b(class|struct|union|enum)\b', before_paren) and '(' not in header:
        return 'container'
    if '(' not in header:
        return 'other'
    if re.search(r'(?<![=!<>+\-*/&|^])=(?!=)', before_paren) and 'operator' not in before_paren \
            and '[' not in header:
        return 'other'
    return 'function'


def _function_name(header):
    match = re.search(r'(operator\s*\S+?|~?[A-Za-z_][\w:~]*)\s*\(\s*(\w+\s*,\s*\w+\s*\))?', header)
    if not match:
        return '?'
    if match.group(2):  # TEST(Suite, Case)
        return match.group(1) + '(' + re.sub(r'[\s)]', '', match.group(2)).replace(',', ', ') + ')'
    return match.group(1)


def functions(text):
    """[(name, first line, number of lines)] of the function bodies in a C or C++ file."""
    code = blank(text)
    found = []
    stack = []
    start = 0
    line = 1
    for position, char in enumerate(code):
        if char == '\n':
            line += 1
        elif char == '{':
            inside = any(kind == 'function' for kind, _, _ in stack)
            header = code[start:position]
            kind = 'other' if inside else _header_kind(header)
            stack.append((kind, line, _function_name(header) if kind == 'function' else ''))
            start = position + 1
        elif char == '}' and stack:
            kind, first, name = stack.pop()
            if kind == 'function':
                found.append((name, first, line - first + 1))
            start = position + 1
        elif char == ';':
            start = position + 1
    return found


def includes(text):
    """[(line number, path, is quoted)] of a C or C++ file."""
    found = []
    for number, content in enumerate(text.split('\n'), 1):
        match = re.match(r'\s*#\s*include\s*(<([^>]+)>|"([^"]+)")', content)
        if match:
            found.append((number, match.group(2) or match.group(3), match.group(3) is not None))
    return found
