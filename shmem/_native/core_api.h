/* What Python sees of the C core: cffi reads this file, the C files include it. Plain declarations only (no
 * preprocessor). Every function is safe to call without the GIL. Status codes are negative; 0 is success.
 * Offsets count bytes from the start of a PE's symmetric heap; addresses are this process's own. */

/* One operation record, 64 bytes: shmem/records.py holds the same layout as a NumPy dtype, and says what each
 * field means for each operation. */
typedef struct {
    uint8_t op, flags;
    uint16_t width;
    int32_t pe;
    uint64_t dst, src, n, value, cond, aux, id;
} sm_op;

/* The index lists and strides of a row operation (64-bit words, filled by Python, pointed to by `aux`). */
typedef struct {
    int64_t target_rows, target_stride, source_rows, source_stride, width, terms, bias0, bias1;
} sm_rows;

/* A layout of lines (shmem/layout.py), filled by Python, pointed to by `aux`: a line is up to 8 runs of equal cells,
 * which are 8 bytes each. Cell i of a run holds `width` payload bytes from byte `start` + i * width of the line's on,
 * moved up by `shift` bytes, and flag * `unit`, which `mask` covers. */
typedef struct {
    uint64_t unit, mask;
    uint32_t at, n, start;
    uint16_t width, shift;
} sm_cells;
typedef struct {
    uint64_t line, step, data, tail;    /* bytes; a last line ends early, its payload a multiple of tail (0: never) */
    uint32_t order, reader, group, runs;
    sm_cells cells[8];
} sm_lines;
/* One term of a reduction: elements in the heap of a PE. */
typedef struct {
    int64_t pe;
    uint64_t offset;
} sm_term;

typedef struct {
    uint64_t sleeps, wakes, woken;      /* futex waits entered, wake calls made, waiters those calls woke */
    uint64_t missed;                    /* waits that found their word only when a sleep's cap was over */
} sm_counts;

/* One own word (an offset in the heap), the comparison it shall satisfy, and the bit pattern it is compared with. */
typedef struct {
    uint64_t offset, value;
    uint32_t kind, cmp;
} sm_condition;

typedef struct sm_pe sm_pe;

/* A PE's view of the job. `segments[i]` is the address of PE i's segment (header, then heap) in this process, 0
 * if it can't be reached by loads and stores. Returns NULL when memory is short. */
uint64_t sm_head_bytes(void);
void sm_unmap_heap(void *heap);                              /* of any PE, in this process; its header stays */
void sm_retire(sm_pe *p);                                    /* no heap is used any more */
/* A header and a heap side by side: second mappings of the shared pages at two addresses, or new pages (0); 0 if that
 * can't be. */
uint64_t sm_map_segment(uint64_t head, uint64_t head_bytes, uint64_t heap, uint64_t heap_bytes);
sm_pe *sm_open(int me, int n, const uint64_t *segments, uint64_t heap_bytes, int cores, int survive);
uint64_t sm_bulk_bytes(const sm_pe *p);                      /* of one PE's share of work too large for the cache */
uint64_t sm_spill_bytes(const sm_pe *p);                     /* that each PE gets when the results of all fill the cache */
void sm_close(sm_pe *p);
void sm_announce(sm_pe *p);                                  /* header of the own segment ready; before a barrier */
void sm_mark_live(sm_pe *p, uint64_t off, uint64_t n, int live);
int sm_is_live(const sm_pe *p, uint64_t off, uint64_t n);
void sm_counts_read(const sm_pe *p, sm_counts *out);
/* The longest sleep of this PE's waits before they look again by themselves; 0: as usual. A test that counts missed
 * wake-ups makes it longer than any delay of the machine, or a word just stored by a PE that has not woken yet counts. */
void sm_set_cap(sm_pe *p, int64_t ns);
void sm_set_viewed(sm_pe *p, int pe);                        /* somebody holds a ptr() view of that heap */

