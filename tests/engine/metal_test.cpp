// Kernels in the Metal Shading Language, run on this processor with every access checked (runtime/metal_shim/).
#include <doctest/doctest.h>

#include <algorithm>

#include "base/machine.h"
#include "graph/matrix_shape.h"
#include "render/msl.h"
#include "runtime/devices.h"
#include "support/effort.h"
#include "support/full_size_glm.h"
#include "support/graph_kernels.h"
#include "support/model_kernels.h"
#include "support/msl_kernels.h"
#include "support/program_builder.h"

using namespace smelt;
using namespace smelt::testing;
using test::MslKernels;

namespace {

constexpr uint64_t kFirstSeed = 5001;
constexpr int kGraphs = test::repetitions(300);
constexpr size_t kTogether = 40;  // graphs whose kernels clang compiles in one go

struct Case {
  RandomGraph graph;
  Compiled compiled;
  size_t first = 0;  // of its kernels
  uint32_t parts = 1;
};

bool takes_the_unit(const Source& source) {
  return source.text.find("simdgroup_multiply_accumulate") != std::string::npos;
}

std::string problem_of_case(const Case& c, const MslKernels& kernels) {
  Memory memory(c.graph, c.compiled.schedule);
  for (size_t k = 0; k < c.compiled.programs.size(); ++k) {
    std::vector<ByteSpan> spans;
    for (Ref b : c.compiled.schedule.kernels[k].buffers) spans.push_back(memory.of(b));
    const std::string problem = kernels.run(c.first + k, spans, values_of(c.graph.variables), c.parts);
    if (!problem.empty()) return problem;
  }
  return judge(c.graph, memory);
}

}  // namespace

// Every third graph begins with a product of a prompt, for a GPU that multiplies matrices.
TEST_CASE("random graphs as kernels for Metal agree with the interpreter, every access checked") {
  const std::vector<MatrixUnit> units = known_machine("m3-max")->matrix_units;
  int by_the_unit = 0;
  for (uint64_t seed = kFirstSeed; seed < kFirstSeed + kGraphs;) {
    std::vector<Case> cases;
    std::vector<Source> sources;
    for (; cases.size() < kTogether && seed < kFirstSeed + kGraphs; ++seed) {
      std::mt19937_64 rng(seed);
      const bool of_prompt = seed % 3 == 0;
      RandomGraph graph = of_prompt ? random_graph_of_prompt(seed) : random_graph(seed);
      Machine machine = some_threads(rng);
      machine.overlaps_launches = 0;
      if (of_prompt) machine.matrix_units = units;
      Compiled compiled = generate_kernels(graph, machine, of_prompt ? choose_heuristic : mixed_choice(rng));
      const size_t first = sources.size();
      for (const Program& p : compiled.programs) sources.push_back(test::msl_source(p));
      by_the_unit += std::any_of(sources.begin() + static_cast<std::ptrdiff_t>(first), sources.end(), takes_the_unit);
      cases.push_back({std::move(graph), std::move(compiled), first, 1 + static_cast<uint32_t>(rng() % 3)});
    }
    const MslKernels kernels(sources);
    for (const Case& c : cases) {
      CAPTURE(c.graph.seed);
      CHECK_MESSAGE(problem_of_case(c, kernels) == "", to_text(c.graph), c.compiled.opts);
    }
  }
  CHECK(by_the_unit >= kGraphs / 5);
}

namespace {

constexpr int kWarps = 2;

// Two SIMD groups, each with a product of its own, of words in the first buffer, added to sums where `adds`; the sums
// go into the second.
Program product_of_fragments(const MatrixShape& shape, bool adds) {
  const int64_t words = shape.a_words() + shape.b_words(), loads = words + (adds ? shape.sums() : 0);
  test::ProgramBuilder p("product", 2, 0, kWarps * kWarp);
  const auto place = [&](int64_t of_thread, int64_t i) {
    return p.add2(p.mul(p.thread_index(), p.integer(4 * of_thread)), p.integer(4 * i));
  };
  std::vector<int> operands;
  for (int64_t i = 0; i < loads; ++i)
    operands.push_back(p.load(i < words ? DType::U32 : DType::I32, 1, p.buffer(0), place(loads, i)));
  const int dot = p.add({.kind = Inst::MatrixDot, .dtype = DType::I32, .src = operands, .arg = {.list = shape.list()}});
  for (int64_t i = 0; i < shape.sums(); ++i)
    p.store(p.buffer(1), place(shape.sums(), i),
            p.add({.kind = Inst::MatrixItem, .dtype = DType::I32, .src = {dot}, .arg = {.i = i}}));
  return p.program();
}

}  // namespace

