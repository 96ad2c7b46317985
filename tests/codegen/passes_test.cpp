// The passes of codegen, each by itself: what it makes of a small kernel, and that the kernel still
// computes the same.
#include "codegen/passes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <regex>
#include <set>

#include "codegen/opt.h"
#include "codegen/sum_order.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "support/judge.h"
#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

using Pass = std::function<Refs(const Refs&)>;

Refs written_out(const Refs& stores) { return expand(stores, Machine()); }

// The stored values with ranges named a, b, c, .. from the outermost on: "reduce_sum(load(x0, a*256
// + b*4), b); a<16 b<64".
std::string values_of(const Refs& stores) {
  Refs ranges;
  std::string text;
  for (Ref store : stores) {
    for (Ref r : ranges_of(store))
      if (std::find(ranges.begin(), ranges.end(), r) == ranges.end()) ranges.push_back(r);
    text += (text.empty() ? "" : "\n") + to_infix(store->src[2]);
  }
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](Ref x, Ref y) { return range_order(x->arg.i) < range_order(y->arg.i); });
  text += ";";
  for (Ref r : ranges) text += " " + to_infix(r) + "<" + to_infix(r->src[0]);
  for (size_t i = 0; i < ranges.size(); ++i)
    text = std::regex_replace(text, std::regex("\\br" + std::to_string(ranges[i]->arg.i) + "\\b"),
                              std::string(1, static_cast<char>('a' + i)));
  return std::regex_replace(text, std::regex("param"), "x");
}

size_t sums_in(const Refs& stores) {
  const Refs nodes = toposort(sink(stores));
  return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::ReduceSum; }));
}

size_t loads_in(const Refs& stores, DType dtype) {
  const Refs nodes = toposort(sink(stores));
  return static_cast<size_t>(
      std::count_if(nodes.begin(), nodes.end(), [&](Ref n) { return n->op == Op::Load && n->dtype == dtype; }));
}

// The last nest of the first kernel, after some passes. CHECKs that they change nothing that can be
// seen.
struct PassTest {
  JudgedKernel kernel;
  Refs stores;

  explicit PassTest(Ref root, const Variables& variables = {})
      : kernel(kernel_of(root, variables)), stores(kernel.tree->src.back()->src) {}

  PassTest& apply(Pass pass) { return become(pass(stores)); }
  PassTest& apply(const std::vector<Opt>& opts) { return become(apply_opts(stores, opts)); }

 private:
  PassTest& become(Refs changed) {
    stores = std::move(changed);
    Refs nests = kernel.tree->src;
    nests.back() = sink(stores);
    const auto before =
        evaluate_kernel({.tree = kernel.tree, .buffers = views(kernel.buffers), .variables = kernel.variables});
    const auto after =
        evaluate_kernel({.tree = sink(nests), .buffers = views(kernel.buffers), .variables = kernel.variables});
    REQUIRE(before.ok());
    REQUIRE_MESSAGE(after.ok(), after.error().message);
    CHECK(before->size() == after->size());
    std::vector<Bytes> memory = kernel.buffers;
    for (const KernelElement& e : *after) {
      const uint64_t bits = to_bits(e.value, e.dtype);
      std::memcpy(memory[static_cast<size_t>(e.buffer)].data() + e.offset, &bits,
                  static_cast<size_t>(size_of(e.dtype)));
    }
    CHECK(difference(*before, views(memory)).worst < 1e-7);
    return *this;
  }
};

PassTest of(Tensor x, const Variables& variables = {}) { return PassTest(sink({output(9, x)}), variables); }

}  // namespace

