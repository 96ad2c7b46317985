// Kernels at full size, whose blocks have more threads than any of a small model.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "base/machine.h"
#include "codegen/codegen.h"
#include "codegen/heuristics.h"
#include "codegen/instruction_views.h"
#include "codegen/loop_order.h"
#include "graph/args.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "model/byte_cache.h"
#include "render/addresses.h"
#include "schedule/schedule.h"
#include "schedule/tiles.h"
#include "support/full_size_glm.h"
#include "support/judge.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

constexpr size_t kMatrixBytes = 256 << 10;  // more than a table of positions

// All of those would take the interpreter too long: products, and attention over chunks.
bool is_large(const JudgedKernel& kernel) {
  const Refs nodes = toposort(kernel.tree);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    const bool is_matrix = is_given(n) && kernel.buffers[static_cast<size_t>(n->arg.i)].size() > kMatrixBytes;
    return is_matrix || n->op == Op::Var;
  });
}

ModelShape batch_of(int64_t tokens, const Machine& machine) {
  ModelShape batch{.chunks = variable("chunks", 1, 4),
                   .context = 1088,
                   .cache_rows = 4096,
                   .local_rows = 4096,
                   .page_entries = 4096,
                   .cache_type = DType::U8,
                   .expert_places = machine.expert_places,
                   .token_block = machine.token_block,
                   .interleave = static_cast<int>(machine.warp_threads),
                   .piece = static_cast<int>(machine.piece_bytes),
                   .quantise = true};
  batch.tokens = batch.rows = tokens;
  batch.halves_of_batch = tokens >= machine.halves_tokens;
  batch.product_tasks = tokens >= machine.product_halves_tokens ? machine.tasks : 0;
  batch.tokens_side_by_side = std::min<int64_t>(tokens, 8);
  batch.heads_together = 8;
  batch.has_fragments = has_fragments(machine);
  return batch;
}

// Stores of a tile that copy what its products read for each head.
int64_t copies_of_columns(Ref tree) {
  const Refs nodes = toposort(tree);
  return std::count_if(nodes.begin(), nodes.end(), [](Ref n) {
    if (n->op != Op::Store) return false;
    const StoreView store(n);
    return store.buffer->op == Op::Local && store.value->op == Op::Load && !tile_ranges({n}).empty();
  });
}

}  // namespace

// 8 rows of 768 and 512 numbers are normed by 384 and 512 threads of one block.
TEST_CASE("what a batch of the full-size model computes between its products agrees with the interpreter") {
  const Machine machine = *known_machine("h100");
  const FullSizeGlm glm(GgufType::Q4_0);
  const Ref root = glm.block(batch_of(8, machine), 1).root;
  const size_t count = make_schedule(root, machine).kernels.size();
  int judged = 0;
  for (size_t number = 0; number < count; ++number) {
    const JudgedKernel kernel = kernel_of(root, {{"chunks", 1}}, number, machine);
    if (is_large(kernel)) continue;
    CAPTURE(number);
    CHECK(problem_with(kernel, {}, machine) == "");
    ++judged;
  }
  CHECK(judged >= 8);
}

// With random numbers. Of 64 tokens products alone: places in tiles that are no model's lead anywhere.
TEST_CASE("tasks of each kernel of the full-size model agree with the interpreter" * doctest::test_suite("long")) {
  const Machine machine = *known_machine("h100");
  for (const auto& [format, tokens] :
       {std::pair{GgufType::Q4_0, 1}, {GgufType::Q4_0, 8}, {GgufType::Q4_0, 64}, {GgufType::Q4_K, 1}}) {
    const FullSizeGlm glm(format);
    const Ref root = glm.block(batch_of(tokens, machine), 1).root;
    const size_t count = make_schedule(root, machine).kernels.size();
    int judged = 0;
    for (size_t number = 0; number < count; ++number) {
      const JudgedKernel kernel = kernel_of(root, {{"chunks", 1}}, number, machine);
      if (tokens > 8 && !is_large(kernel)) continue;
      CAPTURE(name_of(format));
      CAPTURE(tokens);
      CAPTURE(number);
      CHECK(problem_of_tasks(kernel, machine, 2) == "");
      ++judged;
    }
    CHECK(judged >= 8);
  }
}

TEST_CASE("a task of a wide context has all heads, whose queries it copies, and agrees with the interpreter") {
  Machine machine = *known_machine("h100");
  machine.short_context = 256, machine.tasks = 4;
  const FullSizeGlm glm(GgufType::Q4_0);
  for (int64_t tokens : {1, 8}) {
    CAPTURE(tokens);
    const Ref root = glm.block(batch_of(tokens, machine), 1).root;
    const Schedule schedule = make_schedule(root, machine);
    int judged = 0;
    for (size_t number = 0; number < schedule.kernels.size(); ++number) {
      if (copies_of_columns(schedule.kernels[number].tree) == 0) continue;
      const JudgedKernel kernel = kernel_of(root, {{"chunks", 3}}, number, machine);
      // Bytes, sums and scales of both parts of a query; each block of one token makes two of them for itself.
      CHECK(copies_of_columns(kernel.tree) == (tokens == 1 ? 4 : 6));
      CHECK(problem_of_tasks(kernel, machine, 2) == "");
      ++judged;
    }
    CHECK(judged == 1);
  }
}

