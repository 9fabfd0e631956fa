/* Reductions of arrays: element by element, the first term's value, then one term after the other in the order given.
 * Integers wrap; floats and complex numbers round at every step in their own type; bf16 and fp16 are widened to fp32 and
 * rounded once, at the end. min and max give NaN if any term is NaN. A block of elements is folded over all terms while
 * it is in the first-level cache; elements are independent, so vectorising over them changes no bit. Nothing here may be
 * contracted to a fused multiply-add (build.py says so to the compiler). */
#include "core.h"
#include "floats.h"

#include <string.h>


#define BLOCK 4096                          /* bytes folded at a time */

typedef void fold_fn(void *restrict acc, const void *restrict term, int64_t n);

/* `loose` types may lie at any address: a symmetric array need not be aligned. */
#define KERNEL(name, T, expression)                                                                         \
    static void name(void *restrict acc, const void *restrict term, int64_t n) {                            \
        typedef T loose __attribute__((aligned(1), may_alias));                                             \
        T *restrict a = acc;                                                                                \
        const loose *restrict b = term;                                                                     \
        for (int64_t i = 0; i < n; i++) {                                                                   \
            T x = a[i], y = b[i];                                                                           \
            a[i] = (T)(expression);                                                                         \
        }                                                                                                   \
    }

#define ORDERED(T, tag)                                                                                     \
    KERNEL(min_##tag, T, x <= y ? x : y)                                                                    \
    KERNEL(max_##tag, T, x >= y ? x : y)
/* 1u makes a product of 16-bit numbers unsigned, which wraps */
#define BITS(T, tag)                                                                                        \
    KERNEL(sum_##tag, T, x + y)                                                                             \
    KERNEL(prod_##tag, T, 1u * x * y)                                                                       \
    KERNEL(and_##tag, T, x & y)                                                                             \
    KERNEL(or_##tag, T, x | y)                                                                              \
    KERNEL(xor_##tag, T, x ^ y)
#define REAL(T, tag)                                                                                        \
    KERNEL(sum_##tag, T, x + y)                                                                             \
    KERNEL(prod_##tag, T, x * y)                                                                            \
    KERNEL(min_##tag, T, (x <= y) | (x != x) ? x : y)                                                       \
    KERNEL(max_##tag, T, (x >= y) | (x != x) ? x : y)
#define COMPLEX(T, tag)                                                                                     \
    static void prod_##tag(void *restrict acc, const void *restrict term, int64_t n) {                      \
        typedef T loose __attribute__((aligned(1), may_alias));                                             \
        T *restrict a = acc;                                                                                \
        const loose *restrict b = term;                                                                     \
        for (int64_t i = 0; i < n; i++, a += 2, b += 2) {                                                   \
            T re = a[0] * b[0] - a[1] * b[1], im = a[0] * b[1] + a[1] * b[0];                               \
            a[0] = re;                                                                                      \
            a[1] = im;                                                                                      \
        }                                                                                                   \
    }                                                                                                       \
    static void sum_##tag(void *restrict acc, const void *restrict term, int64_t n) { sum_half_##tag(acc, term, 2 * n); }

BITS(uint8_t, 8) BITS(uint16_t, 16) BITS(uint32_t, 32) BITS(uint64_t, 64)
ORDERED(int8_t, i8) ORDERED(uint8_t, u8) ORDERED(int16_t, i16) ORDERED(uint16_t, u16)
ORDERED(int32_t, i32) ORDERED(uint32_t, u32) ORDERED(int64_t, i64) ORDERED(uint64_t, u64)
REAL(float, f) REAL(double, d) REAL(long double, g)
#define sum_half_cf sum_f
#define sum_half_cd sum_d
#define sum_half_cg sum_g
COMPLEX(float, cf) COMPLEX(double, cd) COMPLEX(long double, cg)

#define INTEGER(width, tag) {sum_##width, prod_##width, min_##tag, max_##tag, and_##width, or_##width, xor_##width}
#define FLOAT(tag) {sum_##tag, prod_##tag, min_##tag, max_##tag, NULL, NULL, NULL}
static const struct { fold_fn *fold[7]; uint8_t stored, held; } types[] = {     /* by SM_E_*; bytes in memory, in a block */
    {INTEGER(8, i8), 1, 1}, {INTEGER(8, u8), 1, 1}, {INTEGER(16, i16), 2, 2}, {INTEGER(16, u16), 2, 2},
    {INTEGER(32, i32), 4, 4}, {INTEGER(32, u32), 4, 4}, {INTEGER(64, i64), 8, 8}, {INTEGER(64, u64), 8, 8},
    {FLOAT(f), 4, 4}, {FLOAT(d), 8, 8}, {FLOAT(g), sizeof(long double), sizeof(long double)},
    {{sum_cf, prod_cf}, 8, 8}, {{sum_cd, prod_cd}, 16, 16}, {{sum_cg, prod_cg}, 2 * sizeof(long double), 2 * sizeof(long double)},
    {FLOAT(f), 2, 4}, {FLOAT(f), 2, 4},
};

typedef uint16_t loose16 __attribute__((aligned(1), may_alias));

static void widen(float *restrict to, const void *from, int64_t n, int half) {
    const loose16 *restrict x = from;
    if (half) for (int64_t i = 0; i < n; i++) to[i] = sm_widen_half(x[i]);
    else for (int64_t i = 0; i < n; i++) to[i] = sm_widen(x[i]);
}

static void narrow(void *to, const float *restrict from, int64_t n, int half) {
    loose16 *restrict y = to;
    if (half) for (int64_t i = 0; i < n; i++) y[i] = sm_narrow_half(from[i]);
    else for (int64_t i = 0; i < n; i++) y[i] = sm_narrow(from[i]);
}

int sm_reduce(sm_pe *p, const sm_op *op) {
    int type = op->width, half = type == SM_E_F16;
    if (type > SM_E_F16 || op->flags > 6 || !types[type].fold[op->flags]) return SM_BAD_OP;
    fold_fn *fold = types[type].fold[op->flags];
    const sm_term *terms = (const sm_term *)(uintptr_t)op->aux;
    char *dst = (char *)(uintptr_t)op->dst;
    uint64_t stored = types[type].stored, held = types[type].held, step = BLOCK / held;
    _Alignas(64) char acc[BLOCK], wide[BLOCK];
    atomic_thread_fence(memory_order_acquire);
    if (!op->value) memset(dst, 0, op->n * stored);             /* the sum of nothing */
    for (uint64_t at = 0; at < op->n && op->value; at += step) {
        int64_t len = (int64_t)(op->n - at < step ? op->n - at : step);
        for (uint64_t k = 0; k < op->value; k++) {
            const char *x = p->heap[terms[k].pe] + terms[k].offset + at * stored;
            if (stored != held) widen((float *)(void *)(k ? wide : acc), x, len, half);
            else if (!k) memcpy(acc, x, (uint64_t)len * held);
            if (k) fold(acc, stored != held ? wide : x, len);
        }
        if (stored != held) narrow(dst + at * stored, (const float *)(const void *)acc, len, half);
        else memcpy(dst + at * stored, acc, (uint64_t)len * stored);
    }
    return SM_OK;
}
