"""What the demo is given, checked before any rank starts: a text or a recorded router trace, and sizes.

Whatever is wrong ends as ``BadInput`` with one sentence for the user. The launcher writes what it has
checked into a job folder (``save``), and each rank and the oracle read it from there (``load``), so that
a file that changes in between, or a pipe, can't give two ranks two inputs.
"""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from moe_ep.demo.model import Shape

BF16 = np.dtype(ml_dtypes.bfloat16)
MAX_TOKENS = 65536  # beyond it the embedding repeats, and a laptop's patience ends
MAX_RANKS, MAX_EXPERTS, MAX_LOCAL_EXPERTS, MAX_TOPK, MAX_HIDDEN = 1024, 2048, 512, 32, 8192
HIDDEN_STEP = 256  # combine's rule for the width of a row
INNER = 16  # of an expert: narrow, since it is computed by columns and without a BLAS


class BadInput(Exception):
    """Wrong use or bad input; its text is the one sentence that the user sees."""


@dataclass(frozen=True)
class Trace:
    """A router trace: ``topk_idx [T,K]`` int64, ``topk_weights [T,K]`` fp32, ``x [T,H]`` bf16 or None."""

    topk_idx: NDArray[np.int64]
    topk_weights: NDArray[np.float32]
    x: NDArray[np.generic] | None


@dataclass(frozen=True)
class Job:
    """One run of the demo: ``text`` or ``trace`` through the layer of ``shape`` on ``pes`` ranks."""

    pes: int
    shape: Shape
    text: bytes
    trace: Trace | None
    repeat: int
    source: str

    @property
    def tokens(self) -> int:
        return len(self.text)

    def save(self, folder: Path) -> None:
        """Writes the job into ``folder``, which exists."""
        settings = {k: getattr(self, k) for k in ("pes", "repeat", "source")}
        (folder / "text.bin").write_bytes(self.text)
        if self.trace is not None:
            arrays: dict[str, Any] = {
                "topk_idx": self.trace.topk_idx,
                "topk_weights": self.trace.topk_weights,
            }
            if self.trace.x is not None:
                arrays["x"] = self.trace.x.view(np.uint16)
            np.savez(folder / "trace.npz", **arrays)
        (folder / "job.json").write_text(json.dumps({**settings, "shape": asdict(self.shape)}))

    @classmethod
    def load(cls, folder: Path) -> Job:
        """The job that ``save`` wrote."""
        settings = json.loads((folder / "job.json").read_text())
        trace = None
        if (folder / "trace.npz").exists():
            with np.load(folder / "trace.npz") as arrays:
                x = arrays["x"].view(BF16) if "x" in arrays else None
                trace = Trace(arrays["topk_idx"], arrays["topk_weights"], x)
        shape = Shape(**settings.pop("shape"))
        return cls(shape=shape, text=(folder / "text.bin").read_bytes(), trace=trace, **settings)


