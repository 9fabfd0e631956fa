/* Copies. glibc's memcpy turns to string moves from 4 KiB on, which are slow on lines that are dirty in another core:
 * hence loops of our own. Streaming (non-temporal) stores win when the data don't fit the cache or when PEs exceed
 * cores; they are weakly ordered even on x86, so every copy that used them is closed by a store fence before the call
 * returns: without it a flag passes the data. A copy of 1, 2, 4 or 8 aligned bytes is one store. */
#include "core.h"

#include <string.h>


#define LARGE (1u << 20)                    /* glibc is as fast from here on, and has a non-temporal path of its own */

static int isa_wide;                        /* 1: the 32-byte loops may be used; 2: 64-byte streaming stores as well */

#if defined(__x86_64__)
#include <immintrin.h>
static int cpu_wide(void) { return !__builtin_cpu_supports("avx2") ? 0 : __builtin_cpu_supports("avx512f") ? 2 : 1; }
void sm_close_stores(void) { _mm_sfence(); }

__attribute__((target("avx2"))) static void wide_copy(char *d, const char *s, uint64_t n) {
    for (; n >= 128; n -= 128, d += 128, s += 128) {
        __m256i a = _mm256_loadu_si256((const __m256i *)s), b = _mm256_loadu_si256((const __m256i *)(s + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(s + 64)), e = _mm256_loadu_si256((const __m256i *)(s + 96));
        _mm256_storeu_si256((__m256i *)d, a);
        _mm256_storeu_si256((__m256i *)(d + 32), b);
        _mm256_storeu_si256((__m256i *)(d + 64), c);
        _mm256_storeu_si256((__m256i *)(d + 96), e);
    }
    for (; n >= 32; n -= 32, d += 32, s += 32)
        _mm256_storeu_si256((__m256i *)d, _mm256_loadu_si256((const __m256i *)s));
    memcpy(d, s, n);
}

/* Whole lines of 64 bytes at an aligned target; the rest is the caller's. */
__attribute__((target("avx512f"))) static uint64_t stream_lines(char *d, const char *s, uint64_t n) {
    uint64_t whole = n & ~255ull;
    for (uint64_t i = 0; i < whole; i += 256) {
        __m512i a = _mm512_loadu_si512(s + i), b = _mm512_loadu_si512(s + i + 64);
        __m512i c = _mm512_loadu_si512(s + i + 128), e = _mm512_loadu_si512(s + i + 192);
        _mm512_stream_si512((void *)(d + i), a);
        _mm512_stream_si512((void *)(d + i + 64), b);
        _mm512_stream_si512((void *)(d + i + 128), c);
        _mm512_stream_si512((void *)(d + i + 192), e);
    }
    return whole;
}

__attribute__((target("avx2"))) static void streaming_copy(char *d, const char *s, uint64_t n) {
    uint64_t lead = (uint64_t)(-(uintptr_t)d & 63);
    if (n < lead + 128) {
        wide_copy(d, s, n);
        return;
    }
    wide_copy(d, s, lead);
    d += lead, s += lead, n -= lead;
    if (isa_wide > 1) {
        uint64_t done = stream_lines(d, s, n);
        d += done, s += done, n -= done;
    }
    for (; n >= 128; n -= 128, d += 128, s += 128) {
        __m256i a = _mm256_loadu_si256((const __m256i *)s), b = _mm256_loadu_si256((const __m256i *)(s + 32));
        __m256i c = _mm256_loadu_si256((const __m256i *)(s + 64)), e = _mm256_loadu_si256((const __m256i *)(s + 96));
        _mm256_stream_si256((__m256i *)d, a);
        _mm256_stream_si256((__m256i *)(d + 32), b);
        _mm256_stream_si256((__m256i *)(d + 64), c);
        _mm256_stream_si256((__m256i *)(d + 96), e);
    }
    wide_copy(d, s, n);
}
#else
static int cpu_wide(void) { return 0; }      /* glibc's copies are as good there */
void sm_close_stores(void) { atomic_thread_fence(memory_order_release); }
static void wide_copy(char *d, const char *s, uint64_t n) { memcpy(d, s, n); }
static void streaming_copy(char *d, const char *s, uint64_t n) { memcpy(d, s, n); }
#endif

void sm_select_isa(int isa) {
    int wide = cpu_wide();
    isa_wide = isa == 1 ? 0 : isa == 0 ? wide : wide > 0;
}

__attribute__((constructor)) static void select_best(void) { sm_select_isa(0); }

/* A small aligned block goes in one store, so that a reader of the word never sees half of it. */
static int one_store(void *d, const void *s, uint64_t n) {
    if (n > 8 || n == 0 || (n & (n - 1)) || ((uintptr_t)d & (n - 1))) return 0;
    uint64_t v = 0;
    memcpy(&v, s, n);
    switch (n) {
    case 1: atomic_store_explicit((_Atomic uint8_t *)d, (uint8_t)v, memory_order_release); break;
    case 2: atomic_store_explicit((_Atomic uint16_t *)d, (uint16_t)v, memory_order_release); break;
    case 4: atomic_store_explicit((_Atomic uint32_t *)d, (uint32_t)v, memory_order_release); break;
    default: atomic_store_explicit((_Atomic uint64_t *)d, v, memory_order_release);
    }
    return 1;
}

void sm_copy(void *dst, const void *src, uint64_t n, int streaming) {
    char *d = dst;
    const char *s = src;
    if (one_store(d, s, n) || d == s) return;
    if (d < s + n && s < d + n)
        memmove(d, s, n);                   /* a put onto its own source: the order of the bytes matters */
    else if (!isa_wide || n < 256)
        memcpy(d, s, n);
    else if (streaming)
        streaming_copy(d, s, n);
    else if (n < LARGE)
        wide_copy(d, s, n);
    else
        memcpy(d, s, n);
}

void sm_copy_blocks(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, uint64_t width, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) sm_copy(dst + (int64_t)i * dst_stride, src + (int64_t)i * src_stride, width, 0);
}

void sm_fill(void *dst, int byte, uint64_t n) { memset(dst, byte, n); }