// 96 tiles, of which many have no tokens, would be enough tasks for 64 multiprocessors.
TEST_CASE("tiles of experts, of which some may be left over, are divided into further tasks") {
  Machine machine = *known_machine("h100");
  machine.tasks = 64;
  const FullSizeGlm glm(GgufType::Q4_0);
  int products = 0;
  for (const Kernel& kernel : make_schedule(glm.block(batch_of(64, machine), 1).root, machine).kernels)
    for (Ref nest : nests_of(kernel)) {
      const Refs stores = prepare_nest(nest, machine), axes = axes_of(stores);
      const bool has_tiles = std::any_of(axes.begin(), axes.end(), [&](Ref r) { return is_ragged(stores, r); });
      if (!has_tiles || !tile_ranges(stores).empty()) continue;
      const std::vector<Opt> opts = choose_opts(stores, machine, false);
      CAPTURE(to_string(opts));
      CHECK(std::count_if(opts.begin(), opts.end(), [](const Opt& o) { return o.kind == OptKind::Task; }) >= 2);
      ++products;
    }
  CHECK(products == 3);
}

namespace {

// The kernel of a batch's attention: the one whose tiles have products of a unit.
struct Attention {
  Ref tree;
  CodegenResult result;
};
Attention attention_of(int64_t tokens, const Machine& machine) {
  const FullSizeGlm glm(GgufType::Q4_0);
  for (const Kernel& kernel : make_schedule(glm.block(batch_of(tokens, machine), 1).root, machine).kernels) {
    if (tile_ranges(prepare_nest(nests_of(kernel)[0], machine)).empty()) continue;
    CodegenResult result = generate({.tree = kernel.tree, .name = "attention", .machine = machine});
    const auto is_product = [](const Instruction& x) { return x.kind == Inst::MatrixDot; };
    if (std::any_of(result.program.code.begin(), result.program.code.end(), is_product))
      return {kernel.tree, std::move(result)};
  }
  FAIL("there is none");
  return {};
}

// How many bytes apart a load reads for neighbours along the range, where other ranges are at their begin.
int64_t step_along(Ref load, Ref range) {
  const auto at = [&](int64_t i) {
    Replacements by;
    for (Ref r : ranges_of(LoadView(load).offset)) by[r] = constant(r == range ? i : 0);
    const auto offset = const_int(simplify(substitute(LoadView(load).offset, by)));
    REQUIRE(offset);
    return *offset;
  };
  return at(1) - at(0);
}

}  // namespace

// 20 heads, of which four lie side by side for the unit's 8 columns. Latent queries have 16 blocks, rotated ones two.
// Of many numbers those of heads 0 and 2 come first, so that the next head's are 32 behind. A block copies all that it
// reads of its heads: bytes, sums and scales of both.
TEST_CASE("heads that a unit multiplies lie side by side, their numbers do not, and all of it goes on chip first") {
  const Machine machine = *known_machine("h100");
  const Ref tree = attention_of(8, machine).tree;
  std::vector<int64_t> steps;  // from head to head, in bytes
  for (Ref nest : tree->src) {
    for (Ref store : prepare_nest(nest, machine)) {
      const StoreView copy(store);
      if (copy.value->op != Op::Load || LoadView(copy.value).buffer->op != Op::Param) continue;
      for (Ref r : ranges_of(LoadView(copy.value).offset))
        if (RangeView(r).number == inner_part(output_range(1))) steps.push_back(step_along(copy.value, r));
    }
  }
  std::sort(steps.begin(), steps.end());
  CHECK(steps == std::vector<int64_t>{8, 8, 32, 32, 128, 128});
}

// A thread has a fragment of 16 positions, or columns of values, and 32 of the others: 16 bytes side by side.
TEST_CASE("what a unit multiplies of a cache lies as the threads of a warp hold it") {
  for (const char* name : {"h100", "h200"}) {
    const Machine machine = *known_machine(name);
    const CodegenResult attention = attention_of(1, machine).result;
    int products = 0;
    for (const Instruction& x : attention.program.code) {
      if (x.kind != Inst::MatrixDot) continue;
      ++products;
      std::vector<int64_t> at;
      std::set<int> from;
      for (size_t word = 0; word < 4; ++word) {
        const Instruction& load = attention.program.code[static_cast<size_t>(x.src[word])];
        REQUIRE(load.kind == Inst::Load);
        const SplitOffset offset = split_offset(attention.program, AccessView(load).offset);
        at.push_back(offset.constant);
        from.insert(offset.varying);
      }
      CHECK(from.size() == 1);
      for (int64_t word = 1; word < 4; ++word) CHECK(at[static_cast<size_t>(word)] == at[0] + 4 * word);
    }
    CHECK(products == 26);  // 16 latent and 2 rotated blocks of a key; 8 of values, in each of two rounds
  }
}

TEST_CASE("queries of halves come on chip in pairs, and threads wait for all of them once") {
  const Machine machine = *known_machine("h100");
  const CodegenResult attention = attention_of(64, machine).result;
  for (size_t nest : {0, 1}) {
    const std::string opts = to_string(attention.opts[nest]);
    CAPTURE(opts);
    CHECK(opts.starts_with("upcast(o2.1,2) local(o2.01,8) local(o1.1,8)"));
  }
  int waits = 0;
  for (const Instruction& x : attention.program.code) {
    if (x.kind == Inst::MatrixDot) break;
    waits += x.kind == Inst::Barrier;
  }
  CHECK(waits == 1);
}
