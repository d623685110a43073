"""The shape of the package: files, long functions, functions of many parameters, and what the tests
reach of it is in ``make coverage``.

Lines of a function are those of its body without the docstring. Parameters are counted without
``self``; the constructors of estimators, whose parameters scikit-learn wants one by one, and
commands, whose parameters are their options, are listed too.
"""

import ast
from pathlib import Path

from .common import table

SOURCE = Path(__file__).parents[1] / "src"
LONG, MANY = 40, 7


def functions(path):
    """Name, lines of the body and number of parameters of every function of a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and len(node.body) > 1 else node.body
            lines = node.end_lineno - body[0].lineno + 1
            given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            yield node.name, lines, sum(one.arg not in ("self", "cls") for one in given)


def package():
    """Files and functions of the package."""
    files = sorted(SOURCE.rglob("*.py"))
    found = [
        {"where": f"{path.relative_to(SOURCE)}: {name}", "lines": lines, "parameters": count}
        for path in files
        for name, lines, count in functions(path)
    ]
    long = [one for one in found if one["lines"] > LONG]
    many = [one for one in found if one["parameters"] > MANY]
    lengths = sorted(path.read_text().count("\n") for path in files)
    shape = {
        "files": len(files),
        "lines": sum(lengths),
        "median lines of a file": lengths[len(lengths) // 2],
        "longest file": lengths[-1],
        "functions": len(found),
        f"over {LONG} lines": len(long),
        f"over {MANY} parameters": len(many),
    }
    table("The package", [shape])
    table(f"Functions of more than {LONG} lines", long)
    table(f"Functions of more than {MANY} parameters", many)
    return {"shape": [shape], "long": long, "many": many}


STEPS = {"package": package}
GUESSED = {"package": 5}
QUICK = {}
