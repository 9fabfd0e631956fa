/* Internals of the C core: the header of every PE's segment, and the private view that a process has of all of
 * them. A segment is [header | symmetric heap]. Every word that two PEs share is a C11 atomic. The header holds what
 * waiting needs: buckets of wake words (a waiter never sleeps on the awaited word itself: a futex compares 32 bits,
 * and a 64-bit word that changes in its upper half would lose the wake-up) and the words of barriers. */
#ifndef SM_CORE_H
#define SM_CORE_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "core_api.h"

#define SM_BUCKETS 64
#define SM_SLOTS 64
#define SM_QUEUES 66                        /* the default context's, 64 others, and the collectives' own */
#define SM_GRANULE 64                       /* bytes of heap that one bit of the live map stands for */
#define SM_TEXT 512
#define SM_REFUSED 2                        /* the "call" of a PE whose arguments were wrong: differs from any (all are odd) */
#define SM_MAGIC 0x73686d656d753031ull

enum { SM_OK = 0, SM_TIMEOUT = -1, SM_INTERRUPTED = -2, SM_DIED = -3, SM_MISMATCH = -4, SM_BAD_OP = -5, SM_SKIPPED = -6,
       SM_CANCELLED = -7, SM_BUSY = -8, SM_STUCK = -9, SM_NO_MEMORY = -10,
       SM_NO_ROOM = -11, SM_OVERRUN = -12, SM_FAILED = -13 };
enum { SM_ALIVE = 1, SM_ENDED = 2, SM_DEAD = 3 };
enum { SM_EQ, SM_NE, SM_GT, SM_LE, SM_LT, SM_GE };
enum { SM_I32, SM_U32, SM_I64, SM_U64, SM_F32, SM_F64 };
enum { SM_AMO_FETCH, SM_AMO_SET, SM_AMO_ADD, SM_AMO_SWAP, SM_AMO_CSWAP, SM_AMO_AND, SM_AMO_OR, SM_AMO_XOR };
enum {
    SM_NOP, SM_PUT, SM_GET, SM_PUT_STRIDED, SM_GET_STRIDED, SM_AMO, SM_PUT_SIGNAL, SM_FENCE, SM_QUIET, SM_WAIT,
    SM_BARRIER, SM_COPY_ROWS, SM_REDUCE_ROWS, SM_PUT_LINES, SM_POLL_LINES, SM_CAST, SM_REDUCE
};
enum {                                      /* elements that a reduction knows */
    SM_E_I8, SM_E_U8, SM_E_I16, SM_E_U16, SM_E_I32, SM_E_U32, SM_E_I64, SM_E_U64, SM_E_F32, SM_E_F64, SM_E_LONG,
    SM_E_C64, SM_E_C128, SM_E_CLONG, SM_E_BF16, SM_E_F16
};
#define SM_STREAMING 0x80                   /* flag of put, get and copy records: bypass the cache */
#define SM_NBI 0x40                         /* flag of put, get and AMO records: source and result are used until a quiet */

/* `sleepers` counts those that sleep on `seq`, and SM_MANY for each that awaits words of several buckets and sleeps on
 * the header's `many`. */
typedef struct { _Atomic uint32_t seq, sleepers; } sm_bucket;
#define SM_MANY 0x10000u

typedef struct {                            /* one barrier, in the leader's header; a cache line */
    _Atomic uint32_t arrived;
    _Atomic uint32_t gen;                   /* rounds completed * 2 + (the last round's calls differed) */
    _Atomic uint32_t sleepers;
    _Atomic uint32_t differ;
    _Atomic uint64_t call;                  /* fingerprint of the first to arrive */
    char pad[64 - 24];
} sm_slot;

typedef struct {
    uint64_t magic, heap_bytes;
    _Atomic uint32_t alive;
    int32_t pid;
    uint64_t started;                       /* clock ticks since boot: tells a recycled pid apart */
    char pad0[32];
    _Atomic uint32_t sleepers;              /* waiters in all buckets: what a signaller looks at first */
    _Atomic uint32_t viewed;
    _Atomic uint32_t many;                  /* wake word of those that await words of several buckets */
    char pad1[52];
    sm_bucket buckets[SM_BUCKETS];
    sm_slot slots[SM_SLOTS];
    _Atomic uint32_t entered[SM_SLOTS];
    _Atomic uint64_t notes[SM_SLOTS];       /* a word for the members of each slot's team, see sm_note */
    char text[SM_TEXT];
} sm_head;