TEST_SUITE("bound masks") {
  const Tensor x = input(0, {4, 64}), limit = input(1, {4, 1}, DType::I32);
  const Tensor index = cast(iota({1, 64}, 1), DType::I32);

  TEST_CASE("a sum of masked terms ends at the limit") {
    const Tensor masked = where(less(index, limit), x, scalar(0));
    CHECK(values_of(of(sum(masked, 1)).apply(bound_masks).stores) ==
          "reduce_sum(load(x2, a*256 + b*4), b); a<4 b<max(min(i64(load(x1, a*4)), 64), 0)");
  }

  TEST_CASE("a mask that drops what is above keeps the limit itself") {
    const Tensor masked = where(less(limit, index), scalar(-1e30), x);
    CHECK(values_of(of(max(masked, 1)).apply(bound_masks).stores) ==
          "reduce_max(load(x2, a*256 + b*4), b); a<4 b<max(min(i64(load(x1, a*4)) + 1, 64), 0)");
  }

  TEST_CASE("a mask at the other end stays") {
    const Tensor masked = where(less(limit, index), x, scalar(0));
    PassTest test = of(sum(masked, 1));
    const Refs before = test.stores;
    CHECK(test.apply(bound_masks).stores == before);
  }

  TEST_CASE("a mask by values stays") {
    PassTest test = of(sum(where(less(x, scalar(0.5)), x, scalar(0)), 1));
    const Refs before = test.stores;
    CHECK(test.apply(bound_masks).stores == before);
  }
}

TEST_SUITE("split ranges") {
  TEST_CASE("a range that is divided becomes two") {
    const Tensor scales = input(0, {4}), x = input(1, {128});
    const Tensor product = reshape(unsqueeze(scales, 1) * reshape(x, {4, 32}), {128});
    CHECK(values_of(of(sum(product, 0)).apply(split_ranges).stores) ==
          "reduce_sum(load(x1, a*4)*load(x2, a*128 + b*4), a, b); a<4 b<32");
  }

  TEST_CASE("output ranges are split too") {
    const Tensor scales = input(0, {4}), x = input(1, {128});
    const Tensor product = reshape(unsqueeze(scales, 1) * reshape(x, {4, 32}), {128});
    CHECK(values_of(of(product).apply(split_ranges).stores) == "load(x1, a*4)*load(x2, a*128 + b*4); a<4 b<32");
  }

  TEST_CASE("a length that is no multiple of a page is cut in parts of one") {
    const Dim length = Dim(variable("n", 1, 16) * 16);
    const Tensor page = gather(input(1, {4}), iota({length}, 0) / 64.0);
    const Refs stores = of(input(0, {length}) * page, {{"n", 7}}).apply(split_ranges).stores;
    const Refs axes = axes_of(stores);
    REQUIRE(axes.size() == 2);
    CHECK(is_const(axes[1]->src[0], 16));
    std::vector<int64_t> steps;
    for (Ref n : toposort(stores[0]))
      if (n->op == Op::Load) steps.push_back(stride(n->src[1], axes[1]).value_or(-1));
    std::sort(steps.begin(), steps.end());
    CHECK(steps == std::vector<int64_t>{0, 4});
  }

  TEST_CASE("no division is left in the index of a block format") {
    const Tensor w = q4_0(input(0, {2, 4, 18}, DType::U8));
    const std::string text = values_of(of(sum(w, 1)).apply(split_ranges).stores);
    CHECK(text ==
          "reduce_sum(f32(load(x1, a*72 + b*18))*(f32((load(x1, a*72 + b*18 + d + 2) >> u8(c*4)) & "
          "15) - 8), b, c, d); "
          "a<2 b<4 c<2 d<16");
  }
}

