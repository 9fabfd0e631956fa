"""The offset allocator against a map of granules that states the policy by trying every place.

How: the model keeps one entry a granule (never used, live, or the number of the free that returned it). For
each allocation it lists every place there is and sorts the list as the policy says; the allocator must answer
the same, whatever was allocated and freed before. Fixed examples show each clause of the policy by itself.
"""

from __future__ import annotations

from itertools import groupby

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from shmem.allocator import OffsetAllocator
from shmem.errors import ArgumentError, FreedBlock

GRANULE = 64
GRANULES = 24
LIVE = -1
NEVER_USED = 0


class Model:
    """`age[i]` of granule i: LIVE, NEVER_USED, or the number of the free that returned it."""

    def __init__(self) -> None:
        self.age = [NEVER_USED] * GRANULES
        self.blocks: dict[int, int] = {}  # first granule -> granules
        self.frees = 0
        self.peak = 0

    def runs(self, key):
        """(first granule, length) of each maximal run of granules that share a true `key(age)`."""
        found = []
        for same, group in groupby(range(GRANULES), lambda i: key(self.age[i])):
            members = list(group)
            if same:
                found.append((members[0], len(members)))
        return found

    def holes(self):
        return self.runs(lambda age: age != LIVE)

    def place(self, granules: int, align: int):
        """(granule, fresh) where the policy puts a block, None if no place exists."""

        def places(first: int, length: int):
            return [i for i in range(first, first + length - granules + 1) if i * GRANULE % align == 0]

        fresh = [(n, i) for first, n in self.runs(lambda age: age == NEVER_USED) for i in places(first, n)]
        if fresh:
            return min(fresh)[1], True
        used = [(n, max(self.age[i : i + granules]), i) for first, n in self.holes() for i in places(first, n)]
        return (min(used)[2], False) if used else None

    def take(self, first: int, granules: int) -> None:
        assert all(age != LIVE for age in self.age[first : first + granules]), "two blocks overlap"
        self.age[first : first + granules] = [LIVE] * granules
        self.blocks[first] = granules
        self.peak = max(self.peak, self.live)

    def release(self, first: int) -> int:
        granules = self.blocks.pop(first)
        self.frees += 1
        self.age[first : first + granules] = [self.frees] * granules
        return granules

    def cut(self, first: int, kept: int) -> None:
        rest = self.blocks[first] - kept
        if rest:
            self.frees += 1
            self.age[first + kept : first + kept + rest] = [self.frees] * rest
            self.blocks[first] = kept

    @property
    def live(self) -> int:
        return self.age.count(LIVE) * GRANULE

    def owner(self, granule: int):
        return next((first for first, n in self.blocks.items() if first <= granule < first + n), None)


class AgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = Model()
        self.heap = OffsetAllocator(GRANULES * GRANULE + 63, GRANULE)
        self.twin = OffsetAllocator(GRANULES * GRANULE + 63, GRANULE)

    @rule(
        nbytes=st.one_of(st.integers(0, 4 * GRANULE), st.integers(0, (GRANULES + 1) * GRANULE)),
        align=st.sampled_from([1, 8, 64, 64, 64, 128, 512]),
    )
    def alloc(self, nbytes: int, align: int) -> None:
        granules = max(1, -(-nbytes // GRANULE))
        expected = self.model.place(granules, align)
        placed = self.heap.alloc(nbytes, align)
        assert placed == self.twin.alloc(nbytes, align)
        if expected is None:
            assert placed is None
            return
        assert placed == (expected[0] * GRANULE, expected[1])
        self.model.take(expected[0], granules)

    @precondition(lambda self: self.model.blocks)
    @rule(data=st.data())
    def shrink(self, data: st.DataObject) -> None:
        """The end of a block is freed, its beginning stays where it was."""
        first = data.draw(st.sampled_from(sorted(self.model.blocks)))
        size = self.model.blocks[first] * GRANULE
        nbytes = data.draw(st.integers(0, size))
        kept = max(1, -(-nbytes // GRANULE))
        self.model.cut(first, kept)
        assert self.heap.shrink(first * GRANULE, nbytes) == size - kept * GRANULE
        assert self.twin.shrink(first * GRANULE, nbytes) == size - kept * GRANULE
        assert self.heap.size_of(first * GRANULE) == kept * GRANULE

    @precondition(lambda self: self.model.blocks)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        first = data.draw(st.sampled_from(sorted(self.model.blocks)))
        size = self.model.release(first) * GRANULE
        assert self.heap.free(first * GRANULE) == size
        assert self.twin.free(first * GRANULE) == size

    @rule(offset=st.integers(-GRANULE, (GRANULES + 2) * GRANULE))
    def free_of_what_is_no_block(self, offset: int) -> None:
        if offset % GRANULE or offset // GRANULE not in self.model.blocks:
            with pytest.raises(FreedBlock):
                self.heap.free(offset)

    @invariant()
    def counts_agree(self) -> None:
        heap, model = self.heap, self.model
        assert (heap.live, heap.peak, heap.blocks) == (model.live, model.peak, len(model.blocks))
        assert heap.free_bytes == GRANULES * GRANULE - model.live
        assert heap.largest_free == max((n * GRANULE for _, n in model.holes()), default=0)

    @invariant()
    def maps_agree(self) -> None:
        heap, model = self.heap, self.model
        assert heap.holes() == [(first * GRANULE, n * GRANULE) for first, n in model.holes()]
        assert heap.live_blocks() == [(first * GRANULE, n * GRANULE) for first, n in sorted(model.blocks.items())]
        for granule in range(GRANULES):
            owner = model.owner(granule)
            expected = None if owner is None else owner * GRANULE
            assert heap.find(granule * GRANULE) == expected
            assert heap.find(granule * GRANULE + GRANULE - 1) == expected

    def teardown(self) -> None:
        for first in sorted(self.model.blocks):
            self.heap.free(first * GRANULE)
        assert self.heap.holes() == [(0, GRANULES * GRANULE)], "all returned is one hole"
        assert self.heap.live == 0
        assert self.heap.alloc(GRANULES * GRANULE) is not None


TestAgainstModel = AgainstModel.TestCase
TestAgainstModel.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)


def filled(*sizes: int) -> tuple[OffsetAllocator, list[int]]:
    """A heap that these blocks fill to the last byte, and their offsets."""
    heap = OffsetAllocator(sum(sizes))
    return heap, [place.offset for place in map(heap.alloc, sizes) if place is not None]


def test_sizes_round_up_to_64_and_nothing_has_an_offset_of_its_own():
    heap = OffsetAllocator(1024)
    assert [heap.alloc(n) for n in (0, 0, 1, 64, 65, 8)] == [
        (0, True), (64, True), (128, True), (192, True), (256, True), (384, True),
    ]  # fmt: skip
    assert heap.size_of(256) == 128
    assert (heap.live, heap.blocks, heap.free_bytes) == (448, 6, 576)


def test_never_used_memory_comes_before_a_freed_block_that_fits_exactly():
    heap = OffsetAllocator(256)
    heap.alloc(64)
    heap.free(0)
    assert [heap.alloc(64) for _ in range(5)] == [(64, True), (128, True), (192, True), (0, False), None]


def test_best_fit_takes_the_smallest_hole_even_if_a_larger_one_was_freed_first():
    heap, (large, _, small, _) = filled(192, 64, 128, 64)
    heap.free(large)
    heap.free(small)
    assert heap.alloc(128) == (small, False)
    assert heap.alloc(128) == (large, False)


def test_of_holes_of_one_size_the_one_freed_first_is_reused_first():
    heap, blocks = filled(*[64] * 8)
    order = [blocks[i] for i in (6, 2, 4, 0)]  # no two touch
    for offset in order:
        heap.free(offset)
    assert [heap.alloc(64) for _ in order] == [(offset, False) for offset in order]


def test_a_block_freed_into_a_large_hole_is_still_reused_last():
    heap, blocks = filled(*[64] * 8)
    for offset in blocks:
        heap.free(offset)
    assert heap.holes() == [(0, 512)]
    seen = []
    for _ in range(16):
        seen.append(heap.alloc(64).offset)
        heap.free(seen[-1])
    assert seen == [*blocks, *blocks], "first in, first out, round and round"


def test_neighbours_merge_whatever_the_order_of_their_frees():
    for order in ([0, 1, 2], [2, 1, 0], [0, 2, 1], [1, 0, 2]):
        heap, blocks = filled(64, 64, 64)
        for i in order:
            heap.free(blocks[i])
        assert heap.largest_free == 192
        assert heap.alloc(192) == (0, False)


def test_a_hole_and_the_never_used_tail_serve_together_what_neither_holds_alone():
    heap = OffsetAllocator(256)
    heap.alloc(128)
    heap.free(0)
    assert heap.largest_free == 256
    assert heap.alloc(192) == (0, False), "partly used before, so not known to be zero"
    assert heap.alloc(64) == (192, True), "the rest of the tail is still known to be"


def test_what_alignment_skips_stays_known_as_never_used():
    heap = OffsetAllocator(1024)
    heap.alloc(64)
    assert heap.alloc(64, align=512) == (512, True)
    assert heap.alloc(64) == (64, True), "the smaller piece of never-used memory first"
    assert heap.holes() == [(128, 384), (576, 448)]


def test_an_allocation_that_does_not_fit_changes_nothing():
    heap, blocks = filled(64, 128, 64)
    heap.free(blocks[0])
    heap.free(blocks[2])
    assert (heap.free_bytes, heap.largest_free) == (128, 64)
    assert heap.alloc(65) is None
    assert heap.alloc(64, align=128) == (0, False)
    assert (heap.live, heap.peak, heap.blocks) == (192, 256, 2)


def test_freeing_twice_or_inside_a_block_is_a_key_error():
    heap, blocks = filled(128, 64)
    for offset in (64, 8, -64, 192, 10**9):
        with pytest.raises(KeyError, match=f"no block begins at heap offset {offset}"):
            heap.free(offset)
    heap.free(blocks[0])
    with pytest.raises(FreedBlock):
        heap.free(blocks[0])
    with pytest.raises(FreedBlock):
        heap.size_of(blocks[0])
    assert heap.live == 64


def test_find_knows_first_and_last_byte_of_a_block():
    heap, (a, b) = filled(128, 64)
    assert [heap.find(i) for i in (-1, 0, 127, 128, 191, 192)] == [None, a, a, b, b, None]
    heap.free(a)
    assert heap.find(0) is None


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: OffsetAllocator(63), "must hold at least one granule"),
        (lambda: OffsetAllocator(1024, granule=48), "must be a power of two"),
        (lambda: OffsetAllocator(1024).alloc(-1), "must not be negative"),
        (lambda: OffsetAllocator(1024).alloc(8, align=0), "must be a power of two"),
        (lambda: OffsetAllocator(1024).alloc(8, align=24), "must be a power of two"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(make, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        make()


def test_of_thousands_of_segments_in_one_hole_the_oldest_place_is_found():
    heap, blocks = filled(*[64] * 4000)
    for offset in reversed(blocks):
        heap.free(offset)
    half = 64 * 2000
    assert heap.alloc(half) == (half, False), "the half whose youngest byte was freed first"
    assert heap.alloc(half) == (0, False)
