/* The thin front of the hot calls: a dozen builtins that check the common case in C (plain contiguous arrays of one dtype,
 * a live target, a PE number in range) and do it. Everything else, every error included, goes to the Python function of
 * the same name, which is the specification: `front(name, function)` makes a builtin whose self is that function and
 * whose docstring and signature are its own. Unbound (before init, on other fabrics, while traced) all calls go there. */
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
static uint64_t barrier_call, sync_call;    /* fingerprints of barrier_all and sync_all, 0 where not checked */

typedef struct { uint64_t off, bytes; PyArrayObject *array; } place;

static PyObject *fall_back(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    PyObject *tuple = PyTuple_New(n), *dict = NULL, *result = NULL;
    if (!tuple) return NULL;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_INCREF(args[i]);
        PyTuple_SetItem(tuple, i, args[i]);
    }
    if (names) {
        dict = PyDict_New();
        for (Py_ssize_t i = 0; dict && i < PyTuple_Size(names); i++)
            if (PyDict_SetItem(dict, PyTuple_GetItem(names, i), args[n + i])) goto done;
    }
    result = PyObject_Call(self, tuple, dict);
done:
    Py_DECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

#define PLAIN(count) (me && !names && n == (count) && !me->any_dead)
#define RELEASED(call)                      /* without the GIL; another thread may finalize meanwhile and unbind */ \
    do {                                    \
        sm_pe *p = me;                      \
        Py_BEGIN_ALLOW_THREADS              \
        call;                               \
        Py_END_ALLOW_THREADS                \
    } while (0)
#define PYTHON return fall_back(self, args, n, names)

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

