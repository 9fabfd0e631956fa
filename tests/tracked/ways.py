"""Ways to touch an array, as programs of one line for each kind of array `x` (`model.VALUES`).

Beside x there are p (8 integers), z (8 zeros) and m (a mask of 8). Two semicolons or a new line part the programs. What
a program results in is its value, or what it leaves in r.
"""

from __future__ import annotations

# The result is that of a plain array with the true values, and so are the bytes afterwards.
SEEN = {
    "ints": """
# one element, slices, masks, lists of indices
x[2] ;; x[-1] ;; x[np.int64(3)] ;; x[[1, 5]] ;; x[m] ;; x[x] ;; x[x > 2] ;; x[np.array(3)] ;; x[[[0, 1], [1, 2]]]
x[2] = 9 ;; x[-1] = 4 ;; x[1:4] = [7, 8, 9] ;; x[...] = 5 ;; x[::-2] = p[:4] ;; x[[1, 1, 2]] = [4, 5, 6] ;; x[m] = 11
x[x > 4] = 0 ;; x[2:5] = x[:3] ;; x[1:] = x[:-1] ;; x[:] = x[::-1] ;; x[[0, 2]] = x[[2, 0]] ;; x[3] = x[4]
x[m] = x[m] ;; x[3] = x[4:5][0] ;; x[3] = x[4, ...] ;; x[[]] ;; x[[]] = 3 ;; x[m & False] = 1 ;; x[p % 8]
x[p % 8] = p ;; x[m, None] ;; x[None][0, 2] ;; x[..., 2].item() ;; x[np.newaxis, 3] = 9 ;; x[..., 3] = 2 ;; x[True]
x[2:2] = 5 ;; x[5:2:-1][0] ;; x[1], x[2] = x[2], x[1] ;; a, b, *c = x; r = [a, b, c] ;; x[x[0]] = x[x[1]]
x[np.True_, 2:4] ;; x[Index(1)] ;; x[Index(1)] = 3 ;; v = x[2:5]; v += 1; x[3:6] = v ;; x[(1,)] ;; x[[0, -1]]
v = x[2:5]; v[1] = 77; v += 1; x[2:5] = v; r = x[3]
for i in range(8): x[i] = x[i - 1] + i
for row in x.reshape(2, 4): row += 1
# operators
x + 1 ;; 1 + x ;; x + x ;; x - p ;; p - x ;; x * 2.5 ;; np.float64(2) * x ;; x / 2 ;; 2 / (x + 1) ;; x // 2 ;; x % 3
7 // (x + 1) ;; 7 % (x + 1) ;; x ** 2 ;; 2 ** x ;; x << 1 ;; 1 << x ;; x >> 1 ;; 9 >> x ;; x & 3 ;; x | 8 ;; x ^ p
x @ x ;; x @ p ;; p @ x ;; divmod(x, 3) ;; divmod(30, x + 1) ;; -x ;; +x ;; ~x ;; abs(-x) ;; [1, 2] + x[:2] ;; x + [p]
p + x ;; 3 & x ;; 3 | x ;; 3 ^ x ;; [1] * 8 @ x ;; p * x ;; x.__radd__(1) ;; x + Other() ;; Other() + x
x += Senior(); r = x ;; x == p ;; x != 3 ;; x < 4 ;; x <= p ;; x > x[0] ;; x >= 2 ;; 3 < x ;; x == "no" ;; x == [x]
p == x ;; p != x ;; x += 1 ;; x -= p ;; x *= x ;; x //= 2 ;; x %= 3 ;; x **= 2 ;; x <<= 1 ;; x >>= 1 ;; x &= 6
x |= 1 ;; x ^= 3 ;; x @= np.eye(8, dtype=int) ;; x[2:5] *= 3 ;; x[3] += 1 ;; x[m] += 10 ;; x[[0, 0]] += 1
x[1:] += x[:-1] ;; x[:2] @= p[:4].reshape(2, 2) ;; p += x; r = p ;; z[2:] -= x[2:]; r = z ;; 3 in x ;; 99 in x
# as any sequence or buffer
list(x) ;; tuple(x[2:]) ;; [v for v in x] ;; sum(x) ;; max(x) ;; sorted(x) ;; list(reversed(x)) ;; len(x)
dict(enumerate(x)) ;; repr(x) ;; str(x) ;; f"{x}" ;; bytes(x) ;; int.from_bytes(x[:1], "little") ;; "%d" % x[1]
list(zip(x, p)) ;; math.sqrt(x[2]) ;; bytearray(bytes(x)) ;; list(map(int, x)) ;; any(x) ;; all(x)
print(x, file=(f := io.StringIO())); r = f.getvalue()
# inside a plain array, by its index or its methods
p[x] ;; p[x[2:4]] ;; p.dot(x) ;; p.take(x) ;; p.searchsorted(x) ;; p.repeat(x) ;; z.choose([x, p])
p.compress(x > 2) ;; p.clip(x, 99) ;; z[x] = 1; r = z ;; z[:] = x; r = z ;; z[2:4] = x[:2]; r = z
z[x > 2] = 5; r = z ;; z[0] = x[1]; r = z ;; z[::2] = x[m | (p > 106)]; r = z ;; z.put(x, 3); r = z
z.fill(x[3]); r = z ;; z.flat[2:] = x[2:]; r = z ;; z.real = x; r = z ;; z[:2] = [x[1], x[2]]; r = z
# conversions
np.array(x) ;; np.asarray(x) ;; np.asanyarray(x) ;; np.ascontiguousarray(x) ;; np.ascontiguousarray(x[::2])
np.asfortranarray(x) ;; np.array([x, p]) ;; np.array([x, x]) ;; np.asarray([x[2], x[3]]) ;; np.array([x[2:3], x[3:4]])
np.array(x, dtype="f4") ;; np.asarray(x, "f4") ;; np.array(x, ndmin=2) ;; np.fromiter(x, int) ;; np.require(x, "f8")
np.full(3, x[1]) ;; np.asarray_chkfinite(x) ;; np.int32(x) ;; np.float64(x)
np.testing.assert_array_equal(x, [5, 3, 4, 1, 0, 2, 7, 6]) ;; np.asarray(np.matrix(x)) ;; np.ma.array(x).sum()
list(map(int, np.nditer(x))) ;; list(np.ndenumerate(x)) ;; np.r_[x, 1] ;; np.c_[x, p]
np.vectorize(lambda v: v + 1)(x) ;; np.broadcast(x, p).shape ;; np.array(x)[0]
np.random.default_rng(1).choice(x, 5) ;; np.random.default_rng(1).integers(x + 1) ;; copy.copy(x) ;; copy.deepcopy(x)
copy.deepcopy([x, p]) ;; pickle.loads(pickle.dumps(x)) ;; pickle.loads(pickle.dumps(x, 2)) ;; x.__reduce__()[1:]
np.from_dlpack(Exporter(x)).tolist() ;; ml_dtypes.bfloat16(x[2]) ;; np.char.mod("%d", x)
# ufuncs
np.add(x, 1) ;; np.add(p, x) ;; np.add.reduce(x) ;; np.add.accumulate(x) ;; np.multiply.outer(x, p)
np.multiply.outer(p, x) ;; np.add.reduceat(x, [0, 3]) ;; np.add.at(x, [0, 0, 2], 1) ;; np.add.at(x, x[:2], x[:2])
np.negative.at(x, m) ;; np.add.at(x, [], 1) ;; np.add.at(z, x, 1); r = z ;; np.add.at(x, slice(1, 3), 5)
np.add(p, 1, out=x) ;; np.add(p, 1, x) ;; np.add(x, x, out=x) ;; np.add(x, x, out=z); r = z
np.add(p, 1, out=x, where=m) ;; np.add(x, 5, x, where=x > 3) ;; np.add(p, 1, out=x, where=False)
np.add(p, 1, out=z, where=x > 3); r = z ;; np.divmod(x, 3, out=(x, None)) ;; np.divmod(p, 7, out=(z, x))
np.divmod(p, 7, x, z); r = z ;; np.add.reduce(x, where=m) ;; np.add.reduce(p, where=x > 3)
np.add.reduce(p.reshape(2, 4), out=x[:4]) ;; np.add.accumulate(p, out=x) ;; np.add.reduceat(p, [0, 3], out=x[:2])
np.frompyfunc(abs, 1, 1)(x) ;; np.add(x, 1, dtype="f4") ;; np.add(p, 1, out=x[::-1])
np.multiply.outer(p[:2], p[:4], out=x.reshape(2, 4)) ;; np.maximum.reduce([x, p])
# functions
np.copy(x) ;; np.concatenate([x, p]) ;; np.concatenate([p, x], out=np.zeros(16, int))
np.concatenate((p[:4], p[4:]), out=x) ;; np.concatenate((p[:4], p[4:]), 0, x) ;; np.stack([x, x])
np.block([[x], [p]]) ;; np.where(x > 2, x, p) ;; np.where(m, x, 0) ;; np.dot(x, p) ;; np.dot(p, x)
np.dot(p.reshape(8, 1), p[:1], x) ;; np.concatenate(collections.deque([x, p])) ;; np.vstack(Rows(x, p))
np.einsum("i,i", x, p) ;; np.sort(x) ;; np.argsort(x) ;; np.unique(x) ;; np.median(x) ;; np.clip(x, 1, 4)
np.clip(p, 0, 103, out=x) ;; np.clip(p, 0, 103, x) ;; np.take(x, [1, 2]) ;; np.take(p, x)
np.take(p, [1] * 8, out=x) ;; np.select([x > 3], [x]) ;; np.sum(x) ;; np.sum(p, out=x[2, ...]) ;; np.cumsum(p, out=x)
np.cumsum(p, 0, None, x) ;; np.sum(x, where=m) ;; np.mean(x) ;; np.ptp(x) ;; np.any(x) ;; np.histogram(x)[0]
np.interp(2.5, p, x) ;; np.percentile(x, 30) ;; np.cov(x).item() ;; np.tile(x, 2) ;; np.repeat(x, 2) ;; np.roll(x, 1)
np.pad(x, 1) ;; np.isin(x, [1, 2]) ;; np.array_equal(x, x) ;; np.searchsorted(p, x) ;; np.bincount(x) ;; np.diff(x)
np.allclose(x, x) ;; np.trim_zeros(x) ;; np.delete(x, 1) ;; np.linalg.norm(x) ;; np.fft.fft(x).sum()
np.array_str(x) ;; np.array2string(x) ;; np.full_like(x, x[2]) ;; np.full_like(p, x) ;; np.ones_like(p) * x
np.append(x, 1) ;; np.insert(x, 1, 2) ;; np.resize(x, 3) ;; np.piecewise(x, [x > 2], [1]) ;; np.digitize(x, [1, 3])
np.packbits(x > 1) ;; np.lexsort((x, p)) ;; np.save(f := io.BytesIO(), x); r = f.getvalue()
np.savetxt(f := io.StringIO(), x); r = f.getvalue()
# functions that write
np.copyto(x, p) ;; np.copyto(x, 3, where=m) ;; np.copyto(dst=x, src=p) ;; np.copyto(x, 3, where=x > 3)
np.copyto(z, x); r = z ;; np.copyto(z, 1, where=x > 3); r = z ;; np.put(x, [1, 2], [8, 9])
np.put(x, [9, -1], 4, mode="wrap") ;; np.put(x, [1], []) ;; np.put(a=x, ind=[1], v=5) ;; np.put(x, x[:2], x[2:4])
np.put(z, x, 1); r = z ;; np.place(x, m, [1, 2]) ;; np.place(x, x > 2, x[:2]) ;; np.putmask(x, m, p)
np.putmask(x, x > 2, 0) ;; np.put_along_axis(x, np.array([3, 1]), 5, 0) ;; np.fill_diagonal(x.reshape(2, 4), 9)
np.trace(x.reshape(2, 4)) ;; np.put_along_axis(z, x, 3, 0); r = z
# methods
x.all() ;; x.any() ;; x.argmax() ;; x.argmin() ;; x.argpartition(3)[3] ;; x.argsort() ;; x.astype("f4")
x.astype("i8") ;; x.astype(int, copy=False) ;; x.astype(dtype=bool) ;; x.byteswap() ;; x.byteswap(True)
x.byteswap(inplace=True) ;; x.clip(1, 4) ;; x.clip(2, 5, x) ;; x.clip(x[1], out=x) ;; x.compress(m) ;; x.conj()
x.conjugate() ;; x.copy() ;; x.choose([p] * 9) ;; x.cumprod() ;; x.cumsum() ;; x.cumsum(0, None, x)
p.sum(out=x[1, ...]) ;; x.dot(p) ;; x.dot(x) ;; x.fill(4) ;; x.fill(x[1])
x.dump(f := io.BytesIO()); r = pickle.loads(f.getvalue()) ;; pickle.loads(x.dumps()) ;; x.flatten() ;; x.item(3)
x.item(-1) ;; x.item((2,)) ;; x.max() ;; x.mean() ;; x.min() ;; x.max(initial=99, where=m) ;; x.nonzero()
x.partition(3); r = x[3] ;; x.prod() ;; x.put([1, 2], 9) ;; x.put(x[:1], 9) ;; x.put([1, 9], [2, 3], "clip")
x.repeat(2) ;; x.round(-1) ;; x.searchsorted(4, sorter=x.argsort()) ;; x.sort() ;; x[::-1].sort()
x[2:5].sort(kind="stable") ;; x.std() ;; x.sum() ;; x.sum(0, None, z[0, ...]) ;; x.sum(out=x[0, ...]) ;; x.var()
x.take([1, 2]) ;; x.take(x) ;; x.take([1, 2], 0, x[:2]) ;; x.tobytes() ;; x.tolist() ;; x.setfield(1, "u1", 0)
x.setfield(p, "i8") ;; x.getfield("i4", 4).sum() ;; x.tofile(path); r = open(path, "rb").read()
# views
x.real[1] ;; x.imag ;; x.real += 1 ;; x.real = 4 ;; x.T[2] ;; x.reshape(2, -1)[1] ;; x.reshape(2, 4)[:, 1] = 5
x.reshape(x[5:6].item(), 4)[1][2] ;; x.view("u1")[9] ;; x.view("i4")[::2] = 1 ;; x.view("i4").sum()
x.view(np.ndarray)[2] = 3 ;; x.view(type=np.ndarray)[1] ;; x[2:].ravel()[0] = 9 ;; x.squeeze()[0] ;; x[::2].ravel()
np.ravel(x[::2]) ;; np.reshape(x[::2], (2, 2)) ;; x[::2].reshape(2, 2) ;; np.array_split(x, 3)[1][0] = 9
x.shape = (2, 4); r = x[1] ;; x.shape = (4, 2); x[2:, 1] = 0 ;; np.ravel(x)[2] = 4 ;; np.atleast_2d(x, p)[0][0, 2] = 4
np.flip(x)[:2] = 0 ;; np.expand_dims(x, 0)[0, 3] += 1 ;; np.lib.stride_tricks.sliding_window_view(x, 3)[1]
np.broadcast_to(x, (2, 8))[1].sum() ;; np.broadcast_to(x[:, None], (8, 2)).copy()
np.broadcast_arrays(x, p)[0].sum()
# flat
x.flat[3] ;; x.flat[-1] ;; x.flat[2:5] ;; x.flat[m] ;; x.flat[[1, 1]] ;; x.flat[x] ;; list(x.flat) ;; next(x.flat)
len(x.flat) ;; x.flat.coords ;; x.reshape(2, 4).flat[5] ;; x.flat[...] ;; x.flat[3] = 4 ;; x.flat[2:5] = [7, 8]
x.flat[m] = 2 ;; x.flat = [1, 2, 3] ;; x.flat = x[:2] ;; x.flat[[0, 2]] += 5 ;; x.flat[x[1:2]] = x[2] ;; x.flat == p
x.flat != p ;; np.asarray(x.flat) ;; x.flat.copy()
it = x.reshape(2, 4).flat; next(it); next(it); r = (it.index, it.coords, next(it)) ;; np.sum(x.flat)
np.array(x.flat, "f4") ;; sum(v for v in x[::2].flat)
""",
    "bytes": """
bytes(x) ;; x.view("i8")[0] ;; bytes(x[::2]) ;; x.tobytes().hex() ;; x[3] = 200 ;; x.view("<u4")[1] = 77
x.view(bool).sum() ;; np.unpackbits(x) ;; x[:] = list(b"12345678") ;; np.frombuffer(bytes(x), "i4")
x.sum(dtype="u1") ;; x + 250
""",
    "floats": """
x[1, 2] ;; x[1, -1] = 9 ;; x[0].copy() ;; x[:, 1].copy() ;; x[:, ::-1][0].sum() ;; x.T[1].tolist()
x.T[1:, ::-1].sum() ;; x.T.copy().flags.f_contiguous ;; (x.T + 1).flags.f_contiguous ;; x[[0, 1], [1, 2]] ;; x[[1, 0]]
x[:, [2, 0]] ;; x[x > 0] ;; x[x > 0] = 1 ;; x[:, [0, 2]] = 5 ;; x[[0, 1], [1, 2]] += 1 ;; x[0] = 3 ;; x[0] = [1, 2, 3]
x[0], x[1] = x[1].copy(), x[0].copy() ;; x[:, 1] *= 2 ;; x.T[2] -= 1 ;; x[::-1, ::-1] = np.arange(6.0).reshape(2, 3)
x.T[...] = [[1, 2], [3, 4], [5, 6]] ;; x[np.array([True, False])] ;; x[[True, False], 1] = 4 ;; x[0] += x[1]
x[1, [True, False, True]] ;; x[None, ..., [1]] ;; x[..., None][1, 2].item() ;; x[:] = x.T.reshape(2, 3)
x[1, ...][2] ;; x[..., 1] = x[..., 0] ;; x[[1]] = x[[0]] ;; x[[[0], [1]], [[0, 2]]] ;; x[1][2] = 3
x[Index(1)][0] = 5 ;; x[Index(1), 2] += 1 ;; x @ x.T ;; x.T @ x ;; np.ones(2) @ x ;; x @ np.ones(3)
x.ravel(order="F") ;; x.T.ravel() ;; x.T.reshape(6) ;; x[:, :2].reshape(-1) ;; x.reshape(3, 2)[1, 1] = 8
x.flatten("F") ;; x.ravel("K")[1] ;; x.mean(axis=0) ;; x.std(1) ;; x.sum(axis=(0, 1)) ;; x.sort(axis=0) ;; x.trace()
x.max(1) ;; x.sum(0, out=x[0]) ;; np.sum(x, 0, None, x[1]) ;; x.argmax(1) ;; x.diagonal().sum() ;; np.diagonal(x)[1]
x.prod(1, keepdims=True) ;; np.diag(x)[0] ;; np.diag(x[0]) ;; x.flat[4] ;; x.T.flat[1] ;; x.T.flat[1] = 7
x.T.flat[2:4] = 0 ;; x.T.flat = [1, 2] ;; list(x.T.flat) ;; np.ravel(x.T) ;; np.reshape(x.T, -1) ;; x.astype(int)
x.round() ;; x.astype("f8", order="F", copy=False) ;; x.swapaxes(0, 1)[2, 0] ;; np.linalg.svd(x)[1]
np.linalg.det(x @ x.T) ;; np.fill_diagonal(x, 0.5) ;; np.nan_to_num(x) ;; np.exp(x)
np.apply_along_axis(np.sum, 0, x) ;; np.vstack([x, x[0]]) ;; np.hstack((x, x)) ;; np.dstack(x) ;; np.outer(x[0], x[1])
np.kron(x, x) ;; np.cross(x[0], x[1]) ;; np.tensordot(x, x, 2) ;; np.einsum("ij,kj->ik", x, x)
np.einsum("ij->j", x, out=x[0]) ;; np.einsum("ii->i", x[:, :2]).sum() ;; np.meshgrid(x[0], x[1]) ;; np.gradient(x[0])
np.modf(x) ;; np.modf(x, out=(x, None)) ;; np.frexp(x) ;; np.isnan(x) ;; np.sqrt(abs(x), out=x)
np.put_along_axis(x, np.array([[1], [2]]), 9, 1) ;; np.take_along_axis(x, np.array([[1], [2]]), 1)
np.partition(x, 1) ;; x.partition(1, axis=1) ;; np.nansum(x) ;; np.rot90(x)[0].sum()
np.lib.stride_tricks.as_strided(x, (2, 2)).sum() ;; np.polyfit(x[0], x[1], 1).round(6) ;; np.trapezoid(x[0])
np.mean(x, 0, out=x[1]) ;; np.maximum.reduce(x, axis=0, out=x[0]) ;; np.add(x, 1, out=x.T.T)
np.add(x, 1, out=x, where=np.array([True, False, True])) ;; np.multiply(x.T, 2, out=x.T) ;; x.T.fill(2)
x[:, 1:].fill(3) ;; x[:, 1].sort() ;; x.T.byteswap(True) ;; x.view("i8")[0, 1] ;; x[0, :2].view("c16")[0] = 1j
x.T.tolist() ;; np.asarray(x.T).flags.f_contiguous ;; np.ascontiguousarray(x.T).sum()
np.ascontiguousarray(x[:, ::2]).flags.writeable ;; np.asarray(x[:, ::2]).flags.forc ;; x.item(1, 2) ;; x.item(4)
x.T.item(1) ;; x.item((0, 1)) ;; np.ix_(x[0] > 0) ;; np.split(x, 2)[1].sum() ;; np.hsplit(x, 3)[1][...] = 4
x.squeeze()[0].sum() ;; np.flip(x)[0].sum() ;; math.fsum(x[0]) ;; math.hypot(*x[0]) ;; np.corrcoef(x)
np.cumsum(x, axis=1, out=x) ;; np.moveaxis(x, 0, 1)[2, 1] = 6 ;; np.transpose(x)[0] = 1 ;; x.transpose(1, 0)[0] = 1
np.ravel_multi_index((x[0] > 0).astype(int).nonzero(), (3,)) ;; x[:, ::2][:, ::-1] += 1 ;; x[:, 0:0].sum()
list(x)[1].sum() ;; dict(np.ndenumerate(x)) ;; np.squeeze(x[None])[1, 1] = 2 ;; x[:, None, ::-1][1, 0, 0] ;; x.imag
x.T.real[1] = 3
for row in x: row[...] = row[::-1].copy()
for i, j in np.ndindex(2, 3): x[i, j] = x[i, j] ** 2
np.savetxt(f := io.StringIO(), x); r = f.getvalue()
""",
    "square": """
x[:] = x.T ;; x += x.T ;; x @= x ;; x[1:, 1:] -= x[:-1, :-1] ;; np.linalg.inv(x + 9 * np.eye(3)).round(6)
x.diagonal(1).copy() ;; np.triu(x) ;; np.fill_diagonal(x, [1, 2, 3]) ;; np.fill_diagonal(x, x[0]) ;; x.trace()
x[np.eye(3, dtype=bool)] = 0 ;; x[np.ix_([0, 2], [0, 2])] *= 2 ;; np.linalg.matrix_power(x, 2)
x[[0, 1, 2], [0, 1, 2]] ;; x.T[[0, 1]] = 5 ;; x.T[[0, 1]] ;; x[::-1].T[1:, [0, 2]] ;; x.trace(out=x[0, 0, ...])
x.dot(x, x) ;; np.matmul(x, x, out=x)
""",
    "complexes": """
x.real.copy() ;; x.imag.copy() ;; x.real[1] ;; x.real = 1 ;; x.imag = [4, 5, 6] ;; x.imag[:] = 3 ;; x.real += 1
x.imag *= 2 ;; x.conj() ;; abs(x) ;; np.real(x).sum() ;; np.imag(x)[1] = 4 ;; np.angle(x) ;; x * 1j ;; x.sum()
x.view("f8")[1::2] = 0 ;; np.conjugate(x, out=x) ;; x[1].real ;; complex(x[1]) ;; x == x.conj() ;; np.vdot(x, x)
x.real = x.imag ;; x[::-1].real[0] = 8 ;; np.sort_complex(x) ;; np.isreal(x)
""",
    "bools": """
x[0] ;; x & True ;; ~x ;; x | x[::-1] ;; p[:4][x] ;; x.all() ;; x.sum() ;; np.logical_not(x, out=x) ;; x ^= True
x.nonzero() ;; np.count_nonzero(x) ;; x[x] ;; np.where(x) ;; x[~x] = True ;; z[:4][x] = 1; r = z
np.compress(x, p[:4]) ;; np.sum(p[:4], where=x) ;; np.add(p[:4], 1, out=z[:4], where=x); r = z ;; np.extract(x, p[:4])
any(x) ;; all(x) ;; np.place(z[:4], x, 3); r = z ;; np.putmask(z[:4], x, 3); r = z ;; p[:4].compress(x)
np.where(x, 1, 0) ;; x.astype(int)
""",
    "one": """
bool(x) ;; int(x[0]) ;; x.item() ;; x.item(0) ;; len(x) ;; 1 if x else 0 ;; not x ;; x.squeeze()[()]
x.reshape(()).item() ;; [10, 20][x[0] - 6] ;; x.repeat(3) ;; x.reshape(())[...] = 4 ;; np.squeeze(x) + 1
x[0, ...] + 1
""",
    "scalar": """
x[()] ;; x[()] = 4 ;; x[...] = 3 ;; x[...].item() ;; int(x) ;; float(x) ;; complex(x) ;; bool(x) ;; [0] * x
list(range(x)) ;; x.item() ;; f"{x:05d}" ;; x += 1 ;; x + 1 ;; 1 - x ;; x[None].copy() ;; x[True] ;; x[x == 7]
x[x == 7] = 1 ;; divmod(x, 2) ;; "%d" % x ;; p[x] ;; np.arange(9)[:x] ;; np.zeros(x).shape ;; x.tolist() ;; x.flat[0]
x.flat[0] = 3 ;; np.add(1, 1, out=x) ;; np.copyto(x, 9) ;; round(int(x)) ;; math.floor(x) ;; x.reshape(1)[0]
x.sum() ;; str(x) ;; repr(x) ;; np.add.at(x, (), 1) ;; pow(x, 2) ;; z[0] = x; r = z ;; z[x] = 1; r = z
z[:] = x; r = z ;; operator.index(x) ;; x[None, ...][0] = 2 ;; x[...] += 1 ;; x[()] += 1 ;; 3 in x ;; list(x.flat)
hex(x) ;; x == 7 ;; z[:x] = 1; r = z ;; np.put(x, 0, 5) ;; copy.copy(x) ;; x == x ;; x.fill(3)
""",
    "real": """
float(x) ;; math.sqrt(x) ;; int(x) ;; f"{x:.3f}" ;; x + 1 ;; x.round() ;; x.item() ;; abs(x) ;; x == 2.5 ;; complex(x)
-x ;; x * x ;; x **= 2 ;; np.sqrt(x) ;; np.sqrt(x, out=x)
""",
    "empty": """
x.sum() ;; x + 1 ;; x[...] = 3 ;; x.tolist() ;; x[:, 1].copy() ;; x.copy() ;; list(x) ;; x.T.ravel() ;; np.asarray(x)
x[[]] ;; bytes(x) ;; x.fill(1) ;; x += 1 ;; repr(x) ;; np.concatenate([x, x]) ;; x[x > 1] ;; x[x > 1] = 2
np.add(x, 1, out=x) ;; x.sort() ;; np.reshape(x, (3, 0)).sum() ;; list(x.flat) ;; x.flat[:] = 1
""",
    "names": """
x[1] ;; x[1] = "toolong" ;; x[:2] = ["q", "rs"] ;; x.tolist() ;; x == "c" ;; np.char.upper(x) ;; x[[2, 0]] ;; x.sort()
list(x) ;; np.asarray(x) ;; "c" in x ;; x[x != "c"] = "z" ;; x[0] + x[1] ;; x[1:, None][0]
""",
    "records": """
x[1] ;; x[1].item() ;; x[1]["b"] ;; x["a"].copy() ;; x["a"][2] ;; x["b"] = 7 ;; x["a"][1] = 5 ;; x["a"] += 1
x["c"][1, 2] = 9 ;; x["c"][:, 1] += 1 ;; x[["a", "b"]][1] ;; x[2:]["b"].sum() ;; x["c"][x["a"] == 4] = 0 ;; x["c"][1]
x[["a", "c"]] = np.zeros(4, [("a", "i4"), ("c", "u2", 3)]) ;; x[["b"]].copy() ;; x[1] = (9, 2.5, [1, 2, 3])
x[2] = x[0] ;; x[1:3] = x[0] ;; x[[3, 0]] ;; x[x["a"] > 2] ;; x[x["a"] > 2] = x[0] ;; x[[3, 0]] = x[[0, 3]]
x == x[::-1] ;; x.tolist() ;; np.sort(x, order="a") ;; x.sort(order="b") ;; x["b"].mean() ;; np.argsort(x["a"])
list(x) ;; x.copy() ;; x.getfield("f8", 8).sum() ;; x[...] = 1 ;; x.fill(x[1].copy()) ;; x.item(2) ;; x[1].tolist()
x["c"].sum(1) ;; x["c"] = [[1, 2, 3]] * 4 ;; x["c"] *= 2 ;; x.T["a"].sum() ;; x.reshape(2, 2)["b"][1, 0]
x[::-1]["a"][0] ;; pickle.loads(pickle.dumps(x)) ;; x.view(np.recarray).b ;; x[["a"]]["a"][1] = 8 ;; x[0]["c"]
x[np.array(1)] ;; repr(x) ;; x["a"].view("u4")[0] ;; x[["a", "b"]] = x[["a", "b"]][::-1] ;; np.concatenate([x, x])
np.where(x["a"] > 2, x["b"], 0) ;; x["b"][::-1] -= x["b"] ;; x[1, ...]["a"] += 4 ;; x[1:2] = [(9, 2.5, [1, 2, 3])]
x[1] == x[1] ;; x["a"].T[1:] = 0 ;; x["a"].fill(2)
""",
    "record": """
x[()] ;; x[()] = (1, 2, 3) ;; x["b"][()] ;; x["b"] = 4 ;; x["c"][1] = 5 ;; x["c"] += 1 ;; x[["a", "b"]].item()
x.item() ;; x[...] = (1, 2, 3) ;; x["a"] += 1 ;; x[None]["a"] ;; x["c"].tolist()
""",
    "bfloat16": """
x[1] ;; x[1] = 2 ;; x + 1 ;; x.astype("f4") ;; x.view("u2")[2] ;; x.view("u2")[:] = 0 ;; x[::2].copy() ;; x[[0, 3]]
x[::-1] = x ;; x.sum() ;; x * x ;; x[x > 1] ;; x += 1 ;; float(x[1]) ;; x.tolist() ;; np.asarray(x)
np.array(x, "f4") ;; x[:] = np.float32(0.5) ;; x.max() ;; x == x ;; np.concatenate([x, x])
x.astype(ml_dtypes.float8_e4m3fn) ;; x.fill(1) ;; np.where(x > 1, x, 0) ;; np.broadcast_to(x, (2, 4))[1].sum()
np.add(x, x, out=x) ;; x.reshape(2, 2).T[0].tolist() ;; x[1:].astype("f4").sum() ;; np.copyto(x, x[0])
x.setfield(1, "u1") ;; x[2:] *= 2
""",
    "float8": """
x[1] ;; x[1] = 2 ;; x + 1 ;; x.astype("f4") ;; x.view("u1")[2] ;; x[::2] = 1 ;; x[[0, 3]] ;; x[x > 1] = 0 ;; x *= 2
x.tobytes() ;; x.reshape(2, 2)[1].tolist() ;; np.asarray(x) ;; x.copy() ;; x[::-1].sum() ;; x[1:] = x[:-1]
x.view("u4")[0] ;; x.tolist()
""",
}

