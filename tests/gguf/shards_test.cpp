// Split models: any part may be given; parts that do not belong together are refused.
#include "gguf/shards.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <functional>

#include "gguf/gguf.h"
#include "gguf/limits.h"
#include "support/gguf_writer.h"
#include "support/temp_folder.h"

using namespace smelt;
using smelt::test::GgufWriter;
using smelt::test::TempFolder;

namespace {

std::string part_name(uint32_t number, uint32_t count = 3) { return ShardName{"model", number, count}.path_of(number); }

// Part `number` of 3, counted from 1; the parts have 2, 1 and 1 tensors.
GgufWriter part(uint16_t number) {
  GgufWriter w;
  w.u16("split.no", static_cast<uint16_t>(number - 1)).u16("split.count", 3).i32("split.tensors.count", 4);
  if (number == 1) w.string("general.architecture", "deepseek2").tensor("first.extra", {32}, GgufType::Q8_0);
  w.tensor("tensor." + std::to_string(number), {8}, GgufType::F32, std::string(32, static_cast<char>('0' + number)));
  return w;
}

void save_parts(const TempFolder& folder, const std::function<void(uint16_t, GgufWriter&)>& change = {}) {
  for (uint16_t i = 1; i <= 3; ++i) {
    GgufWriter w = part(i);
    if (change) change(i, w);
    REQUIRE(w.save(folder / part_name(i)));
  }
}

std::string refusal(const std::string& path) {
  auto file = GgufFile::open(path);
  REQUIRE(!file.ok());
  const std::string message = file.error().message;
  CHECK(message.find('\n') == std::string::npos);
  return message;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("names of parts are taken apart and put together") {
  const auto name = parse_shard_name("dir/model-00002-of-00013.gguf");
  REQUIRE(name);
  CHECK(name->stem == "dir/model");
  CHECK(name->number == 2);
  CHECK(name->count == 13);
  CHECK(name->path_of(1) == "dir/model-00001-of-00013.gguf");
  for (const char* other :
       {"model.gguf", "model-0002-of-00013.gguf", "model-00000-of-00003.gguf", "model-00004-of-00003.gguf",
        "model-00002-of-00013.ggu", "model-00002_of-00013.gguf", "-of-", ""}) {
    CAPTURE(other);
    CHECK(!parse_shard_name(other));
  }
}

TEST_CASE("a split model opens from any of its parts") {
  TempFolder folder;
  save_parts(folder);
  for (uint32_t given : {1u, 2u, 3u}) {
    CAPTURE(given);
    auto file = GgufFile::open(folder / part_name(given));
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    CHECK(file->shards().size() == 3);
    CHECK(file->tensors().size() == 4);
    CHECK(*file->string("general.architecture") == "deepseek2");
    for (int i = 1; i <= 3; ++i) {
      const GgufTensor* tensor = file->find("tensor." + std::to_string(i));
      REQUIRE(tensor != nullptr);
      CHECK(tensor->shard == static_cast<uint32_t>(i - 1));
      CHECK(tensor->data == file->shards()[tensor->shard].bytes.data() + tensor->offset);
      CHECK(tensor->data[31] == std::byte('0' + i));
    }
  }
}

TEST_CASE("a model of one part may carry a part's name") {
  TempFolder folder;
  GgufWriter w;
  REQUIRE(w.tensor("t", {8}).save(folder / part_name(1, 1)));
  CHECK(GgufFile::open(folder / part_name(1, 1)).ok());
}

TEST_CASE("a missing part is named") {
  TempFolder folder;
  save_parts(folder);
  std::filesystem::remove(folder / part_name(2));
  const std::string message = refusal(folder / part_name(1));
  CHECK(has(message, part_name(2)));
  CHECK(has(message, "part 2"));
}

TEST_CASE("parts that do not belong together are refused by key") {
  const auto refusal_of = [](const std::function<void(uint16_t, GgufWriter&)>& change) {
    TempFolder folder;
    save_parts(folder, change);
    return refusal(folder / part_name(1));
  };
  const auto in_part = [](uint16_t number, auto change) {
    return [=](uint16_t i, GgufWriter& w) {
      if (i == number) change(w);
    };
  };
  std::string message = refusal_of(in_part(2, [](GgufWriter& w) { w.u16("split.count", 4); }));
  CHECK(has(message, "[gguf] split.count: value 4 is not 3"));
  CHECK(has(message, "part 2"));
  message = refusal_of(in_part(1, [](GgufWriter& w) { w.u16("split.count", 2); }));
  CHECK(has(message, "[gguf] split.count: value 2 is not 3"));
  message = refusal_of(in_part(3, [](GgufWriter& w) { w.u16("split.no", 1); }));
  CHECK(has(message, "[gguf] split.no: value 1 is not 2"));
  message = refusal_of(in_part(1, [](GgufWriter& w) { w.remove("split.count"); }));
  CHECK(has(message, "[gguf] split.count: missing"));
  message = refusal_of(in_part(2, [](GgufWriter& w) { w.remove("split.no"); }));
  CHECK(has(message, "[gguf] split.no: missing"));
  message = refusal_of(in_part(1, [](GgufWriter& w) { w.i32("split.tensors.count", 5); }));
  CHECK(has(message, "[gguf] split.tensors.count: value 5 is not 4"));
  message = refusal_of(in_part(1, [](GgufWriter& w) { w.i32("split.tensors.count", -4); }));
  CHECK(has(message, "[gguf] split.tensors.count: value -4"));
  message = refusal_of(in_part(3, [](GgufWriter& w) { w.tensor("tensor.1", {8}); }));
  CHECK(has(message, "[gguf] split.tensors.count: "));
  message = refusal_of([](uint16_t i, GgufWriter& w) {
    if (i == 3) w.tensors[0].name = "tensor.1";
  });
  CHECK(has(message, "[gguf] tensor.1: the tensor appears twice"));
  message = refusal_of(in_part(3, [](GgufWriter& w) { w.magic = "GGUX"; }));
  CHECK(has(message, part_name(3)));
  message = refusal_of(in_part(2, [](GgufWriter& w) { w.tensors[0].offset = 64; }));
  CHECK(has(message, "[gguf] tensor.2: "));
  CHECK(has(message, part_name(2)));
}

TEST_CASE("a name that promises more parts than the limit is refused before opening them") {
  CHECK(has(refusal("/nowhere/" + part_name(1, gguf_limits::kShards + 1)), "limit"));
  CHECK(has(refusal("/nowhere/" + part_name(1, gguf_limits::kShards)), "/nowhere/"));
}

TEST_CASE("a path that is missing, a folder or an empty file is refused by name") {
  TempFolder folder;
  CHECK(has(refusal(folder / "absent.gguf"), "absent.gguf: cannot open: No such file"));
  CHECK(has(refusal(folder / ""), "folder"));
  std::fclose(std::fopen((folder / "empty.gguf").c_str(), "wb"));
  CHECK(has(refusal(folder / "empty.gguf"), "empty.gguf"));
  CHECK(has(refusal("/dev/null"), "/dev/null: not a regular file"));
}