TEST_SUITE("hoist factors") {
  const Tensor scales = input(0, {2, 4}), q = input(1, {2, 4, 32});

  TEST_CASE("a block's scale leaves the sum over the block") {
    const Tensor w = reshape(unsqueeze(scales, 2) * q, {2, 128});
    CHECK(values_of(of(sum(w, 1)).apply(split_ranges).apply(hoist_factors).stores) ==
          "reduce_sum(load(x1, a*16 + b*4)*reduce_sum(load(x2, a*512 + b*128 + c*4), c), b); a<2 "
          "b<4 c<32");
  }

  TEST_CASE("a minimum leaves it too, with a sum of its own") {
    const Tensor minima = input(2, {2, 4});
    const Tensor w = reshape(unsqueeze(scales, 2) * q - unsqueeze(minima, 2), {2, 128});
    PassTest test = of(sum(w * reshape(input(3, {128}), {1, 128}), 1)).apply(split_ranges);
    CHECK(sums_in(test.stores) == 1);
    CHECK(sums_in(test.apply(hoist_factors).stores) ==
          3);  // over blocks; of scaled values and of the minimum's factors
  }

  TEST_CASE("a factor of the whole sum is multiplied once") {
    const Tensor x = input(0, {2, 8}), gain = input(1, {2, 1});
    CHECK(values_of(of(sum(gain * x, 1)).apply(hoist_factors).stores) ==
          "load(x1, a*4)*reduce_sum(load(x2, a*32 + b*4), b); a<2 b<8");
  }

  TEST_CASE("a sum that may have no terms keeps its factors, as it is zero whatever these are") {
    for (int64_t least : {0, 1}) {
      const Dim n = variable("n", least, 8);
      const Tensor x = param(0, DType::F32, {2, n}, "x"), gain = input(1, {2, 1});
      PassTest test = of(sum(gain * x, 1), {{"n", 8}});
      CHECK((values_of(test.apply(hoist_factors).stores).find("reduce_sum(") == 0) == (least == 0));
    }
  }
}

TEST_SUITE("order sums") {
  Refs ordered(const Refs& stores) { return order_sums(stores, Machine{.vector_bytes = 32}, false); }

  TEST_CASE("a sum of neighbours has as many partial sums as lanes, in four registers") {
    CHECK(values_of(of(sum(input(0, {4, 256}), 1)).apply(ordered).stores) ==
          "reduce_sum(load(x1, a*1024 + b*128 + c*4), b, c); a<4 b<8 c<32");
  }

  TEST_CASE("a short sum needs one register") {
    CHECK(values_of(of(sum(input(0, {4, 64}), 1)).apply(ordered).stores) ==
          "reduce_sum(load(x1, a*256 + b*32 + c*4), b, c); a<4 b<8 c<8");
  }

  TEST_CASE("where lanes are outputs, each has four partial sums") {
    CHECK(values_of(of(sum(input(0, {64, 8}), 0)).apply(ordered).stores) ==
          "reduce_sum(load(x1, a*4 + b*128 + c*32), b, c); a<8 b<16 c<4");
  }

  TEST_CASE("rows of a number that is not known have one register each") {
    const Ref n = variable("n", 1, 8);
    CHECK(values_of(of(sum(input(0, {Dim(n * 4), 256}), 1), {{"n", 2}}).apply(ordered).stores) ==
          "reduce_sum(load(x1, a*1024 + b*32 + c*4), b, c); a<n*4 b<32 c<8");
  }

  TEST_CASE("how many rows are summed does not matter") {
    const auto order = [](int64_t rows) {
      const std::string text = values_of(of(sum(input(0, {rows, 256}), 1)).apply(ordered).stores);
      return text.substr(text.find(" b<"));
    };
    CHECK(order(2) == order(64));
  }

  TEST_CASE("partial sums that are added are combined once") {
    const Tensor sums = sum(input(0, {4, 64}), 1) + sum(input(1, {4, 32}), 1);
    CHECK(values_of(of(sums).apply(ordered).stores).starts_with("reduce_sum(reduce_sum(load"));
  }

  TEST_CASE("integers and maxima have no order") {
    CHECK(ordered(of(max(input(0, {4, 256}), 1)).stores) == of(max(input(0, {4, 256}), 1)).stores);
    const Tensor integers = sum(input(0, {4, 256}, DType::I32), 1);
    CHECK(ordered(of(integers).stores) == of(integers).stores);
  }
}