/* Life and death of PEs (survive mode). sm_alive: 1 alive, 2 ended well, 3 died; sm_find_dead looks at every
 * process and returns how many are dead. */
int sm_alive(const sm_pe *p, int pe);
void sm_set_alive(sm_pe *p, int state);
int sm_find_dead(sm_pe *p);
int sm_any_dead(const sm_pe *p);                             /* as of the last look */

/* Moving bytes. A put's or get's bytes are in place on return; a put wakes the target's waiters. */
void sm_put(sm_pe *p, int pe, uint64_t dst, const void *src, uint64_t n);
void sm_get(sm_pe *p, int pe, void *dst, uint64_t src, uint64_t n);
void sm_select_isa(int isa);                                 /* 0 best of this CPU, 1 portable, 2 avx2, 3 neon */
void sm_copy(void *dst, const void *src, uint64_t n, int streaming);
void sm_fill(void *dst, int byte, uint64_t n);
uint64_t sm_amo(sm_pe *p, int pe, uint64_t off, int width, int op, uint64_t value, uint64_t cond);
void sm_put_signal(sm_pe *p, int pe, uint64_t dst, const void *src, uint64_t n, uint64_t sig, uint64_t value, int add);
void sm_fence(sm_pe *p);
void sm_quiet(sm_pe *p);

/* What was put on a queue (a context) since it was last completed: nothing of it is under way here, but the
 * program may not rely on that. */
void sm_post(sm_pe *p, int q, int64_t n);
void sm_complete(sm_pe *p, int q);
uint64_t sm_pending(const sm_pe *p, int q);

/* Waiting. kind: 0 i32, 1 u32, 2 i64, 3 u64, 4 f32, 5 f64. Returns 0, or SM_TIMEOUT / SM_INTERRUPTED / SM_DIED. */
int sm_test(const void *word, int kind, int cmp, uint64_t value);
int sm_wait(sm_pe *p, uint64_t off, int kind, int cmp, uint64_t value, int64_t timeout_ns);
int sm_wait_any(sm_pe *p, const sm_condition *any, int64_t n, int64_t timeout_ns, int64_t *held);   /* held: which one */
int64_t sm_test_any(const sm_pe *p, const sm_condition *any, int64_t n);                            /* -1: none */
void sm_test_each(const sm_pe *p, const sm_condition *all, int64_t n, uint8_t *held);               /* 0 or 1 each */

/* Barrier of n members; its words lie in the leader's header. `call` is the fingerprint of the collective call, 0 =
 * unchecked. After SM_TIMEOUT, SM_INTERRUPTED and SM_DIED the PE has arrived, and the next sm_barrier of the same slot and
 * call goes on with that barrier; one of another call first waits for the end of it. It belongs to the thread that entered
 * it until it is complete or that thread calls sm_disown; another thread gets SM_BUSY meanwhile, and nothing is done.
 * sm_barrier_all is the one of all PEs for up to one slice of time, after which it belongs to nobody; what it answers other
 * than 0, the next sm_barrier answers again, so that its caller may hand over to the general path. */
int sm_barrier(sm_pe *p, int slot, int leader, int n, uint64_t call, int64_t timeout_ns);
int sm_barrier_all(sm_pe *p, uint64_t call);
void sm_disown(sm_pe *p);                                    /* the calling thread leaves its barriers, entered as they are */
uint32_t sm_entered(const sm_pe *p, int pe, int slot);       /* how many barriers of that slot a PE has entered */
uint32_t sm_rounds(const sm_pe *p, int slot, int leader);    /* how many barriers of that leader's slot are complete */
int sm_unfinished(const sm_pe *p, int slot, uint64_t *call); /* whether this PE has entered one and not left it; its call */
char *sm_call_text(sm_pe *p, int pe);                        /* 512 bytes in a PE's header */

/* A slot for a new team: nobody may be in a barrier of the slot's last team, and the members' first barrier must come
 * after every member's sm_team. 0, or -1: no memory. sm_note shows a word to the other members of a slot's team. */
