/* The thin front of the hot calls: builtins that check the common case in C (plain contiguous arrays of one dtype,
 * a live target, a PE number in range) and do it. Everything else, every error included, goes to the Python function of
 * the same name, which is the specification: `front` makes a builtin whose self knows that function and whose docstring
 * and signature are its own. Unbound (before init, on other fabrics, while traced) all calls go there. */
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <numpy/arrayobject.h>
#include <numpy/arrayscalars.h>

#include "core.h"

#define RELEASE_BYTES 32768                 /* copies from this size on let other threads run */
#define SLICE_NS 100000000                  /* a wait goes on in Python after this: deadline, notice, dead peers */

static sm_pe *me;                           /* NULL: unbound */
static PyObject *cmp_type, *signal_type;
static PyObject *owners;                    /* list: what keeps the heap of each PE mapped */
static uint64_t barrier_call, sync_call;    /* fingerprints of barrier_all and sync_all, 0 where not checked */
static int one_host;                        /* loads and stores may reach every PE */

typedef struct { uint64_t off, bytes; PyArrayObject *array; } place;

#define RELEASED(call)                      /* without the GIL; another thread may finalize meanwhile and unbind */ \
    do {                                    \
        sm_pe *p = me;                      \
        Py_BEGIN_ALLOW_THREADS              \
        call;                               \
        Py_END_ALLOW_THREADS                \
    } while (0)

#include "arguments.h"

static int contiguous(PyObject *o) {
    return PyArray_CheckExact(o) && PyArray_IS_C_CONTIGUOUS((PyArrayObject *)o) && PyArray_NBYTES((PyArrayObject *)o) > 0;
}

/* A contiguous array in a live block of the own heap. */
static int symmetric(PyObject *o, place *at) {
    if (!contiguous(o)) return 0;
    at->array = (PyArrayObject *)o;
    at->bytes = (uint64_t)PyArray_NBYTES(at->array);
    at->off = (uint64_t)((char *)PyArray_DATA(at->array) - me->base);
    return sm_is_live(me, at->off, at->bytes);
}

/* One aligned element of a 32- or 64-bit number type in native byte order; its kind, or -1. */
static int word_kind(const place *at) {
    PyArrayObject *a = at->array;
    if (PyArray_SIZE(a) != 1 || !PyArray_ISBEHAVED(a)) return -1;
    int wide = at->bytes == 8;
    switch (PyArray_TYPE(a)) {
    case NPY_INT: case NPY_LONG: case NPY_LONGLONG: return wide ? SM_I64 : SM_I32;
    case NPY_UINT: case NPY_ULONG: case NPY_ULONGLONG: return wide ? SM_U64 : SM_U32;
    case NPY_FLOAT: return SM_F32;
    case NPY_DOUBLE: return SM_F64;
    default: return -1;
    }
}

static PyObject *number(uint64_t bits, int kind) {
    float f;
    double d;
    switch (kind) {
    case SM_I32: return PyLong_FromLong((int32_t)bits);
    case SM_U32: return PyLong_FromUnsignedLong((uint32_t)bits);
    case SM_I64: return PyLong_FromLongLong((int64_t)bits);
    case SM_U64: return PyLong_FromUnsignedLongLong(bits);
    case SM_F32: memcpy(&f, &bits, 4); return PyFloat_FromDouble(f);
    default: memcpy(&d, &bits, 8); return PyFloat_FromDouble(d);
    }
}

/* What the default context has sent since its last quiet, see sm_pending. */
#define POSTED me->posted[0]++

/* Bytes of a transfer of `size` elements, by default all of `from`; 0 where Python has to decide. */
static uint64_t extent(PyArrayObject *from, PyArrayObject *to, PyObject *size) {
    uint64_t all = (uint64_t)PyArray_NBYTES(from), item = (uint64_t)PyArray_ITEMSIZE(from);
    int64_t v;
    if (size) {
        if (!above_0(size, &v) || (uint64_t)v > all / item) return 0;
        all = (uint64_t)v * item;
    }
    return PyArray_DESCR(from) == PyArray_DESCR(to) && all <= (uint64_t)PyArray_NBYTES(to) ? all : 0;
}

static PyObject *hot_put(ARGS) {            /* (target, source, pe, size) */
    place to;
    int pe;
    uint64_t bytes;
    TAKE(3, 4);
    if (!symmetric(a[0], &to) || !contiguous(a[1]) || !pe_number(a[2], &pe)) PYTHON;
    PyArrayObject *from = (PyArrayObject *)a[1];
    if (!(bytes = extent(from, to.array, OPTION(3))) || !PyArray_ISWRITEABLE(to.array)) PYTHON;
    POSTED;
    if (bytes < RELEASE_BYTES) {
        sm_put(me, pe, to.off, PyArray_DATA(from), bytes);
    } else {
        const void *src = PyArray_DATA(from);
        RELEASED(sm_put(p, pe, to.off, src, bytes));
    }
    Py_RETURN_NONE;
}

