"""Mutation testing: change one thing in a module, run the tests that mirror it, and see whether any of them fails.

    python tests/reliability/mutation.py --sample 50 --out mutants.jsonl     # again: goes on where it was

Each mutant lives in a fork of its own, in memory: no file of the project is changed. Tests are collected once for each
module. What a mutation is:

* a comparison (< and <=, == and !=, in and not in, …), an arithmetic or logical operator, a sign or a `not` is another;
* a number is one larger, True is False; a condition is its opposite; a returned value is None;
* a statement that stands alone (a warning, a call for its effect), a raised error, or a change in place is left out.

Left alone are texts, annotations, decorators, `strict=`, `stacklevel=` and `kind=` of a stable sort.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import resource
import sys
import types
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


def apply(tree: ast.Module, name: str) -> None:
    """Give the functions of an imported module the code of a mutated tree: whoever holds them sees the mutant."""
    module = sys.modules[name]
    mutated = types.ModuleType(name)
    mutated.__file__ = module.__file__
    sys.modules[name] = mutated  # dataclasses look their module up
    try:
        exec(compile(tree, str(module.__file__), "exec"), mutated.__dict__)  # noqa: S102 - our own source, mutated
    finally:
        sys.modules[name] = module
    for key, new in vars(mutated).items():
        old = vars(module).get(key)
        if isinstance(new, type) and new.__module__ == name:
            for inner, value in vars(new).items():
                _give_code(vars(old).get(inner), value)
        elif not _give_code(old, new) and isinstance(new, int | float | tuple) and new != old:
            for other in list(sys.modules.values()):
                if vars(other).get(key) is old:
                    setattr(other, key, new)


def _give_code(old: object, new: object) -> bool:
    """Let an old function do what a new one does; return whether they are functions."""
    if isinstance(new, property) and isinstance(old, property):
        return _give_code(old.fget, new.fget)
    if isinstance(new, classmethod | staticmethod) and isinstance(old, classmethod | staticmethod):
        return _give_code(old.__func__, new.__func__)
    if not isinstance(new, types.FunctionType) or not isinstance(old, types.FunctionType):
        return False
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
    return True


class Trials:
    """A plugin: collects a module's tests once, then runs them on every mutant in a fork, up to the first failure."""

    def __init__(self, module: str, chosen: list[tuple], out: Path) -> None:
        self.module, self.chosen, self.out = module, chosen, out
        self.entries: list[dict] = []

    def pytest_runtestloop(self, session):
        """Take the place of pytest's own loop."""
        if self.try_one(session, None):
            sys.exit(f"The tests of {self.module} fail without any mutation.")
        for line, what, tree in self.chosen:
            entry = {"module": self.module, "line": line, "what": what, "killed": self.try_one(session, tree)}
            with self.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        return True

    def try_one(self, session, tree: ast.Module | None) -> str:
        """Return "" if all tests pass on a mutant, else how it showed."""
        child = os.fork()
        if child == 0:
            code = 71
            try:
                resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
                if tree is not None:
                    apply(tree, f"holdfast.{self.module}")
                for item, following in zip(session.items, [*session.items[1:], None], strict=True):
                    session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                    if session.testsfailed:
                        break
                code = 1 if session.testsfailed else 0
            finally:
                os._exit(code)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            return f"signal {os.WTERMSIG(status)}"
        return "" if os.WEXITSTATUS(status) == 0 else "failed"


def try_module(module: str, chosen: list[tuple], out: Path) -> None:
    """Try mutants of a module in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 70
        try:
            import pytest

            with open(os.devnull, "w") as nowhere:
                os.dup2(nowhere.fileno(), 1)
            options = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--no-header", "--tb=no", "--capture=no"]
            code = int(pytest.main([*options, *MODULES[module]], plugins=[Trials(module, chosen, out)]))
        finally:
            os._exit(code)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) not in (0, 5):
        sys.exit(f"The tests of {module} could not be run.")


def main() -> None:
    """Try mutants, and print how many were killed and which were not."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--modules", nargs="*", default=list(MODULES), choices=list(MODULES))
    parser.add_argument("--sample", type=int, default=0, help="how many mutants of each module; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "mutants.jsonl")
    parser.add_argument("--again", action="store_true", help="try the survivors again")
    options = parser.parse_args()
    options.out = options.out.resolve()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT / "src"))
    asked, n_all = [], 0
    for module in options.modules:
        path = ROOT / "src/holdfast" / (module.replace(".", "/") + ".py")
        found = list(mutants(path.read_text(encoding="utf-8")))
        n_all += len(found)
        if 0 < options.sample < len(found):
            found = [found[i] for i in sorted(random.Random(options.seed).sample(range(len(found)), options.sample))]
        known = read(options.out)
        todo = [
            m for m in found if (module, *m[:2]) not in known or (options.again and not known[module, *m[:2]]["killed"])
        ]
        if todo:
            try_module(module, todo, options.out)
        asked += [(module, *m[:2]) for m in found]
    known = read(options.out)
    report([known[key] for key in asked], n_all)


def read(path: Path) -> dict[tuple, dict]:
    """Return what was tried, the last trial of each."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {(e["module"], e["line"], e["what"]): e for e in map(json.loads, lines)}


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
