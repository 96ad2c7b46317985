// What a compiler remembers of the kernels that it has generated.
#include "engine/recipe.h"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>

#include "base/build_id.h"
#include "base/options.h"
#include "engine/compile.h"
#include "runtime/cpu/cpu_device.h"
#include "support/small_graphs.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;
namespace fs = std::filesystem;

namespace {

Ref matvec(int64_t rows) { return sink({output(2, linear(input(0, {1, 64}), input(1, {rows, 64})))}); }

struct Compiled {
  int generated = 0, by_llvm = 0, from_cache = 0;
  std::vector<KernelOpts> opts;
  std::vector<float> results;  // of all kernels, on the same inputs
};

// A process that compiles two kernels, as far as the cache is concerned.
Compiled compile(const std::string& cache, TunedOptions tuned = {}) {
  const auto device = open_cpu_device({.threads = 1, .cache_dir = cache}).take();
  Compiler compiler(*device, {});
  compiler.use_tuned(std::move(tuned));
  for (int64_t rows : {16, 48}) compiler.add_segment(matvec(rows));
  REQUIRE(compiler.finish().ok());
  Compiled out{.generated = compiler.generated(),
               .by_llvm = device->stats().compiled,
               .from_cache = device->stats().cached,
               .opts = {},
               .results = {}};
  std::vector<float> x(64), w(48 * 64);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7);
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 11) - 5;
  for (int k = 0; k < compiler.kernel_count(); ++k) {
    out.opts.push_back(compiler.kernel(k).opts);
    REQUIRE(bool(compiler.kernel(k).executable));
    std::vector<float> y(48);
    alignas(kKernelScratchAlign) std::array<std::byte, 16384> scratch;
    const void* buffers[] = {x.data(), w.data(), y.data()};
    std::vector<const void*> in_order;
    for (Ref b : compiler.segment(k).schedule.kernels[0].buffers) in_order.push_back(buffers[b->arg.i]);
    cpu_entry_of(compiler.kernel(k).executable)(in_order.data(), nullptr, 0, 1, scratch.data(), 1);
    out.results.insert(out.results.end(), y.begin(), y.end());
  }
  return out;
}

size_t files_in(const std::string& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

}  // namespace

TEST_CASE("the second start of a program generates nothing and computes the same") {
  const TempFolder folder;
  const Compiled first = compile(folder.path());
  CHECK(first.generated == 2);
  CHECK(first.by_llvm == 2);
  CHECK(files_in(folder.path()) == 4);
  const Compiled second = compile(folder.path());
  CHECK(second.generated == 0);
  CHECK(second.by_llvm == 0);
  CHECK(second.from_cache == 2);
  CHECK(second.opts == first.opts);
  CHECK(second.results == first.results);
  CHECK(first.results[1] != 0);
}

TEST_CASE("a recipe without its machine code, or one that is damaged, counts for nothing") {
  const TempFolder folder;
  const Compiled first = compile(folder.path());
  // One file after the other is damaged: a kernel or a recipe. Either way all comes out as before.
  for (int round = 0; round < 4; ++round) {
    std::vector<fs::path> files;
    for (const auto& f : fs::directory_iterator(folder.path())) files.push_back(f.path());
    REQUIRE(files.size() == 4);
    std::sort(files.begin(), files.end());
    fs::resize_file(files[static_cast<size_t>(round)], 40);
    const Compiled again = compile(folder.path());
    CHECK(again.generated == 1);
    CHECK(again.by_llvm + again.from_cache == 2);
    CHECK(again.results == first.results);
    CHECK(compile(folder.path()).generated == 0);
  }
}

TEST_CASE("the question names program, machine, symbols, tuned options and tree") {
  REQUIRE(build_id().size() >= 16);
  const Ref tree = make_schedule(matvec(16)).kernels[0].tree;
  const CodegenRequest request{.tree = tree, .name = "k"};
  const std::string question = recipe_question(request, "");
  CHECK(question.find(build_id()) != std::string::npos);
  CHECK(recipe_question(request, "") == question);
  CHECK(recipe_question(request, "a line") != question);
  CodegenRequest other = request;
  other.machine.vector_bytes = 16;
  CHECK(recipe_question(other, "") != question);
  other = request;
  other.symbols = {"n"};
  CHECK(recipe_question(other, "") != question);
  other = request;
  other.tree = make_schedule(matvec(48)).kernels[0].tree;
  CHECK(recipe_question(other, "") != question);
  for (const auto& change : std::vector<std::function<void(Options&)>>{
           [](Options& o) { o.verify = true; }, [](Options& o) { o.noopt = true; }, [](Options& o) { o.debug = 4; },
           [](Options& o) { o.dump = "x"; }}) {
    ScopedOptions scope(change);
    CHECK(recipe_question(request, "") == "");
  }
}

TEST_CASE("a recipe comes back from its text, and other texts do not") {
  const Recipe recipe{{{{OptKind::Local, {output_range(0)}, 16}}, {}}, "key\nof two lines\n"};
  const std::string text = format_recipe(recipe);
  const auto back = parse_recipe(text, 2);
  REQUIRE(back);
  CHECK(back->opts == recipe.opts);
  CHECK(back->source_key == recipe.source_key);
  CHECK_FALSE(parse_recipe(text, 3));
  CHECK_FALSE(parse_recipe("", 1));
  CHECK_FALSE(parse_recipe("grope(1,2) | none\nkey", 2));
}
