"""Small programs of every construct that instrumentation changes, or might: each tells what it sees by `note`.

`note(*things)` keeps the things and returns the last, `traced(name)` an object that notes all that is done to it. The
first group ends well, each of the second with an error.
"""

from __future__ import annotations

import textwrap

HEAD = "from __future__ import annotations\nimport numpy as np\n"

RUNS = {
    "order of evaluation": """
        a, b = traced("a"), traced("b")
        a[note("i", 1)][note("j", 2)]
        a[note("i", 1)] = note("v", 3)
        a[note(0):note(1):note(2), ..., note(3)] = b[note("k", 4)] = note("v", 5)
        a[note("i", 1)], b[note("j", 2)] = note("v", (3, 4))
        a[note("i", 1)] += note("v", 5)
        def work():
            a, b = traced("a"), traced("b")
            a[note("i", 1)] = b[note("j", 2)]
            a[note("i", 1)] = note("v", b)
            a[note("i", 1)][note("j", 2)] += note("v", 5)
            a[note("i", 1)].field -= note("v", 5)
            a.field.field @= b.field
            a(note(1), *note([2]), k=note(3), **note({"l": 4}))
            a.method(note(1), b[note(2)], k=b(note(3)))
            note(1)
            a + note(b) * -note(1) < note(3)
            a.f(b) if a == note(2) else b[0]
            note(1, a < b < note(3), a in note([1, a]))
            return sorted(locals())
        note(work(), sorted(name for name in globals() if "@" in name))
    """,
    "slices": """
        a = np.arange(24).reshape(4, 6)
        note(a[1], a[-1, 2], a[1:3, ::-2], a[..., 0], a[None, 1:], a[[0, 2]], a[a > 20], a[()], a[a[0, 1], 0:a[0, 3]])
        a[1:3, ::2] = -1
        a[[0, 1], [2, 3]] += 100
        a[a < 0] = a[0, 0]
        a[:, 0], a[0, :] = 5, 6
        a[note(3)][note(2)] = 7
        note(a, [1, 2, 3][1:], "text"[::-1], {(1, 2): 3}[1, 2], {1: {2: 3}}[1][2])
        i = 1
        note(a[i], a[i:i + 1, i], a[-i], a[(i := 2)], i, a[i, i], a[i][i])
    """,
    "starred": """
        first, *a = note([1, 2, 3])
        box = [0] * 4
        box[0], *box[1], box[2] = range(6)
        [box[3], (x, *y)] = note((1, "abc"))
        note(first, a, box, x, y, *a, sep=a)
        note([*a, *box], {**{"a": 1}, "b": a[0]}, (lambda *a, **k: (a, k))(1, *a, k=2, **{"l": box[0]}))
        note(max(*a), print.__name__, "{} {x}".format(*a, x=box[3]), dict(**{"a": a[0]}, b=1))
    """,
    "comprehensions": """
        a = np.arange(6).reshape(2, 3)
        note([x + 1 for row in a for x in row if x % 2], {int(x): x[None] for x in a[0]}, {*a[1].tolist()})
        note(sum(x for x in a[0]), list(map(lambda i: a[i, i], range(2))), [y := a[0, 0], y + 1])
        note([z := x for x in a[0]], z)
        box = [0, 0]
        note([box[0] for box[0] in range(3)], box, [[i * j for i in range(j)] for j in range(3)])
        class A:
            b = [1, 2]
            c = [x + 1 for x in b]
            d = b[0] + b[1]
            b[0] += d
            b[1] = c
            e: list[int] = b[:1]
            d += 1
        note(A.b, A.c, A.d, A.e, A.__annotations__, sorted(vars(A)))
    """,
    "loops": """
        a, box = np.arange(4), [0, 0]
        for i, a[i] in enumerate([3, 2, 1, 0]):
            note(i, a.copy())
        else:
            note("else", box)
        for box[1] in a:
            if box[1] == 2: continue
            if box[1] < 1: break
        while a[0]:
            a[0] -= 1
        for x in [*a, *box]:
            note(x)
        note(a, box)
    """,
    "generators": """
        def work(a):
            got = yield a[0]
            a[(yield got)] = yield a[1]
            a[1] += yield "v"
            a[1] -= 1
            a.sort(*(yield "w"))
            return a[0] + (yield from iter(a[1:]))
        def outer():
            note((yield from work(box)))
        box = [3, 4, 5]
        g = outer()
        note(next(g), g.send("got"), g.send(2), g.send(0), g.send(1), box)
        try:
            g.send(())
            note(*g)
        except TypeError as error:
            note(error)
    """,
    "async": """
        import asyncio
        class Manager:
            async def __aenter__(self): return box
            async def __aexit__(self, *a): note("exit", *a)
        async def numbers(n):
            for i in range(n):
                await asyncio.sleep(0)
                yield box[i]
        async def work(a):
            async with Manager() as a[0]:
                a[1] = await note(value(a[2]))
                a[1] += await value(a[2])
                async for a[2] in numbers(3): note(a[2])
                return [x async for x in numbers(2)], await value(*[1])
        async def value(x): return x
        box = [1, 2, 3]
        note(asyncio.run(work([4, 5, 6])))
    """,
    "functions": """
        def deco(f): note("deco", f.__name__, f.__doc__); return f
        def made(n, *more): note("made", n, more); return deco
        @deco
        @made([1, 2][0], *[3])
        def work(a: list[int], /, b: "x" = [1][0], *c: dict[str, int], d: int = note(4), **e) -> dict[str, list[int]]:
            'What it says.'
            nonlocal_ = a[0]
            def inner(x=a[0]):
                nonlocal nonlocal_
                nonlocal_ += x
                a[0] += nonlocal_
                return lambda y=a[0]: (x, y, a[0], nonlocal_)
            return inner()()
        box = [1, 2]
        note(work(box), box, work.__doc__, work.__annotations__, work.__defaults__, work.__kwdefaults__, work.__name__)
        note(work.__code__.co_firstlineno, work.__code__.co_name, work.__code__.co_freevars, work.__module__)
        def count():
            global total
            total = total + box[0] if "total" in globals() else 1
            total += 1
            return total
        note(count(), count(), total, len(globals()["box"]))
    """,
    "classes": """
        class Base(dict[str, int]):
            'A base.'
            __slots__ = ("a", "__b")
            def __init__(self, *args, **more):
                super().__init__(*args, **more)
                self.a, self.__b = [1, 2], 3
            def private(self):
                self.__b += self.a[0]
                self.a[1] += self.__b
                self.a += [self["x"]]
                return self.__b, self.a, __class__.__name__
        class Meta(type):
            def __new__(mcs, name, bases, space, **more):
                note(name, sorted(space), more)
                return super().__new__(mcs, name, bases, space)
        class Derived(Base, metaclass=Meta, k=[1][0]):
            def private(self): return super().private()[0], super(Derived, self).private()
        note(Derived(x=1).private(), Base.__doc__, Base.__mro__[1].__name__, Derived(y=note(2))["y"])
        from dataclasses import dataclass, field
        @dataclass
        class Point:
            x: list[int] = field(default_factory=list)
            y: int = [3][0]
        note(Point(), Point([1], y=2) == Point([1], 2))
        from typing import NamedTuple, TypeVar, Generic
        T = TypeVar("T", bound=dict[str, int])
        class Pair(NamedTuple):
            x: int
            y: int = [4][0]
        class Box(Generic[T]):
            def __class_getitem__(cls, key): return note("class", key)
        note(Pair(1), Box[int], T.__module__, Pair(*[1, 2])[1])
    """,
    "statements": """
        import contextlib
        a = [1, 2, 3, 4, 5, 6]
        with contextlib.suppress(KeyError) as a[0], contextlib.nullcontext(a[1]) as b:
            del a[b], a[0:1]
            {}[note("missing")]
        try:
            a[10] = note("v")
        except (IndexError, [KeyError][0]) as error:
            note(type(error), error)
        finally:
            note(a)
        assert a[0] == 2, a[1]
        assert __debug__
        match [1, {"k": -1, "l": a[0]}, 2 + 3j]:
            case [1, {"k": -1, **rest}, 2 + 3j] if rest["l"] == a[0]:
                note("matched", rest)
        match note(a[0]):
            case int(x) | str(x): note("int", x)
        if a[0] and not a[0] != 2 or a[3]: note(a, not a, ~a[0], +a[0])
        lst = a
        lst += [1]
        lst *= 2
        note(lst is a, a, f"{a[0]!r:>{a[1]}}", f"{a[0] + 1=}", f"{a[0]:{'0'}{len(a)}}", "%s %s" % (a[0], a))
        x: int = a[0]
        y: list[int]
        a[0]: int = 5
        note(__annotations__, x, a, 1 < a[0] < 10, 2 ** 3, -1, 1 + 2, "a" "b", a is not None, 1 in a)
        from functools import partial, reduce
        note(reduce(lambda x, y: x + y, a), partial(max, 3)(a[0]), (lambda: a[0])(), eval("a[0] + x"))
        note(sorted(a, key=lambda v: -v), max(a[0], *a))
        exec("a[0] = 9; z = a[0]")
        note(a[0], z, __name__, __doc__, __file__)
    """,
    "frames": """
        import sys, warnings, inspect
        def who(*args): return sys._getframe(1).f_lineno, sys._getframe(1).f_code.co_name
        def work(box):
            note(who(), who(1), who(box[0]), who(*box), who(
                box[0]
            ))
            note(locals(), len(inspect.stack(0)) - depth, vars().keys(), [dir()])
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                warnings.warn(box[1], stacklevel=2)
            note(told[0].lineno)
            return (
                Chain()
                .add(box[0])
                .add(1)
                .add(*box)
                .lines
            )
        class Chain:
            lines = ()
            def add(self, *x):
                self.lines += who()
                return self
            def __getitem__(self, i): return who()
            def __setitem__(self, i, v): note(who())
            def __iadd__(self, v): note(who()); return self
            def __add__(self, v): return who()
            def __eq__(self, v): return who()
            def __neg__(self): return who()
        depth = len(inspect.stack(0))
        note(work([1, "two"]))
        c = Chain()
        def more(c, i):
            note(c[0], c[i][0], c + 1, c == 2, -c, c[i + 1])
            c[0] = 1
            c[i + 1] = c[0]
            c[i + 1] += ()
            c += 1
            note(who(c[
                0]))
        more(c, 0)
    """,
    "arrays": """
        a, b = np.arange(6), np.ones(6, np.int64)
        rec = np.zeros(3, [("x", np.int32), ("y", np.float64)])
        obj = np.array([None, a, "x"], object)
        rec["x"] = [1, 2, 3]
        rec[1]["y"] = 4.5
        rec[["x", "y"]][0]
        obj[0] = b
        zero = np.array(5)
        zero[()] += 1
        zero[...] = a[3] + zero
        def work(a):
            a += b
            a[1:3] *= 2
            a[[0, 0]] -= 1
            a[a > 3] //= 2
            a[:] = b[::-1] + a
            a[2:4] = a[0:2]
            box.data += a
            box.data[0] += 1
            note(a.sum(), np.add(a, b, out=a), a.reshape(2, 3)[1, 1], a.T[0], a.dtype.itemsize, len(a))
            return a.max(initial=3)
        class Box: pass
        box = Box()
        box.data = np.zeros(6, np.int64)
        note(work(a), a, rec, obj, zero, box.data, np.concatenate([a, b]), a @ b, -a, a == b)
        note(int(a[0]), float(zero), list(a), sorted(a), sum(a), min(a), str(a), np.where(a > 1, a, b))
        note((a < b).any(), a.fill(2), a, a.item(2), a.tolist())
        np.copyto(a, b); a.sort(); np.add.at(a, [0, 0], 1); np.sum(a, where=a > 1)
        note(a, *a, a[True], a[np.bool_(False)], a[np.int8(1)], memoryview(a)[1], a.view(np.uint8)[0:2], a.flat[3])
        class Index:
            def __index__(self): return note(1)
        note(a[Index()], a[Index():3], a[None, Index()])
        a[Index()] += 1
        for x in np.ones((2, 2)): note(x)
        x, y = a[:2]
        note(x, y, x + y, np.ma.masked_array(a, a > 1)[1], np.matrix([[1, 2]])[0, 1], a[..., 0], a.copy().base)
    """,
}  # fmt: skip

