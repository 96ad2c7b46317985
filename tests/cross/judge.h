/* What write_check.cpp writes into cases.c and judge.c reads. Plain C: it is compiled for the other processor. */
#include <stddef.h>
#include <stdint.h>

typedef void kernel_entry(const void* const* buffers, const int64_t* symbols, int64_t part, int64_t parts,
                          void* scratch, int64_t begins);

enum kind { kind_bits, kind_f16, kind_bf16, kind_f32, kind_f64 };

struct buffer {
  size_t before, after; /* in pool: the bytes that it starts from, and those that it should hold */
  size_t bytes;
  enum kind kind;
  int ulps; /* see Agreement in cases.h */
  double relative;
};

struct test_case {
  const char* name;
  kernel_entry* entry;
  int buffers;
  const struct buffer* buffer;
  const int64_t* symbols;
  int64_t parts;
};

extern const struct test_case cases[];
extern const int case_count;
extern const unsigned char pool[];
