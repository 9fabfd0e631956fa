/* The fronts of iput and iget: contiguous arrays, whose every tst-th or sst-th element is moved. A part of hot.c, kept apart
 * for its length. */

#define STRIDE_MAX INT32_MAX                /* bytes; a record holds strides as int32 */

typedef struct {
    int64_t step, bytes, elements;          /* of an array: how far apart, in elements and in bytes, how many */
} stepped;

static int stepped_of(PyArrayObject *array, PyObject *step, stepped *s) {
    s->step = 1;
    if (step && !above_0(step, &s->step)) return 0;
    if (s->step > STRIDE_MAX / PyArray_ITEMSIZE(array)) return 0;
    s->bytes = s->step * PyArray_ITEMSIZE(array);
    s->elements = (PyArray_SIZE(array) - 1) / s->step + 1;
    return 1;
}

/* (target, source, pe, tst, sst, size): the symmetric one is the target of a put and the source of a get. */
static PyObject *move_steps(ARGS, int put) {
    place sym;
    stepped to, from;
    int pe;
    TAKE(3, 6);
    if (!symmetric(a[put ? 0 : 1], &sym) || !contiguous(a[put ? 1 : 0]) || !pe_number(a[2], &pe)) PYTHON;
    PyArrayObject *other = (PyArrayObject *)a[put ? 1 : 0], *target = put ? sym.array : other;
    if (PyArray_DESCR(other) != PyArray_DESCR(sym.array) || !PyArray_ISWRITEABLE(target)) PYTHON;
    if (!stepped_of(target, GIVEN(3), &to) || !stepped_of(put ? other : sym.array, GIVEN(4), &from)) PYTHON;
    int64_t size = to.elements < from.elements ? to.elements : from.elements, wanted = size;
    if (OPTION(5) && (!above_0(a[5], &wanted) || wanted > size)) PYTHON;
    uint64_t here = (uint64_t)(uintptr_t)PyArray_DATA(other), own = (uint64_t)(uintptr_t)PyArray_DATA(sym.array);
    if (pe == me->me && here < own + sym.bytes && own < here + (uint64_t)PyArray_NBYTES(other)) PYTHON;
    sm_op op = {.op = put ? SM_PUT_STRIDED : SM_GET_STRIDED, .pe = pe, .n = (uint64_t)wanted,
                .value = (uint64_t)PyArray_ITEMSIZE(other), .dst = put ? sym.off : here, .src = put ? here : sym.off};
    if (to.step == 1 && from.step == 1) op.value *= op.n, op.n = 1;
    op.aux = (uint64_t)(put ? to.bytes : from.bytes) | (uint64_t)(put ? from.bytes : to.bytes) << 32;
    int64_t done = 0;
    if (op.n * op.value < RELEASE_BYTES) {
        sm_run(me, 0, &op, 1, &done, 0);
    } else {
        RELEASED(sm_run(p, 0, &op, 1, &done, 0));
    }
    Py_RETURN_NONE;
}

static PyObject *hot_iput(ARGS) { return move_steps(self, args, n, names, 1); }
static PyObject *hot_iget(ARGS) { return move_steps(self, args, n, names, 0); }
