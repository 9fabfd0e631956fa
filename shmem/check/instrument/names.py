"""The operators of the language that take arrays, and the functions that are the same."""

from __future__ import annotations

import ast

_OPERATORS = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.MatMult: "matmul", ast.Div: "truediv", ast.Mod: "mod",
    ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitOr: "or_", ast.BitXor: "xor",
    ast.BitAnd: "and_", ast.FloorDiv: "floordiv",
}  # fmt: skip
BINARY: dict[type[ast.operator], str] = dict(_OPERATORS)
AUGMENTED: dict[type[ast.operator], str] = {kind: f"i{name.rstrip('_')}" for kind, name in _OPERATORS.items()}
COMPARED: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge"
}  # fmt: skip
UNARY = (ast.USub, ast.UAdd, ast.Invert)
FUNCTIONS = (*BINARY.values(), *AUGMENTED.values(), *COMPARED.values())  # of `operator`