# They return a view in NumPy: so they do here, tracked, and nothing is loaded.
VIEWS = {
    "ints": """
x[2:5] ;; x[...] ;; x[::-1] ;; x[None] ;; x[3, ...] ;; x[:, None] ;; x[2:2] ;; x.reshape(2, 4) ;; x.reshape(-1)
x.ravel() ;; x.T ;; x.transpose() ;; x.squeeze() ;; x.view() ;; x.view("f8") ;; x.view("u1") ;; x.view(np.ndarray)
x.real ;; x.reshape(2, 4).swapaxes(0, 1) ;; x.getfield("u1", 3) ;; x.reshape(2, 4).diagonal() ;; x.reshape(2, 4).mT
x.to_device("cpu") ;; x.astype(int, copy=False) ;; np.reshape(x, (4, 2)) ;; np.ravel(x) ;; np.transpose(x)
np.broadcast_to(x, (3, 8)) ;; np.broadcast_arrays(x, p)[0] ;; np.split(x, 2)[1] ;; np.array_split(x, 3)[2]
np.expand_dims(x, 0) ;; np.squeeze(x[None]) ;; np.atleast_1d(x) ;; np.atleast_2d(x) ;; np.atleast_3d(x) ;; np.flip(x)
np.lib.stride_tricks.sliding_window_view(x, 3) ;; np.real(x) ;; np.hsplit(x, 2)[0] ;; x[:, np.newaxis][..., 0]
np.meshgrid(x, p, copy=False)[0]
""",
    "floats": """
x[1] ;; x[:, 1] ;; x[1, ...] ;; x[0, :] ;; x[:, ::-2] ;; x.T ;; x.mT ;; x.reshape(3, 2) ;; x.T.ravel("F")
x.transpose(1, 0) ;; x.swapaxes(0, 1) ;; x.diagonal() ;; x.view("i8") ;; x.view("u1") ;; np.diagonal(x) ;; np.diag(x)
np.fliplr(x) ;; np.flipud(x) ;; np.rot90(x) ;; np.moveaxis(x, 0, 1) ;; np.rollaxis(x, 1) ;; np.swapaxes(x, 0, 1)
np.vsplit(x, 2)[0] ;; np.dsplit(x[..., None], 1)[0] ;; next(iter(x)) ;; list(x)[1] ;; np.split(x, [1])[1]
x[:1, :2].T[::-1] ;; x[:, :2].view("c16")
""",
    "complexes": "x.real ;; x.imag ;; np.real(x) ;; np.imag(x) ;; x[1:].real ;; x.view('f8')",
    "records": """
x["a"] ;; x["c"] ;; x["c"][:, 1] ;; x[["a", "b"]] ;; x[1:]["b"] ;; x[["a", "b"]]["a"] ;; x.reshape(2, 2)["c"]
x[1, ...]
""",
    "record": 'x["a"] ;; x[["a", "b"]] ;; x["c"] ;; x[...]',
    "scalar": "x[...] ;; x.reshape(1) ;; x[None] ;; x.T ;; x.view('f8') ;; np.atleast_1d(x) ;; x.squeeze()",
    "empty": "x[:, 1] ;; x.T ;; x[...] ;; x.reshape(3, 0) ;; x.view('i8')",
    "bfloat16": "x[1:] ;; x.view('u2') ;; x.reshape(2, 2).T ;; x.view('u1') ;; np.broadcast_to(x, (2, 4))",
    "float8": "x[::2] ;; x.view('u1') ;; x.view('i4')",
}

