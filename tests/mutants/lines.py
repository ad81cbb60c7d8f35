"""Which lines of its file a mutant changes: a test that reaches none of them cannot notice it."""

import ast


def lines_of(mutant, text):
    """All lines of the statements that it changes, but of a compound one only the first part."""
    begin, end = _changed(mutant, text)
    heads = map(_head, ast.walk(ast.parse(text)))
    return {n for head in heads if head and head[0] <= end and begin <= head[-1] for n in head}


def _changed(mutant, text):
    """The first and the last line in which something is other afterwards."""
    old, new = mutant.old, mutant.new
    same = _same(old, new)
    rest_old, rest_new = old[same:], new[same:]
    same_end = _same(rest_old[::-1], rest_new[::-1])
    start = text.index(old) + same
    end = start + len(rest_old) - same_end
    return text[:start].count("\n") + 1, text[:end].count("\n") + 1


def _head(node):
    if not isinstance(node, ast.stmt | ast.ExceptHandler):
        return None
    body = getattr(node, "body", None)
    return range(node.lineno, max(node.lineno + 1, body[0].lineno if body else node.end_lineno + 1))


def _same(one, other):
    """How many characters are equal from the beginning."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
