/* Row operations of a stream: gather and scatter of rows, and the exact sum of bf16 rows. A sum starts at +0.0 in fp32,
 * adds the biases, then each term in the order given, one rounding to fp32 an addition, and rounds once to bf16
 * (nearest even). Elements are independent, so vectorising over them changes no bit; there is no multiplication that
 * a compiler could fuse. */
#include "core.h"
#include "floats.h"

void sm_copy_rows(const sm_op *op) {
    const sm_rows *r = (const sm_rows *)(uintptr_t)op->aux;
    const int64_t *to = (const int64_t *)(uintptr_t)r->target_rows, *from = (const int64_t *)(uintptr_t)r->source_rows;
    char *dst = (char *)(uintptr_t)op->dst;
    const char *src = (const char *)(uintptr_t)op->src;
    int streaming = op->flags & SM_STREAMING;
    for (uint64_t i = 0; i < op->n; i++) {
        int64_t t = to ? to[i] : (int64_t)i, s = from ? from[i] : (int64_t)i;
        sm_copy(dst + t * r->target_stride, src + s * r->source_stride, (uint64_t)r->width, streaming);
    }
    if (streaming) sm_close_stores();
}

#define CHUNK 1024                          /* elements summed at a time: the accumulator stays in the cache */

static void reduce_row(char *dst, const char *src, const int64_t *offs, int64_t terms, int64_t width, const char *bias0,
                       const char *bias1) {
    float acc[CHUNK];
    for (int64_t at = 0; at < width; at += CHUNK) {
        int64_t len = width - at < CHUNK ? width - at : CHUNK;
        for (int64_t j = 0; j < len; j++) acc[j] = 0.0f;
        for (int64_t k = -2; k < terms; k++) {
            const char *row = k == -2 ? bias0 : k == -1 ? bias1 : offs[k] >= 0 ? src + offs[k] : NULL;
            if (!row) continue;
            const uint16_t *restrict x = (const uint16_t *)(const void *)row + at;
            for (int64_t j = 0; j < len; j++) acc[j] += sm_widen(x[j]);
        }
        uint16_t *restrict y = (uint16_t *)(void *)dst + at;
        for (int64_t j = 0; j < len; j++) y[j] = sm_narrow(acc[j]);
    }
}

void sm_reduce_rows(const sm_op *op) {
    const sm_rows *r = (const sm_rows *)(uintptr_t)op->aux;
    const int64_t *offs = (const int64_t *)(uintptr_t)r->source_rows;
    const char *b0 = (const char *)(uintptr_t)r->bias0, *b1 = (const char *)(uintptr_t)r->bias1;
    for (uint64_t i = 0; i < op->n; i++) {
        uint64_t at = i * (uint64_t)r->width * 2;
        reduce_row((char *)(uintptr_t)op->dst + (int64_t)i * r->target_stride, (const char *)(uintptr_t)op->src,
                   offs + (int64_t)i * r->terms, r->terms, r->width, b0 ? b0 + at : NULL, b1 ? b1 + at : NULL);
    }
}
