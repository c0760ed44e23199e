"""Mutation testing: change one thing in a module, run the tests that mirror it, and see whether any of them fails.

    python tests/reliability/mutation.py --sample 300 --out mutants.jsonl     # again: goes on where it was

Each mutant lives in a fork of its own, in memory: no file of the project is changed. What a mutation is:

* a comparison (< and <=, == and !=, in and not in, …), an arithmetic or logical operator, a sign or a `not` is another;
* a number is one larger, True is False; a condition is its opposite; a returned value is None;
* a statement that stands alone (a warning, a call for its effect), a raised error, or a change in place is left out.

Left alone are texts, annotations, decorators, `strict=`, `stacklevel=` and `kind=` of a stable sort.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.util
import json
import os
import random
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = {
    "environments": ["tests/unit/test_environments.py"],
    "metrics": ["tests/unit/test_metrics.py"],
    "risks": ["tests/unit/test_risks.py"],
    "stages.predict": ["tests/unit/stages/test_predict.py"],
    "stages.partition": ["tests/unit/stages/test_partition.py"],
    "stages.interpolate": ["tests/unit/stages/test_interpolate.py"],
}
SECONDS = 60  # of processor time for one mutant; one that takes longer hangs, and counts as killed
KEPT_KEYWORDS = {"strict", "stacklevel", "kind"}
OTHER = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip


def mutants(source: str) -> Iterator[tuple[int, str, ast.Module]]:
    """Yield (line, what was done, the mutated module)."""
    tree = ast.parse(source)
    for place, node in enumerate(_nodes(tree)):
        for number, (text, _) in enumerate(_changes(node)):
            other = copy.deepcopy(tree)
            twin = list(_nodes(other))[place]
            _, change = list(_changes(twin))[number]
            change()
            yield node.lineno, text, ast.fix_missing_locations(other)


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk the code that runs: no annotations, decorators, docstrings, f-strings or kept keywords."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr | ast.Import | ast.ImportFrom):
                continue
            if isinstance(child, ast.keyword) and child.arg in KEPT_KEYWORDS:
                continue
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            yield child
            yield from _nodes(child)


def _changes(node: ast.AST):
    """Yield (text, change) pairs; a change alters the node in place."""
    if isinstance(node, ast.Compare):
        for i, operator in enumerate(node.ops):
            yield _text(node, OTHER[type(operator)]), lambda i=i, o=operator: node.ops.__setitem__(i, OTHER[type(o)]())
    elif isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in OTHER:
        yield _text(node, OTHER[type(node.op)]), lambda: setattr(node, "op", OTHER[type(node.op)]())
        if isinstance(node, ast.AugAssign):
            yield f"left out: {ast.unparse(node)}", lambda: _leave_out(node)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub | ast.Invert):
        yield (
            f"without its sign: {ast.unparse(node)}",
            lambda: setattr(node, "op", ast.UAdd()) if isinstance(node.op, ast.USub) else _double(node),
        )
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        yield f"{node.value} is {not node.value}", lambda: setattr(node, "value", not node.value)
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        yield f"{node.value} is {node.value + 1}", lambda: setattr(node, "value", node.value + 1)
    elif isinstance(node, ast.If | ast.IfExp | ast.While):
        yield (
            f"the opposite of: {ast.unparse(node.test)}",
            lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), node.test)),
        )
    elif isinstance(node, ast.Return) and node.value is not None and not isinstance(node.value, ast.Constant):
        yield f"None for: {ast.unparse(node.value)[:60]}", lambda: setattr(node, "value", ast.Constant(None))
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        yield f"left out: {ast.unparse(node)[:60]}", lambda: _leave_out(node)


def _text(node: ast.AST, other: type) -> str:
    return f"{other.__name__} in: {ast.unparse(node)[:70]}"


def _leave_out(node: ast.AST) -> None:
    """Turn a statement into one that does nothing."""
    node.__class__ = ast.Pass
    node.__dict__ = {key: value for key, value in node.__dict__.items() if key in ("lineno", "col_offset")}


def _double(node: ast.UnaryOp) -> None:
    """Take back a `not` or `~` by a second one."""
    node.operand = ast.UnaryOp(copy.deepcopy(node.op), node.operand)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a mutated tree."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, path, tree

    def find_spec(self, name, path=None, target=None):
        """Take over the one module."""
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.name else None

    def exec_module(self, module):
        """Run the mutated code."""
        module.__file__ = str(self.path)
        exec(compile(self.tree, str(self.path), "exec"), module.__dict__)  # noqa: S102 - our own source, mutated


def is_killed(module: str, tree: ast.Module | None, tests: list[str]) -> str:
    """Run the tests on a mutant in a fork; return "" if they pass, else how it showed."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
                os.dup2(nowhere.fileno(), 2)
            path = ROOT / "src/holdfast" / (module.replace(".", "/") + ".py")
            if tree is not None:
                sys.meta_path.insert(0, _Finder(f"holdfast.{module}", path, tree))
            import pytest

            options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no"]
            code = int(pytest.main([*options, *tests]))
        except BaseException:
            code = 71
        finally:
            os._exit(code)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return "" if os.WEXITSTATUS(status) == 0 else "failed"


def main() -> None:
    """Try mutants, and print how many were killed and which were not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="*", default=list(MODULES), choices=list(MODULES))
    parser.add_argument("--sample", type=int, default=0, help="how many of all mutants; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "mutants.jsonl")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    options = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    import pandas  # noqa: F401 - what every child needs, once
    import pytest  # noqa: F401
    import scipy.optimize  # noqa: F401
    import sklearn.ensemble  # noqa: F401
    import sklearn.linear_model  # noqa: F401
    import sklearn.pipeline  # noqa: F401
    import torch  # noqa: F401

    everything = []
    for module in options.modules:
        path = ROOT / "src/holdfast" / (module.replace(".", "/") + ".py")
        everything += [(module, *mutant) for mutant in mutants(path.read_text(encoding="utf-8"))]
    chosen = everything
    if 0 < options.sample < len(everything):
        chosen = [
            everything[i] for i in sorted(random.Random(options.seed).sample(range(len(everything)), options.sample))
        ]
    known = {}
    if options.out.exists():
        for line in options.out.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            if not (options.again and not entry["killed"]):
                known[entry["module"], entry["line"], entry["what"]] = entry
    for module in dict.fromkeys(module for module, *_ in chosen):
        if is_killed(module, None, MODULES[module]):
            sys.exit(f"The tests of {module} fail without any mutation.")
    for module, line, what, tree in chosen:
        if (module, line, what) not in known:
            entry = {"module": module, "line": line, "what": what, "killed": is_killed(module, tree, MODULES[module])}
            known[module, line, what] = entry
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
    report([known[module, line, what] for module, line, what, _ in chosen], len(everything))


def report(entries: list[dict], n_all: int) -> None:
    """Print counts by module and the survivors."""
    totals, killed = Counter(e["module"] for e in entries), Counter(e["module"] for e in entries if e["killed"])
    for module, n in totals.items():
        print(f"{module}: {killed[module]} of {n} killed ({killed[module] / n:.0%})")
    share = sum(killed.values()) / len(entries)
    print(f"all: {sum(killed.values())} of {len(entries)} ({share:.1%}); {n_all} mutants can be made")
    for entry in entries:
        if not entry["killed"]:
            print(f"  {entry['module']}:{entry['line']}  {entry['what']}")


if __name__ == "__main__":
    main()