TEST_CASE("products of bytes by matrices of SIMD groups are exact, whatever the bytes are") {
  std::mt19937_64 rng(21);
  for (int64_t m : {8, 16})
    for (int64_t k : {16, 32})
      for (bool a_is_signed : {true, false})
        for (bool adds : {true, false}) {
          const MatrixShape shape{.m = m, .n = 8, .k = k, .in_fragments = true, .a_is_signed = a_is_signed};
          const Program program = product_of_fragments(shape, adds);
          REQUIRE(problem_of(program) == "");
          CAPTURE(render_msl(program));
          std::vector<uint32_t> words(static_cast<size_t>(kWarps * kWarp * (6 + 4))), sums(kWarps * kWarp * 4);
          for (uint32_t& w : words)
            w = rng() % 8 ? static_cast<uint32_t>(rng()) : rng() % 2 ? 0x80808080u : 0xffffffffu;
          std::vector<uint32_t> expected = sums;
          const ByteSpan wanted[] = {std::as_writable_bytes(std::span(words)),
                                     std::as_writable_bytes(std::span(expected))};
          REQUIRE(evaluate(program, wanted, {}, 0, 1).ok());
          const ByteSpan got[] = {wanted[0], std::as_writable_bytes(std::span(sums))};
          const Source source = test::msl_source(program);
          CHECK(parse_msl(test::shim_compiler(), {&source, 1}) == "");
          CHECK(MslKernels({&source, 1}).run(0, got, {}, 1) == "");
          CHECK(sums == expected);
        }
}

