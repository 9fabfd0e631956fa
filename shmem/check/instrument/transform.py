"""A syntax tree that tells of its subscripts, operators and calls, and else does what it did.

Each operation stays one of the program's own frame, at its own place, so that errors and tracebacks are the same: a
hook gets the operands, in the order in which the program evaluates them, and hands them back. Where operands are plain
names they are looked up twice instead. Hooks have names that no program can write, and are found among the builtins, so
that namespaces stay as they were. Left as they are: deletions, annotations (they may be kept as text), patterns, chains
of comparisons, and augmented assignments to attributes and elements outside of functions.
"""

from __future__ import annotations

import ast
from typing import Any, TypeVar

from .names import AUGMENTED, BINARY, COMPARED, UNARY

_AT, _VALUE = "@shmemu_at", "@shmemu_value"  # what a statement holds while it runs
_SKIPPED = frozenset({"annotation", "returns", "type_params", "pattern"})
_FRESH = (ast.Constant, ast.JoinedStr, ast.Lambda, ast.BinOp, ast.Compare, ast.UnaryOp, ast.ListComp, ast.GeneratorExp)

Node = TypeVar("Node", bound=ast.AST)


def instrumented(tree: ast.Module) -> ast.Module:
    """The tree of a module, changed in place."""
    return ast.fix_missing_locations(Transformer().visit(tree))  # type: ignore[no-any-return]


def _name(name: str, ctx: ast.expr_context | None = None) -> ast.Name:
    return ast.Name(name, ctx or ast.Load())


def _hook(at: ast.AST, hook: str, *args: ast.expr, keywords: list[ast.keyword] | None = None) -> ast.Call:
    """A call of a hook, told to be where a node is."""
    found = ast.Call(_name(f"@shmemu_{hook}"), list(args), keywords or [])
    ast.copy_location(found.func, at)
    return ast.copy_location(found, at)


def _plain(node: ast.AST | None) -> bool:
    """Whether it can be evaluated twice."""
    if isinstance(node, (ast.Tuple, ast.Slice, ast.UnaryOp)):
        return all(map(_plain, ast.iter_child_nodes(node)))
    return node is None or isinstance(node, (ast.Name, ast.Constant, ast.expr_context, ast.unaryop))


def _constant(node: ast.AST) -> bool:
    return isinstance(node, (ast.Constant, ast.JoinedStr)) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)
    )


def _index(node: ast.expr) -> ast.expr:
    """What is between the brackets, as a value."""
    if isinstance(node, ast.Slice):
        parts = (part or ast.copy_location(ast.Constant(None), node) for part in (node.lower, node.upper, node.step))
        return _hook(node, "slice", *parts)
    if isinstance(node, ast.Tuple):
        return ast.copy_location(ast.Tuple([*map(_index, node.elts)], ast.Load()), node)
    return node


