#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <numeric>
#include <sstream>

#include "runtime/kernels.h"
#include "runtime/llvm/compile.h"
#include "runtime/llvm/jit.h"
#include "runtime/target.h"
#include "support/last_words.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::unique_ptr<Jit> make_jit() {
  auto jit = Jit::create();
  REQUIRE(jit);
  return jit.take();
}

KernelEntry link_one(Jit& jit, const Source& source) {
  std::string object = compile_object(source, source.entry, host_target());
  Object objects[] = {{object, source.entry}};
  KernelEntry entry = jit.link(objects)[0];
  REQUIRE((entry != nullptr));
  return entry;
}

struct Mapping {
  uintptr_t begin, end;
  std::string protection;
};

std::vector<Mapping> mappings() {
  std::vector<Mapping> found;
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) {
    Mapping mapping;
    char protection[5] = "";
    if (std::sscanf(line.c_str(), "%lx-%lx %4s", &mapping.begin, &mapping.end, protection) != 3) continue;
    mapping.protection = protection;
    found.push_back(mapping);
  }
  return found;
}

const Mapping* mapping_of(const std::vector<Mapping>& all, const void* address) {
  for (const Mapping& mapping : all)
    if (uintptr_t at = reinterpret_cast<uintptr_t>(address); at >= mapping.begin && at < mapping.end) return &mapping;
  return nullptr;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("a kernel of IR text computes its part") {
  auto jit = make_jit();
  KernelEntry scale = link_one(*jit, scale_kernel());
  std::vector<float> a(101), out(101, -1.0f);
  std::iota(a.begin(), a.end(), 0.0f);
  const void* buffers[] = {out.data(), a.data()};
  int64_t symbols[] = {101};
  scale(buffers, symbols, 1, 3, nullptr, 1);
  CHECK(out[32] == -1.0f);
  CHECK(out[33] == 100.0f);
  CHECK(out[66] == 199.0f);
  CHECK(out[67] == -1.0f);
  scale(buffers, symbols, 0, 3, nullptr, 1);
  scale(buffers, symbols, 2, 3, nullptr, 1);
  for (int i = 0; i < 101; ++i) CHECK(out[i] == 3.0f * i + 1.0f);
}

TEST_CASE("constants of a kernel are linked with it") {
  auto jit = make_jit();
  KernelEntry add = link_one(*jit, vector_kernel());
  std::vector<float> a(16, 10.0f), b(16, 5.0f), out(16);
  const void* buffers[] = {out.data(), a.data(), b.data()};
  add(buffers, nullptr, 0, 1, nullptr, 1);
  for (int i = 0; i < 16; ++i) CHECK(out[i] == 15.0f + i);
  CHECK(jit->data_bytes() >= 64);
}

TEST_CASE("memset, which LLVM calls by itself, is resolved") {
  auto jit = make_jit();
  KernelEntry fill = link_one(*jit, fill_kernel());
  std::string out(1000, 0);
  const void* buffers[] = {out.data()};
  int64_t symbols[] = {999};
  fill(buffers, symbols, 0, 1, nullptr, 1);
  CHECK(out.substr(0, 999) == std::string(999, 7));
  CHECK(out[999] == 0);
}

TEST_CASE("no page is writable and executable, before, during and after linking") {
  auto jit = make_jit();
  std::vector<KernelEntry> entries;
  for (int i = 0; i < 3; ++i) {
    Source source = scale_kernel(std::to_string(i + 2) + ".0", "scale" + std::to_string(i));
    entries.push_back(link_one(*jit, source));
    for (const Mapping& mapping : mappings())
      CHECK_FALSE((mapping.protection[1] == 'w' && mapping.protection[2] == 'x'));
  }
  auto all = mappings();
  for (KernelEntry entry : entries) {
    const Mapping* mapping = mapping_of(all, reinterpret_cast<const void*>(entry));
    REQUIRE(mapping);
    CHECK(mapping->protection == "r-xp");
  }
}

TEST_CASE("many kernels take one mapping of code, side by side") {
  auto jit = make_jit();
  std::vector<std::string> names, objects;
  for (int i = 0; i < 40; ++i) {
    Source source = scale_kernel(std::to_string(i) + ".0");
    names.push_back("scale_by_" + std::to_string(i));
    objects.push_back(compile_object(source, names.back(), host_target()));
  }
  std::vector<Object> half;
  std::vector<KernelEntry> entries;
  for (int i = 0; i < 40; ++i) {
    half.push_back({objects[i], names[i]});
    if (i % 20 != 19) continue;
    for (KernelEntry entry : jit->link(half)) entries.push_back(entry);
    half.clear();
  }
  auto all = mappings();
  const Mapping* first = mapping_of(all, reinterpret_cast<const void*>(entries[0]));
  for (KernelEntry entry : entries) CHECK(mapping_of(all, reinterpret_cast<const void*>(entry)) == first);
  CHECK(jit->code_bytes() < 40 * 1024);

  for (int i = 0; i < 40; ++i) {
    float a = 10.0f, out = 0;
    const void* buffers[] = {&out, &a};
    int64_t symbols[] = {1};
    entries[i](buffers, symbols, 0, 1, nullptr, 1);
    CHECK(out == 10.0f * i + 1.0f);
  }
}

TEST_CASE("an object that is not what it says gives no entry and does no harm to others of its batch") {
  auto jit = make_jit();
  std::string good = compile_object(scale_kernel(), "good", host_target());
  std::string other = compile_object(scale_kernel(), "other", host_target());
  std::string arm = compile_object(scale_kernel(), "arm", *named_target("aarch64"));
  Object objects[] = {{"not ELF", "text"}, {good, "good"}, {other, "misnamed"}, {arm, "arm"}};
  auto entries = jit->link(objects);
  CHECK((entries[0] == nullptr));
  CHECK((entries[1] != nullptr));
  CHECK((entries[2] == nullptr));
  if (host_target().triple.starts_with("x86_64")) CHECK((entries[3] == nullptr));
  Object again[] = {{good, "good"}};
  CHECK((jit->link(again)[0] == nullptr));  // the symbol is taken
}

TEST_CASE("compiling is deterministic") {
  CHECK(compile_object(vector_kernel(), "k", host_target()) == compile_object(vector_kernel(), "k", host_target()));
}

TEST_CASE("vectors keep the width that they were written in") {
  auto v4 = named_target("x86-64-v4");
  auto v3 = named_target("x86-64-v3");
  CHECK(contains(assembly(vector_kernel(), *v4), "%zmm0"));
  CHECK_FALSE(contains(assembly(vector_kernel(), *v3), "%zmm0"));
  CHECK(contains(assembly(vector_kernel(), *v3), "%ymm1"));
  CHECK(contains(assembly(vector_kernel(), *named_target("aarch64")), "fadd\tv0.4s"));
}

TEST_CASE("lines of assembly know their lines of the IR, and the code stays as it is") {
  const Source source = scale_kernel();
  const std::vector<std::string> ir = lines_of(source.text);
  for (const char* target : {"x86-64-v4", "aarch64"}) {
    const Assembly linked = linked_assembly(source, *named_target(target));
    CHECK(linked.text == assembly(source, *named_target(target)));
    const std::vector<std::string> code = lines_of(linked.text);
    REQUIRE(linked.lines.size() == code.size());
    int sums = 0;
    for (size_t i = 0; i < code.size(); ++i) {
      if (!contains(code[i], "addss") && !contains(code[i], "fadd")) continue;
      REQUIRE(linked.lines[i] > 0);
      CHECK(contains(ir[static_cast<size_t>(linked.lines[i]) - 1], "fadd"));
      ++sums;
    }
    CHECK(sums > 0);
  }
}

TEST_CASE("vectors that find no register lie in whole cache lines of the stack, and lines are known there, too") {
  constexpr int kVectors = 60;  // all of them read before one is used
  std::string body, last = "%v0";
  for (int i = 0; i < kVectors; ++i) {
    const std::string n = std::to_string(i);
    body += "  %p" + n + " = getelementptr <16 x float>, ptr %in, i64 " + n + "\n  %v" + n +
            " = load volatile <16 x float>, ptr %p" + n + ", align 64\n";
  }
  for (int i = kVectors - 1; i > 0; --i) {
    const std::string n = std::to_string(i);
    body += "  %m" + n + " = fmul <16 x float> %v" + n + ", " + last + "\n  %s" + n + " = fadd <16 x float> %m" + n +
            ", %v" + n + "\n";
    last = "%s" + n;
  }
  const Source source{.text =
                          "define void @spills(ptr %buffers, ptr %symbols, i64 %part, i64 %parts, ptr %scratch, i64 "
                          "%begins) {\n  %in = load ptr, ptr %buffers\n" +
                          body + "  store <16 x float> " + last + ", ptr %in, align 64\n  ret void\n}\n",
                      .entry = "spills"};
  const CpuTarget target = *named_target("x86-64-v4");
  const std::string text = assembly(source, target);
  CHECK(contains(text, "andq\t$-64, %rsp"));
  CHECK_FALSE(contains(assembly(vector_kernel(), target), "%rsp"));
  const Assembly linked = linked_assembly(source, target);
  CHECK(linked.text == text);
  CHECK(linked.lines.size() == lines_of(text).size());
}

TEST_CASE("only operations marked contract are fused") {
  auto v4 = named_target("x86-64-v4");
  CHECK_FALSE(contains(assembly(scale_kernel(), *v4), "vfmadd"));
  Source source = scale_kernel();
  for (std::string op : {"fmul", "fadd"}) source.text.replace(source.text.find(op), op.size(), op + " contract");
  CHECK(contains(assembly(source, *v4), "vfmadd"));
}

TEST_CASE("loops are not vectorised or unrolled behind the compiler's back") {
  std::string text = optimised_ir(scale_kernel(), *named_target("x86-64-v4"));
  CHECK_FALSE(contains(text, " x float>"));
  CHECK(contains(text, "target-cpu"));
}

TEST_CASE("IR that does not parse stops the process with the line") {
  std::string words = last_words([] {
    compile_object({"define void @k(ptr %b, ptr %s, i64 %p, i64 %n) {\n  ret banana\n}\n", "k"}, "k", host_target());
  });
  CHECK(contains(words, "[llvm] k: the IR does not parse: line 2:7"));
  CHECK(contains(words, "ret banana"));
  CHECK(contains(words, "while compiling kernel k"));
}

TEST_CASE("IR that is not valid stops the process") {
  std::string words = last_words([] {
    compile_object({"define void @k() {\na:\n  br label %b\nb:\n  %x = add i64 %y, 1\n  br label "
                    "%c\nc:\n  %y = add i64 1, "
                    "1\n  ret void\n}\n",
                    "k"},
                   "k", host_target());
  });
  CHECK(contains(words, "[llvm] k: the IR is not valid"));
}

TEST_CASE("a kernel that wants more of a stack than workers count on stops the process") {
  const auto taking = [](size_t bytes) {
    const std::string count = std::to_string(bytes);
    return Source{"define void @k(ptr %b, ptr %s, i64 %p, i64 %n) {\n  %a = alloca [" + count +
                      " x i8], align 64\n  store volatile ptr %a, ptr %b\n  ret void\n}\n",
                  "k"};
  };
  CHECK(compile_object(taking(kMostStackOfFunction - 256), "k", host_target()).size() > 0);
  const std::string words = last_words([&] { compile_object(taking(kMostStackOfFunction + 1), "k", host_target()); });
  CHECK(contains(words, "[llvm] k takes "));
  CHECK(contains(words, "bytes of the stack, and " + std::to_string(kMostStackOfFunction) + " are the most"));
}

TEST_CASE("calls to the outside are refused, in the IR and out of code generation") {
  std::string words = last_words([] {
    compile_object({"declare void @exit(i32)\ndefine void @k() {\n  call void @exit(i32 0)\n  ret void\n}\n", "k"}, "k",
                   host_target());
  });
  CHECK(contains(words, "[llvm] k: the IR calls exit"));
  words = last_words([] {
    compile_object({"declare float @llvm.exp.f32(float)\ndefine void @k(ptr %b) {\n  %x = load float, ptr %b\n"
                    "  %y = call float @llvm.exp.f32(float %x)\n  store float %y, ptr %b\n  ret void\n}\n",
                    "k"},
                   "k", host_target());
  });
  CHECK(contains(words, "[llvm] k: code generation calls expf"));
}

TEST_CASE("a kernel may keep no state of its own") {
  std::string words = last_words([] {
    compile_object({"@state = global i32 0\ndefine void @k() {\n  store i32 1, ptr @state\n  ret void\n}\n", "k"}, "k",
                   host_target());
  });
  CHECK(contains(words, "global state is not a constant"));
}