#include "many.h"
#include "steps.h"

static PyObject *hot_ptr(ARGS) {            /* (target, pe) */
    place at;
    int pe;
    TAKE(2, 2);
    if (!one_host || !symmetric(a[0], &at) || !pe_number(a[1], &pe)) PYTHON;
    PyArray_Descr *type = PyArray_DESCR(at.array);
    PyObject *owner = PyList_GetItem(owners, pe);       /* the view keeps that heap mapped */
    if (!owner) return NULL;
    Py_INCREF(type);
    sm_set_viewed(me, pe);
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, type, PyArray_NDIM(at.array), PyArray_DIMS(at.array), NULL,
                                          me->heap[pe] + at.off, NPY_ARRAY_WRITEABLE, NULL);
    if (!view) return NULL;
    Py_INCREF(owner);
    if (PyArray_SetBaseObject((PyArrayObject *)view, owner)) Py_CLEAR(view);
    return view;
}

static PyObject *get(ARGS, int posted) {    /* (target, source, pe, size) */
    place from;
    int pe;
    uint64_t bytes;
    TAKE(3, 4);
    if (!symmetric(a[1], &from) || !contiguous(a[0]) || !pe_number(a[2], &pe)) PYTHON;
    PyArrayObject *to = (PyArrayObject *)a[0];
    if (!(bytes = extent(from.array, to, OPTION(3))) || !PyArray_ISWRITEABLE(to)) PYTHON;
    me->posted[0] += posted;
    void *dst = PyArray_DATA(to);
    if (bytes < RELEASE_BYTES) {
        sm_get(me, pe, dst, from.off, bytes);
    } else {
        RELEASED(sm_get(p, pe, dst, from.off, bytes));
    }
    Py_RETURN_NONE;
}

static PyObject *hot_get(ARGS) { return get(self, args, n, names, 0); }
static PyObject *hot_get_nbi(ARGS) { return get(self, args, n, names, 1); }

static PyObject *hot_p(ARGS) {
    place to;
    int pe, kind;
    uint64_t bits;
    TAKE(3, 3);
    if (!symmetric(a[0], &to) || !pe_number(a[2], &pe)) PYTHON;
    if ((kind = word_kind(&to)) < 0 || !bits_of(a[1], kind, &bits) || !PyArray_ISWRITEABLE(to.array)) PYTHON;
    POSTED;
    sm_put(me, pe, to.off, &bits, to.bytes);
    Py_RETURN_NONE;
}

static PyObject *hot_g(ARGS) {
    place from;
    int pe;
    uint64_t bits;
    TAKE(2, 2);
    if (!symmetric(a[0], &from) || !pe_number(a[1], &pe)) PYTHON;
    if (word_kind(&from) < 0) PYTHON;
    sm_get(me, pe, &bits, from.off, from.bytes);
    return PyArray_Scalar(&bits, PyArray_DESCR(from.array), NULL);
}

/* Atomics: ([fetch, ]target[, cond][, value], pe). Floats know set, fetch and swap only; the rest is Python's to refuse. */
enum { NOTHING, RETURNED, STORED };         /* what happens to the old value; STORED: in fetch, for after a quiet */

static PyObject *amo(ARGS, int op, int values, int answer) {
    place to;
    int pe, kind, at = answer == STORED;
    uint64_t value = 1, cond = 0;
    TAKE(2 + values + at, 2 + values + at);
    if (!symmetric(a[at], &to) || !pe_number(a[at + 1 + values], &pe)) PYTHON;
    if ((kind = word_kind(&to)) < 0 || (op != SM_AMO_FETCH && !PyArray_ISWRITEABLE(to.array))) PYTHON;
    if (kind >= SM_F32 && op != SM_AMO_FETCH && op != SM_AMO_SET && op != SM_AMO_SWAP) PYTHON;
    if (values && !bits_of(a[at + values], kind, &value)) PYTHON;
    if (values == 2 && !bits_of(a[at + 1], kind, &cond)) PYTHON;
    PyArrayObject *fetch = (PyArrayObject *)a[0];
    if (at && (!contiguous(a[0]) || PyArray_DESCR(fetch) != PyArray_DESCR(to.array) || PyArray_SIZE(fetch) != 1 ||
               !PyArray_ISWRITEABLE(fetch)))
        PYTHON;
    me->posted[0] += answer != RETURNED;
    uint64_t old = sm_amo(me, pe, to.off, (int)to.bytes, op, value, cond);
    if (at) memcpy(PyArray_DATA(fetch), &old, to.bytes);
    if (answer == RETURNED) return number(old, kind);
    Py_RETURN_NONE;
}