class Transformer(ast.NodeTransformer):
    """Changes a tree in place, innermost first."""

    def __init__(self) -> None:
        self._in_function = False
        self._tests: set[int] = set()  # ids of nodes

    def generic_visit(self, node: Node) -> Node:
        """The children of a node, but for those that are no code of the program."""
        if isinstance(node, (ast.Assert, ast.If, ast.While, ast.IfExp)):
            self._test(node.test)
        for field, old in ast.iter_fields(node):
            if field in _SKIPPED:
                continue
            if isinstance(old, list):
                old[:] = [new for each in old for new in self._visited(each)]
            elif isinstance(old, ast.AST):
                setattr(node, field, self.visit(old))
        return node

    def _visited(self, value: Any) -> list[Any]:
        found = self.visit(value) if isinstance(value, ast.AST) else value
        return found if isinstance(found, list) else [found]

    def _scope(self, node: Node, function: bool) -> Node:
        outer, self._in_function = self._in_function, function
        try:
            return self.generic_visit(node)
        finally:
            self._in_function = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Statements in it have names of their own. Its decorators and defaults hold no statements."""
        return self._scope(node, True)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        """As any function."""
        return self._scope(node, True)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Names in it are attributes."""
        return self._scope(node, False)

    def visit_TypeAlias(self, node: ast.AST) -> ast.AST:
        """Types are no code."""
        return node

    # ---- subscripts ----

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """`a[i]`, wherever it stands: a load, or the target of an assignment."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Del):
            return node
        return self._subscript(node, "load" if isinstance(node.ctx, ast.Load) else "store")

    @staticmethod
    def _subscript(node: ast.Subscript, hook: str, *more: ast.expr) -> ast.Subscript:
        if _plain(node.slice):
            node.value = _hook(node, hook, node.value, _index(node.slice), *more)
        else:
            node.value = _hook(node, f"{hook}_key", node.value, _index(node.slice), *more)
            node.slice = _hook(node, "key")
        return node

    def visit_Assign(self, node: ast.Assign) -> Any:
        """What is assigned to elements of an array is read."""
        target, value = node.targets[0], node.value
        if len(node.targets) > 1 or not isinstance(target, ast.Subscript) or isinstance(value, _FRESH):
            return self.generic_visit(node)
        again = isinstance(value, ast.Name)
        if not (again or self._in_function):
            return self.generic_visit(node)
        node.value = self.visit(value)
        if not again:
            node.value = ast.copy_location(ast.NamedExpr(_name(_VALUE, ast.Store()), node.value), value)
        self.generic_visit(target)
        held = _name(value.id if isinstance(value, ast.Name) else _VALUE)
        self._subscript(target, "store", ast.copy_location(held, value))
        return node if again else [node, self._forget(node, _VALUE)]

    @staticmethod
    def _forget(node: ast.stmt, name: str) -> ast.stmt:
        return ast.copy_location(ast.Delete([_name(name, ast.Del())]), node)

    # ---- augmented assignments ----

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        """`a += v`, `a[i] += v`, `o.a += v`: the old value is loaded before v is evaluated, the new stored after."""
        target = node.target
        node.value = self.visit(node.value)
        if isinstance(target, ast.Name):
            node.value = _hook(node, "inplace", ast.copy_location(_name(target.id), target), node.value)
            return node
        self.generic_visit(target)
        if not self._in_function:
            return node
        if isinstance(target, ast.Subscript):
            return self._into_element(node, target)
        return self._into_attribute(node, target)

    def _into_element(self, node: ast.AugAssign, target: ast.Subscript) -> list[ast.stmt]:
        pair = _hook(target, "pair", target.value, _index(target.slice))
        held = ast.NamedExpr(_name(_AT, ast.Store()), pair)
        target.value = self._part(held, 0, target)
        target.slice = self._part(_name(_AT), 1, target)
        node.value = _hook(node, "then", node.value, _name(_AT))
        return [node, self._forget(node, _AT)]

    @staticmethod
    def _part(pair: ast.expr, i: int, at: ast.AST) -> ast.expr:
        return ast.copy_location(ast.Subscript(pair, ast.Constant(i), ast.Load()), at)

    def _into_attribute(self, node: ast.AugAssign, target: ast.Attribute) -> list[ast.stmt]:
        hold = ast.copy_location(ast.Assign([_name(_AT, ast.Store())], target.value), target)
        old = ast.copy_location(ast.Attribute(_name(_AT), target.attr, ast.Load()), target)
        operands = ast.Starred(_hook(node, "noted", old, node.value), ast.Load())
        new = _hook(node, AUGMENTED[type(node.op)], operands)
        target.value = _name(_AT)
        return [hold, ast.copy_location(ast.Assign([target], new), node), self._forget(node, _AT)]

    # ---- operators and loops ----

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """`a + b`."""
        self.generic_visit(node)
        if _constant(node.left) and _constant(node.right):
            return node
        operands = _hook(node, "operands", node.left, node.right)
        return _hook(node, BINARY[type(node.op)], ast.Starred(operands, ast.Load()))

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        """`a == b`."""
        right = node.comparators[0]
        plain = _plain(node.left), _plain(right)
        self.generic_visit(node)
        if len(node.ops) > 1 or type(node.ops[0]) not in COMPARED or (_constant(node.left) and _constant(right)):
            return node
        if plain[1]:
            node.left = _hook(node, "beside", node.left, right)
            return node
        if plain[0]:
            node.comparators = [_hook(node, "beside", node.comparators[0], node.left)]
            return node
        if id(node) in self._tests:
            return node
        operands = _hook(node, "operands", node.left, node.comparators[0])
        return _hook(node, COMPARED[type(node.ops[0])], ast.Starred(operands, ast.Load()))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """`-a`."""
        self.generic_visit(node)
        if type(node.op) in UNARY and not _constant(node.operand):
            node.operand = _hook(node.operand, "operand", node.operand)
        return node

    def _test(self, node: ast.expr) -> None:
        """Notes the comparisons that decide where to go on: Python tells their lines of what follows them."""
        self._tests.add(id(node))
        parts = node.values if isinstance(node, ast.BoolOp) else [node.operand] if isinstance(node, ast.UnaryOp) else []
        for each in parts:
            self._test(each)

    def visit_For(self, node: ast.For) -> ast.AST:
        """`for x in a`."""
        self.generic_visit(node)
        node.iter = _hook(node.iter, "iterated", node.iter)
        return node

    # ---- calls ----

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """`f(a)`: hooks get the function and its arguments right before the call."""
        func = node.func
        self.generic_visit(node)
        if not (node.args or node.keywords or isinstance(func, ast.Attribute)):
            return node
        if isinstance(func, ast.Attribute) and func.end_lineno not in (None, func.lineno):
            node.lineno, node.col_offset = (
                func.end_lineno,
                max(0, (func.end_col_offset or 0) - len(func.attr)),
            )  # as of a method
        values = [*node.args, *(each.value for each in node.keywords)]
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            node.func = _hook(node, "unpacked", node.func)
        elif all(map(_plain, values)):
            node.func = _hook(node, "called", node.func, *node.args, keywords=node.keywords)
            return node
        else:
            node.args.insert(0, node.func)
            node.func = ast.copy_location(_name("@shmemu_bound"), node)
        return ast.copy_location(ast.Call(node, [], []), node)