# They look at shape, dtype or place: nothing is loaded.
LOOKS = """
len(x) ;; x.shape ;; x.strides ;; x.dtype ;; x.ndim ;; x.size ;; x.nbytes ;; x.itemsize ;; x.flags.c_contiguous
x.flags.writeable ;; x.device ;; isinstance(x, np.ndarray) ;; x.__class__ ;; np.shape(x) ;; np.ndim(x) ;; np.size(x)
np.may_share_memory(x, x[2:]) ;; np.shares_memory(x[2:], x[:3]) ;; np.shares_memory(x, p) ;; np.result_type(x, 1.5)
np.can_cast(x.dtype, "f4") ;; np.common_type(x) ;; np.iscomplexobj(x) ;; np.isrealobj(x) ;; np.zeros_like(x)
np.ones_like(x, float) ;; np.empty_like(x).shape ;; np.full_like(x, 3) ;; np.isscalar(x) ;; np.iterable(x)
callable(x) ;; x.__array_namespace__() ;; x.__dlpack_device__() ;; x.__array_priority__ ;; np.isfortran(x)
x[3:].strides ;; x.flags.aligned ;; x.setflags(write=False); r = x.flags.writeable ;; x[3:].size
x.flags.writeable = False; r = x[2:].flags.writeable ;; np.broadcast_to(x, (3, 8)).shape
np.ndindex(x.shape).__class__ ;; np.split(x, 2)[0].size ;; type(x.flags) ;; len(x.flat)
"""

