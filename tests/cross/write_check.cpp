#include "cross/write_check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <thread>

#include "render/llvm.h"
#include "runtime/llvm/compile.h"

namespace smelt::cross {
namespace {

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file) return;
  std::cerr << "cross_cases: " << path << " cannot be written; is there room?\n";
  std::exit(1);
}

std::string symbol_of(size_t number) { return "case_" + std::to_string(number); }

void write_objects(const std::string& folder, const std::vector<Case>& cases, const CpuTarget& target) {
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < cases.size(); i = next++) {
      const Source source{render_llvm(cases[i].program, machine_of(target)), cases[i].program.name};
      write(folder + "/" + symbol_of(i) + ".o", compile_object(source, symbol_of(i), target));
    }
  };
  std::vector<std::jthread> workers(std::max(1U, std::thread::hardware_concurrency()));
  for (std::jthread& worker : workers) worker = std::jthread(work);
}

// The bytes of all buffers, one after the other at multiples of 64.
class Pool {
 public:
  size_t add(const Bytes& bytes) {
    const size_t at = text_.size();
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    text_.resize((text_.size() + 63) / 64 * 64);
    return at;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string entry_of_buffer(const Case& c, size_t buffer, Pool& pool) {
  const Agreement& a = c.agreements[buffer];
  const size_t before = pool.add(c.before[buffer]);
  const size_t after = c.after[buffer] == c.before[buffer] ? before : pool.add(c.after[buffer]);
  char relative[32];
  std::snprintf(relative, sizeof relative, "%g", a.relative);
  const std::string kind = is_float(a.dtype) ? std::string(name_of(a.dtype)) : "bits";
  return "{" + std::to_string(before) + ", " + std::to_string(after) + ", " + std::to_string(c.before[buffer].size()) +
         ", kind_" + kind + ", " + std::to_string(a.ulps) + ", " + relative + "}";
}

std::string table(const std::vector<Case>& cases, Pool& pool) {
  std::string text = "#include \"judge.h\"\n", rows;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const std::string n = std::to_string(i);
    text += "kernel_entry " + symbol_of(i) + ";\n";
    text += "static const struct buffer buffers_" + n + "[] = {";
    for (size_t b = 0; b < c.before.size(); ++b) text += entry_of_buffer(c, b, pool) + ", ";
    text += "};\nstatic const int64_t symbols_" + n + "[] = {";
    for (int64_t symbol : c.symbols) text += std::to_string(symbol) + ", ";
    text += "0};\n";
    rows += "  {\"" + c.name + "\", " + symbol_of(i) + ", " + std::to_string(c.before.size()) + ", buffers_" + n +
            ", symbols_" + n + ", " + std::to_string(c.parts) + "},\n";
  }
  return text + "const struct test_case cases[] = {\n" + rows +
         "};\nconst int case_count = " + std::to_string(cases.size()) + ";\n";
}

}  // namespace

void write_check(const std::string& folder, const std::vector<Case>& cases, const CpuTarget& target) {
  write_objects(folder, cases, target);
  Pool pool;
  write(folder + "/cases.c", table(cases, pool));
  write(folder + "/buffers.bin", pool.text());
  write(folder + "/buffers.S", ".section .rodata\n.balign 64\n.globl pool\npool:\n.incbin \"" + folder +
                                   "/buffers.bin\"\n.section .note.GNU-stack,\"\",%progbits\n");
  std::string list;
  for (size_t i = 0; i < cases.size(); ++i) list += folder + "/" + symbol_of(i) + ".o\n";
  write(folder + "/cases.o.list", list);
}

}  // namespace smelt::cross
