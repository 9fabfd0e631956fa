/* Collectives replayed by the front: Python works out the records of a call once (shmem/collectives) and leaves them here
 * under what they depend on. A call that finds its records runs them; all others, and what does not end well, are Python's.
 * No algorithm is here. A part of hot.c, kept apart for its length. */

#define PLANS 256                           /* a later plan takes the place of an earlier one with the same number */

typedef struct { uint64_t routine, target, target_bytes, source, source_bytes, type, root, size; } plan_key;

typedef struct {
    plan_key key;
    uint64_t frees;                         /* of the heap when it was learned: a block may be another one since */
    PyObject *plan;                         /* keeps the records alive; NULL: nothing here */
    sm_op *ops[2];
    int64_t n;
} plan_entry;

static plan_entry plans[PLANS];

/* What routines are called; the order gives their numbers. */
static const char *const routines[] = {"broadcast",  "fcollect",   "alltoall",   "sum_reduce", "prod_reduce",
                                       "min_reduce", "max_reduce", "and_reduce", "or_reduce",  "xor_reduce"};
enum { BROADCAST, FCOLLECT, ALLTOALL, SUM_REDUCE, PROD_REDUCE, MIN_REDUCE, MAX_REDUCE, AND_REDUCE, OR_REDUCE, XOR_REDUCE };

static plan_entry *plan_at(const plan_key *key) {
    const uint64_t *words = (const uint64_t *)(const void *)key;
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof *key / sizeof *words; i++) hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
    return &plans[hash >> 56];
}

/* A contiguous array whose type is its number alone: not strings, structures and times, whose descriptors say more. */
static int plain_array(PyObject *o, uint64_t *address, uint64_t *bytes, uint64_t *type) {
    if (!PyArray_CheckExact(o)) return 0;
    PyArrayObject *a = (PyArrayObject *)o;
    int number = PyArray_TYPE(a);
    if (!PyArray_IS_C_CONTIGUOUS(a) || !PyArray_ISNOTSWAPPED(a)) return 0;
    if (number >= NPY_OBJECT && number != NPY_HALF && !(number >= NPY_USERDEF && number < NPY_VSTRING)) return 0;
    *address = (uint64_t)(uintptr_t)PyArray_DATA(a);
    *bytes = (uint64_t)PyArray_NBYTES(a);
    *type = (uint64_t)number;
    return 1;
}

/* The key of a call; 0 where these arguments are Python's. No root, no size: -1. */
static int plan_key_of(plan_key *key, int routine, PyObject *target, PyObject *source, PyObject *root, PyObject *size) {
    uint64_t type;
    memset(key, 0, sizeof *key);
    key->routine = (uint64_t)routine;
    if (!plain_array(target, &key->target, &key->target_bytes, &key->type)) return 0;
    if (!plain_array(source, &key->source, &key->source_bytes, &type) || type != key->type) return 0;
    if (!PyArray_ISWRITEABLE((PyArrayObject *)target)) return 0;
    PyObject *given[2] = {root, size};
    uint64_t *into[2] = {&key->root, &key->size};
    for (int i = 0; i < 2; i++) {
        int64_t value;
        int high;
        *into[i] = (uint64_t)-1;
        if (!given[i] || given[i] == Py_None) continue;
        if (!whole(given[i], &value, &high) || high || value < 0) return 0;
        *into[i] = (uint64_t)value;
    }
    return 1;
}

/* Goes on with a call in Python. An exception that a signal raised before Python got there must not lose the place. */
static PyObject *go_on(PyObject *plan, int half, long long done, int status) {
    PyObject *result = PyObject_CallMethod(plan, "resume", "iLi", half, done, status), *type, *value, *trace;
    if (result || (status != SM_TIMEOUT && status != SM_INTERRUPTED)) return result;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *left = PyObject_CallMethod(plan, "leave", "iL", half, done);
    if (!left) PyErr_Clear();
    Py_XDECREF(left);
    PyErr_Restore(type, value, trace);
    return NULL;
}

/* Runs the records of a call if they are known: the call's result, or NULL and *known = 0. */
static PyObject *replay(int routine, PyObject *const *args, PyObject *size, int *known) {
    plan_key key;
    *known = 0;
    if (!plan_key_of(&key, routine, args[0], args[1], routine == BROADCAST ? args[2] : NULL, size)) return NULL;
    plan_entry *at = plan_at(&key);
    if (!at->plan || at->frees != me->frees || memcmp(&at->key, &key, sizeof key)) return NULL;
    if (me->visits[0].waiting || me->visits[0].differed) return NULL;      /* a call given up: Python knows which */
    *known = 1;
    PyObject *plan = at->plan, *result;
    sm_pe *p = me;
    int half = (int)(sm_rounds(p, 0, 0) & 1), status;
    sm_op *ops = at->ops[half];
    int64_t count = at->n, done = 0;
    Py_INCREF(plan);                        /* another thread may learn or forget meanwhile */
    Py_BEGIN_ALLOW_THREADS
    status = sm_run(p, SM_QUEUES - 1, ops, count, &done, SLICE_NS);
    Py_END_ALLOW_THREADS
    if (status) {
        sm_disown(p);
        result = go_on(plan, half, (long long)done, status);
    } else {
        Py_INCREF(Py_None);
        result = Py_None;
    }
    Py_DECREF(plan);
    return result;
}

static void forget_plans(void) {
    for (int i = 0; i < PLANS; i++) Py_CLEAR(plans[i].plan);
}

/* learn(routine, target, source, root, size, plan, address of either half's records, number of records) */
static PyObject *learn(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    PyObject *target, *source, *root, *size, *plan;
    unsigned long long first, second;
    long long n;
    if (!PyArg_ParseTuple(args, "sOOOOOKKL", &name, &target, &source, &root, &size, &plan, &first, &second, &n)) return NULL;
    plan_key key;
    for (int routine = 0; me && routine < (int)(sizeof routines / sizeof *routines); routine++) {
        if (strcmp(routines[routine], name) || !plan_key_of(&key, routine, target, source, root, size)) continue;
        plan_entry *at = plan_at(&key);
        PyObject *old = at->plan;
        Py_INCREF(plan);
        *at = (plan_entry){key, me->frees, plan, {(sm_op *)(uintptr_t)first, (sm_op *)(uintptr_t)second}, n};
        Py_XDECREF(old);
    }
    Py_RETURN_NONE;
}
