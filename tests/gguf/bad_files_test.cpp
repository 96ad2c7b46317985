// The known-failure suite of the reader: every file here is refused with one line that names the
// key, tensor or file.
#include <doctest/doctest.h>

#include <functional>

#include "gguf/gguf.h"
#include "gguf/limits.h"
#include "support/gguf_writer.h"

using namespace smelt;
using smelt::test::GgufWriter;

namespace {

constexpr uint64_t kHuge = uint64_t{1} << 63;

// A small good file; each case spoils one thing in it.
GgufWriter good() {
  GgufWriter w;
  w.string("general.architecture", "deepseek2").u32("deepseek2.block_count", 2);
  w.strings("tokenizer.ggml.tokens", {"a", "bc"});
  w.tensor("a.weight", {64, 2}, GgufType::Q4_0).tensor("b.weight", {8});
  return w;
}

struct BadFile {
  const char* name;
  std::vector<std::string> message_has;  // each of these; the key or tensor among them
  std::function<void(GgufWriter&)> spoil;
};

// A tensor whose table entry lies about it: little data, any dimensions and type.
GgufWriter::Tensor tensor(std::vector<uint64_t> dims, uint32_t type = 0, std::optional<uint64_t> offset = {}) {
  return {"t.weight", std::move(dims), type, std::string(64, '\0'), offset, {}};
}
void with_tensor(GgufWriter& w, GgufWriter::Tensor t) {
  w.tensors.clear();
  w.add_tensor(std::move(t));
}

const std::vector<BadFile>& bad_files() {
  static const std::string key = "[gguf] k.bad: ";
  static const std::string name = "[gguf] t.weight: ";
  static const std::string file = "[gguf] memory: ";
  static const auto le32 = [](uint32_t v) { return GgufWriter::le(v); };
  static const auto le64 = [](uint64_t v) { return GgufWriter::le(v); };
  static const std::vector<BadFile> cases = {
      // --- header
      {"wrong magic", {file, "47475558"}, [](auto& w) { w.magic = "GGUX"; }},
      {"lower-case magic", {file, "67677566"}, [](auto& w) { w.magic = "gguf"; }},
      {"a Git LFS pointer",
       {file, "git lfs pull"},
       [](auto& w) { w.magic = "version https://git-lfs.github.com/spec/v1"; }},
      {"version 0", {file, "big-endian"}, [](auto& w) { w.version = 0; }},
      {"version 1", {file, "version 1 "}, [](auto& w) { w.version = 1; }},
      {"version 4", {file, "version 4 "}, [](auto& w) { w.version = 4; }},
      {"version 2^32 - 1", {file, "version 4294967295 "}, [](auto& w) { w.version = UINT32_MAX; }},
      {"big-endian version 3", {file, "big-endian"}, [](auto& w) { w.version = 3u << 24; }},
      {"big-endian version 2", {file, "big-endian"}, [](auto& w) { w.version = 2u << 24; }},
      {"tensor count over the limit",
       {file, "tensor count 131073"},
       [](auto& w) { w.tensor_count = gguf_limits::kTensors + 1; }},
      {"tensor count negative",
       {file, "tensor count 18446744073709551615"},
       [](auto& w) { w.tensor_count = UINT64_MAX; }},
      {"tensor count whose table size wraps",
       {file, "tensor count 576460752303423489"},
       [](auto& w) { w.tensor_count = UINT64_MAX / 32 + 2; }},
      {"tensor count at the limit in a small file",
       {"tensor 3 of 131072", "after b.weight"},
       [](auto& w) { w.tensor_count = gguf_limits::kTensors; }},
      {"one tensor too many announced", {"tensor 3 of 3", "after b.weight"}, [](auto& w) { w.tensor_count = 3; }},
      {"metadata count over the limit",
       {file, "metadata count 131073"},
       [](auto& w) { w.entry_count = gguf_limits::kKeyValues + 1; }},
      {"metadata count negative", {file, "metadata count 9223372036854775808"}, [](auto& w) { w.entry_count = kHuge; }},
      {"metadata count whose table size wraps",
       {file, "metadata count "},
       [](auto& w) { w.entry_count = UINT64_MAX / 64 + 2; }},
      {"one metadata entry too many announced",
       {"[gguf] tensor 1 of 2: ", "name length"},
       [](auto& w) { w.entry_count = 4; }},

      // --- keys
      {"empty key", {"metadata entry 4 of 4 (after tokenizer.ggml.tokens)", "empty"}, [](auto& w) { w.u32("", 1); }},
      {"key over the limit",
       {"metadata entry 4 of 4", "key length 65537"},
       [](auto& w) { w.u32(std::string(gguf_limits::kKeyBytes + 1, 'k'), 1); }},
      {"duplicate key",
       {"[gguf] deepseek2.block_count: ", "twice"},
       [](auto& w) { w.add_raw("deepseek2.block_count", 4, le32(2)); }},
      {"duplicate key of another type",
       {"[gguf] general.architecture: ", "twice"},
       [](auto& w) { w.add_raw("general.architecture", 4, le32(2)); }},

      // --- values
      {"value type 13", {key, "type 13"}, [](auto& w) { w.add_raw("k.bad", 13, le32(0)); }},
      {"value type 2^32 - 1", {key, "type 4294967295"}, [](auto& w) { w.add_raw("k.bad", UINT32_MAX, le32(0)); }},
      {"bool 2", {key, "bool value 2"}, [](auto& w) { w.add_raw("k.bad", 7, "\x02"); }},
      {"bool 255 in an array",
       {key, "bool value 255"},
       [](auto& w) { w.array("k.bad", GgufKind::Bool, 2, "\x01\xff"); }},
      {"string length 2^63",
       {key, "string length 9223372036854775808"},
       [](auto& w) { w.add_raw("k.bad", 8, le64(kHuge)); }},
      {"string length 2^64 - 1",
       {key, "string length 18446744073709551615"},
       [](auto& w) { w.add_raw("k.bad", 8, le64(UINT64_MAX)); }},
      {"string length that wraps past its own position",
       {key, "string length"},
       [](auto& w) { w.add_raw("k.bad", 8, le64(UINT64_MAX - 100)); }},
      {"string longer than the file", {key, "inside its value"}, [](auto& w) { w.add_raw("k.bad", 8, le64(1 << 20)); }},
      {"string over the limit",
       {key, "string length 67108865"},
       [](auto& w) { w.add_raw("k.bad", 8, le64(gguf_limits::kStringBytes + 1)); }},
      {"nested array",
       {key, "arrays of arrays"},
       [](auto& w) { w.add_raw("k.bad", 9, le32(9) + le64(1) + le32(4) + le64(0)); }},
      {"nested array of no elements",
       {key, "arrays of arrays"},
       [](auto& w) { w.add_raw("k.bad", 9, le32(9) + le64(0)); }},
      {"array of element type 13", {key, "type 13"}, [](auto& w) { w.add_raw("k.bad", 9, le32(13) + le64(0)); }},
      {"array over the limit",
       {key, "array length 134217729"},
       [](auto& w) { w.array("k.bad", GgufKind::U8, gguf_limits::kArrayElements + 1, ""); }},
      {"array length 2^64 - 1",
       {key, "array length 18446744073709551615"},
       [](auto& w) { w.array("k.bad", GgufKind::U64, UINT64_MAX, ""); }},
      {"array whose byte size wraps",
       {key, "array length"},
       [](auto& w) { w.array("k.bad", GgufKind::U64, kHuge / 4 + 1, ""); }},
      {"array longer than the file",
       {key, "inside its value"},
       [](auto& w) { w.array("k.bad", GgufKind::U32, 1 << 20, le32(1)); }},
      {"array of strings with fewer strings than its length",
       {key},
       [](auto& w) { w.array("k.bad", GgufKind::String, 1 << 27, GgufWriter::text("a")); }},
      {"array of strings with a string of 2^63 bytes",
       {key, "string length 9223372036854775808"},
       [](auto& w) { w.array("k.bad", GgufKind::String, 1, le64(kHuge)); }},

      // --- alignment
      {"alignment 0", {"[gguf] general.alignment: ", "value 0 "}, [](auto& w) { w.u32("general.alignment", 0); }},
      {"alignment 1", {"[gguf] general.alignment: ", "value 1 "}, [](auto& w) { w.u32("general.alignment", 1); }},
      {"alignment 3", {"[gguf] general.alignment: ", "value 3 "}, [](auto& w) { w.u32("general.alignment", 3); }},
      {"alignment 4", {"[gguf] general.alignment: ", "value 4 "}, [](auto& w) { w.u32("general.alignment", 4); }},
      {"alignment 24", {"[gguf] general.alignment: ", "value 24 "}, [](auto& w) { w.u32("general.alignment", 24); }},
      {"alignment 2^17",
       {"[gguf] general.alignment: ", "value 131072 "},
       [](auto& w) { w.u32("general.alignment", 1 << 17); }},
      {"alignment 2^31",
       {"[gguf] general.alignment: ", "value 2147483648 "},
       [](auto& w) { w.u32("general.alignment", uint32_t{1} << 31); }},
      {"alignment of type u64",
       {"[gguf] general.alignment: ", "type u64"},
       [](auto& w) { w.u64("general.alignment", 32); }},
      {"alignment of type i32",
       {"[gguf] general.alignment: ", "type i32"},
       [](auto& w) { w.i32("general.alignment", 32); }},
      {"alignment of type string",
       {"[gguf] general.alignment: ", "type string"},
       [](auto& w) { w.string("general.alignment", "32"); }},
      {"alignment of type array",
       {"[gguf] general.alignment: ", "type array"},
       [](auto& w) { w.u32s("general.alignment", {32}); }},

      // --- tensor names and dimensions
      {"empty tensor name", {"tensor 3 of 3 (after b.weight)", "empty"}, [](auto& w) { w.tensor("", {8}); }},
      {"tensor name over the limit",
       {"tensor 3 of 3", "name length 1025"},
       [](auto& w) { w.tensor(std::string(gguf_limits::kNameBytes + 1, 'n'), {8}); }},
      {"duplicate tensor name", {"[gguf] a.weight: ", "twice"}, [](auto& w) { w.tensor("a.weight", {8}); }},
      {"no dimensions", {name, "number of dimensions 0"}, [](auto& w) { with_tensor(w, tensor({})); }},
      {"five dimensions", {name, "number of dimensions 5"}, [](auto& w) { with_tensor(w, tensor({1, 1, 1, 1, 1})); }},
      {"2^32 - 1 dimensions",
       {name, "number of dimensions 4294967295"},
       [](auto& w) {
         auto t = tensor({1});
         t.rank = UINT32_MAX;
         with_tensor(w, t);
       }},
      {"first dimension 0", {name, "dimension 0 is 0"}, [](auto& w) { with_tensor(w, tensor({0, 4})); }},
      {"last dimension 0", {name, "dimension 3 is 0"}, [](auto& w) { with_tensor(w, tensor({8, 1, 1, 0})); }},
      {"dimension 2^63", {name, "more elements"}, [](auto& w) { with_tensor(w, tensor({kHuge})); }},
      {"dimension 2^64 - 1", {name, "more elements"}, [](auto& w) { with_tensor(w, tensor({UINT64_MAX})); }},
      {"dimensions whose product wraps to 0",
       {name, "more elements"},
       [](auto& w) { with_tensor(w, tensor({uint64_t{1} << 32, uint64_t{1} << 32})); }},
      {"dimensions whose product wraps to 16",
       {name, "more elements"},
       [](auto& w) { with_tensor(w, tensor({16, (uint64_t{1} << 60) + 1})); }},
      {"rows that wrap by themselves",
       {name, "more elements"},
       [](auto& w) { with_tensor(w, tensor({1, uint64_t{1} << 32, uint64_t{1} << 32, 1})); }},
      {"byte size that wraps although the elements do not",
       {name, "more bytes"},
       [](auto& w) { with_tensor(w, tensor({uint64_t{1} << 62}, 0)); }},
      {"byte size of an f64 that wraps",
       {name, "more bytes"},
       [](auto& w) { with_tensor(w, tensor({uint64_t{1} << 60, 2}, 28)); }},
      {"row that is no whole number of Q4_0 blocks",
       {name, "row of 33"},
       [](auto& w) { with_tensor(w, tensor({33}, 2)); }},
      {"row that is no whole number of Q4_K blocks",
       {name, "row of 192", "256"},
       [](auto& w) { with_tensor(w, tensor({192, 4}, 12)); }},

      // --- tensor types
      {"removed type 4", {name, "type 4 was removed"}, [](auto& w) { with_tensor(w, tensor({32}, 4)); }},
      {"removed type 5", {name, "type 5 was removed"}, [](auto& w) { with_tensor(w, tensor({32}, 5)); }},
      {"removed type 31", {name, "type 31 was removed"}, [](auto& w) { with_tensor(w, tensor({32}, 31)); }},
      {"removed type 36", {name, "type 36 was removed"}, [](auto& w) { with_tensor(w, tensor({32}, 36)); }},
      {"removed type 38", {name, "type 38 was removed"}, [](auto& w) { with_tensor(w, tensor({32}, 38)); }},
      {"unknown type 43", {name, "type 43 is unknown"}, [](auto& w) { with_tensor(w, tensor({32}, 43)); }},
      {"private type 139", {name, "type 139 is unknown"}, [](auto& w) { with_tensor(w, tensor({256}, 139)); }},
      {"unknown type 2^31",
       {name, "type 2147483648 is unknown"},
       [](auto& w) { with_tensor(w, tensor({32}, uint32_t{1} << 31)); }},

      // --- offsets
      {"offset not aligned", {name, "offset 16 "}, [](auto& w) { with_tensor(w, tensor({4}, 0, 16)); }},
      {"offset past the end by one block",
       {name, "past the end"},
       [](auto& w) { with_tensor(w, tensor({16}, 0, 32)); }},
      {"offset past the end of the file",
       {name, "past the end"},
       [](auto& w) { with_tensor(w, tensor({16}, 0, 1 << 20)); }},
      {"offset that wraps with the data's start",
       {name, "past the end"},
       [](auto& w) { with_tensor(w, tensor({16}, 0, UINT64_MAX - 31)); }},
      {"offset 2^63", {name, "past the end"}, [](auto& w) { with_tensor(w, tensor({16}, 0, kHuge)); }},
      {"one row more than there is data", {name, "past the end"}, [](auto& w) { with_tensor(w, tensor({8, 3})); }},
      {"data one byte short",
       {"[gguf] b.weight: ", "past the end"},
       [](auto& w) {
         w.pad_end = false;
         w.tensors.back().data.pop_back();
       }},
      {"sum of sizes that wraps",
       {name, "past the end"},
       [](auto& w) { with_tensor(w, tensor({uint64_t{1} << 60}, 0, UINT64_MAX - 31)); }},
      {"tensors that share bytes",
       {"[gguf] t.weight: ", "overlaps that of a.weight"},
       [](auto& w) { w.add_tensor(tensor({8}, 0, 32)); }},
      {"two tensors at one place", {"overlaps"}, [](auto& w) { w.tensors.back().offset = 0; }},

      // --- parts of a split model
      {"part of a split model by itself",
       {"[gguf] split.count: ", "3 parts", "-00001-of-00003.gguf"},
       [](auto& w) { w.u16("split.count", 3).u16("split.no", 0).i32("split.tensors.count", 2); }},
      {"split.count over 2^16", {"[gguf] split.count: ", "value 70000"}, [](auto& w) { w.u32("split.count", 70000); }},
      {"split.count negative", {"[gguf] split.count: ", "value -1"}, [](auto& w) { w.i32("split.count", -1); }},
      {"split.count of type string", {"[gguf] split.count: ", "string"}, [](auto& w) { w.string("split.count", "3"); }},
  };
  return cases;
}

void check_refused(const std::vector<std::byte>& bytes, const std::vector<std::string>& message_has) {
  auto file = GgufFile::open_memory(bytes);
  REQUIRE(!file.ok());
  const std::string message = file.error().message;
  CAPTURE(message);
  CHECK(message.starts_with("[gguf] "));
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.size() < 600);
  for (const std::string& part : message_has) {
    CAPTURE(part);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("the file that the bad ones are made of is good") {
  const auto bytes = good().bytes();
  auto file = GgufFile::open_memory(bytes);
  REQUIRE_MESSAGE(file.ok(), file.error().message);
}

TEST_CASE("every known bad file is refused with a line that names the key, tensor or file") {
  CHECK(bad_files().size() >= 60);
  for (const BadFile& bad : bad_files()) {
    CAPTURE(bad.name);
    GgufWriter w = good();
    bad.spoil(w);
    check_refused(w.bytes(), bad.message_has);
  }
}

TEST_CASE("a file cut off anywhere before its last byte of data is refused") {
  GgufWriter w = good();
  w.pad_end = false;
  const auto bytes = w.bytes();
  for (size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(size);
    // A vector of exactly this size: a sanitizer sees any read past its end.
    check_refused({bytes.begin(), bytes.begin() + static_cast<long>(size)}, {});
  }
  CHECK(GgufFile::open_memory(bytes).ok());
}

TEST_CASE("a file with any one byte changed opens or is refused, and stays readable") {
  const auto bytes = good().bytes();
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int flip : {0x01, 0x80, 0xff}) {
      auto changed = bytes;
      changed[at] ^= std::byte(flip);
      auto file = GgufFile::open_memory(changed);
      if (!file) continue;
      for (const GgufTensor& t : file->tensors()) {
        CHECK(t.data + t.bytes <= changed.data() + changed.size());
      }
    }
  }
}
