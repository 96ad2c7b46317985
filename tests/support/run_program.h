// Runs a Program by the evaluator and as compiled LLVM IR, over copies of the same buffers.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "codegen/program_eval.h"
#include "codegen/program_verify.h"
#include "render/llvm.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/jit.h"
#include "runtime/memory.h"
#include "runtime/target.h"

namespace smelt::test {

using Bytes = std::vector<std::byte>;
using Buffers = std::vector<Bytes>;

template <class T>
Bytes bytes_of(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <class T>
std::vector<T> values_of(const Bytes& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

inline Status try_evaluate(const Program& program, Buffers& buffers, const std::vector<int64_t>& symbols = {},
                           int64_t parts = 1, const EvalOptions& options = {}) {
  std::vector<ByteSpan> spans(buffers.begin(), buffers.end());
  for (int64_t part = 0; part < parts; ++part) SMELT_CHECK(evaluate(program, spans, symbols, part, parts, options));
  return {};
}

inline Buffers evaluated(const Program& program, Buffers buffers, const std::vector<int64_t>& symbols = {},
                         int64_t parts = 1, const EvalOptions& options = {}) {
  REQUIRE(problem_of(program) == "");
  Status status = try_evaluate(program, buffers, symbols, parts, options);
  REQUIRE_MESSAGE(status.ok(), status.error().message);
  return buffers;
}

inline Buffers compiled(const Program& program, Buffers buffers, const std::vector<int64_t>& symbols = {},
                        int64_t parts = 1, const CpuTarget& target = host_target()) {
  REQUIRE(problem_of(program) == "");
  Source source{render_llvm(program, machine_of(target)), program.name};
  std::string object = compile_object(source, program.name, target);
  auto jit = Jit::create();
  REQUIRE(jit);
  Object objects[] = {{object, program.name}};
  KernelEntry entry = (*jit)->link(objects)[0];
  REQUIRE((entry != nullptr));
  std::vector<const void*> pointers;
  for (const Bytes& buffer : buffers) pointers.push_back(buffer.data());
  const auto scratch = smelt::Buffer::allocate(static_cast<size_t>(program.scratch_bytes) + 1);
  REQUIRE(scratch);
  // As by one worker that takes all of them.
  for (int64_t part = 0; part < parts; ++part)
    entry(pointers.data(), symbols.data(), part, parts, scratch->data(), part == 0);
  return buffers;
}

// This machine, and the lesser ones of its kind whose code it runs too.
inline std::vector<CpuTarget> runnable_targets() {
  std::vector<CpuTarget> targets{host_target()};
  if (!host_target().triple.starts_with("x86_64")) return targets;
  if (host_target().avx512) targets.push_back(named_target("x86-64-v3").take());
  if (host_target().avx2) targets.push_back(named_target("x86-64-v2").take());
  return targets;
}

}  // namespace smelt::test
