/* The front of put_many: it looks at the arrays, memory.c moves the rows. A part of hot.c, kept apart for its length. */

/* The rows of a contiguous array: how many, and the bytes of each. */
static int64_t rows_of(PyArrayObject *a, int64_t *width) {
    if (!PyArray_NDIM(a)) return 0;
    *width = PyArray_NBYTES(a) / PyArray_DIM(a, 0);
    return PyArray_DIM(a, 0);
}

/* Whole numbers as int64; how many, or 0. */
static int64_t numbers(PyObject *o, const int64_t **at) {
    if (!contiguous(o) || PyArray_NDIM((PyArrayObject *)o) != 1 || !PyArray_ISBEHAVED_RO((PyArrayObject *)o)) return 0;
    if (PyArray_TYPE((PyArrayObject *)o) != NPY_INT64) return 0;
    *at = PyArray_DATA((PyArrayObject *)o);
    return PyArray_DIM((PyArrayObject *)o, 0);
}

static PyObject *hot_put_many(ARGS) {       /* (targets or (targets, rows), sources, pes) */
    place to;
    sm_many m = {.n = 1};
    int64_t width = 0, one = 0, k[3] = {0, 0, 0};   /* lengths of targets, sources, pes */
    int pe;
    TAKE(3, 3);
    int pair = PyTuple_Check(a[0]) && PyTuple_Size(a[0]) == 2;
    if (!symmetric(pair ? PyTuple_GetItem(a[0], 0) : a[0], &to) || !PyArray_ISWRITEABLE(to.array)) PYTHON;
    if (!contiguous(a[1]) || PyArray_DESCR((PyArrayObject *)a[1]) != PyArray_DESCR(to.array)) PYTHON;
    m.last_row = (k[0] = rows_of(to.array, &m.dst_step)) - 1;
    if (pair) k[0] = numbers(PyTuple_GetItem(a[0], 1), &m.rows);
    k[1] = rows_of((PyArrayObject *)a[1], &width);
    if (pe_number(a[2], &pe)) one = pe, m.pes = &one, k[2] = 1;
    else k[2] = numbers(a[2], &m.pes);
    for (int i = 0; i < 3; i++)
        if (k[i] != 1) m.n = k[i];
    for (int i = 0; i < 3; i++)
        if (!k[i] || (k[i] != 1 && k[i] != m.n)) PYTHON;
    if (width > m.dst_step || m.n * width >= RELEASE_BYTES) PYTHON;
    m.dst = to.off, m.width = (uint64_t)width, m.src = PyArray_DATA((PyArrayObject *)a[1]);
    m.src_step = k[1] == 1 ? 0 : width, m.pe_step = k[2] != 1, m.row_step = k[0] != 1;
    if (!pair && k[0] == 1) m.dst_step = 0;
    if (sm_put_many(me, &m)) PYTHON;
    me->posted[0] += (uint64_t)m.n;
    Py_RETURN_NONE;
}