int sm_team(sm_pe *p, int slot, const int32_t *pes, int n);
void sm_note(sm_pe *p, int slot, uint64_t value);
uint64_t sm_noted(const sm_pe *p, int pe, int slot);

/* Runs records [*done, n) of queue q in order; on SM_TIMEOUT and SM_INTERRUPTED call again to go on. */
int sm_run(sm_pe *p, int q, sm_op *ops, int64_t n, int64_t *done, int64_t timeout_ns);

/* Clocks of recorded runs, see clocks.c: a table of that many bytes at an offset of each heap. `now` is the time of the own
 * program. sm_clocks_run is sm_run for records that never block, and gives each its time; where an adapter carries them
 * out, its copy in `kept` gets the number under which it has landed (`id`), an atomic with a result also the time when it
 * had that (`n`). sm_clocks_look takes a time for own words that were seen, sm_clocks_test looks at own words and takes it.
 * A barrier: arrive with the own time, then meet; what comes after is later than sm_clocks_met says. */
uint64_t sm_clocks_bytes(void);
void sm_clocks_at(sm_pe *p, uint64_t offset);
int sm_clocks_run(sm_pe *p, int q, sm_op *ops, int64_t n, int64_t *done, uint64_t *now, uint64_t *times, sm_op *kept);
uint64_t sm_clocks_look(sm_pe *p, uint64_t off, uint64_t n, uint64_t now);
uint64_t sm_clocks_test(sm_pe *p, const sm_condition *all, int64_t n, uint8_t *held, uint64_t now);
void sm_clocks_arrive(sm_pe *p, int leader, int slot, uint64_t now);
uint64_t sm_clocks_met(sm_pe *p, int leader, int slot);

/* Leaving: see exit.c. Addresses of MPI_Abort, MPI_Finalize, MPI_Finalized and the handle of MPI_COMM_WORLD, once MPI
 * runs; the fingerprint of finalize and its deadline, once shmem runs. */
void sm_exit_register(const char *python);
void sm_exit_mpi(uint64_t abort, uint64_t finalize, uint64_t finalized, uint64_t comm);
void sm_exit_arm(sm_pe *p, uint64_t call, int64_t timeout_ns);
void sm_exit_state(int state);
void sm_exit_say(const char *text);                          /* on stderr, if all ends well */

/* Says `notice` on stderr after so long, and after `end_ns` says `end` and ends the process with exit code 1, unless called
 * off by sm_unwatch. See watchdog.c. 0, or -1: nobody watches. */
int sm_watch(const char *notice, int64_t notice_ns, const char *end, int64_t end_ns);
void sm_unwatch(void);

/* Lets that handler finalize MPI where mpi4py would do so before it: see finalize.c. The path of mpi4py's module, as it
 * was loaded, and the addresses of MPI_Finalize and Py_IsInitialized. Returns how many of the module's entries for
 * MPI_Finalize it changed. */
int sm_defer_finalize(const char *path, uint64_t finalize_of_mpi, uint64_t is_initialized_of_python);

/* Streams: a thread that runs jobs in order, see stream.c. The records and the job belong to the caller and must live until
 * the job is done. sm_job_wait: 0 done, SM_TIMEOUT, SM_INTERRUPTED; then `status` is how its records ended, `done` where. */
typedef struct {
    sm_op *ops;
    int64_t n, done, timeout_ns;
    int32_t q, status;
    uint32_t finished, pad;
} sm_job;
typedef struct sm_stream sm_stream;
sm_stream *sm_stream_open(sm_pe *p);                         /* NULL: no memory, or no thread */
int sm_stream_launch(sm_stream *s, sm_job *job);             /* 0, or -1: no memory */
int sm_job_wait(sm_pe *p, const sm_job *job, int64_t timeout_ns);
void sm_stream_close(sm_stream *s);                          /* jobs that are not done end with SM_CANCELLED */