namespace {

// A kernel of 64 threads with a buffer of 64 words and 256 bytes of threadgroup memory, of which this is the body.
struct Planted {
  LaunchShape shape = {.buffers = 1, .threads = 64, .shared_bytes = 256};
  uint32_t threadgroups = 1;
};
std::string planted(const std::string& body, const Planted& launch = {}) {
  const std::string text =
      "#include <metal_stdlib>\nusing namespace metal;\n"
      "struct planted_buffers { device uchar* b; };\n"
      "kernel void planted(constant planted_buffers& buffers [[buffer(0)]], constant long* symbols [[buffer(1)]],\n"
      "                    threadgroup uchar* scratch [[threadgroup(0)]],\n"
      "                    uint thread_index [[thread_position_in_threadgroup]],\n"
      "                    uint part_index [[threadgroup_position_in_grid]],\n"
      "                    uint part_count [[threadgroups_per_grid]]) {\n"
      "  device uchar* b = buffers.b;\n  const int thread = int(thread_index);\n" +
      body + "}\n";
  const Source source{.text = text, .entry = "planted", .shape = launch.shape};
  const MslKernels kernels({&source, 1});
  std::vector<std::byte> words(256);
  const ByteSpan span(words);
  const int64_t symbol = 3;
  return kernels.run(0, {&span, 1}, {&symbol, 1}, launch.threadgroups);
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string kWait = "  threadgroup_barrier(mem_flags::mem_threadgroup);\n";
const std::string kGive = "  *(threadgroup int*)(scratch + thread * 4) = thread;\n";
const std::string kTake =
    "  *(device int*)(b + thread * 4) = *(threadgroup const int*)(scratch + (thread * 4 ^ 128));\n";

}  // namespace

TEST_CASE("threads that wait for each other may exchange what they have") {
  CHECK(planted(kGive + kWait + kTake) == "");
  CHECK(planted("  *(device int*)(b + thread * 4) = simd_sum(thread) + simd_shuffle_xor(thread, 3);\n") == "");
}

TEST_CASE("a missing barrier is a race") {
  CHECK(says(planted(kGive + kTake), "with no barrier between"));
  CHECK(says(planted("  *(device int*)b = thread;\n"), "with no barrier between"));
}

TEST_CASE("threadgroups that meet at a byte which one of them writes are a race, whatever waits within them") {
  const Planted two{.threadgroups = 2};
  CHECK(says(planted(kWait + "  if (thread == 0) *(device int*)b = int(part_index);\n", two),
             "buffer 0: threadgroup 1 writes byte 0, which threadgroup 0 writes, with no barrier between"));
  const std::string read = "  if (part_index == 1 && thread == 0) *(device int*)(b + 128) = *(device int*)b;\n";
  CHECK(says(planted("  if (part_index == 0 && thread == 0) *(device int*)b = 1;\n" + read, two),
             "threadgroup 1 reads byte 0, which threadgroup 0 writes"));
  CHECK(planted("  if (thread == 0) *(device int*)(b + part_index * 4) = 1;\n", two) == "");
  CHECK(planted(kGive, two) == "");  // each has memory of its own
}

TEST_CASE("a threadgroup of more threads than Metal takes, or with more memory, is refused") {
  CHECK(says(planted(kGive + kTake, {.shape = {.buffers = 1, .threads = 2048, .shared_bytes = 8192}}),
             "a threadgroup of 2048 threads, Metal takes 1 to 1024"));
  CHECK(says(planted(kGive + kTake, {.shape = {.buffers = 1, .threads = 32, .shared_bytes = 40960}}),
             "a threadgroup with 40960 bytes of memory, Metal gives 32768"));
}

TEST_CASE("an access behind the end of memory is found, and what is read before a buffer") {
  CHECK(says(planted("  *(threadgroup int*)(scratch + thread * 4 + 4) = 1;\n"),
             "thread 63 writes 4 bytes at byte 256 of the memory of the threadgroup, which has 256"));
  CHECK(says(planted("  *(device int*)(b + thread * 8) = 1;\n"), "4 bytes at byte 256 of buffer 0, which has 256"));
  CHECK(says(planted("  *(device int*)(b + thread * 4) = *(device int*)(b - 65536);\n"), "thread 0 reads "));
  CHECK(says(planted("  *(device int*)(b + thread * 4) = int(symbols[1]);\n"), "of the launch values"));
}

TEST_CASE("a wide access at an address that is not aligned for it is found") {
  CHECK(says(planted("  if (thread == 0) *(device float4*)(b + 8) = float4(1.0f);\n"), "not aligned"));
  CHECK(planted("  if (thread == 0) *(device packed_float4*)(b + 8) = float4(1.0f);\n") == "");
}

TEST_CASE("threads that do not all come to a barrier, or to an exchange of their SIMD group, are found") {
  CHECK(says(planted("  if (thread < 32) threadgroup_barrier(mem_flags::mem_threadgroup);\n"), "threads diverge"));
  CHECK(says(planted("  if (thread & 1) {\n" + kWait + "  } else {\n" + kGive + kWait + "  }\n"), "threads diverge"));
  CHECK(says(planted("  int x = thread;\n  if (thread < 5) x = simd_sum(x);\n  *(device int*)(b + thread * 4) = x;\n"),
             "threads diverge"));
}

TEST_CASE("what is no Metal is refused with what the compiler says, and address spaces are not mixed") {
  const auto kernel = [](const std::string& body) {
    return Source{.text =
                      "#include <metal_stdlib>\nusing namespace metal;\n"
                      "struct f_buffers { device uchar* b; };\n"
                      "kernel void f(constant f_buffers& buffers [[buffer(0)]], constant long* symbols [[buffer(1)]],\n"
                      "              uint t [[thread_position_in_threadgroup]], uint p, uint n) {\n"
                      "  device uchar* b = buffers.b;\n" +
                      body + "}\n",
                  .entry = "f",
                  .shape = {.buffers = 1}};
  };
  const Source wrong = kernel("  device float* x = b;\n"), mixed = kernel("  uchar* x = b; x[0] = 1;\n"),
               right = kernel("  device uchar* x = b; x[0] = 1;\n");
  CHECK(says(compile_msl(test::shim_compiler(), {&wrong, 1}, "x").error().message, "kernel f: "));
  CHECK(says(test::shim_compiler().version, "clang"));
  CHECK(parse_msl(test::shim_compiler(), {&right, 1}) == "");
  CHECK(says(parse_msl(test::shim_compiler(), {&mixed, 1}), "__attribute__((address_space(1)))"));
}

TEST_CASE("memory is read in whole pieces of 16 bytes, wherever a stretch ends") {
  const auto device = open_device({.name = "metal-shim"}).take();
  const auto memory = DeviceMemory::allocate(*device, 4096, "a stretch").take();
  const Executable* reader = device->memory_reader().take();
  for (const int64_t bytes : {0, 4, 16, 20, 250, 4093}) {
    CAPTURE(bytes);
    const void* stretch[] = {memory.data(), memory.data() + bytes};
    const Launch launch{.kernel = reader, .buffers = stretch};
    const auto plan = device->capture({&launch, 1}).take();
    const Status ran = device->run(*plan, {});
    CHECK_MESSAGE(ran.ok(), ran.error().message);
  }
}

namespace {

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Every kernel of a model as text that clang takes, with address spaces as types of their own.
void check_text(const GgufFile& file, const char* name) {
  const Machine machine = *known_machine(name);
  std::vector<Source> sources;
  int by_the_unit = 0, wide = 0, several_rows = 0;  // kernels
  for (bool quantise : {true, false})
    for (Ref tree : test::kernel_trees(file, machine, static_cast<int>(machine.warp_threads), quantise)) {
      const std::string entry = kernel_name(tree) + (quantise ? "_q" : "_f");
      const Program program =
          generate({.tree = tree, .name = entry, .machine = machine, .symbols = {"tokens8", "chunks", "pages"}})
              .program;
      CHECK(program.threads <= machine.block_threads);
      CHECK(program.scratch_bytes <= 32 << 10);
      sources.push_back(test::msl_source(program));
      const std::string& text = sources.back().text;
      by_the_unit += takes_the_unit(sources.back());
      wide += says(text, "device const uint4*)") || says(text, "device const float4*)");
      several_rows += count_of(text, "simd_sum(") > 1;
      CHECK(!says(text, "double"));
    }
  CHECK(sources.size() > 40);
  CHECK(by_the_unit > 5);
  CHECK(wide > 20);
  CHECK(several_rows > 10);
  CHECK(parse_msl(test::shim_compiler(), sources) == "");
}

}  // namespace

TEST_CASE("every kernel of the full-size model is text that Metal's grammar takes, and keeps at most 32 KB on chip") {
  check_text(test::FullSizeGlm(GgufType::Q4_0).file(), "m3-max");
}

TEST_CASE("every kernel of the small model is, for the smallest of Apple's GPUs and the largest") {
  for (const char* name : {"m1", "m3-ultra"})
    check_text(GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take(), name);
}
