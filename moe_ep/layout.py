"""Where things lie: the records that dispatch and combine send, the receive area, and how large it must be.

Both kinds of record are a row, then what travels beside it, each part padded so that a row begins on a cache
line (docs/expert-parallel.md). The receive area is one array of records; dispatch and combine take turns
in it. Sizes are pure arithmetic on bytes, so that a hint can be computed for a topology that this machine
does not have.
"""

from __future__ import annotations

from dataclasses import dataclass

from shmem.errors import ArgumentError

PART_BYTES = 32  # each part of a record is padded to this
RECORD_BYTES = 64  # and the record to this
SIZE_STEP = 2 << 20  # buffer sizes are multiples of 2 MiB
MAX_TOPK = 32
MAX_RANKS = 1024
MAX_EXPERTS = 2048
MAX_LOCAL_EXPERTS = 512
CHANNEL_TOKENS = 1280  # CH: room for the channels of hybrid mode


def align(n: int, multiple: int) -> int:
    """`n` rounded up to a multiple of `multiple`."""
    return -(-n // multiple) * multiple


@dataclass(frozen=True)
class DispatchRecord:
    """D: `[row | scales | topk ids x K, weights x K, global id, list position x K]`, ids int32, weights fp32.

    `row_bytes` = H * item size, `num_scales` scales of four bytes. Offsets are bytes from the record's start.
    """

    row_bytes: int
    num_scales: int
    num_topk: int

    @property
    def scales_offset(self) -> int:
        return align(self.row_bytes, PART_BYTES)

    @property
    def meta_offset(self) -> int:
        return self.scales_offset + align(4 * self.num_scales, PART_BYTES)

    @property
    def meta_words(self) -> int:
        """32-bit words of the third part that are sent in direct mode: ids, weights, global id."""
        return 2 * self.num_topk + 1

    @property
    def nbytes(self) -> int:
        meta = align(8 * self.num_topk + 4 * (1 + self.num_topk), PART_BYTES)
        return align(self.meta_offset + meta, RECORD_BYTES)


@dataclass(frozen=True)
class CombineRecord:
    """C: `[row bf16 | weights fp32 x K | room of the same size]`; `row_bytes` = 2 * H."""

    row_bytes: int
    num_topk: int

    @property
    def weights_offset(self) -> int:
        return align(self.row_bytes, PART_BYTES)

    @property
    def nbytes(self) -> int:
        return align(self.weights_offset + align(8 * self.num_topk, PART_BYTES), RECORD_BYTES)


def uses_rank_slots(num_ranks: int, num_topk: int, multiple_reduction: bool) -> bool:
    """Whether a returning row's place is that of the rank that sends it, not that of its master position."""
    return multiple_reduction and num_ranks <= num_topk


def combine_slots(num_ranks: int, num_topk: int, multiple_reduction: bool) -> int:
    """Rows that may return for one token: a slot each in the receive area of combine."""
    return min(num_ranks, num_topk) if multiple_reduction else num_topk


def dispatch_bytes(record: DispatchRecord, num_ranks: int, num_max_tokens: int) -> int:
    """Receive area of a direct dispatch: `recv[R][Tm]`, all ranks within load/store reach of each other."""
    return record.nbytes * num_max_tokens * num_ranks


def combine_bytes(record: CombineRecord, num_ranks: int, num_max_tokens: int, multiple_reduction: bool) -> int:
    """Receive area of a direct combine: `recv[slots][Tm]`."""
    return record.nbytes * num_max_tokens * combine_slots(num_ranks, record.num_topk, multiple_reduction)


@dataclass(frozen=True)
class Domain:
    """A topology as the exchange sees it: `scaleout` groups of `scaleup` ranks; rank = so * scaleup + su.

    `hybrid`: a token goes once to a group and is forwarded there; else every rank writes to every other
    (direct). `reachable`: loads and stores reach every rank of the own group (nl = 1).
    """

    scaleout: int
    scaleup: int
    hybrid: bool = False
    reachable: bool = True

    @property
    def ranks(self) -> int:
        return self.scaleout * self.scaleup


def buffer_size_hint(
    domain: Domain,
    num_max_tokens: int,
    hidden: int,
    num_topk: int = 0,
    use_fp8_dispatch: bool = False,
    multiple_reduction: bool = True,
) -> int:
    """Bytes of a buffer that serves dispatch and combine of this shape, a multiple of 2 MiB.

    `num_topk=0` sizes for 32. Raises ArgumentError if a number is out of range.
    """
    if hidden * 2 % 32:
        raise ArgumentError(f"hidden={hidden}: a row is a multiple of 32 bytes, 16 bf16")
    if num_max_tokens <= 0 or hidden <= 0:
        raise ArgumentError(f"num_max_tokens_per_rank={num_max_tokens} and hidden={hidden} size a buffer: both are > 0")
    if not 0 <= num_topk <= MAX_TOPK:
        raise ArgumentError(f"num_topk={num_topk}: 1 to {MAX_TOPK}, or 0 to size for {MAX_TOPK}")
    topk = num_topk or MAX_TOPK
    num_scales = -(-hidden // 32) if use_fp8_dispatch else 0
    if 4 * num_scales > hidden:
        raise ArgumentError(f"hidden={hidden}: the scales of an fp8 row are larger than the row")
    sent = DispatchRecord(hidden if use_fp8_dispatch else 2 * hidden, num_scales, topk)
    returned = CombineRecord(2 * hidden, topk)
    both = _hybrid_bytes if domain.hybrid else _direct_bytes
    return align(max(both(domain, sent, returned, num_max_tokens, multiple_reduction)), SIZE_STEP)


def _direct_bytes(
    domain: Domain, sent: DispatchRecord, returned: CombineRecord, tokens: int, multiple: bool
) -> tuple[int, int]:
    staged = 0 if domain.reachable else 1  # what loads and stores do not reach is sent from a copy in the buffer
    sent_bytes = sent.nbytes * tokens * (domain.ranks + staged)
    slots = combine_slots(domain.ranks, returned.num_topk, multiple)
    copies = staged * domain.ranks * (1 if multiple else returned.num_topk)
    return sent_bytes, returned.nbytes * tokens * (slots + copies)


def _hybrid_bytes(
    domain: Domain, sent: DispatchRecord, returned: CombineRecord, tokens: int, multiple: bool
) -> tuple[int, int]:
    rail = domain.scaleout * (tokens + CHANNEL_TOKENS)
    topk = returned.num_topk
    inside = combine_slots(domain.scaleup, topk, multiple) * domain.scaleout * tokens
    outside = combine_slots(domain.scaleout, topk, multiple) * tokens
    returned_rows = inside + outside + (1 if multiple else topk) * rail
    return sent.nbytes * (domain.ranks * tokens + tokens + rail), returned.nbytes * returned_rows
