/* Runs each case on the processor that this is compiled for and compares what its buffers hold. Prints what is wrong
   and one line `N passed, N failed`; exits with 1 if any failed. */
#define _GNU_SOURCE
#include "judge.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { margin = 256, canary = 0xa5 }; /* bytes beside a buffer that have to stay as they are */

static const size_t size_of_kind[] = {1, 2, 2, 4, 8};

static double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexp(fraction, -24)
                                      : ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -size : size;
}

static double single(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static uint64_t bits_at(const unsigned char* at, enum kind kind) {
  uint64_t bits = 0;
  memcpy(&bits, at, size_of_kind[kind]); /* both kinds of processors are little-endian */
  return bits;
}

static double value_of(uint64_t bits, enum kind kind) {
  double x;
  switch (kind) {
    case kind_bits: return (double)bits;
    case kind_f16: return half((uint16_t)bits);
    case kind_bf16: return single((uint32_t)bits << 16);
    case kind_f32: return single((uint32_t)bits);
    case kind_f64: memcpy(&x, &bits, sizeof x); return x;
  }
  return NAN;
}

/* Floats in their order, as integers next to each other. */
static int64_t rank_of(uint64_t bits, enum kind kind) {
  const uint64_t sign = (uint64_t)1 << (8 * size_of_kind[kind] - 1);
  return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

/* A lower score is masked: it stands for "not there". */
static const double masked = -1e29;

static double greatest(const struct buffer* b) {
  double most = 0;
  for (size_t at = 0; at + size_of_kind[b->kind] <= b->bytes; at += size_of_kind[b->kind]) {
    const double x = value_of(bits_at(pool + b->after + at, b->kind), b->kind);
    if (isfinite(x) && x > masked && fabs(x) > most) most = fabs(x);
  }
  return most;
}

static int agrees(uint64_t got, uint64_t wanted, const struct buffer* b, double limit) {
  if (got == wanted) return 1;
  if (b->kind == kind_bits) return 0;
  const double x = value_of(got, b->kind), y = value_of(wanted, b->kind);
  if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
  if (x < masked && y < masked) return 1;
  if (b->relative > 0) return fabs(x - y) <= limit;
  return llabs(rank_of(got, b->kind) - rank_of(wanted, b->kind)) <= b->ulps;
}

static int buffer_is_right(const struct test_case* c, int number, const unsigned char* got) {
  const struct buffer* b = &c->buffer[number];
  /* f16 and bf16 reach as much less as they have fewer digits than f32. */
  const double digits = b->kind == kind_f16 ? 8192 : b->kind == kind_bf16 ? 65536 : 1;
  const double limit = b->relative > 0 ? b->relative * digits * (1 + greatest(b)) : 0;
  for (size_t at = 0; at + size_of_kind[b->kind] <= b->bytes; at += size_of_kind[b->kind]) {
    const uint64_t is = bits_at(got + at, b->kind), should = bits_at(pool + b->after + at, b->kind);
    if (agrees(is, should, b, limit)) continue;
    printf("FAILED %s: buffer %d byte %zu is %.9g (bits %llx), should be %.9g (bits %llx)\n",
           c->name, number, at, value_of(is, b->kind), (unsigned long long)is,
           value_of(should, b->kind), (unsigned long long)should);
    return 0;
  }
  for (int i = 1; i <= margin; ++i)
    if (got[-i] != canary || got[b->bytes + i - 1] != canary) {
      printf("FAILED %s: buffer %d: a byte beside it was written\n", c->name, number);
      return 0;
    }
  return 1;
}

static sigjmp_buf after_signal;
static void on_signal(int number) { siglongjmp(after_signal, number); }

// As much as kernels may take (block_memory_bytes of base/machine.def).
static _Alignas(64) unsigned char scratch[1 << 20];

// One worker takes all parts.
static int run(const struct test_case* c) {
  unsigned char* buffers[64];
  for (int b = 0; b < c->buffers; ++b) {
    const size_t bytes = c->buffer[b].bytes;
    unsigned char* memory = malloc(bytes + 2 * margin);
    if (!memory) {
      fprintf(stderr, "judge: no memory for %zu bytes\n", bytes);
      exit(1);
    }
    memset(memory, canary, bytes + 2 * margin);
    buffers[b] = memory + margin;
    memcpy(buffers[b], pool + c->buffer[b].before, bytes);
  }
  for (int64_t part = 0; part < c->parts; ++part)
    c->entry((const void* const*)buffers, c->symbols, part, c->parts, scratch, part == 0);
  int right = 1;
  for (int b = 0; b < c->buffers; ++b) right = buffer_is_right(c, b, buffers[b]) && right;
  for (int b = 0; b < c->buffers; ++b) free(buffers[b] - margin);
  return right;
}

static int run_guarded(const struct test_case* c) {
  const int number = sigsetjmp(after_signal, 1);
  if (number == 0) return run(c);
  printf("FAILED %s: %s\n", c->name, strsignal(number));
  return 0;
}

/* Tile registers are there for those who ask. */
static void ask_for_tiles(void) {
#if defined(__x86_64__) && defined(__linux__)
  enum { request_permission = 0x1023, tile_data = 18 };
  syscall(SYS_arch_prctl, request_permission, tile_data);
#endif
}

int main(void) {
  ask_for_tiles();
  const struct sigaction action = {.sa_handler = on_signal};
  const int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
  for (int i = 0; i < 4; ++i) sigaction(signals[i], &action, NULL);
  int passed = 0;
  for (int i = 0; i < case_count; ++i) passed += run_guarded(&cases[i]);
  printf("%d passed, %d failed\n", passed, case_count - passed);
  return passed != case_count;
}
