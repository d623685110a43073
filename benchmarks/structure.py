"""The source in numbers: how large it is, how it hangs together, how much of it has types.

Code lines are lines that hold code: no blank lines, comments or docstrings. A circle is a group of
modules each of which imports every other, in however many steps, with imports inside of functions
counted. A lazy import is a statement inside of a function, or for type checkers alone, that imports
our own modules. A module-level number is a
name bound to a number, or to a tuple of numbers, outside of functions and classes. A function is
annotated if all its parameters but ``self`` and ``cls`` are, and what it returns (constructors
return nothing).
"""

import ast
import io
import tokenize
from collections import Counter, defaultdict
from pathlib import Path

from .common import table

SOURCE = Path(__file__).parents[1] / "src" / "manykernels"
LONG, MANY = 40, 7  # code lines and parameters of a function
SMALL = 40  # code lines of a file
SUBCLASSED = ("losses", "machines", "solvers", "regularizers", "banks", "result", "kernels")
ABOVE = ("cli", "display", "persistence", "testing", "omics", "dask", "estimators", "readers")
GUESSED = {"summary": 10}
QUICK = {"LONG": 40}


class Module:
    """One file of the source.

    Attributes
    ----------
    name : str
        With dots, below the package; that of the package itself is empty.
    tree : ast.Module
    code : set of int
        The numbers of lines that hold code.
    """

    def __init__(self, path, root):
        parts = path.relative_to(root).with_suffix("").parts
        self.is_package = parts[-1] == "__init__"
        self.name = ".".join(parts[:-1] if self.is_package else parts)
        text = path.read_text()
        self.tree = ast.parse(text)
        self.code = _code_lines(text, self.tree)

    @property
    def package(self):
        """The name of the package that relative imports begin from."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    def functions(self):
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef)]

    def classes(self):
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.ClassDef)]

    def length(self, node):
        """Code lines of a node."""
        return sum(node.lineno <= line <= node.end_lineno for line in self.code)

    def numbers(self):
        """Names of the numbers that stand at the level of the module."""
        found = []
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and _is_number(node.value):
                targets = node.targets[0]
                names = targets.elts if isinstance(targets, ast.Tuple) else [targets]
                found += [name.id for name in names if isinstance(name, ast.Name)]
        return found

    def imports(self, known):
        """Our own modules that it imports, each with the number of the line if it does so inside of
        a function, else None.
        """
        lazy = {
            id(inner)
            for function in self.functions()
            for inner in ast.walk(function)
            if isinstance(inner, ast.ImportFrom | ast.Import)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                lazy |= {id(inner) for inner in ast.walk(node)}
        for node in ast.walk(self.tree):
            for target in self._targets(node, known):
                yield target, node.lineno if id(node) in lazy else None

    def _targets(self, node, known):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            for name in names:
                if name.split(".")[0] == "manykernels":
                    yield name.removeprefix("manykernels").removeprefix(".")
        if not isinstance(node, ast.ImportFrom):
            return
        base = self._base(node)
        if base is None:
            return
        for alias in node.names:
            inner = f"{base}.{alias.name}".strip(".")
            yield inner if inner in known else base

    def _base(self, node):
        if not node.level:
            own = (node.module or "").split(".")
            return ".".join(own[1:]) if own[0] == "manykernels" else None
        parts = self.package.split(".") if self.package else []
        parts = parts[: len(parts) - node.level + 1]
        return ".".join([*parts, *(node.module or "").split(".")]).strip(".")


def _code_lines(text, tree):
    blank = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    blank |= {tokenize.ENCODING, tokenize.ENDMARKER}
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in blank:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        owns = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if owns and ast.get_docstring(node, clean=False) is not None:
            lines -= set(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return lines


def _is_number(value):
    if isinstance(value, ast.Tuple):
        return bool(value.elts) and all(map(_is_number, value.elts))
    if isinstance(value, ast.UnaryOp):
        return _is_number(value.operand)
    if isinstance(value, ast.BinOp):
        return _is_number(value.left) and _is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


def _parameters(function):
    every = function.args
    return [*every.posonlyargs, *every.args, *every.kwonlyargs]


def _is_annotated(function):
    named = [one for one in _parameters(function) if one.arg not in ("self", "cls")]
    returns = function.returns is not None or function.name == "__init__"
    return returns and all(one.annotation is not None for one in named)


def modules(root=SOURCE):
    """All files of the source, by name."""
    return {m.name: m for m in (Module(path, root) for path in sorted(root.rglob("*.py")))}


def circles(edges):
    """Groups of modules that import each other: Tarjan's strongly connected components."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack, found = [], []

    def visit(name):
        number[name] = low[name] = len(number)
        stack.append(name)
        for target in edges[name]:
            if target not in number:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == number[name]:
            group = []
            while not group or group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in list(edges):
        if name not in number:
            visit(name)
    return found


def summary():
    """Everything in one table."""
    every = modules()
    edges: dict[str, set[str]] = {name: set() for name in every}
    lazy, importers = defaultdict(set), defaultdict(set)
    for name, module in every.items():
        for target, line in module.imports(every):
            # a package's own face holds no code of its parts
            if target != name and target in every:
                edges[name].add(target)
                importers[target].add(name)
                if line is not None:
                    lazy[name, line].add(target)
    bodies = {name: module for name, module in every.items() if not module.is_package}
    inner = {name: edges[name] & bodies.keys() for name in bodies}
    rings = circles(inner)
    functions = [(m, f) for m in every.values() for f in m.functions()]
    below = [f for m, f in functions if m.name.split(".")[0] not in ABOVE]
    numbers = Counter(number for m in every.values() for number in m.numbers())
    lines = {name: len(module.code) for name, module in every.items()}
    alone = [name for name in bodies if len(importers[name]) == 1]
    rows = {
        "code lines": sum(lines.values()),
        "files": len(every),
        "functions": len(functions),
        "classes": sum(len(m.classes()) for m in every.values()),
        "module-level numbers": sum(numbers.values()),
        "names of numbers that recur": sum(count > 1 for count in numbers.values()),
        "circles": len(rings),
        "modules in circles": sum(map(len, rings)),
        "lazy imports of our own modules": len(lazy),
        f"functions over {LONG} code lines": sum(m.length(f) > LONG for m, f in functions),
        f"functions of more than {MANY} parameters": sum(
            len(_parameters(f)) > MANY for _, f in functions
        ),
        "modules with one importer": len(alone),
        f"modules under {SMALL} code lines": sum(lines[name] < SMALL for name in bodies),
        "annotated, below estimators": f"{_share(below):.0%}",
    }
    for part in SUBCLASSED:
        own = [f for m, f in functions if m.name.split(".")[0] == part]
        rows[f"annotated, {part}"] = f"{sum(map(_is_annotated, own))} of {len(own)}"
    table("the source", [{"what": what, "figure": figure} for what, figure in rows.items()])
    for ring in rings:
        print(f"circle of {len(ring)}: {', '.join(ring)}")
    for (name, _), targets in lazy.items():
        print(f"lazy: {name} imports {', '.join(sorted(targets))}")
    return rows


def _share(functions):
    return sum(map(_is_annotated, functions)) / max(len(functions), 1)


STEPS = {"summary": summary}
