// Good files: what is read is what was written.
#include "gguf/gguf.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support/gguf_writer.h"

using namespace smelt;
using smelt::test::GgufWriter;

namespace {

GgufWriter small_model() {
  GgufWriter w;
  w.string("general.architecture", "deepseek2").u32("deepseek2.block_count", 2).f32("deepseek2.scale", 1.5f);
  w.strings("tokenizer.ggml.tokens", {"a", "", "caf\xc3\xa9"}).i32s("tokenizer.ggml.token_type", {1, -3, 6});
  w.tensor("token_embd.weight", {64, 3}, GgufType::Q4_0)
      .tensor("output_norm.weight", {64}, GgufType::F32, std::string(256, 'x'));
  return w;
}

}  // namespace

TEST_CASE("files of version 2 and 3 open and give their metadata and tensors") {
  for (uint32_t version : {2u, 3u}) {
    CAPTURE(version);
    GgufWriter w = small_model();
    w.version = version;
    const auto bytes = w.bytes();
    auto file = GgufFile::open_memory(bytes);
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    CHECK(file->version() == version);
    CHECK(file->file_bytes() == bytes.size());
    CHECK(*file->string("general.architecture") == "deepseek2");
    CHECK(*file->u64("deepseek2.block_count") == 2);
    CHECK(*file->f64("deepseek2.scale") == 1.5);
    CHECK(*file->strings("tokenizer.ggml.tokens") == std::vector<std::string_view>{"a", "", "caf\xc3\xa9"});
    CHECK(*file->integers("tokenizer.ggml.token_type") == std::vector<int64_t>{1, -3, 6});
    CHECK(file->metadata()[0].key == "general.architecture");

    REQUIRE(file->tensors().size() == 2);
    const GgufTensor* norm = file->find("output_norm.weight");
    REQUIRE(norm != nullptr);
    CHECK(norm->type == GgufType::F32);
    CHECK(norm->rank == 1);
    CHECK(norm->dims == std::array<uint64_t, 4>{64, 1, 1, 1});
    CHECK(norm->bytes == 256);
    CHECK(norm->data == bytes.data() + norm->offset);
    CHECK(norm->data[255] == std::byte('x'));
    CHECK(file->tensors()[0].bytes == 3 * 2 * 18);
    CHECK(file->tensors()[0].row_bytes() == 36);
    CHECK(file->find("output.weight") == nullptr);
  }
}

TEST_CASE("an empty file of metadata only is a good file") {
  const auto bytes = GgufWriter().bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK(file->metadata().empty());
  CHECK(file->tensors().empty());
}

TEST_CASE("every scalar kind is read at its extremes") {
  GgufWriter w;
  w.u8("u8", 255).i8("i8", -128).u16("u16", 65535).i16("i16", -32768).u32("u32", UINT32_MAX).i32("i32", INT32_MIN);
  w.u64("u64", UINT64_MAX).i64("i64", INT64_MIN).f64("f64", -0.25).boolean("bool", true).string("string", "");
  const auto bytes = w.bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK(*file->u64("u8") == 255);
  CHECK(*file->i64("i8") == -128);
  CHECK(*file->u64("u16") == 65535);
  CHECK(*file->i64("i16") == -32768);
  CHECK(*file->u64("u32") == UINT32_MAX);
  CHECK(*file->i64("i32") == INT32_MIN);
  CHECK(*file->u64("u64") == UINT64_MAX);
  CHECK(*file->i64("i64") == INT64_MIN);
  CHECK(*file->f64("f64") == -0.25);
  CHECK(*file->boolean("bool"));
  CHECK(file->string("string")->empty());
  CHECK(file->i64("u64").error().message ==
        "[gguf] u64: value 18446744073709551615 is not in the range of 64-bit signed integers; "
        "convert the model again");
}

TEST_CASE("typed access names the key, the value and what was expected") {
  GgufWriter w;
  w.i32("negative", -5).u32("zero", 0).string("text", "7").f32("nan", NAN).u32s("numbers", {1}).f32("half", 0.5f);
  const auto bytes = w.bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  const std::string end = "; convert the model again";
  CHECK(file->u64("absent").error().message == "[gguf] absent: missing, expected an integer" + end);
  CHECK(file->u64("text").error().message == "[gguf] text: is of type string, expected an integer" + end);
  CHECK(file->u64("half").error().message == "[gguf] half: is of type f32, expected an integer" + end);
  CHECK(file->u64("numbers").error().message == "[gguf] numbers: is an array of u32, expected an integer" + end);
  CHECK(file->u64("negative", {0, 9}).error().message == "[gguf] negative: value -5 is not in the range 0 to 9" + end);
  CHECK(file->u64("zero", {1, 1024}).error().message == "[gguf] zero: value 0 is not in the range 1 to 1024" + end);
  CHECK(file->f64("nan").error().message == "[gguf] nan: value nan is not in the range of finite numbers" + end);
  CHECK(file->f64("zero").error().message == "[gguf] zero: is of type u32, expected a floating-point number" + end);
  CHECK(file->boolean("zero").error().message == "[gguf] zero: is of type u32, expected a bool" + end);
  CHECK(file->string("zero").error().message == "[gguf] zero: is of type u32, expected a string" + end);
  CHECK(file->strings("numbers").error().message ==
        "[gguf] numbers: is an array of u32, expected an array of string" + end);
  CHECK(file->strings("text").error().message == "[gguf] text: is of type string, expected an array of string" + end);
  CHECK(file->integers("text").error().message ==
        "[gguf] text: is of type string, expected an array of integers" + end);
  CHECK(file->floats("numbers").error().message ==
        "[gguf] numbers: is an array of u32, expected an array of floating-point numbers" + end);
}