#define AMO(name, op, values, answer) \
    static PyObject *hot_##name(ARGS) { return amo(self, args, n, names, op, values, answer); }
#define FETCHING(name, op, values) AMO(name, op, values, RETURNED) AMO(name##_nbi, op, values, STORED)
AMO(atomic_set, SM_AMO_SET, 1, NOTHING)
AMO(atomic_add, SM_AMO_ADD, 1, NOTHING)
AMO(atomic_inc, SM_AMO_ADD, 0, NOTHING)
AMO(atomic_and, SM_AMO_AND, 1, NOTHING)
AMO(atomic_or, SM_AMO_OR, 1, NOTHING)
AMO(atomic_xor, SM_AMO_XOR, 1, NOTHING)
FETCHING(atomic_fetch, SM_AMO_FETCH, 0)
FETCHING(atomic_swap, SM_AMO_SWAP, 1)
FETCHING(atomic_compare_swap, SM_AMO_CSWAP, 2)
FETCHING(atomic_fetch_add, SM_AMO_ADD, 1)
FETCHING(atomic_fetch_inc, SM_AMO_ADD, 0)
FETCHING(atomic_fetch_and, SM_AMO_AND, 1)
FETCHING(atomic_fetch_or, SM_AMO_OR, 1)
FETCHING(atomic_fetch_xor, SM_AMO_XOR, 1)

static int signal_word(PyObject *o, place *at) { return symmetric(o, at) && word_kind(at) == SM_U64; }

static PyObject *hot_put_signal(ARGS) {     /* (target, source, pe, signal, value, sigop, size) */
    place to, sig;
    int pe, add;
    uint64_t value, bytes;
    TAKE(6, 7);
    if (!symmetric(a[0], &to) || !contiguous(a[1]) || !pe_number(a[2], &pe)) PYTHON;
    if (!signal_word(a[3], &sig) || !bits_of(a[4], SM_U64, &value) || !signal_operation(a[5], &add)) PYTHON;
    PyArrayObject *from = (PyArrayObject *)a[1];
    if (!(bytes = extent(from, to.array, OPTION(6)))) PYTHON;
    if (sig.off < to.off + to.bytes && to.off < sig.off + 8) PYTHON;
    if (!PyArray_ISWRITEABLE(to.array) || !PyArray_ISWRITEABLE(sig.array)) PYTHON;
    const void *src = PyArray_DATA(from);
    POSTED;
    if (bytes < RELEASE_BYTES) {
        sm_put_signal(me, pe, to.off, src, bytes, sig.off, value, add);
    } else {
        RELEASED(sm_put_signal(p, pe, to.off, src, bytes, sig.off, value, add));
    }
    Py_RETURN_NONE;
}

static PyObject *signal_update(ARGS, int op) {      /* (signal, value, pe) */
    place sig;
    int pe;
    uint64_t value;
    TAKE(3, 3);
    if (!signal_word(a[0], &sig) || !bits_of(a[1], SM_U64, &value) || !pe_number(a[2], &pe)) PYTHON;
    POSTED;
    sm_amo(me, pe, sig.off, 8, op, value, 0);
    Py_RETURN_NONE;
}

static PyObject *hot_signal_set(ARGS) { return signal_update(self, args, n, names, SM_AMO_SET); }
static PyObject *hot_signal_add(ARGS) { return signal_update(self, args, n, names, SM_AMO_ADD); }

static PyObject *hot_signal_fetch(ARGS) {
    place sig;
    TAKE(1, 1);
    if (!signal_word(a[0], &sig)) PYTHON;
    return PyLong_FromUnsignedLongLong(sm_amo(me, me->me, sig.off, 8, SM_AMO_FETCH, 0, 0));
}

/* A few looks with the GIL held (the word often is there), then up to one slice of time without. */
static int wait_word(const place *at, int kind, int cmp, uint64_t value, int64_t slice_ns) {
    const char *word = me->base + at->off;
    for (int i = 0; i < 20; i++) {
        if (sm_test(word, kind, cmp, value)) return SM_OK;
        sm_pause();
    }
    int status = SM_TIMEOUT;
    if (slice_ns) RELEASED(status = sm_wait(p, at->off, kind, cmp, value, slice_ns));
    return status;
}

