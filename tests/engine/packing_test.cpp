// Packing weights at load: every byte in its place on any number of threads, cancelled at any moment, and refused where
// memory is short.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "engine/memory_need.h"
#include "engine/near_pieces.h"
#include "engine/packed_weights.h"
#include "engine/session.h"
#include "model/layout_choice.h"
#include "runtime/available_memory.h"
#include "runtime/devices.h"
#include "runtime/memory.h"
#include "support/gguf_writer.h"

using namespace smelt;

namespace {

constexpr const char* kModel = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";

constexpr int kSplit = 32;

// All weights: interleaved by 8 where that can be, and split where that can be, the others as they are; the embeddings
// both ways.
WantedLayouts layouts(const GgufFile& file) {
  WantedLayouts all = {{"token_embd.weight", {.interleave = 1}}};
  for (const GgufTensor& t : file.tensors()) {
    const bool fits = can_interleave(t.type, static_cast<int64_t>(t.rows()), 8);
    const auto rows = static_cast<int64_t>(t.rows());
    all.insert({std::string(t.name),
                with_split({.interleave = fits ? 8 : 1}, rows, t.name.ends_with("attn_q_b.weight") ? kSplit : 0)});
  }
  return all;
}

std::vector<std::byte> expected(const GgufTensor& t, WeightLayout layout) {
  std::vector<std::byte> rows(t.data, t.data + t.bytes), out(t.bytes);
  if (layout.interleave == 1) return rows;
  const size_t row_bytes = t.row_bytes();
  for (size_t row = 0; layout.split && row < t.rows(); ++row) {
    const size_t half = kSplit / 2, place = row % kSplit, from = row - place + place % half * 2 + place / half;
    std::copy_n(t.data + from * row_bytes, row_bytes, rows.data() + row * row_bytes);
  }
  interleave_rows(t.type, {8}, static_cast<int64_t>(t.rows()), static_cast<int64_t>(row_bytes / info_of(t.type).bytes),
                  rows.data(), out.data());
  return out;
}

void check_packed(const GgufFile& file, int threads) {
  const PackPlan plan = PackPlan::make(file, layouts(file));
  REQUIRE(plan.tensors.size() > 10);
  for (int interleave : {1, 8})
    CHECK(std::any_of(plan.tensors.begin(), plan.tensors.end(),
                      [&](const PackedTensor& t) { return t.layout.interleave == interleave; }));
  const auto is_split = [](const PackedTensor& t) { return t.layout.split == kSplit; };
  CHECK(std::any_of(plan.tensors.begin(), plan.tensors.end(), is_split));
  const auto is_embedding = [](const PackedTensor& t) { return t.tensor->name == "token_embd.weight"; };
  CHECK(std::count_if(plan.tensors.begin(), plan.tensors.end(), is_embedding) == 2);
  double last = 0;
  const auto device = open_device({.threads = 1, .use_cache = false}).take();
  const auto packed =
      PackedWeights::pack(plan, {.threads = threads, .progress = [&](double fraction) { last = fraction; }}, *device);
  REQUIRE(packed.ok());
  for (const PackedTensor& t : plan.tensors) {
    const std::string name(t.tensor->name);
    const std::byte* data = packed->find(name, t.layout);
    REQUIRE(data);
    CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
    CHECK(std::memcmp(data, expected(*t.tensor, t.layout).data(), t.tensor->bytes) == 0);
    CHECK(packed->find(name, {.interleave = 4}) == nullptr);
  }
  CHECK(packed->find("no.such.weight", {}) == nullptr);
  CHECK(last <= 1.0);
}

// The small model as if it had been made for a context of `tokens`.
std::vector<std::byte> with_context(uint32_t tokens) {
  const GgufFile file = GgufFile::open(kModel).take();
  return test::GgufWriter::copy_of(file).u32("deepseek2.context_length", tokens).bytes();
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("packing puts every block where its layout says, on any number of threads") {
  const GgufFile file = GgufFile::open(kModel).take();
  for (int threads : {1, 2, 5}) check_packed(file, threads);
}

TEST_CASE("a model in memory is packed, too, and stays as it was") {
  const GgufFile mapped = GgufFile::open(kModel).take();
  const auto source = mapped.shards()[0].bytes;
  auto copy = Buffer::allocate(source.size());  // page aligned, as a mapping is
  REQUIRE(copy.ok());
  std::memcpy(copy->data(), source.data(), source.size());
  const GgufFile file = GgufFile::open_memory(copy->bytes()).take();
  check_packed(file, 2);
  CHECK(std::memcmp(copy->data(), source.data(), source.size()) == 0);
}

TEST_CASE("pieces are whole groups of rows, and together all of the plan") {
  const GgufFile file = GgufFile::open(kModel).take();
  const PackPlan plan = PackPlan::make(file, layouts(file));
  for (int64_t bytes : {int64_t{1}, int64_t{10000}, int64_t{1} << 40}) {
    int64_t total = 0, wanted = 0;
    for (const PackPiece& piece : cut_in_pieces(plan, bytes)) {
      CHECK(piece.row % piece.of->layout.interleave == 0);
      CHECK(piece.rows % piece.of->layout.interleave == 0);
      total += piece.bytes();
    }
    for (const PackedTensor& t : plan.tensors) wanted += static_cast<int64_t>(t.tensor->bytes);
    CHECK(total == wanted);
  }
}

TEST_CASE("pieces go to threads of the node whose workers read them, and each to one thread") {
  const GgufTensor matrix{.name = "matrix", .dims = {256, 1024, 1, 1}, .bytes = 1024 * 256},
      experts{.name = "experts", .dims = {256, 8, 16, 1}, .bytes = 128 * 256};
  PackPlan plan;
  plan.tensors = {{&matrix, {}, 0, false}, {&experts, {}, 1024 * 256, false}};
  const std::vector<PackPiece> pieces = cut_in_pieces(plan, 16 * 256);
  const std::vector<int> nodes = {0, 0, 2, 2};
  NearPieces near(pieces, nodes);
  std::set<size_t> taken;
  for (int node : {0, 2})
    for (int i = 0; i < 32; ++i) {
      const size_t piece = near.take(node);
      CHECK(taken.insert(piece).second);
      CHECK(pieces[piece].of->tensor == &matrix);
      CHECK((pieces[piece].row < 512) == (node == 0));
    }
  // Two experts are read by all.
  for (int node : {0, 2})
    for (int i = 0; i < 4; ++i) {
      const size_t piece = near.take(node);
      CHECK(taken.insert(piece).second);
      CHECK(pieces[piece].of->tensor == &experts);
    }
  NearPieces alike(pieces, {});
  for (size_t i = 0; i < pieces.size(); ++i) CHECK(alike.take(0) == i);
  NearPieces busy(pieces, nodes);  // one thread takes them all, those of its node first
  taken.clear();
  for (size_t i = 0; i < pieces.size(); ++i) taken.insert(busy.take(2));
  CHECK(taken.size() == pieces.size());
}

TEST_CASE("tensors are packed in the order of the file") {
  const GgufFile file = GgufFile::open(kModel).take();
  const PackPlan plan = PackPlan::make(file, layouts(file));
  for (size_t i = 1; i < plan.tensors.size(); ++i) {
    CHECK(plan.tensors[i - 1].tensor->offset <= plan.tensors[i].tensor->offset);
    CHECK(plan.tensors[i - 1].offset < plan.tensors[i].offset);
  }
}

TEST_CASE("a cancelled packing ends with an error") {
  const GgufFile file = GgufFile::open(kModel).take();
  const PackPlan plan = PackPlan::make(file, layouts(file));
  const std::atomic<bool> cancel = true;
  const auto device = open_device({.threads = 1, .use_cache = false}).take();
  const auto packed = PackedWeights::pack(plan, {.threads = 2, .cancel = &cancel}, *device);
  REQUIRE_FALSE(packed.ok());
  CHECK(packed.error().message == "[load] interrupted");
}

TEST_CASE("too little memory is refused with the bytes needed and available, and what would help") {
  CHECK(check_memory({.weights = 100, .session = 50}, {.bytes = 150}, "m.gguf").ok());
  const Status weights =
      check_memory({.weights = 16'000'000'000, .session = 500'000'000}, {.bytes = 9'000'000'000}, "m.gguf");
  REQUIRE_FALSE(weights.ok());
  CHECK(weights.error().message ==
        "[memory] m.gguf: 16500000000 bytes (16.5 GB) of memory are needed, 16.0 GB for the weights "
        "and 500 MB for the context and working memory, and 9000000000 bytes (9.00 GB) are "
        "available; close other programs, or run with --no-repack, which reads the file in place");
  const Status context = check_memory({.session = 2'000'000}, {.bytes = 1'000'000}, "m.gguf");
  REQUIRE_FALSE(context.ok());
  CHECK(contains(context.error().message, "use a smaller context (-c)"));
  const Status states = check_memory({.session = 2'000'000, .states = 1'500'000}, {.bytes = 1'000'000}, "m.gguf");
  CHECK(contains(states.error().message, "for the context and working memory (1.50 MB of it recurrent states), and"));
  const MemoryNeed fits{.weights = 100, .session = 1000, .fitting_context = 768};
  CHECK(
      contains(check_memory(fits, {.bytes = 500, .gpu = "cuda:0"}, "m.gguf").error().message,
               " of memory of cuda:0 are needed, 100 B for the weights and 1.00 kB for the context and working memory, "
               "and 500 bytes (500 B) are available; a smaller context fits: -c 768"));
}

TEST_CASE("a context that needs more memory than there is is refused before anything is compiled") {
  const std::vector<std::byte> bytes = with_context(1 << 28);
  const GgufFile file = GgufFile::open_memory(bytes).take();
  bool compiled = false;
  const auto session =
      Session::open(file, {.context = 1 << 28, .memory = uint64_t{1} << 30},
                    {.progress = [&](const char*, double fraction) { compiled = compiled || fraction > 0; }});
  REQUIRE_FALSE(session.ok());
  CHECK(contains(session.error().message, "[memory] "));
  CHECK(contains(session.error().message, " of memory are needed, "));
  CHECK(contains(session.error().message, ", and 1073741824 bytes ("));
  CHECK(contains(session.error().message, " are available; use a smaller context (-c)"));
  CHECK_FALSE(compiled);
}

TEST_CASE("opening a session can be cancelled at any stage") {
  const GgufFile file = GgufFile::open(kModel).take();
  for (const std::string stage : {"compiling", "loading"}) {
    std::atomic<bool> cancel = false;
    const auto session = Session::open(
        file, {.threads = 2},
        {.progress = [&](const char* what, double) { cancel = cancel || what == stage; }, .cancel = &cancel});
    CAPTURE(stage);
    REQUIRE_FALSE(session.ok());
    CHECK(session.error().message.ends_with("] interrupted"));
  }
}
