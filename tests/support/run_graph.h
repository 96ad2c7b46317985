// Runs a tensor graph through the whole compiler on the CPU and through the interpreter, on the same inputs.
#pragma once

#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <string>

#include "base/ensure.h"
#include "engine/compile.h"
#include "graph/eval.h"
#include "graph/tensor.h"
#include "runtime/devices.h"
#include "runtime/memory.h"

namespace smelt::testing {

inline Device& device() {
  static std::unique_ptr<Device> d = open_device({.threads = 2, .use_cache = false}).take();
  return *d;
}

inline int64_t bytes_of(Ref n, const std::map<std::string, int64_t>& variables) {
  ScalarValues leaves;
  int64_t count = 1;
  for (Ref d : n->shape) {
    for (Ref v : toposort(d))
      if (v->op == Op::Var) leaves[v] = Scalar{.i = variables.at(v->arg.name)};
    count *= eval_scalar(d, leaves)->i;
  }
  return count * size_of(n->dtype);
}

// What a graph gave: the compiled kernels' and the interpreter's values of each output slot and written buffer.
struct Comparison {
  std::map<int64_t, std::vector<double>> got, expected;
  double worst = 0;  // greatest |got - expected| / (1 + |expected|)
};

inline std::vector<double> decode(const std::byte* data, int64_t bytes, DType dtype) {
  const int64_t n = bytes / size_of(dtype);
  std::vector<double> out(n);
  for (int64_t i = 0; i < n; ++i) {
    if (dtype == DType::F32) {
      float v;
      std::memcpy(&v, data + 4 * i, 4);
      out[i] = v;
    } else if (dtype == DType::I32) {
      int32_t v;
      std::memcpy(&v, data + 4 * i, 4);
      out[i] = v;
    } else if (dtype == DType::I64) {
      int64_t v;
      std::memcpy(&v, data + 8 * i, 8);
      out[i] = static_cast<double>(v);
    } else if (dtype == DType::F16) {
      _Float16 v;
      std::memcpy(&v, data + 2 * i, 2);
      out[i] = static_cast<float>(v);
    } else
      out[i] = static_cast<double>(static_cast<uint8_t>(data[i]));
  }
  return out;
}

struct Inputs {
  std::map<int64_t, std::vector<std::byte>> buffers;  // by slot
  std::map<std::string, int64_t> variables;
  int parts = 2;
};

template <class T>
std::vector<std::byte> as_bytes(const std::vector<T>& v) {
  std::vector<std::byte> out(v.size() * sizeof(T));
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

inline std::vector<std::byte> random_floats(int64_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(static_cast<double>(rng() >> 11) * 0x1p-52 - 1);
  return as_bytes(v);
}

// Buffers lie against guard pages; outputs start as NaN.
inline Comparison compare(Ref root, const Inputs& in, Device& on = device()) {
  std::vector<std::string> names;
  std::vector<int64_t> symbols;
  for (const auto& [name, v] : in.variables) names.push_back(name), symbols.push_back(v);
  Compiler compiler(on, names);
  const int s = compiler.add_segment(root);
  const Status compiled = compiler.finish();
  ENSURE(compiled.ok(), "the kernels of a test do not compile");
  const Schedule& schedule = compiler.segment(s).schedule;

  std::map<int64_t, GuardedBuffer> memory;
  std::map<int64_t, Ref> outputs;
  for (Ref n : toposort(root)) {
    if (n->op == Op::Output) outputs[n->arg.i] = n;
    if (n->op == Op::Write) {
      Ref p = n;
      while (p->op == Op::Write) p = p->src[0];
      if (p->op == Op::Param) outputs[p->arg.i] = p;  // not what steps leave to each other
    }
  }
  for (const auto& [slot, bytes] : in.buffers) {
    memory.emplace(slot, GuardedBuffer(bytes.size()));
    std::memcpy(memory.at(slot).data(), bytes.data(), bytes.size());
  }
  for (const auto& [slot, n] : outputs)
    if (!memory.contains(slot)) {
      memory.emplace(slot, GuardedBuffer(static_cast<size_t>(bytes_of(n, in.variables))));
      std::memset(memory.at(slot).data(), 0xff, memory.at(slot).size());
    }
  std::vector<std::byte> arena(static_cast<size_t>(schedule.arena_bytes) + 64, std::byte{0xff});
  std::byte* base = arena.data() + (64 - reinterpret_cast<uintptr_t>(arena.data()) % 64) % 64;
  std::deque<std::vector<const void*>> arguments;
  std::vector<Launch> launches;
  for (size_t k = 0; k < schedule.kernels.size(); ++k) {
    std::vector<const void*>& pointers = arguments.emplace_back();
    for (Ref b : schedule.kernels[k].buffers)
      pointers.push_back(b->op == Op::Temp ? base + schedule.temps[b->arg.i].offset : memory.at(b->arg.i).data());
    launches.push_back({.kernel = compiler.kernel(compiler.segment(s).kernels[k]).executable,
                        .buffers = pointers.data(),
                        .parts = in.parts});
  }
  const auto plan = on.capture(launches);
  ENSURE(plan && on.run(**plan, symbols).ok(), "the kernels of a test do not run");

  EvalInputs eval_in;
  for (const auto& [slot, bytes] : in.buffers) eval_in.buffers[slot] = bytes;
  eval_in.variables = in.variables;
  const EvalResult judged = eval(root, eval_in);
  Comparison c;
  for (const auto& [slot, n] : outputs) {
    c.got[slot] = decode(memory.at(slot).data(), static_cast<int64_t>(memory.at(slot).size()), n->dtype);
    const auto array = judged.outputs.find(slot);
    const auto written = judged.written.find(slot);
    if (array != judged.outputs.end())
      c.expected[slot] = array->second.values;
    else
      c.expected[slot] = decode(written->second.data(), static_cast<int64_t>(written->second.size()), n->dtype);
    for (size_t i = 0; i < c.got[slot].size(); ++i) {
      const double e = c.expected[slot][i], d = std::abs(c.got[slot][i] - e) / (1 + std::abs(e));
      c.worst = std::isnan(d) ? 1e30 : std::max(c.worst, d);
    }
  }
  return c;
}

}  // namespace smelt::testing