def _dividing(experts: int, pes: int) -> str:
    """The nearest numbers of PEs and of experts, one below and one above, that can be divided."""
    ranks = [n for n in range(1, MAX_RANKS + 1) if experts % n == 0 and experts // n <= MAX_LOCAL_EXPERTS]
    fewer, more = [n for n in ranks if n < pes][-1:], [n for n in ranks if n > pes][:1]
    least = experts // pes * pes
    others = [n for n in (least, least + pes) if 1 <= n <= MAX_EXPERTS]
    ways = {"-n": [*fewer, *more], "--experts": others}
    return "try " + ", or ".join(
        f"{name} {' or '.join(map(str, numbers))}" for name, numbers in ways.items() if numbers
    )


def prepare(
    pes: int,
    text: Path | None,
    routing: Path | None,
    experts: int,
    topk: int | None,
    hidden: int | None,
    seed: int,
    tokens: int | None,
    repeat: int,
) -> Job:
    """The job for these options; raises BadInput. ``topk``, ``hidden`` None: 6, 1024, or the trace's."""
    if text is not None and routing is not None:
        raise BadInput("--text and --routing exclude each other: a trace replaces the text")
    _whole("-n", pes, 1, MAX_RANKS)
    _whole("--experts", experts, 1, MAX_EXPERTS)
    _whole("--seed", seed, 0, 2**63 - 1)
    _whole("--repeat", repeat, 1, 1000)
    if tokens is not None:
        _whole("--tokens", tokens, 1, MAX_TOKENS)
    if experts % pes:
        raise BadInput(f"{experts} experts can't be divided evenly among {pes} PEs: {_dividing(experts, pes)}")
    if experts // pes > MAX_LOCAL_EXPERTS:
        raise BadInput(f"{experts} experts on {pes} PEs are more than {MAX_LOCAL_EXPERTS} on each")
    if routing is None:
        content, trace, source = load_text(text, tokens), None, str(text or "the default text")
    else:
        trace = load_trace(routing, experts, tokens)
        topk = _agree("--topk", topk, trace.topk_idx.shape[1], routing)
        hidden = hidden if trace.x is None else _agree("--hidden", hidden, trace.x.shape[1], routing)
        # Without x of its own a token is embedded as the byte of its index.
        content, source = (np.arange(len(trace.topk_idx)) % 256).astype(np.uint8).tobytes(), str(routing)
    topk = 6 if topk is None else topk
    hidden = 1024 if hidden is None else hidden
    _whole("--topk", topk, 1, MAX_TOPK)
    if topk > experts:
        raise BadInput(f"--topk {topk} is more than the {experts} experts there are")
    if not 0 < hidden <= MAX_HIDDEN or hidden % HIDDEN_STEP:
        raise BadInput(f"a hidden size of {hidden} is not a multiple of {HIDDEN_STEP} up to {MAX_HIDDEN}")
    shape = Shape(experts, topk, hidden, INNER, seed)
    return Job(pes, shape, content, trace, repeat, source)


def _whole(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise BadInput(f"{name} {value} is not within {least} to {most}")


def _agree(name: str, asked: int | None, found: int, path: Path) -> int:
    if asked is not None and asked != found:
        raise BadInput(f"{name} {asked} contradicts {path}, which holds {found}")
    return found


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} can't be read: {error.strerror}") from None


def load_text(path: Path | None, tokens: int | None) -> bytes:
    """The bytes of a UTF-8 file (None: the text that ships), at most the first ``tokens`` of them."""
    name = "the default text" if path is None else str(path)
    shipped = resources.files("moe_ep.demo") / "data" / "default.txt"
    content = shipped.read_bytes() if path is None else _read(path)
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        at = f"byte 0x{content[error.start]:02x} at offset {error.start}"
        raise BadInput(f"{name} is not UTF-8: {at} ({error.reason})") from None
    if not content:
        raise BadInput(f"{name} is empty")
    return content[: _limit(name, len(content), "bytes", tokens)]


def _limit(name: str, there: int, unit: str, tokens: int | None) -> int:
    if tokens is None and there > MAX_TOKENS:
        raise BadInput(f"{name} has {there} {unit}, more than {MAX_TOKENS}; --tokens N takes the first N of them")
    return there if tokens is None else tokens


def load_trace(path: Path, experts: int, tokens: int | None) -> Trace:
    """A recorded trace: ``topk_idx [T,K]`` int, ``topk_weights [T,K]`` float32, optionally ``x [T,H]``.

    ``x`` may be bfloat16 (as NumPy saves it), float16, float32 or float64 and is rounded to bf16. -1 in
    ``topk_idx`` means no selection.
    """
    arrays = _load_npz(path)
    for key in ("topk_idx", "topk_weights"):
        if key not in arrays:
            raise BadInput(f"{path} has no array {key}")
    idx, weights = arrays["topk_idx"], arrays["topk_weights"]
    if idx.ndim != 2 or idx.dtype.kind not in "iu":
        raise BadInput(f"{path}: topk_idx is {_named(idx)}, not integers [T, K]")
    if weights.dtype != np.float32 or weights.shape != idx.shape:
        raise BadInput(f"{path}: topk_weights is {_named(weights)}, not float32{list(idx.shape)} like topk_idx")
    if not idx.size:
        raise BadInput(f"{path}: topk_idx is {_named(idx)}, there is no token in it")
    count = min(len(idx), _limit(str(path), len(idx), "tokens", tokens))
    if idx.dtype == np.uint64:  # what int64 can't hold stays out of range
        idx = np.minimum(idx, np.uint64(np.iinfo(np.int64).max))
    ids = idx[:count].astype(np.int64, order="C")
    weights = np.ascontiguousarray(weights[:count])
    _check_routing(path, ids, weights, experts)
    x = _trace_rows(path, arrays["x"], len(arrays["topk_idx"]))[:count] if "x" in arrays else None
    return Trace(ids, weights, None if x is None else np.ascontiguousarray(x))


_UNREADABLE = (
    OSError,
    ValueError,
    EOFError,
    MemoryError,
    NotImplementedError,
    zipfile.BadZipFile,
    zlib.error,
)


def _load_npz(path: Path) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise BadInput(f"{path} can't be read: {'it is no file' if path.exists() else 'No such file or directory'}")
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise BadInput(f"{path} is a single array, not an npz archive")
        with file:
            loaded = {name: file[name] for name in file.files if name in ("topk_idx", "topk_weights", "x")}
    except _UNREADABLE:
        raise BadInput(f"{path} can't be read as an npz archive of plain arrays") from None
    return {name: array for name, array in loaded.items() if isinstance(array, np.ndarray)}


def _check_routing(path: Path, idx: NDArray[np.int64], weights: NDArray[np.float32], experts: int) -> None:
    wrong = np.argwhere((idx < -1) | (idx >= experts))
    if len(wrong):
        t, k = wrong[0]
        raise BadInput(
            f"{path}: topk_idx[{t}, {k}] = {idx[t, k]} is no expert: ids are -1 (none) and 0 to {experts - 1}"
        )
    ordered = np.sort(idx, axis=1)
    twice = np.argwhere((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0))
    if len(twice):
        t, k = twice[0]
        raise BadInput(f"{path}: token {t} selects expert {ordered[t, k]} twice")
    _finite(path, "topk_weights", weights)


def _trace_rows(path: Path, x: NDArray[Any], tokens: int) -> NDArray[np.generic]:
    if x.dtype == np.dtype("V2"):  # what bfloat16 becomes in a file
        x = x.view(BF16)
    if x.ndim != 2 or len(x) != tokens or (x.dtype.kind != "f" and x.dtype != BF16):
        raise BadInput(f"{path}: x is {_named(x)}, not floats [{tokens}, H] like topk_idx")
    with np.errstate(over="ignore"):
        rows = x.astype(np.float32).astype(BF16)
    _finite(path, "x", rows)
    return rows


def _finite(path: Path, name: str, values: NDArray[Any]) -> None:
    wrong = np.argwhere(~np.isfinite(values.astype(np.float32)))
    if len(wrong):
        t, k = wrong[0]
        raise BadInput(f"{path}: {name}[{t}, {k}] is {values[t, k]}, not a finite number")


def _named(array: NDArray[np.generic]) -> str:
    return f"{array.dtype}{list(array.shape)}"
