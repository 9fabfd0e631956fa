/* How the fronts take their arguments: by position or by keyword, Python's numbers and NumPy's, constants and their names.
 * What is not certain to be right is Python's to judge. A part of hot.c, kept apart for its length. */

#define ROOM 8                              /* parameters of a front at most */
#define EXACT (1ll << 53)                   /* up to here a double holds every integer */

/* What a front knows of the function that it stands for: the state of its self, which is a module of its own. */
typedef struct {
    PyObject *function, *names[ROOM];       /* the parameters' names, interned */
    int needed, positional, all;            /* how many parameters have no default, may be positional, are there */
} front;

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
    result = PyObject_Call(((front *)PyModule_GetState(self))->function, tuple, dict);
done:
    Py_DECREF(tuple);
    Py_XDECREF(dict);
    return result;
}

/* The arguments in the order of the parameters, in `room`, NULL for those not given; or NULL where Python has to decide:
 * what is no call of this function, and parameters from number `known` on, unless None. A name that is not the parameter's
 * very object is Python's, too: those in the text of a program are that object. */
static PyObject *const *gather(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names, int known,
                               PyObject **room) {
    const front *f = PyModule_GetState(self);
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    if (n > f->positional) return NULL;
    for (int i = 0; i < ROOM; i++) room[i] = i < n ? args[i] : NULL;
    for (Py_ssize_t k = 0; k < named; k++) {
        PyObject *name = PyTuple_GetItem(names, k);
        int at = 0;
        while (at < f->all && f->names[at] != name) at++;
        if (at == f->all || room[at]) return NULL;
        room[at] = args[n + k];
    }
    for (int i = 0; i < f->needed; i++)
        if (!room[i]) return NULL;
    for (int i = known; i < f->all; i++)
        if (room[i] && room[i] != Py_None) return NULL;
    return room;
}

#define ARGS PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names
#define PYTHON return fall_back(self, args, n, names)
/* Begins a front: `a` are its arguments, `count` of them in any case; GIVEN(i) those up to `known`, NULL if not given;
 * OPTION(i) the same where None means that as well. */
#define TAKE(count, known)                                                                           \
    PyObject *room[ROOM], *const *a = args;                                                          \
    if (!me || me->any_dead || me->detour) PYTHON;                                                                 \
    if ((names || n != (count)) && !(a = gather(self, args, n, names, known, room))) PYTHON
#define GIVEN(i) (a == args ? NULL : a[i])
#define OPTION(i) (GIVEN(i) == Py_None ? NULL : GIVEN(i))

/* An int or an integer of NumPy's; `*high` where it is an unsigned one above INT64_MAX. 0 for all others, bool included. */
static int whole(PyObject *o, int64_t *v, int *high) {
    *high = 0;
    if (PyLong_CheckExact(o)) {
        int overflow;
        *v = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow <= 0) return !overflow;
        *v = (int64_t)PyLong_AsUnsignedLongLong(o);
        *high = 1;
        if (!PyErr_Occurred()) return 1;
        PyErr_Clear();
        return 0;
    }
#define SCALAR(Type, ctype)                                                             \
    if (Py_TYPE(o) == &Py##Type##ArrType_Type) {                                        \
        npy_##ctype number;                                                             \
        PyArray_ScalarAsCtype(o, &number);                                              \
        *v = (int64_t)number;                                                           \
        *high = (npy_##ctype)-1 > 0 && sizeof number == 8 && *v < 0;                    \
        return 1;                                                                       \
    }
    SCALAR(Long, long)
    SCALAR(Int, int)
    SCALAR(ULong, ulong)
    SCALAR(UInt, uint)
    SCALAR(LongLong, longlong)
    SCALAR(ULongLong, ulonglong)
    SCALAR(Short, short)
    SCALAR(UShort, ushort)
    SCALAR(Byte, byte)
    SCALAR(UByte, ubyte)
    return 0;
}

static int pe_number(PyObject *o, int *pe) {
    int64_t v;
    int high;
    if (!whole(o, &v, &high) || high || v < 0 || v >= me->n || !me->heap[v]) return 0;
    *pe = (int)v;
    return 1;
}

/* A number of elements, bytes or the like: above 0. */
static int above_0(PyObject *o, int64_t *v) {
    int high;
    return whole(o, v, &high) && !high && *v > 0;
}