FAILS = {
    "wrong index": "box = [1]\n\nbox[5]",
    "wrong index of a store": "box = [1]\nbox[note(5)] = 1",
    "wrong key": "def work(a):\n    return {}[a[0]][1]\nwork('ab')",
    "no subscripts": "x = 5\nx[0]",
    "no stores": "def work():\n    'abc'[0] = note(3)\nwork()",
    "no value": "def work(a):\n    a[missing] += 1\nwork([1])",
    "no name": "a[0]",
    "unbound": "def work():\n    a += 1\nwork()",
    "unbound element": "def work():\n    a[0] += 1\n    a = 2\nwork()",
    "missing argument": "note(1, missing, box)",
    "missing attribute": "def work(a):\n    a.missing += 1\nwork(3)",
    "missing method": "'abc'.missing(note(1))",
    "wrong operands": "def work(a):\n    return 1 + (a + 'x')\nwork(3)",
    "wrong operands in place": "def work(a):\n    a += 'x'\nwork(3)",
    "wrong operands of an element": "def work(a):\n    a[0] += 'x'\nwork([3])",
    "wrong operands of an attribute": "class A: x = 3\ndef work(a):\n    a.x -= 'x'\nwork(A)",
    "wrong comparison": "3 < 'x'",
    "wrong power": "def work(a):\n    return a ** 'x'\nwork(3)",
    "no negation": "-'x'",
    "no call": "x = 5\nx(1, [2][0])",
    "wrong arguments": "def work(a): pass\nwork(1, [2][0])",
    "arguments twice": "def work(a): pass\nwork(1, a=2)",
    "keywords twice": "def work(a): pass\nwork(**{'a': 1}, **{'a': 2})",
    "no mapping": "def work(a): pass\nwork(**note(3))",
    "no iterable": "def work(a): pass\nwork(*note(3))",
    "no string": "def work(a): pass\nwork(**{1: 2})",
    "several lines": "def work(a):\n    return note(\n        1, a[0],\n        a[\n            5\n    ])\nwork([1])",
    "a chain": "('abc'\n    .replace('a', 'b')\n    .replace('a',\n        1)\n    .upper())",
    "a chain of missing": "('abc'\n    .replace('a', [1, 'b'][1])\n    .missing([1][0])\n    .upper())",
    "a comprehension": "x = [[y[1] for y in x] for x in ['ab', ['cd', 'e']]]",
    "a lambda": "f = lambda a: a[0] + 1\nf('x')",
    "a generator": "def work():\n    yield 1\n    yield [][0]\nlist(work())",
    "nested": "def one(a): return two(a[0])\ndef two(a): return a[0](a[1])\none([[int, 'x']])",
    "raised from": "try:\n    [][0]\nexcept IndexError as error:\n    raise KeyError(error.args[0]) from error",
    "raised within": "try:\n    [][0]\nexcept IndexError as error:\n    {}[0]",
    "of arrays": "a = np.ones(3)\na[1.5]",
    "of axes": "a = np.ones(3)\na[1, 2] = 3",
    "of shapes": "a = np.ones(3)\ndef work():\n    a[:2] = np.ones(3)\nwork()",
    "of shapes in place": "a = np.ones(3)\na += np.ones((2, 3))",
    "of truth": "a = np.ones(3)\nint(a) if a[0] == 1 else a",
    "deep": "def work(n):\n    return [][n] if n == 0 else work(n - 1)\nwork(500)",
    "assertion": "a = [1]\nassert a[0] == 2, 'not %s' % a[0]",
    "interrupt": "raise KeyboardInterrupt([1][0])",
    "exit": "import sys\nsys.exit([3][0])",
    "a class body": "class A:\n    x = [1]\n    x[0] += 1\n    x[1] += 1",
    "unpacking": "a, b = [1, 2, 3][0:1]",
    "a decorator": "@note('x').missing(1)\ndef f(): pass",
    "a with": "with [open][0]('/does/not/exist') as f: pass",
}  # fmt: skip


def text_of(body: str) -> str:
    """A module."""
    return HEAD + textwrap.dedent(body)