TEST_SUITE("fuse multiply-adds") {
  const Tensor x = input(0, {8}), y = input(1, {8}), z = input(2, {8});

  TEST_CASE("a product and what it is added to are one operation") {
    CHECK(values_of(of(x * y + z).apply(fuse_multiply_adds).stores) ==
          "fma(load(x1, a*4), load(x2, a*4), load(x3, a*4)); a<8");
    CHECK(values_of(of(z - x * y).apply(fuse_multiply_adds).stores) ==
          "fma(neg(load(x2, a*4)), load(x3, a*4), load(x1, a*4)); a<8");
    CHECK(values_of(of(x * y - z).apply(fuse_multiply_adds).stores) ==
          "fma(load(x1, a*4), load(x2, a*4), neg(load(x3, a*4))); a<8");
  }

  TEST_CASE("a product as a term is added to the sum") {
    CHECK(values_of(of(sum(x * y, 0)).apply(fuse_multiply_adds).stores) ==
          "reduce_sum(fma(load(x1, a*4), load(x2, a*4), -0), a); a<8");
  }

  TEST_CASE("integers and small floats stay as they are") {
    const Tensor i = input(0, {8}, DType::I32), h = input(0, {8}, DType::F16);
    for (const Tensor& t : {i * i + i, h * h + h}) CHECK(fuse_multiply_adds(of(t).stores) == of(t).stores);
  }
}

TEST_SUITE("expand") {
  const Tensor x = input(0, {4, 8});

  TEST_CASE("UNROLL writes out the terms of a sum") {
    CHECK(values_of(of(sum(x, 1)).apply({unroll("r1", 2)}).apply(written_out).stores) ==
          "reduce_sum(load(x1, a*32 + b*8), load(x1, a*32 + b*8 + 4), b); a<4 b<4");
  }

  TEST_CASE("a sum that is written out in full is no loop") {
    CHECK(values_of(of(sum(slice(x, 1, 0, 2), 1)).apply({unroll("r1", 2)}).apply(written_out).stores) ==
          "load(x1, a*32) + load(x1, a*32 + 4); a<4");
  }

  TEST_CASE("UPCAST repeats the store") {
    CHECK(values_of(of(x * 2.0).apply({upcast("o0", 4)}).apply(written_out).stores) ==
          "load(x1, a*4)*2\nload(x1, a*4 + 32)*2\nload(x1, a*4 + 64)*2\nload(x1, a*4 + 96)*2; a<8");
  }

  TEST_CASE("GROUP combines its lanes after the loop") {
    CHECK(values_of(of(max(x, 1)).apply({group("r1", 4)}).apply(written_out).stores) ==
          "lane_reduce(reduce_max(load(x1, a*32 + b*16 + c*4), b), c); a<4 b<2 c<4");
  }

  TEST_CASE("partial sums are combined by halves, in registers and in lanes") {
    const auto in_fours = [](const Refs& stores) { return in_partials(stores, axes_of(stores)[1], 4); };
    CHECK(values_of(of(sum(x, 1)).apply(in_fours).apply({group("r1.1", 2)}).apply(written_out).stores) ==
          "lane_reduce(reduce_sum(load(x1, a*32 + b*16 + c*4), b) + reduce_sum(load(x1, a*32 + b*16 + c*4 + 8), b), "
          "c); a<4 b<2 c<2");
    CHECK(values_of(of(sum(slice(x, 1, 0, 4), 1)).apply(in_fours).apply(written_out).stores) ==
          "load(x1, a*32) + load(x1, a*32 + 8) + (load(x1, a*32 + 4) + load(x1, a*32 + 12)); a<4");
  }
}