static int pe_number(PyObject *o, int *pe) {
    if (!PyLong_CheckExact(o)) return 0;
    int overflow;
    long v = PyLong_AsLongAndOverflow(o, &overflow);
    if (overflow || v < 0 || v >= me->n || !me->heap[v]) return 0;
    *pe = (int)v;
    return 1;
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

/* The bits of a Python number as that kind; 0 where Python has to decide (other types, out of range). */
static int bits_of(PyObject *o, int kind, uint64_t *bits) {
    if (kind == SM_F32 || kind == SM_F64) {
        if (!PyFloat_CheckExact(o)) return 0;
        double d = PyFloat_AsDouble(o);
        float f = (float)d;
        *bits = 0;
        if (kind == SM_F64) memcpy(bits, &d, 8);
        else memcpy(bits, &f, 4);
        return 1;
    }
    if (!PyLong_CheckExact(o)) return 0;
    int overflow;
    long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (kind == SM_U64 && overflow > 0) {
        *bits = PyLong_AsUnsignedLongLong(o);
        if (!PyErr_Occurred()) return 1;
        PyErr_Clear();
        return 0;
    }
    if (overflow || (kind == SM_U64 && v < 0) || (kind == SM_U32 && (v < 0 || v > UINT32_MAX)) ||
        (kind == SM_I32 && (v < INT32_MIN || v > INT32_MAX)))
        return 0;
    *bits = (uint64_t)v;
    return 1;
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

static int enum_value(PyObject *o, PyObject *type, int *value) {
    if ((PyObject *)Py_TYPE(o) != type) return 0;
    *value = (int)PyLong_AsLong(o);
    return 1;
}

#define ARGS PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names

/* What the default context has sent since its last quiet, see sm_pending. */
#define POSTED me->posted[0]++

static PyObject *hot_put(ARGS) {
    place to;
    int pe;
    if (!PLAIN(3) || !symmetric(args[0], &to) || !contiguous(args[1]) || !pe_number(args[2], &pe)) PYTHON;
    PyArrayObject *from = (PyArrayObject *)args[1];
    uint64_t bytes = (uint64_t)PyArray_NBYTES(from);
    if (PyArray_DESCR(from) != PyArray_DESCR(to.array) || bytes > to.bytes) PYTHON;
    if (!PyArray_ISWRITEABLE(to.array)) PYTHON;
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

static PyObject *get(ARGS, int posted) {
    place from;
    int pe;
    if (!PLAIN(3) || !symmetric(args[1], &from) || !contiguous(args[0]) || !pe_number(args[2], &pe)) PYTHON;
    PyArrayObject *to = (PyArrayObject *)args[0];
    if (PyArray_DESCR(to) != PyArray_DESCR(from.array) || from.bytes > (uint64_t)PyArray_NBYTES(to) ||
        !PyArray_ISWRITEABLE(to))
        PYTHON;
    me->posted[0] += posted;
    void *dst = PyArray_DATA(to);
    if (from.bytes < RELEASE_BYTES) {
        sm_get(me, pe, dst, from.off, from.bytes);
    } else {
        RELEASED(sm_get(p, pe, dst, from.off, from.bytes));
    }
    Py_RETURN_NONE;
}

static PyObject *hot_get(ARGS) { return get(self, args, n, names, 0); }
static PyObject *hot_get_nbi(ARGS) { return get(self, args, n, names, 1); }

static PyObject *hot_p(ARGS) {
    place to;
    int pe, kind;
    uint64_t bits;
    if (!PLAIN(3) || !symmetric(args[0], &to) || !pe_number(args[2], &pe)) PYTHON;
    if ((kind = word_kind(&to)) < 0 || !bits_of(args[1], kind, &bits) || !PyArray_ISWRITEABLE(to.array)) PYTHON;
    POSTED;
    sm_put(me, pe, to.off, &bits, to.bytes);
    Py_RETURN_NONE;
}

static PyObject *hot_g(ARGS) {
    place from;
    int pe;
    uint64_t bits;
    if (!PLAIN(2) || !symmetric(args[0], &from) || !pe_number(args[1], &pe)) PYTHON;
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
    if (!PLAIN(2 + values + at) || !symmetric(args[at], &to) || !pe_number(args[at + 1 + values], &pe)) PYTHON;
    if ((kind = word_kind(&to)) < 0 || (op != SM_AMO_FETCH && !PyArray_ISWRITEABLE(to.array))) PYTHON;
    if (kind >= SM_F32 && op != SM_AMO_FETCH && op != SM_AMO_SET && op != SM_AMO_SWAP) PYTHON;
    if (values && !bits_of(args[at + values], kind, &value)) PYTHON;
    if (values == 2 && !bits_of(args[at + 1], kind, &cond)) PYTHON;
    PyArrayObject *fetch = (PyArrayObject *)args[0];
    if (at && (!contiguous(args[0]) || PyArray_DESCR(fetch) != PyArray_DESCR(to.array) || PyArray_SIZE(fetch) != 1 ||
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

static PyObject *hot_put_signal(ARGS) {     /* (target, source, pe, signal, value, sigop) */
    place to, sig;
    int pe, add;
    uint64_t value;
    if (!PLAIN(6) || !symmetric(args[0], &to) || !contiguous(args[1]) || !pe_number(args[2], &pe)) PYTHON;
    if (!signal_word(args[3], &sig) || !bits_of(args[4], SM_U64, &value) || !enum_value(args[5], signal_type, &add)) PYTHON;
    PyArrayObject *from = (PyArrayObject *)args[1];
    uint64_t bytes = (uint64_t)PyArray_NBYTES(from);
    if (PyArray_DESCR(from) != PyArray_DESCR(to.array) || bytes > to.bytes) PYTHON;
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
    if (!PLAIN(3) || !signal_word(args[0], &sig) || !bits_of(args[1], SM_U64, &value) || !pe_number(args[2], &pe)) PYTHON;
    POSTED;
    sm_amo(me, pe, sig.off, 8, op, value, 0);
    Py_RETURN_NONE;
}

static PyObject *hot_signal_set(ARGS) { return signal_update(self, args, n, names, SM_AMO_SET); }
static PyObject *hot_signal_add(ARGS) { return signal_update(self, args, n, names, SM_AMO_ADD); }

static PyObject *hot_signal_fetch(ARGS) {
    place sig;
    if (!PLAIN(1) || !signal_word(args[0], &sig)) PYTHON;
    return PyLong_FromUnsignedLongLong(sm_amo(me, me->me, sig.off, 8, SM_AMO_FETCH, 0, 0));
}

/* Waits up to one slice: a few looks with the GIL held (the word often is there), then without. */
static int wait_word(const place *at, int kind, int cmp, uint64_t value) {
    const char *word = me->base + at->off;
    for (int i = 0; i < 20; i++) {
        if (sm_test(word, kind, cmp, value)) return SM_OK;
        sm_pause();
    }
    int status;
    RELEASED(status = sm_wait(p, at->off, kind, cmp, value, SLICE_NS));
    return status;
}

static PyObject *hot_signal_wait_until(ARGS) {      /* (signal, cmp, value) */
    place sig;
    int cmp;
    uint64_t value;
    if (!PLAIN(3) || !signal_word(args[0], &sig) || !enum_value(args[1], cmp_type, &cmp)) PYTHON;
    if (!bits_of(args[2], SM_U64, &value)) PYTHON;
    sm_pe *p = me;
    if (wait_word(&sig, SM_U64, cmp, value)) PYTHON;
    return PyLong_FromUnsignedLongLong(sm_amo(p, p->me, sig.off, 8, SM_AMO_FETCH, 0, 0));
}

static PyObject *hot_wait_until(ARGS) {             /* (ivar, cmp, value) */
    place at;
    int cmp, kind;
    uint64_t value;
    if (!PLAIN(3) || !symmetric(args[0], &at) || !enum_value(args[1], cmp_type, &cmp)) PYTHON;
    if ((kind = word_kind(&at)) < 0 || kind >= SM_F32 || !bits_of(args[2], kind, &value)) PYTHON;
    if (wait_word(&at, kind, cmp, value)) PYTHON;
    Py_RETURN_NONE;
}

static PyObject *hot_test(ARGS) {
    place at;
    int cmp, kind;
    uint64_t value;
    if (!PLAIN(3) || !symmetric(args[0], &at) || !enum_value(args[1], cmp_type, &cmp)) PYTHON;
    if ((kind = word_kind(&at)) < 0 || kind >= SM_F32 || !bits_of(args[2], kind, &value)) PYTHON;
    return PyBool_FromLong(sm_test(me->base + at.off, kind, cmp, value));
}

static PyObject *hot_fence(ARGS) {
    if (!PLAIN(0)) PYTHON;
    sm_fence(me);
    Py_RETURN_NONE;
}

static PyObject *hot_quiet(ARGS) {
    if (!PLAIN(0)) PYTHON;
    sm_complete(me, 0);
    Py_RETURN_NONE;
}

/* (): quiet and the barrier of all PEs, or fence and barrier; what is not done within a slice goes on in Python. */
static PyObject *meet_all(ARGS, int complete, uint64_t call) {
    if (!PLAIN(0)) PYTHON;
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
        PyObject *result = replay(routine, args, n, names, &known);             \
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
    FRONT(put_many), FRONT(signal_wait_until), FRONT(wait_until), FRONT(test), FRONT(fence), FRONT(quiet),
    FRONT(barrier_all), FRONT(sync_all), FRONT(broadcast), FRONT(fcollect), FRONT(alltoall), FRONT(sum_reduce),
    FRONT(prod_reduce), FRONT(min_reduce), FRONT(max_reduce), FRONT(and_reduce), FRONT(or_reduce), FRONT(xor_reduce),
    FRONT(atomic_set), FRONT(atomic_add), FRONT(atomic_inc), FRONT(atomic_and), FRONT(atomic_or), FRONT(atomic_xor),
    BOTH(atomic_fetch), BOTH(atomic_swap), BOTH(atomic_compare_swap), BOTH(atomic_fetch_add), BOTH(atomic_fetch_inc),
    BOTH(atomic_fetch_and), BOTH(atomic_fetch_or), BOTH(atomic_fetch_xor),
};

/* front(name, function, doc, module) -> builtin; one definition each lives as long as the process. */
static PyObject *make_front(PyObject *module, PyObject *args) {
    (void)module;
    const char *name, *doc;
    PyObject *function, *where;
    if (!PyArg_ParseTuple(args, "sOsO", &name, &function, &doc, &where)) return NULL;
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
        return PyCFunction_NewEx(def, function, where);
    }
    Py_RETURN_NONE;
}

static PyObject *bind(PyObject *module, PyObject *args) {
    (void)module;
    unsigned long long address, barrier, sync;
    PyObject *cmp, *sig;
    int isa;
    if (!PyArg_ParseTuple(args, "KOOiKK", &address, &cmp, &sig, &isa, &barrier, &sync)) return NULL;
    Py_XDECREF(cmp_type);
    Py_XDECREF(signal_type);
    Py_INCREF(cmp);
    Py_INCREF(sig);
    cmp_type = cmp, signal_type = sig;
    sm_select_isa(isa);
    barrier_call = barrier, sync_call = sync;
    forget_plans();
    me = (sm_pe *)(uintptr_t)address;
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
    {"front", make_front, METH_VARARGS, "front(name, function, doc, module) -> builtin, or None if there is none"},
    {"bind", bind, METH_VARARGS, "bind(address of sm_pe or 0, comparison type, signal type, isa, barrier_all's and sync_all's fingerprints)"},
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
