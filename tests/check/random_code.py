"""Random modules of statements and expressions, some of which fail: for what must not change a program."""

from __future__ import annotations

from random import Random

HEAD = "import numpy as np\na, b, c, d = np.arange(6), [1, [2, 3], 4], {0: 5, 'k': [6]}, 3\n"
NAMES = ("a", "b", "c", "d", "v")
OPERATORS = ("+", "-", "*", "//", "%", "&", "|", "@", "==", "<", ">=", "!=", "and", "or", "is", "in")


def expression(draw: Random, depth: int = 3) -> str:
    """An expression."""
    if depth == 0 or draw.random() < 0.15:
        return draw.choice([*NAMES, "0", "1", "2", "-1", "'k'", "note(1)"])
    one, other = expression(draw, depth - 1), expression(draw, depth - 1)
    return draw.choice([
        f"{draw.choice(NAMES)}[{index(draw, depth)}]", f"{draw.choice(NAMES)}[{index(draw, depth)}]",
        f"({one} {draw.choice(OPERATORS)} {other})", f"({one} {draw.choice(OPERATORS)} {other})",
        f"note({one}, {other})", f"note(*[{one}, {other}])", f"note({one}, sep={other})", f"list(range({one} % 5))",
        f"({one} if {other} else {draw.choice(NAMES)})", f"[{one}, {other}]", f"({one}, *[{other}])", f"(-{one})",
        f"[{one} for v in range(2)]", f"(lambda v: {one})({other})", f"{{0: {one}, 1: {other}}}",
        f"np.array({one})", f"f'{{{draw.choice(NAMES)}}} {{note(2)}}'", f"a.{draw.choice(['sum', 'copy', 'max'])}()",
        f"a.reshape({one})", f"np.sum({one})", f"sum(v for v in [{one}])", f"int({one})", f"{one} < {other} < 3",
        f"len({one})", f"g({one}, {other})", f"note(**{{'sep': {one}}})", f"(not {one})",
    ])  # fmt: skip


def index(draw: Random, depth: int) -> str:
    """What stands between brackets."""
    one, other = expression(draw, depth - 1), expression(draw, depth - 1)
    small = draw.choice(["0", "1", "d", "-1", "'k'"])
    return draw.choice([small, small, small, one, f"{one}:{other}", "1:", "::-1", f"{one}, ...", "[0, 1]", "a > 2"])


def statement(draw: Random) -> list[str]:
    """A statement, as lines."""
    one, name = expression(draw), draw.choice(NAMES)
    target = f"{name}[{index(draw, 2)}]"
    made = draw.choice([
        f"note((v := {one}))", f"{target} = {one}", f"{target} += {one}", f"{name} {draw.choice('+-*')}= {one}",
        f"{target}, v = {one}, {expression(draw)}", f"{target} = v = {one}", f"v = {one}", f"del {target}",
        f"for {target} in range(2): note({one})", f"if {one}: note({expression(draw)})", f"assert {one}, {target}",
        f"for v in {one}: note(v)", f"*v, {target} = 1, {one}", f"o.x = {one}", f"o.x *= {one}", f"o.x[0] -= {one}",
    ])  # fmt: skip
    if draw.random() < 0.85:
        return ["try:", f"    {made}", "except Exception as error:", "    note(type(error).__name__, str(error))"]
    return [made]


def module(draw: Random) -> str:
    """A module: statements in a function, and outside of one."""
    lines = ["class o: x = [1, 2]", "def g(x, y): return [x, y]", "def f(x, y):"]
    lines.append("    a, b, c, d, v = np.arange(4), [x, y], {1: x}, 2, y")
    lines += [f"    {line}" for _ in range(3) for line in statement(draw)]
    lines.append("    return x")
    lines += ["v = 1", "note(f(1, 2))"] if draw.random() < 0.7 else ["v = 1"]
    lines += [line for _ in range(3) for line in statement(draw)]
    return HEAD + "\n".join([*lines, "note(a, b, c, d, v, o.x)", ""])
