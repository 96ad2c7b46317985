// `smelt imatrix` and what `smelt quantize` makes of it, from the outside.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include "app/process.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "gguf/importance.h"
#include "support/gguf_writer.h"

using namespace smelt;
using namespace smelt::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A matrix whose first columns matter and whose others hardly do.
std::string matrix_file() {
  std::vector<float> values(256 * 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i) * 1.7f);
  GgufWriter w;
  w.string("general.architecture", "llama");
  w.tensor("blk.0.ffn_up.weight", {256, 4}, GgufType::F32,
           {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  w.tensor("output.weight", {256, 4});
  const std::string path = scratch().file("matrix.gguf");
  REQUIRE(w.save(path));
  return path;
}

std::string importance_of_first_columns(size_t columns) {
  Importance importance{.datasets = {"a.txt"}, .chunks = 3, .chunk_size = 8};
  std::vector<float> sums(columns, 1e-3f);
  for (size_t i = 0; i < 32; ++i) sums[i] = 100;
  importance.entries["blk.0.ffn_up.weight"] = {sums, {1}};
  const std::string path = scratch().file("importance.gguf");
  std::ofstream(path, std::ios::binary) << importance_file(importance);
  return path;
}

}  // namespace

TEST_CASE("imatrix reads a text, and quantize takes what it has written") {
  const std::string text = SMELT_SOURCE_DIR "/tests/data/heldout_a.txt", file = scratch().file("imatrix.gguf");
  const Outcome done = smelt::test::smelt({"imatrix", "-f", text, "-o", file, "--chunk", "64", "--chunks", "2"});
  CAPTURE(done.err);
  REQUIRE(done.exit_code == 0);
  CHECK(contains(done.out, "2 chunks of 64 tokens"));
  const auto importance = read_importance(file);
  REQUIRE(importance.ok());
  CHECK(importance->chunks == 2);
  CHECK(importance->entries.at("blk.0.ffn_down.weight").counts == std::vector<float>{128});
  const std::vector<float>& chosen = importance->entries.at("blk.5.ffn_gate_exps.weight").counts;
  REQUIRE(chosen.size() == 8);
  float all = 0;
  for (float count : chosen) all += count;
  CHECK(all == 4 * 128);

  const Outcome more =
      smelt::test::smelt({"imatrix", "-f", text, "-o", file, "--in-file", file, "--chunk", "64", "--chunks", "1"});
  REQUIRE(more.exit_code == 0);
  const auto sum = read_importance(file);
  REQUIRE(sum.ok());
  CHECK(sum->chunks == 3);
  CHECK(sum->entries.at("blk.0.ffn_down.weight").counts == std::vector<float>{192});
}

TEST_CASE("imatrix refuses what it cannot do in a sentence") {
  const auto refusal = [&](std::vector<std::string> arguments, int code, const std::string& input = "Once") {
    arguments.insert(arguments.begin(), "imatrix");
    const Outcome done = smelt::test::smelt(arguments, {.input = input});
    CHECK(done.exit_code == code);
    return done.err;
  };
  CHECK(contains(refusal({"--chunk", "12"}, 2), "no multiple of 8"));
  CHECK(contains(refusal({"-o", scratch().file("none.gguf")}, 1), "fewer than one chunk"));
  CHECK(contains(refusal({"--in-file", scratch().file("missing")}, 1), "missing"));
  CHECK(!std::filesystem::exists(scratch().file("none.gguf")));
}

TEST_CASE("quantize takes columns that matter into account, and notes where it knows that from") {
  const std::string in = matrix_file(), out = scratch().file("q.gguf");
  const auto entries_after = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"quantize", in, out, "Q2_K", "--pure", "--tensor-type", "output=F32"});
    const Outcome done = smelt::test::smelt(more);
    CAPTURE(done.err);
    REQUIRE(done.exit_code == 0);
    return *GgufFile::open(out)->u64_or("quantize.imatrix.entries_count", 0);
  };
  CHECK(entries_after({}) == 0);
  const std::string without = *read_file(out);
  CHECK(entries_after({"--imatrix", importance_of_first_columns(256)}) == 1);
  CHECK(*read_file(out) != without);
  const auto file = GgufFile::open(out);
  CHECK(*file->string("quantize.imatrix.dataset") == "a.txt");
  CHECK(*file->u64("quantize.imatrix.chunks_count") == 3);

  const Outcome other =
      smelt::test::smelt({"quantize", in, out, "Q2_K", "--imatrix", importance_of_first_columns(128)});
  CHECK(other.exit_code == 1);
  CHECK(contains(other.err, "blk.0.ffn_up.weight has 256 columns, and this is about 128"));
}
