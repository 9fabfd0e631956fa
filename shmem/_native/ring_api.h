/* Queues of the fabric `nic` as they lie in memory that all PEs share: read by cffi and included by the C files. Each PE
 * has an arena of them behind its heap, whose start holds two tables; the rest is given out by its owner. Owner bits,
 * positions and laps are those of the hardware; shmem/nic/rings.py has the entries as dtypes. */

enum { SM_SEGMENTS = 2048, SM_PAIRS = 1024, SM_BLOCK = 64 };

typedef struct {                            /* a registered segment; key: 256 * (its number + 1) + the low bits of the PE */
    uint64_t lo, nbytes;                    /* in the heap; nbytes 0: private memory, out of reach of others */
    uint32_t rights;                        /* 1 read, 2 write, 4 atomics */
    uint8_t ended, pad[3];
    uint32_t users, known;                  /* requests let in and not over; 1 once it is all there */
} sm_segment;
typedef struct {                            /* where the receive queue of a queue pair is; offset 0: nowhere */
    int32_t pe, index;                      /* of its peer */
    uint64_t offset;
} sm_pair_place;
typedef struct {
    uint32_t segments, pairs;               /* entries in use */
    uint64_t pad[7];
    sm_segment segment[SM_SEGMENTS];
    sm_pair_place pair[SM_PAIRS];
} sm_arena;

typedef struct {                            /* a completion queue: this, then `depth` entries */
    uint32_t depth, overrun;
    uint64_t written, taken;
    uint32_t seq, sleepers;                 /* the futex of who waits for entries */
    uint64_t pad[4];
} sm_cq_ring;
typedef struct {                            /* new where `owner` is 1 in even laps, 0 in odd ones */
    uint8_t owner, received, status, opcode;
    uint16_t entry, has_immediate;
    uint32_t pair, pad;                     /* pair: the owner's number of the queue pair */
    uint64_t nbytes, wr_id, immediate, more[3];
} sm_cq_entry;
typedef struct {                            /* a receive queue: this, then `depth` entries */
    uint32_t depth;
    int32_t pair;
    uint64_t cq;                            /* where its completion queue is, in the owner's arena */
    uint64_t posted, taken;
    uint32_t failed, using;                 /* using: receives taken and not told of */
    uint64_t pad[3];
} sm_rq_ring;
typedef struct {
    uint64_t number, in_arena, lo, hi;      /* the buffer, in the owner's heap or arena */
} sm_rq_entry;
typedef struct {                            /* a send queue: this, then `depth` blocks */
    uint32_t depth, pi, ci, doorbell;
    uint64_t pad[6];
} sm_sq_ring;
typedef struct {                            /* the first block of a request; its body begins behind the control part */
    uint8_t owner, opcode, block, blocks, is_signaled, is_inline, fence, order;
    uint64_t wr_id;
    uint32_t nbytes, key;
    int64_t offset;
    uint64_t immediate;
    uint16_t pieces;
    uint8_t bad, has_remote, has_notify, pad[3];
    uint64_t operand, compare;              /* of an atomic; of WRITE_NOTIFY: the value, and where the word is */
} sm_wqe;
typedef struct {
    uint64_t address;
    uint32_t nbytes, pad;
} sm_piece;

uint64_t sm_arena_bytes(void);