typedef struct {                            /* a PE in the barrier of one slot */
    _Atomic uintptr_t owner;                /* the thread that is in it, between slices of time too; 0: none */
    int waiting, leader;                    /* entered and not left yet */
    int differed;                           /* it is complete, and that the calls differed is still to be told */
    uint32_t gen;
    uint64_t call;
} sm_visit;

struct sm_pe {
    int me, n, cores, spin, survive;
    _Atomic int unyielding;                 /* barriers in which this PE lets nobody by, see barrier.c */
    uint64_t heap_bytes, streaming_bytes;   /* puts of at least this many bytes bypass the cache */
    uint64_t clocks;                        /* of recorded runs: where their table is in each heap */
    char *base;                             /* own heap */
    char **heap;                            /* heap of each PE, NULL if out of reach */
    sm_head **head;
    uint64_t *live;                         /* one bit a granule */
    uint64_t frees;                         /* blocks given back so far: what was worked out before is worth nothing */
    int any_dead;
    int64_t cap_ns;                         /* of one sleep, see sm_set_cap */
    _Atomic int detour;                     /* records to other PEs go through `nic` (see nic.c) */
    struct sm_nic *nic;
    sm_visit visits[SM_SLOTS];              /* one barrier a slot at a time: threads meet in teams of their own */
    uint8_t *members[SM_SLOTS];             /* of each slot's team, a byte a PE; NULL: all PEs */
    uint64_t posted[SM_QUEUES], completed[SM_QUEUES];   /* records put on each queue; up to which quiet has come */
    _Atomic uint64_t sleeps, wakes, woken, missed;
};

typedef struct {                            /* n puts of `width` bytes; a step of 0 uses one place for all of them */
    int64_t n, dst_step, src_step, row_step, pe_step, last_row;
    uint64_t dst, width;                    /* heap offset of row 0 */
    const char *src;
    const int64_t *rows, *pes;              /* numbers of the target rows (NULL: 0, 1, ...), up to last_row; target PEs */
} sm_many;

static inline void sm_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

int64_t sm_now_ns(void);
void sm_wake(sm_pe *p, int pe, uint64_t off, uint64_t n);
void sm_wake_own(sm_pe *p);
int sm_futex_sleep(sm_pe *p, _Atomic uint32_t *word, uint32_t seen, int64_t ns);
void sm_futex_wake(sm_pe *p, _Atomic uint32_t *word);
int sm_put_many(sm_pe *p, const sm_many *m);        /* 0, or -1 and nothing done: a PE or row that does not exist */
void sm_copy_blocks(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, uint64_t width, uint64_t n);
void sm_close_stores(void);
uint64_t sm_clocks_enter(sm_pe *p, int pe, uint64_t off, uint64_t n, uint64_t now, uint64_t *entries);
void sm_clocks_leave(sm_pe *p, int pe, uint64_t entries);
int sm_in_barrier(const sm_pe *p, int slot);
void sm_copy_rows(const sm_op *op);
void sm_reduce_rows(const sm_op *op);
int sm_exit_comes(void);                    /* the exit handler has MPI to end, and has not run yet */
void sm_let_read(void);                     /* waits, 2 s at most, until the pipes this process printed into are empty:
                                             * MPICH's launcher loses what it has not read when the job aborts */
void sm_cast(const sm_op *op);
void sm_put_lines(sm_pe *p, const sm_op *op);
void sm_write_lines(const sm_op *op, char *first);      /* the lines of a record, from an address on */
uint64_t sm_line_bytes(const sm_lines *l, uint64_t n, uint64_t i);       /* of line i of a message of n bytes */
int sm_poll_lines(sm_pe *p, const sm_op *op, int64_t timeout_ns);
int sm_reduce(sm_pe *p, const sm_op *op);

#endif
