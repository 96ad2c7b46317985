// A token's logits have the same bits however the tokens before it were divided among calls, chunks and threads.
#include <doctest/doctest.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "engine/session.h"
#include "model/dequant.h"
#include "model/product.h"
#include "model/small_transformer.h"
#include "support/compare_logits.h"
#include "support/effort.h"
#include "support/run_graph.h"

using namespace smelt;
using test::same_bits;

namespace {

const GgufFile& tiny_model() {
  static const GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  return file;
}

struct Arithmetic {
  const char* name;
  bool quantise;
  DType cache;
};
constexpr Arithmetic kArithmetics[] = {{"q8", true, DType::U8}, {"f32", false, DType::F32}};

std::unique_ptr<Session> open(const Arithmetic& a, int threads = 1, int64_t chunk = 512,
                              const std::string& device = "cpu") {
  auto session = Session::open(tiny_model(),
                               {.device = device,
                                .threads = threads,
                                .context = 1024,
                                .cache_type = a.cache,
                                .quantise_activations = a.quantise,
                                .prefill_chunk = chunk,
                                .use_tuned = false},
                               {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  return session.take();
}

// Longer than a chunk.
std::vector<int32_t> prompt() {
  const auto json = nlohmann::json::parse(std::ifstream(SMELT_SOURCE_DIR "/tests/data/tiny-glm-Q4_K_M.json"));
  auto ids = json["prompts"][0]["ids"].get<std::vector<int32_t>>();
  while (ids.size() < 577) ids.insert(ids.end(), ids.begin(), ids.end());
  ids.resize(577);
  return ids;
}

using Logits = std::vector<float>;

void add(Logits& all, const Result<std::span<const float>>& logits) {
  REQUIRE_MESSAGE(logits.ok(), logits.error().message);
  all.insert(all.end(), logits->begin(), logits->end());
}

// The prompt in pieces of these sizes, the last one again and again, and the last `alone` tokens one by one: its logits
// and those of two generated tokens.
Logits logits_of(Session& session, const std::vector<size_t>& sizes, size_t alone = 0) {
  const std::vector<int32_t> ids = prompt();
  std::span<const int32_t> rest = ids;
  session.reset();
  Logits all;
  for (size_t piece = 0; !rest.empty(); ++piece) {
    const size_t size =
        rest.size() <= alone ? 1 : std::min(sizes[std::min(piece, sizes.size() - 1)], rest.size() - alone);
    const auto logits = session.append(rest.first(size));
    REQUIRE_MESSAGE(logits.ok(), logits.error().message);
    rest = rest.subspan(size);
    if (rest.empty()) add(all, logits);
  }
  for (int32_t token : {5, 42}) add(all, session.extend(token));
  return all;
}

}  // namespace

TEST_CASE("logits do not depend on how a prompt is divided") {
  for (const Arithmetic& a : kArithmetics) {
    CAPTURE(a.name);
    const auto session = open(a);
    const Logits whole = logits_of(*session, {577});
    CHECK(same_bits(whole, logits_of(*session, {512})));
    CHECK(same_bits(whole, logits_of(*session, {64})));
    CHECK(same_bits(whole, logits_of(*session, {1, 7, 64})));
    CHECK(same_bits(whole, logits_of(*session, {576})));    // the last token alone
    CHECK(same_bits(whole, logits_of(*session, {64}, 9)));  // nine of them
  }
}

TEST_CASE("logits do not depend on the length of chunks and the number of threads") {
  for (const Arithmetic& a : kArithmetics) {
    CAPTURE(a.name);
    const Logits expected = logits_of(*open(a), {577});
    for (int64_t chunk : test::some<int64_t>({40, 8, 128}))
      CHECK(same_bits(expected, logits_of(*open(a, 1, chunk), {577})));
    for (int threads : test::some<int>({2, 3, 4})) CHECK(same_bits(expected, logits_of(*open(a, threads), {577})));
  }
}

// Threads beyond the cores wait for each other at every launch, so the prompt is short.
TEST_CASE("logits do not depend on the number of threads up to 64") {
  const std::vector<int32_t> ids = prompt();
  for (const Arithmetic& a : kArithmetics) {
    CAPTURE(a.name);
    const auto logits_with = [&](int threads) {
      const auto session = open(a, threads);
      Logits all;
      add(all, session->append(std::span(ids).first(24)));
      add(all, session->extend(5));
      return all;
    };
    const Logits expected = logits_with(1);
    for (int threads : test::some<int>({16, 33, 64})) CHECK(same_bits(expected, logits_with(threads)));
  }
}

TEST_CASE("logits do not depend on how many tokens fill up a prompt") {
  for (const Arithmetic& a : kArithmetics) {
    CAPTURE(a.name);
    const Logits expected = logits_of(*open(a), {64, 1, 39});
    for (const char* device : {"cpu,token_tile=32", "cpu,token_tile=64"})
      CHECK(same_bits(expected, logits_of(*open(a, 1, 128, device), {64, 1, 39})));
  }
}

TEST_CASE("logits of all positions are those of each prompt that ends there") {
  for (const Arithmetic& a : kArithmetics) {
    CAPTURE(a.name);
    const auto session = open(a);
    const std::vector<int32_t> all = prompt();
    const std::span<const int32_t> ids = std::span(all).first(70);
    std::vector<Logits> rows;
    const auto keep = [&](int64_t, std::span<const float> row) { rows.emplace_back(row.begin(), row.end()); };
    REQUIRE(session->append_all(ids, keep).ok());
    REQUIRE(rows.size() == ids.size());
    for (size_t n : {1, 8, 9, 63, 64, 65, 70}) {
      session->reset();
      Logits last;
      add(last, session->append(ids.first(n)));
      CHECK(same_bits(last, rows[n - 1]));
    }
  }
}

namespace {

using testing::Inputs;

// Any bytes, but none that makes a scale in half precision large.
std::vector<std::byte> random_blocks(size_t bytes) {
  std::mt19937_64 rng(4);
  std::vector<std::byte> out(bytes);
  for (std::byte& b : out) b = static_cast<std::byte>(rng() & 0xbf);
  return out;
}

// The first row of what a graph makes of `rows` rows of 256 numbers, of which the first are always the same.
std::vector<double> first_row(int64_t rows, const std::function<Tensor(Tensor)>& f, Inputs in) {
  in.buffers[0] = testing::random_floats(rows * 256, 1);
  const Tensor x = param(0, DType::F32, {rows, 256}, "x"), y = f(x);
  const testing::Comparison c = testing::compare(sink({output(9, y)}), in);
  return {c.got.at(9).begin(), c.got.at(9).begin() + y.size(1)};
}

}  // namespace

TEST_CASE("logits of a recurrent model do not depend on how a prompt is divided, nor on the length of chunks") {
  const auto bytes = test::SmallTransformer(test::kSmallQwen35).writer.bytes();
  const GgufFile file = GgufFile::open_memory(bytes).take();
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 150; ++i) ids.push_back((7 * i + i / 5) % 40);
  struct Division {
    int64_t chunk;
    size_t piece;
    int threads;
  };
  // Those behind the prompt and behind one generated token.
  const auto logits_in = [&](const Division& d) {
    auto session =
        Session::open(file, {.threads = d.threads, .context = 256, .prefill_chunk = d.chunk, .use_tuned = false}, {});
    REQUIRE_MESSAGE(session.ok(), session.error().message);
    Logits all;
    for (size_t at = 0; at < ids.size(); at += d.piece) {
      all.clear();
      add(all, (*session)->append(std::span(ids).subspan(at, std::min(d.piece, ids.size() - at))));
    }
    add(all, (*session)->extend(5));
    return all;
  };
  const Logits wanted = logits_in({512, 150, 1});
  const Division others[] = {{8, 150, 2}, {24, 150, 1}, {512, 1, 1}, {512, 13, 3}, {512, 64, 1}, {64, 77, 1}};
  for (const Division& d : others) {
    CAPTURE(d.chunk);
    CAPTURE(d.piece);
    CHECK(same_bits(logits_in(d), wanted));
  }
}

TEST_CASE("a row's sums do not depend on how many rows are computed with it") {
  const Tensor gains = param(1, DType::F32, {256}, "gains"), matrix = param(2, DType::F32, {64, 256}, "matrix");
  Inputs in;
  in.buffers[1] = testing::random_floats(256, 2);
  in.buffers[2] = testing::random_floats(64 * 256, 3);
  in.buffers[3] = random_blocks(64 * 8 * 18);
  const auto weights = [](int interleave) { return raw_weight(3, GgufType::Q4_0, {64}, 256, "w", {interleave}); };
  const auto norm = [&](Tensor x) {
    return x * unsqueeze(scalar(1) / sqrt(sum(x * x, -1) * (1.0 / 256) + 1e-5), 1) * gains;
  };
  const std::map<std::string, std::function<Tensor(Tensor)>> graphs{
      {"norm", norm},
      {"product of floats", [&](Tensor x) { return linear(norm(x), matrix); }},
      {"weights in place", [&](Tensor x) { return product({x, {}, {}}, weights(1), GgufType::Q4_0, {1}); }},
      {"interleaved weights", [&](Tensor x) { return product({x, {}, {}}, weights(8), GgufType::Q4_0, {8}); }},
      {"bytes", [&](Tensor x) { return product(quantise_activations(norm(x)), weights(8), GgufType::Q4_0, {8}); }}};
  for (const auto& [name, graph] : graphs) {
    CAPTURE(name);
    const std::vector<double> alone = first_row(1, graph, in);
    for (int64_t rows : {2, 3, 4, 8, 16}) CHECK(first_row(rows, graph, in) == alone);
  }
}