TEST_SUITE("rounds of a softmax") {
  Machine gpu() { return *known_machine("h100"); }
  Refs in_rounds(const Refs& stores) { return softmax_rounds(stores, gpu()); }

  Refs softmax_sums(const Refs& stores) {
    Refs sums;
    for (Ref n : toposort(sink(stores)))
      if (n->op == Op::SoftmaxSum) sums.push_back(n);
    return sums;
  }

  // Those of an average over `chunks` elements.
  Refs sums_of(Dim chunks, const Machine& machine) {
    const PassTest test = of(softmax_average(input(0, {2, chunks}), input(1, {2, chunks}), 1), {{"chunks", 3}});
    return softmax_sums(softmax_rounds(test.stores, machine));
  }

  // Of a kernel, whose sizes have room (schedule/schedule.h), with sizes of at most so much.
  Refs with_most(const Refs& stores, int64_t most) {
    Replacements by;
    for (Ref n : toposort(sink(stores)))
      if (n->op == Op::Var) by[n] = variable(n->arg.name, 1, most);
    Refs out;
    for (Ref s : stores) out.push_back(substitute(s, by));
    return out;
  }

  // Columns of values that have the same scores, with threads along an axis.
  PassTest columns(const Opt& threads) {
    const Dim n(variable("chunks", 1, 64));
    PassTest test = of(softmax_average(unsqueeze(input(0, {2, n}), 2), input(1, {2, n, 64}), 1), {{"chunks", 40}});
    test.apply([&](const Refs& stores) { return apply_opts(stores, {threads}, lane_rules(gpu())); });
    return test.apply([](const Refs& stores) { return expand(stores, gpu()); });
  }

  TEST_CASE("of an unknown number of elements a thread takes 4 in a round, and a warp 32 where there may be many") {
    const Dim chunks(variable("chunks", 1, 64));
    const PassTest test = of(softmax_average(input(0, {2, chunks}), input(1, {2, chunks}), 1), {{"chunks", 3}});
    const Refs few = softmax_sums(in_rounds(with_most(test.stores, 16)));
    REQUIRE(!few.empty());
    for (Ref n : few) CHECK(ReduceView(n).values.size() == 2 * 4);
    for (int64_t most : {17, 64}) {
      const Refs sums = softmax_sums(in_rounds(with_most(test.stores, most)));
      REQUIRE(!sums.empty());
      for (Ref n : sums) {
        REQUIRE(has_shared_rounds(n));
        CHECK(!SharedRoundView(n).has_all_values());
        CHECK(RangeView(SharedRoundView(n).lane).count() == kWarp);
      }
    }
  }

  TEST_CASE("threads that share weights have values of their own") {
    PassTest with_lanes = columns(local("o1", 32));
    std::set<size_t> values;
    for (Ref n : softmax_sums(in_rounds(with_lanes.stores))) values.insert(SharedRoundView(n).values.size());
    CHECK(values == std::set<size_t>{1, kWarp});  // those of the sum of weights are the same for all
    with_lanes.apply(in_rounds);
  }

  TEST_CASE("scores that differ among threads are not shared: 16 in a round") {
    const PassTest with_lanes = columns(local("o0", 2));
    const Refs sums = softmax_sums(in_rounds(with_lanes.stores));
    REQUIRE(!sums.empty());
    for (Ref n : sums) CHECK(ReduceView(n).values.size() == 2 * 16);
  }

  TEST_CASE("of a known number one after the other, and so on processors without threads") {
    REQUIRE(!sums_of(12, gpu()).empty());
    for (Ref n : sums_of(12, gpu())) CHECK(ReduceView(n).values.size() == 2);
    for (Ref n : sums_of(Dim(variable("chunks", 1, 64)), *known_machine("zen4")))
      CHECK(ReduceView(n).values.size() == 2);
  }

  TEST_CASE("elements that are not there change nothing") {
    const Dim chunks(variable("chunks", 1, 64));
    of(softmax_average(input(0, {2, chunks}), input(1, {2, chunks}), 1), {{"chunks", 5}}).apply(in_rounds);
  }
}

TEST_SUITE("coalesce loads") {
  // Row r has the bytes 4 r .. 4 r + 3; rows are lanes.
  PassTest rows_of_words() { return of(sum(cast(input(0, {16, 4}, DType::U8) & 15, DType::F32), 1)); }

  TEST_CASE("bytes a word apart in neighbouring lanes are one load of words") {
    PassTest test = rows_of_words().apply({local("o0", 8), unroll("r1", 4)}).apply(written_out);
    CHECK(loads_in(test.stores, DType::U8) == 4);
    test.apply(coalesce_loads);
    CHECK(loads_in(test.stores, DType::U8) == 0);
    CHECK(loads_in(test.stores, DType::U32) == 1);
  }

  TEST_CASE("bytes of two words are put together four at a time") {
    const Tensor low = input(0, {16, 4}, DType::U8), high = input(1, {16, 4}, DType::U8);
    PassTest test = of(sum(cast((low & 15) | ((high >> 6) << 4), DType::F32), 1))
                        .apply({local("o0", 8), unroll("r1", 4)})
                        .apply(written_out)
                        .apply(coalesce_loads);
    CHECK(loads_in(test.stores, DType::U8) == 0);
    CHECK(loads_in(test.stores, DType::U32) == 2);
    size_t together = 0;
    for (Ref n : toposort(test.stores[0])) together += n->op == Op::Or;
    CHECK(together == 1);
  }

  TEST_CASE("without such lanes nothing changes") {
    PassTest test = rows_of_words().apply({unroll("r1", 4)}).apply(written_out);
    const Refs before = test.stores;
    CHECK(test.apply(coalesce_loads).stores == before);
  }
}