# They fail as on a plain array, and nothing is stored.
ERRORS = {
    "ints": """
x[8] ;; x[-9] ;; x[8] = 1 ;; x["a"] ;; x[1.5] ;; x[1, 2] ;; x[1, 2] = 3 ;; x[[8]] ;; x[[8]] = 1 ;; x[m[:3]]
x[2:5] = [1, 2] ;; x[[1, 2]] = [1, 2, 3] ;; x[m] = [1, 2] ;; x[m] = [[1, 2, 3]] ;; x[0] = [1, 2] ;; x[0] = "word"
x[:] = "word" ;; x[[]][0] ;; x[1:2, 0:1] ;; x["a"] = 3 ;; x += 1.5 ;; x[2:5] /= 2 ;; x += [1, 2] ;; x @ np.ones(3)
x + np.ones(3) ;; bool(x) ;; int(x) ;; float(x) ;; operator.index(x) ;; if x: pass ;; hash(x) ;; {x: 1} ;; x()
x.nothing ;; x.nothing = 3 ;; x.T = 3 ;; x.size = 2 ;; x.reshape(3, 3) ;; x.view("V3") ;; del x[0] ;; x.sort(axis=1)
x.item() ;; x.item(9) ;; x.item(0, 0) ;; x.item("a") ;; x.flat[9] ;; x.flat["a"] ;; x.imag = 3
np.add(p, 1.5, out=x) ;; np.add(p, 1, out=x[:3]) ;; np.put(x, [9], 1) ;; np.place(x, m, []) ;; np.copyto(x, [1, 2])
np.copyto(x, 1.5) ;; np.concatenate([p, p], out=x) ;; np.sum(p, out=x) ;; next(iter(x.flat), x.shape.nothing)
x.flags.writeable = False; x[0] = 1 ;; x.flags.writeable = False; x[:] = 1 ;; x.flags.writeable = False; x[[0]] = 1
x.flags.writeable = False; x += 1 ;; x.flags.writeable = False; x.fill(1) ;; x.flags.writeable = False; x.sort()
x.flags.writeable = False; x[2:].put(0, 1) ;; x.flags.writeable = False; np.add(p, 1, out=x)
x.flags.writeable = False; np.copyto(x, 1) ;; np.broadcast_to(x, (2, 8))[0] = 1
np.broadcast_to(x, (2, 8))[0, 0] = 1 ;; x.reshape(2, 4).diagonal()[0] = 1 ;; x.setfield(1, "i8", 1)
np.add.at(x, 99, 1) ;; x.searchsorted([[1], [1, 2]]) ;; x < "a" ;; x.flags.writeable = False; x.flat[0] = 1
x.shape = (3, 3) ;; x.__setitem__(0) ;; x.byteswap(1, 2) ;; x.astype("nothing") ;; x.fill([1, 2]) ;; x.repeat(-1)
x.transpose(1) ;; divmod(x, "a") ;; x << 1.5 ;; np.lib.stride_tricks.sliding_window_view(x, 3)[0, 0] = 1 ;; x @= p
x.round("a") ;; x.choose([1]) ;; x.dot([1]) ;; x[None, 9]
""",
    "floats": """
x[2, 0] ;; x[0, 3] = 1 ;; x[:, 9] ;; x[0, 0, 0] ;; x[[0, 1], [0, 1, 2]] ;; bool(x) ;; float(x[0]) ;; x[0] = [1, 2]
x @ x ;; x[x] ;; x & 1 ;; x[0][5] ;; x.diagonal()[0] = 1 ;; np.linalg.inv(x) ;; x.sum(5) ;; x[0, 0] = 1j
x.item(0, 5) ;; x.item(1)[0] ;; x.argsort(5)
""",
    "scalar": "x[0] ;; len(x) ;; list(x) ;; iter(x) ;; x[0] = 1 ;; x[:] ;; x['a'] ;; x[[0]] ;; f'{x:q}'",
    "records": """
x['d'] ;; x['d'] = 1 ;; x[['a', 'd']] ;; x['a', 1] ;; x + 1 ;; x[1] = (1, 2) ;; x[0]['d'] ;; x.sum()
x['c'] = [1, 2] ;; x < x
""",
}

