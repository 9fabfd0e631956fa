"""Where a program can keep a count. Each case is the top of a module; its last line counts, and gives the count."""

from __future__ import annotations

_CASES = """
# a global
count = 0
def step():
    global count
    count += 1
    return count
step()

# a new global
def step():
    globals()['new'] = globals().get('new', 0) + 1
    return new
step()

# a deleted global
a, b = 1, 2
def step():
    global a, b
    if 'a' in globals():
        del a
        return 1
    del b
    return 2
step()

# a list
items = []
items.append(0) or len(items)

# an alias of a list
items = []
also = {'a': (items,)}
items.append(0) or len(also['a'][0])

# a list in a list
items = [[]]
items[0].append(0) or len(items[0])

# a list of the program's own
class Items(list):
    pass
items = Items()
items.append(0) or len(items)

# a dict
table = {'n': 0}
table.update(n=table['n'] + 1) or table['n']

# a dict that grows
table = {}
table.update({len(table): 1}) or len(table)

# a dict that shrinks
table = {1: 1, 2: 2, 3: 3}
table.popitem() and 3 - len(table)

# a dict in its order
table = {'a': 0, 'b': 1, 'c': 2}
table.update({(first := next(iter(table))): table.pop(first)}) or table[next(iter(table))]

# a defaultdict
from collections import defaultdict
table = defaultdict(list)
table[0].append(1) or len(table[0])

# an OrderedDict
from collections import OrderedDict
table = OrderedDict(a=0, b=1, c=2)
table.move_to_end(next(iter(table))) or table[next(iter(table))]

# a Counter
from collections import Counter
table = Counter()
table.update('a') or table['a']

# a set
seen = {0}
seen.add(len(seen)) or len(seen) - 1

# a deque
from collections import deque
queue = deque([0], 4)
queue.append(len(queue)) or queue[-1]

# a bytearray
data = bytearray(1)
data.append(len(data)) or data[-1]

# an array of array
from array import array
data = array('i', [0])
data.append(len(data)) or data[-1]

# an ndarray
import numpy as np
data = np.zeros(3)
view = data[1:]
def step():
    view[0] += 1
    return int(data[1])
step()

# an ndarray of objects
import numpy as np
data = np.array([[], None], object)
data[0].append(1) or len(data[0])

# the shape of an ndarray
import numpy as np
data = np.arange(2)
def step():
    data.resize(len(data) + 1, refcheck=False)
    return len(data) - 2
step()

# an ndarray that is read-only after
import numpy as np
data = np.zeros(1)
def step():
    data.flags.writeable = True
    data[0] += 1
    data.flags.writeable = False
    return int(data[0])
step()

# an attribute
class C:
    n = 0
c = C()
(setattr(c, 'n', c.n + 1), c.n)[1]

# a slot
class C:
    __slots__ = ('__n', 'm')
    def step(self):
        self.__n = getattr(self, '_C__n', 0) + 1
        return self.__n
c = C()
c.step()

# a slot that is emptied
class C:
    __slots__ = ('a', 'b')
    def step(self):
        if hasattr(self, 'a'):
            del self.a
            return 1
        del self.b
        return 2
c = C()
c.a = c.b = 0
c.step()

# a frozen dataclass
from dataclasses import dataclass, field
@dataclass(frozen=True, slots=True)
class C:
    items: list = field(default_factory=list)
c = C()
c.items.append(0) or len(c.items)

# a class
class C:
    n = 0
(setattr(C, 'n', C.n + 1), C.n)[1]

# a new attribute of a class
class C:
    pass
(setattr(C, 'n', getattr(C, 'n', 0) + 1), C.n)[1]

# a list in a class in a class
class C:
    class D:
        items = []
C.D.items.append(0) or len(C.D.items)

# a base class
class B:
    items = []
class C(B):
    pass
del B
C.items.append(0) or len(C.items)

# a default argument
def step(items=[]):
    items.append(0)
    return len(items)
step()

# a keyword's default
def step(*, items={}):
    items[len(items)] = 0
    return len(items)
step()

# new defaults
def step(n=0):
    step.__defaults__ = (n + 1,)
    return n + 1
step()

# defaults of methods
class C:
    @staticmethod
    def a(items=[]):
        items.append(0)
        return len(items)
    @property
    def b(self, items=[]):
        items.append(0)
        return len(items)
c = C()
(C.a() + c.b) / 2

# an attribute of a function
def step():
    step.n = getattr(step, 'n', 0) + 1
    return step.n
step()

# a closure
def counted():
    n = 0
    def step():
        nonlocal n
        n += 1
        return n
    return step
step = counted()
step()

# a partial
from functools import partial
def add(items, *, also):
    items.append(0)
    also.append(0)
    return (len(items) + len(also)) / 2
step = partial(add, [], also=[])
step()

# a bound method
class C:
    n = 0
    def step(self):
        self.n += 1
        return self.n
step = C().step
step()

# a cache
from functools import cache
n = 0
@cache
def grow(x):
    global n
    n += 1
    return n
grow(n)

# an iterator
from itertools import count
ids = count(1)
held = [ids]
next(held[0])

# an iterator in a slot
class C:
    __slots__ = 'ids'
c = C()
c.ids = iter([1, 2, 3])
def step():
    return next(c.ids)
step()

# an iterator in a default argument
def step(ids=iter([1, 2, 3])):
    return next(ids)
step()

# a SimpleNamespace
from types import SimpleNamespace
space = SimpleNamespace(n=0)
also = (space,)
(setattr(space, 'n', space.n + 1), also[0].n)[1]

# the program's in what is not
from argparse import Namespace
class C:
    n = 0
space = Namespace(c=C())
(setattr(space.c, 'n', space.c.n + isinstance(space.c, C)), space.c.n)[1]

# the text of a StringIO
from io import StringIO
text = StringIO()
text.write('a') and len(text.getvalue())
"""


def _module(lines: list[str]) -> str:
    return "\n".join([*lines[:-1], "def main():", f"    return {lines[-1]}", ""])


PLACES = {
    name: _module(lines) for name, *lines in (case.strip().split("\n") for case in _CASES.split("\n# ")) if name.strip()
}