/* The bits of a float, or of an integer that is one exactly, as that kind. */
static int float_bits(PyObject *o, int kind, uint64_t *bits) {
    int64_t v;
    int high;
    double d;
    float f;
    if (PyFloat_CheckExact(o)) {
        d = PyFloat_AsDouble(o);
    } else if (Py_TYPE(o) == &PyDoubleArrType_Type) {
        PyArray_ScalarAsCtype(o, &d);
    } else if (Py_TYPE(o) == &PyFloatArrType_Type) {
        PyArray_ScalarAsCtype(o, &f);
        if (f != f) return 0;               /* which NaN that is */
        d = (double)f;
    } else if (whole(o, &v, &high) && !high && v >= -EXACT && v <= EXACT) {
        d = (double)v;
    } else {
        return 0;
    }
    f = (float)d;
    if (kind == SM_F32 && f - f != 0 && d - d == 0) return 0;       /* it overflows: NumPy warns */
    *bits = 0;
    if (kind == SM_F64) memcpy(bits, &d, 8);
    else memcpy(bits, &f, 4);
    return 1;
}

/* The bits of a number as that kind; 0 where Python has to decide (other types, out of range). */
static int bits_of(PyObject *o, int kind, uint64_t *bits) {
    int64_t v;
    int high;
    if (kind == SM_F32 || kind == SM_F64) return float_bits(o, kind, bits);
    if (!whole(o, &v, &high) || (high && kind != SM_U64)) return 0;
    if ((kind == SM_U64 && v < 0 && !high) || (kind == SM_U32 && (v < 0 || v > UINT32_MAX)) ||
        (kind == SM_I32 && (v < INT32_MIN || v > INT32_MAX)))
        return 0;
    *bits = (uint64_t)v;
    return 1;
}

static const char *const comparisons[] = {"==", "!=", ">", "<=", "<", ">=", "eq", "ne", "gt", "le", "lt", "ge"};
static const char *const signal_operations[] = {"set", "add"};

/* A member of an enumeration of `members`, or one of the `n` names of theirs, which come in their order. */
static int member(PyObject *o, PyObject *type, const char *const *texts, int n, int members, int *value) {
    if ((PyObject *)Py_TYPE(o) == type) {
        *value = (int)PyLong_AsLong(o);
        return 1;
    }
    if (!PyUnicode_CheckExact(o)) return 0;
    for (int i = 0; i < n; i++) {
        if (PyUnicode_CompareWithASCIIString(o, texts[i])) continue;
        *value = i % members;
        return 1;
    }
    return 0;
}

static int comparison(PyObject *o, int *cmp) { return member(o, cmp_type, comparisons, 12, 6, cmp); }
static int signal_operation(PyObject *o, int *add) { return member(o, signal_type, signal_operations, 2, 2, add); }

/* How long the first look of a wait may be, in ns: a wait that has a limit of its own is Python's but for a moment. 0: none;
 * -1: what `timeout` is has to be judged in Python. */
static int64_t slice_of(PyObject *timeout) {
    if (!timeout) return SLICE_NS;
    double s = -1;
    int64_t v;
    int high;
    if (PyFloat_CheckExact(timeout)) s = PyFloat_AsDouble(timeout);
    else if (whole(timeout, &v, &high) && !high) s = (double)v;
    if (!(s >= 0)) return -1;
    return s * 1e9 >= SLICE_NS ? SLICE_NS / 100 : 0;
}

/* front(name, function, doc, module, parameters, needed, positional) -> builtin, which lives as long as the process. */
static struct PyModuleDef front_self = {PyModuleDef_HEAD_INIT, "front", "The self of a C front: .function is what it stands for.",
                                        sizeof(front), NULL, NULL, NULL, NULL, NULL};

static PyObject *self_of(PyObject *function, PyObject *parameters, int needed, int positional) {
    PyObject *self = PyModule_Create(&front_self);
    if (!self || PyModule_AddObjectRef(self, "function", function)) return NULL;
    front *f = PyModule_GetState(self);
    Py_INCREF(function);
    *f = (front){function, {NULL}, needed, positional, (int)PyTuple_Size(parameters)};
    if (f->all > ROOM) return PyErr_Format(PyExc_ValueError, "a front has at most %d parameters", ROOM);
    for (int i = 0; i < f->all; i++) {
        f->names[i] = PyTuple_GetItem(parameters, i);
        Py_INCREF(f->names[i]);
        PyUnicode_InternInPlace(&f->names[i]);
    }
    return self;
}