TEST_SUITE("look up words") {
  Refs by_bytes(const Refs& stores) { return look_up_words(stores, {.table_bytes = 128}); }
  Refs without_tables(const Refs& stores) { return look_up_words(stores, {.table_bytes = 0}); }

  size_t count(const Refs& stores, Op op) {
    const Refs nodes = toposort(sink(stores));
    return static_cast<size_t>(std::count_if(nodes.begin(), nodes.end(), [&](Ref n) { return n->op == op; }));
  }

  std::vector<int64_t> table_of(size_t size) {
    std::vector<int64_t> words;
    for (size_t i = 0; i < size; ++i) words.push_back(static_cast<int64_t>(i * 2654435761u % (1u << 24)));
    return words;
  }

  // Bytes 0 .. used - 1 of a word for each of 16 lanes, with `high` bits of another one above them.
  PassTest look_ups(int64_t used, int64_t high) {
    const Tensor shift = cast(iota({1, used}, 1) * 8.0, DType::U32);
    Tensor index = (input(0, {16, 1}, DType::U32) >> shift) & 255;
    if (high) index = index | (((input(1, {16, 1}, DType::U32) >> shift) & ((1 << high) - 1)) << 8);
    const Tensor words = lut(index, table_of(size_t{256} << high), DType::U32);
    PassTest test = of(sum(cast(words, DType::I32), 1));
    test.apply({local("o0", 16), unroll("r1", used)}).apply(written_out);
    CHECK(count(test.stores, Op::Lut) == static_cast<size_t>(used));
    return test;
  }

  TEST_CASE("bytes of a word are looked up together, a table for each byte that entries have") {
    PassTest test = look_ups(4, 0);
    test.apply(by_bytes);
    CHECK(count(test.stores, Op::Lut) == 0);
    CHECK(count(test.stores, Op::Lut4) == 3);  // the highest byte of all entries is zero
  }

  TEST_CASE("of a table of 512 words, bits above the byte choose the half") {
    PassTest test = look_ups(4, 1);
    test.apply(by_bytes);
    CHECK(count(test.stores, Op::Lut) == 0);
    CHECK(count(test.stores, Op::Lut4) == 5);  // the lowest bytes of both halves are the same
    CHECK(count(test.stores, Op::Where) == 4);
  }

  TEST_CASE("nibbles that choose from a whole register need no mask") {
    const std::vector<int64_t> table{-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12};
    const auto products = [&](int64_t mask) {
      const Tensor entries = lut(input(0, {16, 4}, DType::U8) & mask, table, DType::I8);
      PassTest test = of(sum(cast(entries, DType::I32) * cast(input(1, {1, 4}, DType::U8), DType::I32), 1));
      test.apply({local("o0", 16), Opt{OptKind::Dot, AxisName("r1").id, 4}}).apply(pack_dots);
      CHECK(count(test.stores, Op::And) == 1);
      return test;
    };
    CHECK(count(products(15).apply(by_bytes).stores, Op::And) == 0);
    CHECK(count(products(7).apply(by_bytes).stores, Op::And) == 1);
    CHECK(count(products(15).apply(without_tables).stores, Op::And) == 1);
  }

  TEST_CASE("longer tables, few bytes, and processors without such tables keep what they have") {
    for (PassTest test : {look_ups(4, 2), look_ups(2, 0)}) {
      const Refs before = test.stores;
      CHECK(test.apply(by_bytes).stores == before);
    }
    PassTest test = look_ups(4, 0);
    const Refs before = test.stores;
    CHECK(test.apply(without_tables).stores == before);
  }
}
