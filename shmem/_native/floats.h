/* Small floats as bits: bfloat16, float16 and float8_e4m3fn against float, rounding to nearest even, NaNs and all as ml_dtypes
 * has them. Integers and exact float operations only, so that loops over these vectorise and change no bit. */
#ifndef SM_FLOATS_H
#define SM_FLOATS_H
#include <stdint.h>
#include <string.h>

#define SM_NAN_F32 0x7fc00000u
#define SM_INF_F32 0x7f800000u

static inline uint32_t sm_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static inline float sm_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline float sm_widen(uint16_t b) { return sm_float((uint32_t)b << 16); }

/* A NaN becomes the quiet one of its sign. */
static inline uint16_t sm_narrow(float f) {
    uint32_t u = sm_bits(f);
    uint32_t rounded = (u + 0x7fff + (u >> 16 & 1)) >> 16, nan = (u >> 16 & 0x8000) | SM_NAN_F32 >> 16;
    return (uint16_t)((u & 0x7fffffff) > SM_INF_F32 ? nan : rounded);
}

static inline float sm_widen_half(uint16_t h) {
    uint32_t u = (uint32_t)(h & 0x7fff) << 13;                  /* exponent of a half, 112 too small */
    uint32_t f = sm_bits(sm_float(u) * 0x1p112f);               /* exact, denormals included */
    if (u >= 0x0f800000) f = u | 0x7f800000;
    return sm_float(f | (uint32_t)(h & 0x8000) << 16);
}

static inline uint16_t sm_narrow_half(float x) {
    uint32_t bits = sm_bits(x), u = bits & 0x7fffffff, h;
    if (u > 0x7f800000) h = 0x7e00;
    else if (u >= 0x47800000) h = 0x7c00;
    else if (u < 0x38800000) h = sm_bits(sm_float(u) + 0.5f) - 0x3f000000;     /* the addition rounds to halves' 2^-24 */
    else h = (u - 0x38000000 + 0xfff + (u >> 13 & 1)) >> 13;
    return (uint16_t)(h | (bits >> 16 & 0x8000));
}

/* Sign, 4 bits of exponent (bias 7), 3 of mantissa; no infinities, 0x7f and 0xff are NaN. */
static inline float sm_widen8(uint8_t b) {
    uint32_t low = b & 0x7f, sign = (uint32_t)(b & 0x80) << 24;
    uint32_t normal = (low << 20) + (120u << 23), subnormal = sm_bits((float)(int32_t)low * 0x1p-9f);
    uint32_t u = low < 8 ? subnormal : low == 0x7f ? SM_NAN_F32 : normal;
    return sm_float(u | sign);
}

/* Above 464, half way to the first value that it lacks, the result is NaN; it is for infinities, too. */
static inline uint8_t sm_narrow8(float f) {
    uint32_t u = sm_bits(f), low = u & 0x7fffffff;
    uint32_t normal = (low + 0x7ffff + (low >> 20 & 1) - (120u << 23)) >> 20;
    uint32_t subnormal = sm_bits(sm_float(low) + 0x1p14f) - sm_bits(0x1p14f);   /* the sum rounds to units of 2^-9 */
    uint32_t r = low < sm_bits(0x1p-6f) ? subnormal : low > sm_bits(464.0f) ? 0x7f : normal;
    return (uint8_t)(r | (u >> 24 & 0x80));
}

#endif