static PyObject *hot_signal_wait_until(ARGS) {      /* (signal, cmp, value, timeout) */
    place sig;
    int cmp;
    uint64_t value;
    int64_t slice;
    TAKE(3, 4);
    if (!signal_word(a[0], &sig) || !comparison(a[1], &cmp) || !bits_of(a[2], SM_U64, &value)) PYTHON;
    if ((slice = slice_of(OPTION(3))) < 0) PYTHON;
    sm_pe *p = me;
    if (wait_word(&sig, SM_U64, cmp, value, slice)) PYTHON;
    return PyLong_FromUnsignedLongLong(sm_amo(p, p->me, sig.off, 8, SM_AMO_FETCH, 0, 0));
}

static PyObject *hot_wait_until(ARGS) {             /* (ivar, cmp, value, timeout) */
    place at;
    int cmp, kind;
    uint64_t value;
    int64_t slice;
    TAKE(3, 4);
    if (!symmetric(a[0], &at) || !comparison(a[1], &cmp) || (slice = slice_of(OPTION(3))) < 0) PYTHON;
    if ((kind = word_kind(&at)) < 0 || kind >= SM_F32 || !bits_of(a[2], kind, &value)) PYTHON;
    if (wait_word(&at, kind, cmp, value, slice)) PYTHON;
    Py_RETURN_NONE;
}

static PyObject *hot_test(ARGS) {
    place at;
    int cmp, kind;
    uint64_t value;
    TAKE(3, 3);
    if (!symmetric(a[0], &at) || !comparison(a[1], &cmp)) PYTHON;
    if ((kind = word_kind(&at)) < 0 || kind >= SM_F32 || !bits_of(a[2], kind, &value)) PYTHON;
    return PyBool_FromLong(sm_test(me->base + at.off, kind, cmp, value));
}

static PyObject *hot_fence(ARGS) {
    TAKE(0, 0);
    sm_fence(me);
    Py_RETURN_NONE;
}

static PyObject *hot_quiet(ARGS) {
    TAKE(0, 0);
    sm_complete(me, 0);
    Py_RETURN_NONE;
}

/* (): quiet and the barrier of all PEs, or fence and barrier; what is not done within a slice goes on in Python. */
static PyObject *meet_all(ARGS, int complete, uint64_t call) {
    TAKE(0, 0);
    if (complete) sm_complete(me, 0);
    else sm_fence(me);
    int status;
    RELEASED(status = sm_barrier_all(p, call));
    if (status) PYTHON;
    Py_RETURN_NONE;
}

static PyObject *hot_barrier_all(ARGS) { return meet_all(self, args, n, names, 1, barrier_call); }
static PyObject *hot_sync_all(ARGS) { return meet_all(self, args, n, names, 0, sync_call); }

#include "plans.h"

#define COLLECTIVE(name, routine)                                               \
    static PyObject *hot_##name(ARGS) {                                         \
        int known;                                                              \
        TAKE(2 + (routine == BROADCAST), 3 + (routine == BROADCAST));           \
        PyObject *result = replay(routine, a, OPTION(2 + (routine == BROADCAST)), &known); \
        if (!known) PYTHON;                                                     \
        return result;                                                          \
    }
COLLECTIVE(broadcast, BROADCAST)
COLLECTIVE(fcollect, FCOLLECT)
COLLECTIVE(alltoall, ALLTOALL)
COLLECTIVE(sum_reduce, SUM_REDUCE)
COLLECTIVE(prod_reduce, PROD_REDUCE)
COLLECTIVE(min_reduce, MIN_REDUCE)
COLLECTIVE(max_reduce, MAX_REDUCE)
COLLECTIVE(and_reduce, AND_REDUCE)
COLLECTIVE(or_reduce, OR_REDUCE)
COLLECTIVE(xor_reduce, XOR_REDUCE)

/* ---- the module ---- */

