// Importance matrices as files: both forms, and what is no such file.
#include "gguf/importance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "support/gguf_writer.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;

namespace {

std::string saved(const std::string& bytes) {
  static const TempFolder folder;
  const std::string path = folder.path() + "/importance";
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

std::string int_bytes(int32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
std::string text_bytes(const std::string& text) { return int_bytes(static_cast<int32_t>(text.size())) + text; }
std::string float_bytes(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// One matrix of three columns, of which two calls have left sums.
std::string older_file() {
  return int_bytes(1) + text_bytes("blk.0.ffn_up.weight") + int_bytes(2) + int_bytes(3) + float_bytes({2, 4, 8}) +
         int_bytes(7) + text_bytes("stories.txt");
}

std::string text_of(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string error_of(const std::string& bytes) {
  const auto read = read_importance(saved(bytes));
  return read ? "" : read.error().message;
}

}  // namespace

TEST_CASE("an importance matrix is read as it was written") {
  Importance importance{.datasets = {"a.txt", "b.txt"}, .chunks = 12, .chunk_size = 512};
  importance.entries["blk.0.attn_q.weight"] = {{1, 2, 3, 4}, {2}};
  importance.entries["blk.0.ffn_up_exps.weight"] = {{1, 2, 3, 4}, {4, 0}};
  const auto read = read_importance(saved(importance_file(importance)));
  REQUIRE(read.ok());
  CHECK(read->datasets == importance.datasets);
  CHECK(read->chunks == 12);
  CHECK(read->chunk_size == 512);
  REQUIRE(read->entries.size() == 2);
  CHECK(means_of(read->entries.at("blk.0.attn_q.weight")) == std::vector<float>{0.5f, 1, 1.5f, 2});
  // Of the second expert nothing is known.
  CHECK(means_of(read->entries.at("blk.0.ffn_up_exps.weight")) == std::vector<float>{0.25f, 0.5f, 1, 1});
}

TEST_CASE("the older form of files is read") {
  const auto read = read_importance(saved(older_file()));
  REQUIRE(read.ok());
  CHECK(means_of(read->entries.at("blk.0.ffn_up.weight")) == std::vector<float>{1, 2, 4});
  CHECK(read->chunks == 7);
  CHECK(read->datasets == std::vector<std::string>{"stories.txt"});
}

TEST_CASE("sums of two runs are added, of other sizes refused") {
  Importance sum;
  REQUIRE(add_entry("x", {{1, 2, 3, 4}, {1}}, sum).ok());
  REQUIRE(add_entry("x", {{3, 2, 1, 0}, {2, 2}}, sum).ok());  // the first file did not tell the two matrices apart
  CHECK(sum.entries.at("x").sums == std::vector<float>{4, 4, 4, 4});
  CHECK(sum.entries.at("x").counts == std::vector<float>{3, 3});
  CHECK(add_entry("x", {{1, 2}, {1, 1}}, sum).error().message.find("files of one model") != std::string::npos);
}

TEST_CASE("what is no importance matrix is refused in a sentence") {
  const std::string older = older_file();
  for (size_t bytes = 0; bytes < older.size() - 4 - 4 - 11; ++bytes)
    CHECK(error_of(older.substr(0, bytes)).starts_with("[imatrix] "));
  CHECK(error_of(int_bytes(-1)).find("no importance matrix") != std::string::npos);
  CHECK(error_of(int_bytes(1) + int_bytes(INT32_MAX)).find("ends too early") != std::string::npos);

  const auto with = [](std::vector<float> sums, std::vector<float> counts) {
    Importance importance;
    importance.entries["x"] = {std::move(sums), std::move(counts)};
    return importance_file(importance);
  };
  CHECK(error_of(with({1, NAN}, {1})).find("no sum of squares") != std::string::npos);
  CHECK(error_of(with({1, -1}, {1})).find("no sum of squares") != std::string::npos);
  GgufWriter lonely;
  lonely.tensor("x.in_sum2", {2, 1}, GgufType::F32);
  CHECK(error_of(text_of(lonely)).find("no counts") != std::string::npos);
  GgufWriter halves;
  halves.tensor("x.in_sum2", {2, 1}, GgufType::F16).tensor("x.counts", {1, 1}, GgufType::F16);
  CHECK(error_of(text_of(halves)).find("not F32") != std::string::npos);
  GgufWriter model;
  model.string("general.architecture", "llama").tensor("token_embd.weight", {2, 1}, GgufType::F32);
  CHECK(error_of(text_of(model)).find("in_sum2") != std::string::npos);
}