# Refused where NumPy shows the memory itself or a copy that would be mistaken for it: (program, error, what it says).
SHOWN, READ_ONLY = "take a copy", "read-only"
REFUSED = {
    "ints": [
        ("x.data", "CheckError", SHOWN),
        ("x.ctypes", "CheckError", SHOWN),
        ("x.ctypes.data", "CheckError", SHOWN),
        ("x[2:].data", "CheckError", SHOWN),
        ("x.__array_interface__", "AttributeError", SHOWN),
        ("x.__array_struct__", "AttributeError", SHOWN),
        ("x.__dlpack__()", "CheckError", SHOWN),
        ("np.from_dlpack(x)", "CheckError", SHOWN),
        ("np.array(x, copy=False)", "ValueError", SHOWN),
        ("np.asarray(x, copy=False)", "ValueError", SHOWN),
        ("x.resize(4)", "CheckError", "resized"),
        ("x.resize((2, 4), refcheck=False)", "CheckError", "resized"),
        ("x.__setstate__((1, (8,), x.dtype, False, bytes(64)))", "CheckError", "state"),
        ("np.lib.array_utils.byte_bounds(x)", "AttributeError", SHOWN),
        ("memoryview(x)", BUFFER := "TypeError or CheckError", "bytes-like|take a copy"),
        ("np.frombuffer(x, 'u1')", BUFFER, "bytes-like|take a copy"),
        ("io.BytesIO().write(x)", BUFFER, "bytes-like|take a copy"),
        ("io.BytesIO(bytes(64)).readinto(x)", BUFFER, "bytes-like|read-write|take a copy"),
        ("b''.join([x])", BUFFER, "bytes-like"),
        ("hashlib.sha256(x)", BUFFER, "buffer|take a copy"),
        ("ctypes.c_char.from_buffer(x)", BUFFER, "bytes-like|take a copy"),
        ("struct.unpack('8q', x)", BUFFER, "bytes-like|take a copy"),
        ("bytearray(64)[:8].join([x])", BUFFER, "bytes-like"),
        ("memoryview(bytearray(64))[:] = x", BUFFER, "bytes-like|take a copy"),
        ("np.asarray(x)[0] = 1", "ValueError", READ_ONLY),
        ("np.asarray(x).sort()", "ValueError", READ_ONLY),
        ("np.asarray(x)[:] += 1", "ValueError", READ_ONLY),
        ("np.asarray(x[::2])[0] = 1", "ValueError", READ_ONLY),
        ("np.ascontiguousarray(x)[:] = 1", "ValueError", READ_ONLY),
        ("np.lib.stride_tricks.as_strided(x, (2, 2), (8, 8))[0] = 1", "ValueError", READ_ONLY),
        ("np.trim_zeros(x)[0] = 1", "ValueError", READ_ONLY),
        ("np.nan_to_num(x, copy=False)[0] = 1", "ValueError", READ_ONLY),
        ("np.ma.array(x, copy=False)[0] = 1", "ValueError", READ_ONLY),
        ("np.matrix(x, copy=False)[0] = 1", "ValueError", READ_ONLY),
        ("x.view(np.matrix)[0, 0] = 1", "ValueError", READ_ONLY),
        ("x.conj()[0] = 1", "ValueError", READ_ONLY),
        ("x.imag[0] = 1", "ValueError", READ_ONLY),
        ("for v in np.nditer(x, op_flags=['readwrite']): v[...] = 1", "ValueError", READ_ONLY),
        ("np.random.default_rng(0).random(out=x.view('f8'))", "ValueError", "writable"),
        ("np.random.default_rng(0).permutation(x)", "ValueError", READ_ONLY),
        ("p.take(p - 100, out=x)", "TypeError", "output must be an array"),
        ("p.cumsum(out=x)", "TypeError", "output must be an array"),
        ("p.dot(8, out=x)", "TypeError", "out"),
        ("x.clip(1, 2, out=np.asarray(x))", "ValueError", READ_ONLY),
        ("x.flags.writeable = False; np.add.at(x, 0, 1)", "ValueError", READ_ONLY),  # NumPy forgets to
        ("np.ndarray.sum(x)", "TypeError", "descriptor"),
        ("np.ndarray.__getitem__(x, 0)", "TypeError", "descriptor"),
        ("np.ndarray(8, int, x)", BUFFER, "bytes-like|buffer|take a copy"),
    ],
    "records": [
        ("x[1]['a'] = 5", "ValueError", READ_ONLY),
        ("x[1][0] = 5", "ValueError", READ_ONLY),
        ("x.view(np.recarray).a = 5", "ValueError", READ_ONLY),
        ("np.asarray(x)['a'] = 5", "ValueError", READ_ONLY),
    ],
    "floats": [("np.asarray(x.T.flat)[0] = 1", "ValueError", READ_ONLY)],
    "complexes": [("np.real_if_close(x)[0] = 1", "ValueError", READ_ONLY)],
}  # fmt: skip


def programs(lines: str) -> list[str]:
    """The programs in such a text."""
    rows = [line for line in lines.splitlines() if line.strip() and not line.startswith("#")]
    return [program.strip() for row in rows for program in row.split(" ;; ")]