TEST_CASE("an optional value is the fallback only where the key is missing") {
  GgufWriter w;
  w.u32("count", 3).string("text", "x");
  const auto bytes = w.bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK(*file->u64_or("count", 9) == 3);
  CHECK(*file->u64_or("absent", 9) == 9);
  CHECK(*file->f64_or("absent", 0.5) == 0.5);
  CHECK(*file->string_or("absent", "none") == "none");
  CHECK(*file->boolean_or("absent", true));
  CHECK(!file->u64_or("text", 9).ok());
  CHECK(!file->u64_or("count", 9, {4, 5}).ok());
}

TEST_CASE("require refuses a missing tensor and a type that smelt does not compute with") {
  GgufWriter w;
  w.tensor("good", {32}).tensor("q8", {256}, GgufType::Q8_K);
  const auto bytes = w.bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK((*file->require("good"))->bytes == 128);
  CHECK(file->require("none").error().message == "[gguf] none: the tensor is missing; convert the model again");
  CHECK(file->require("q8").error().message ==
        "[gguf] q8: type Q8_K is not supported; quantise the model again with another type");
}

TEST_CASE("names in errors are escaped and shortened") {
  CHECK(gguf_error("a\nb\x1b[31m", "bad").message == "[gguf] a\\nb\\x1b[31m: bad");
  CHECK(gguf_error(std::string(70000, 'k'), "bad").message.size() < 300);
}

TEST_CASE("data follows general.alignment") {
  for (uint32_t alignment : {8u, 64u, 65536u}) {
    CAPTURE(alignment);
    GgufWriter w;
    w.alignment = alignment;
    w.u32("general.alignment", alignment).tensor("a", {3}).tensor("b", {3}, GgufType::F32, "0123456789ab");
    const auto bytes = w.bytes();
    auto file = GgufFile::open_memory(bytes);
    REQUIRE_MESSAGE(file.ok(), file.error().message);
    CHECK(file->find("b")->offset % alignment == 0);
    CHECK(file->find("b")->data[0] == std::byte('0'));
  }
}

TEST_CASE("the last tensor needs no padding after it") {
  GgufWriter w;
  w.pad_end = false;
  w.tensor("a", {3}).tensor("b", {3});
  const auto bytes = w.bytes();
  CHECK(GgufFile::open_memory(bytes).ok());
}

TEST_CASE("tensors may lie in another order than their infos, with gaps") {
  GgufWriter w;
  w.add_tensor({"second", {8}, 0, std::string(32, 'a'), 64, {}})
      .add_tensor({"first", {8}, 0, std::string(64, 'b'), 0, {}});
  const auto bytes = w.bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
  CHECK(file->find("second")->offset == file->find("first")->offset + 64);
}

TEST_CASE("block sizes of the type table agree with the bits per weight of the format's table") {
  const auto bits = [](GgufType t) { return 8.0 * info_of(t).bytes / info_of(t).elements; };
  CHECK(bits(GgufType::F16) == 16);
  CHECK(bits(GgufType::Q4_0) == 4.5);
  CHECK(bits(GgufType::Q5_1) == 6);
  CHECK(bits(GgufType::Q2_K) == 2.625);
  CHECK(bits(GgufType::Q3_K) == 3.4375);
  CHECK(bits(GgufType::Q6_K) == 6.5625);
  CHECK(bits(GgufType::IQ4_XS) == 4.25);
  CHECK(bits(GgufType::MXFP4) == 4.25);
  CHECK(gguf_type_from_name("Q5_K") == GgufType::Q5_K);
  CHECK(!gguf_type_from_name("Q9_Z"));
  CHECK(static_cast<uint32_t>(GgufType::MXFP4) == 39);
}

TEST_CASE("a copy by the test writer has the same metadata and tensors") {
  const auto bytes = small_model().bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(file.ok());
  CHECK(GgufWriter::copy_of(*file).bytes() == bytes);
}