#define FRONT(name) {#name, hot_##name}
#define BOTH(name) FRONT(name), FRONT(name##_nbi)
static const struct { const char *name; PyObject *(*call)(ARGS); } fronts[] = {
    FRONT(put), FRONT(get), {"put_nbi", hot_put}, FRONT(get_nbi), FRONT(p), FRONT(g), FRONT(put_signal),
    {"put_signal_nbi", hot_put_signal}, FRONT(signal_set), FRONT(signal_add), FRONT(signal_fetch),
    FRONT(put_many), FRONT(iput), FRONT(iget), FRONT(ptr), FRONT(signal_wait_until), FRONT(wait_until), FRONT(test), FRONT(fence), FRONT(quiet),
    FRONT(barrier_all), FRONT(sync_all), FRONT(broadcast), FRONT(fcollect), FRONT(alltoall), FRONT(sum_reduce),
    FRONT(prod_reduce), FRONT(min_reduce), FRONT(max_reduce), FRONT(and_reduce), FRONT(or_reduce), FRONT(xor_reduce),
    FRONT(atomic_set), FRONT(atomic_add), FRONT(atomic_inc), FRONT(atomic_and), FRONT(atomic_or), FRONT(atomic_xor),
    BOTH(atomic_fetch), BOTH(atomic_swap), BOTH(atomic_compare_swap), BOTH(atomic_fetch_add), BOTH(atomic_fetch_inc),
    BOTH(atomic_fetch_and), BOTH(atomic_fetch_or), BOTH(atomic_fetch_xor),
};

/* front(name, function, doc, module, parameters, needed, positional) -> builtin; lives as long as the process. */
static PyObject *make_front(PyObject *module, PyObject *args) {
    (void)module;
    const char *name, *doc;
    PyObject *function, *where, *parameters;
    int needed, positional;
    if (!PyArg_ParseTuple(args, "sOsOO!ii", &name, &function, &doc, &where, &PyTuple_Type, &parameters, &needed, &positional))
        return NULL;
    for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
        if (strcmp(fronts[i].name, name)) continue;
        PyMethodDef *def = PyMem_Calloc(1, sizeof *def);
        char *text = PyMem_Malloc(strlen(doc) + 1);
        if (!def || !text) return PyErr_NoMemory();
        strcpy(text, doc);
        def->ml_name = fronts[i].name;
        def->ml_meth = (PyCFunction)(void (*)(void))fronts[i].call;
        def->ml_flags = METH_FASTCALL | METH_KEYWORDS;
        def->ml_doc = text;
        PyObject *self = self_of(function, parameters, needed, positional);
        return self ? PyCFunction_NewEx(def, self, where) : NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *bind(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long address, barrier, sync;
    PyObject *cmp, *sig, *heaps, *before = owners;
    int isa, alone;
    if (!PyArg_ParseTuple(args, "KOOiKKpO!", &address, &cmp, &sig, &isa, &barrier, &sync, &alone, &PyList_Type, &heaps))
        return NULL;
    Py_XDECREF(cmp_type);
    Py_XDECREF(signal_type);
    Py_INCREF(cmp);
    Py_INCREF(sig);
    Py_INCREF(heaps);
    cmp_type = cmp, signal_type = sig, owners = heaps;
    sm_select_isa(isa);
    barrier_call = barrier, sync_call = sync, one_host = alone;
    forget_plans();
    me = (sm_pe *)(uintptr_t)address;
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *run_records(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long pe, address, reached;
    long long n, done, timeout_ns;
    int q, status;
    if (!PyArg_ParseTuple(args, "KiKLLLK", &pe, &q, &address, &n, &done, &timeout_ns, &reached)) return NULL;
    int64_t at = done;
    Py_BEGIN_ALLOW_THREADS
    status = sm_run((sm_pe *)(uintptr_t)pe, q, (sm_op *)(uintptr_t)address, n, &at, timeout_ns);
    Py_END_ALLOW_THREADS
    if (reached) *(int64_t *)(uintptr_t)reached = at;  /* a signal's exception may come before the caller has the result */
    return Py_BuildValue("iL", status, (long long)at);
}

static PyObject *data_address(PyObject *module, PyObject *o) {
    (void)module;
    if (!PyArray_Check(o)) {                /* a tracked array knows its address itself */
        PyObject *address = PyObject_GetAttrString(o, "_address");
        if (!address) PyErr_SetString(PyExc_TypeError, "an ndarray is needed");
        return address;
    }
    return PyLong_FromUnsignedLongLong((uintptr_t)PyArray_DATA((PyArrayObject *)o));
}

static PyMethodDef methods[] = {
    {"front", make_front, METH_VARARGS,
     "front(name, function, doc, module, parameters, needed, positional) -> builtin, or None if there is none"},
    {"bind", bind, METH_VARARGS,
     "bind(address of sm_pe or 0, comparison type, signal type, isa, barrier_all's and sync_all's fingerprints, one host)"},
    {"learn", learn, METH_VARARGS, "learn(routine, target, source, root, size, plan, address, address, n): records to replay"},
    {"run_at", run_records, METH_VARARGS, "run_at(pe, queue, address, n, done, timeout_ns, address for done or 0) -> (status, done)"},
    {"address", data_address, METH_O, "address of an array's first element"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_hot", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__hot(void) {
    import_array();
    return PyModule_Create(&definition);
}
