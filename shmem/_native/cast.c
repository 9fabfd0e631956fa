/* The cast of a stream: elements from one float type to another, each rounded once to nearest even (floats.h). Elements
 * need not be aligned. From bfloat16 to eight bits and back goes by way of float, which holds both exactly. */
#include "core.h"
#include "floats.h"

enum { SM_BF16_TO_F32, SM_F32_TO_BF16, SM_BF16_TO_F8, SM_F32_TO_F8, SM_F8_TO_BF16, SM_F8_TO_F32 };

#define LOOP(S, T, expression)                              \
    for (uint64_t i = 0; i < n; i++) {                      \
        S x;                                                \
        memcpy(&x, src + i * sizeof x, sizeof x);           \
        T y = expression;                                   \
        memcpy(dst + i * sizeof y, &y, sizeof y);           \
    }                                                       \
    break

void sm_cast(const sm_op *op) {
    char *restrict dst = (char *)(uintptr_t)op->dst;
    const char *restrict src = (const char *)(uintptr_t)op->src;
    uint64_t n = op->n;
    switch (op->flags) {
    case SM_BF16_TO_F32: LOOP(uint16_t, float, sm_widen(x));
    case SM_F32_TO_BF16: LOOP(float, uint16_t, sm_narrow(x));
    case SM_BF16_TO_F8: LOOP(uint16_t, uint8_t, sm_narrow8(sm_widen(x)));
    case SM_F32_TO_F8: LOOP(float, uint8_t, sm_narrow8(x));
    case SM_F8_TO_BF16: LOOP(uint8_t, uint16_t, sm_narrow(sm_widen8(x)));
    default: LOOP(uint8_t, float, sm_widen8(x));
    }
}
