// Models of random weights: names, types of a mix, values of the blocks, and what a session makes of them.
#include <doctest/doctest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "app/bench_write.h"
#include "app/synthetic_blocks.h"
#include "app/synthetic_model.h"
#include "engine/cache_reads.h"
#include "engine/engine_memory.h"
#include "engine/session.h"
#include "gguf/footprint.h"
#include "model/reference_dequant.h"
#include "support/temp_folder.h"

using namespace smelt;

namespace {

SyntheticSpec spec_of(const std::string& text) {
  auto spec = parse_synthetic(text);
  REQUIRE_MESSAGE(spec.ok(), text);
  return spec.take();
}

std::string refusal(const std::string& text) {
  const auto spec = parse_synthetic(text);
  return spec ? "" : spec.error().message;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Bytes of each type, as a line of the mix's table says.
std::map<std::string, uint64_t> bytes_by_type(const SyntheticSpec& spec) {
  std::map<std::string, uint64_t> bytes;
  for (const SyntheticTensor& t : tensors_of(spec)) bytes[std::string(name_of(t.type))] += t.bytes;
  return bytes;
}

GgufType type_of(const SyntheticSpec& spec, const std::string& name) {
  for (const SyntheticTensor& t : tensors_of(spec))
    if (t.name == name) return t.type;
  FAIL(name);
  return GgufType::F32;
}

std::unique_ptr<SyntheticModel> make(const std::string& text, bool own_bytes = false) {
  auto model = SyntheticModel::make(spec_of(text), use_of_weights(own_bytes));
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  return model.take();
}

// All keys with their values, as text.
class KeyTexts : public KeyWriter {
 public:
  std::map<std::string, std::string> keys;
  void number(const std::string& key, int64_t value) override { keys[key] = std::to_string(value); }
  void real(const std::string& key, double value) override { keys[key] = std::to_string(static_cast<float>(value)); }
  void flag(const std::string& key, bool value) override { keys[key] = value ? "true" : "false"; }
  void text(const std::string& key, const std::string& value) override { keys[key] = value; }
};

std::map<std::string, std::string> keys_of(const Model& model) {
  KeyTexts texts;
  model.write_keys(texts);
  return texts.keys;
}

struct Moments {
  double mean = 0, deviation = 0;
};

Moments moments_of(GgufType type, std::span<const std::byte> blocks) {
  const GgufTypeInfo& info = info_of(type);
  double sum = 0, squares = 0, count = 0;
  for (size_t at = 0; at < blocks.size(); at += info.bytes)
    for (uint32_t i = 0; i < info.elements; ++i) {
      const smelt::test::ReferenceBlock block(reinterpret_cast<const uint8_t*>(&blocks[at]));
      const double value = block.value(type, static_cast<int>(i));
      sum += value, squares += value * value, ++count;
    }
  return {sum / count, std::sqrt(squares / count - sum / count * (sum / count))};
}

}  // namespace

TEST_CASE("a synthetic model is named by shape, mix and number of layers") {
  const SyntheticSpec spec = spec_of("GLM-4.7-Flash:Q4_0:4");
  CHECK(spec.name == "GLM-4.7-Flash:Q4_0:4");
  CHECK(spec.shape_name == "glm-4.7-flash");
  CHECK(spec.mix == "q4_0");
  CHECK(spec.model->numbers().layers == 4);
  CHECK(spec.names_layers);
  CHECK(spec_of("deepseek-v2-lite").mix == "q4_k_m");
  CHECK(spec_of("deepseek-v2-lite").model->numbers().layers == 27);
  CHECK(contains(refusal("gpt-7"), "glm-4.7-flash, deepseek-v2-lite"));
  CHECK(contains(refusal("tiny-glm:q9"), "q4_0, q4_k_m"));
  CHECK(contains(refusal("tiny-glm:q8_1"), "mix is unknown"));  // a type of activations
  for (const char* text : {"tiny-glm:q4_0:0", "tiny-glm:q4_0:4", "tiny-glm:q4_0:x", "tiny-glm:q4_0:"})
    CHECK(contains(refusal(text), "1 to 3"));
  CHECK(contains(refusal("tiny-glm:q4_0:1:1"), "SHAPE:MIX:LAYERS"));
}

TEST_CASE("every known shape, mix and type makes a list of tensors") {
  for (const std::string& shape : synthetic_shapes())
    for (const char* mix :
         {"q4_0", "q4_k_m", "q5_k_m", "q2_k", "q3_k", "iq4_xs", "iq3_s", "iq1_m", "tq1_0", "nvfp4", "mxfp4", "bf16"})
      for (const SyntheticTensor& t : tensors_of(spec_of(shape + ":" + mix))) {
        CHECK(t.dims[0] % info_of(t.type).elements == 0);
        CHECK(t.bytes > 0);
      }
}

TEST_CASE("full-size shapes have the bytes of the files they stand for") {
  const auto q4_0 = bytes_by_type(spec_of("glm-4.7-flash:q4_0"));
  CHECK(weight_bytes(spec_of("glm-4.7-flash:q4_0")) == 17'127'836'160);
  CHECK(q4_0.at("Q8_0") == 229'089'280);
  CHECK(weight_bytes(spec_of("glm-4.7-flash:q4_k_m")) == 18'123'246'080);
  CHECK(weight_bytes(spec_of("deepseek-v2-lite:q4_k_m")) == 10'363'959'296);
}

TEST_CASE("a mix chooses types as quantisers do") {
  const SyntheticSpec plain = spec_of("glm-4.7-flash:q4_0"), k = spec_of("glm-4.7-flash:q4_k_m");
  CHECK(type_of(plain, "blk.3.attn_v_b.weight") == GgufType::Q8_0);
  CHECK(type_of(plain, "blk.3.ffn_down_shexp.weight") == GgufType::Q6_K);
  CHECK(type_of(plain, "blk.3.ffn_gate_inp.weight") == GgufType::F32);
  CHECK(type_of(k, "blk.3.attn_k_b.weight") == GgufType::Q5_0);  // rows of 192
  CHECK(type_of(k, "blk.4.ffn_down_exps.weight") == GgufType::Q6_K);
  CHECK(type_of(k, "blk.5.ffn_down_exps.weight") == GgufType::Q4_K);
  CHECK(type_of(k, "output.weight") == GgufType::Q6_K);
  const SyntheticSpec oss = spec_of("gpt-oss-20b:mxfp4_moe");
  CHECK(type_of(oss, "blk.3.ffn_down_exps.weight") == GgufType::MXFP4);
  CHECK(type_of(oss, "blk.3.ffn_down_exps.bias") == GgufType::F32);
  CHECK(type_of(oss, "blk.3.attn_q.weight") == GgufType::Q8_0);
  CHECK(type_of(spec_of("deepseek-v2-lite:q6_k"), "blk.1.ffn_down_exps.weight") == GgufType::Q8_0);
}

TEST_CASE("random blocks of every format have the mean and the deviation that were asked for") {
  for (uint32_t id = 0; id < 64; ++id) {
    const GgufTypeInfo* info = find_type(id);
    if (!info || !info->supported) continue;
    CAPTURE(info->name);
    std::vector<std::byte> blocks(info->bytes * std::max<size_t>(1, 100'000 / info->elements));
    fill_with_random_blocks(info->type, 0, 0.02, 1, blocks);
    const Moments m = moments_of(info->type, blocks);
    const bool has_coarse_scales = info->type == GgufType::MXFP4 || info->type == GgufType::NVFP4;
    CHECK(m.deviation == doctest::Approx(0.02).epsilon(has_coarse_scales ? 0.4 : 0.1));
    CHECK(std::fabs(m.mean) < 0.002);
    const bool is_plain = info->elements == 1;
    if (!is_plain) continue;
    fill_with_random_blocks(info->type, 1, 0.02, 1, blocks);
    CHECK(moments_of(info->type, blocks).mean == doctest::Approx(1).epsilon(0.01));
  }
}

TEST_CASE("the same seed gives the same blocks, another one others") {
  std::vector<std::byte> a(1800), b(1800), c(1800);
  fill_with_random_blocks(GgufType::Q4_0, 0, 1, 5, a);
  fill_with_random_blocks(GgufType::Q4_0, 0, 1, 5, b);
  fill_with_random_blocks(GgufType::Q4_0, 0, 1, 6, c);
  CHECK(a == b);
  CHECK(a != c);
}

TEST_CASE("a shape whose output is its embedding has that once, in the type of an output") {
  const SyntheticSpec spec = spec_of("llama-3.2-3b:q4_k_m:1");
  CHECK(type_of(spec, "token_embd.weight") == GgufType::Q6_K);
  const auto model = SyntheticModel::without_weights(spec);
  REQUIRE_MESSAGE(model.ok(), model.error().message);
  CHECK(!(*model)->file().find("output.weight"));
}

TEST_CASE("a synthetic model reads like a file, its metadata held to its tensors") {
  for (const char* name : {"tiny-glm:q4_k_m", "tiny-lite:q4_0:2", "tiny-llama:q4_k_m"}) {
    CAPTURE(name);
    const auto model = make(name);
    const auto read = read_model(model->file());
    REQUIRE_MESSAGE(read.ok(), read.error().message);
    CHECK(keys_of(**read) == keys_of(*spec_of(name).model));
    CHECK(footprint(model->file())->weight_bytes == weight_bytes(spec_of(name)));
  }
}

TEST_CASE("tensors of a synthetic model differ, even where they share their memory") {
  const auto model = make("tiny-glm:q4_0");
  const auto bytes = [&](const char* name) {
    const GgufTensor* t = model->file().find(name);
    return std::string_view(reinterpret_cast<const char*>(t->data), t->bytes);
  };
  CHECK(bytes("blk.1.ffn_gate_exps.weight") != bytes("blk.1.ffn_up_exps.weight"));
  CHECK(bytes("blk.1.ffn_gate_inp.weight") != bytes("blk.2.ffn_gate_inp.weight"));
  // Advice that drops pages, as loading gives it, does not change them.
  const std::string before(bytes("blk.1.attn_q_a.weight"));
  const GgufTensor* tensor = model->file().find("blk.1.attn_q_a.weight");
  REQUIRE(::madvise(const_cast<std::byte*>(tensor->data), tensor->bytes, MADV_DONTNEED) == 0);
  CHECK(bytes("blk.1.attn_q_a.weight") == before);
}

TEST_CASE("a session computes finite logits that depend on the tokens") {
  const auto model = make("tiny-lite:q4_k_m:2");
  auto session = Session::open(model->file(), {.threads = 1, .context = 64, .use_kernel_cache = false}, {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  const auto logits = [&](int32_t token) {
    (*session)->reset();
    const auto out = (*session)->extend(token);
    REQUIRE(out.ok());
    return std::vector<float>(out->begin(), out->end());
  };
  const std::vector<float> first = logits(3), second = logits(700);
  CHECK(first != second);
  const auto sizes = [](float x) { return std::isfinite(x) && std::fabs(x) < 100; };
  CHECK(std::all_of(first.begin(), first.end(), sizes));
  CHECK(std::all_of(second.begin(), second.end(), sizes));
  CHECK(*std::max_element(first.begin(), first.end()) > 0.1f);
}

TEST_CASE("a model that does not fit into memory is refused with both numbers and a size that does") {
  const auto model = SyntheticModel::make(spec_of("kimi-k2:f16"));
  REQUIRE(!model.ok());
  const std::string message = model.error().message;
  CAPTURE(message);
  CHECK(contains(message, "kimi-k2:f16: its weights take 20"));
  CHECK(contains(message, "are available"));
  CHECK((contains(message, "such as kimi-k2:f16:") || contains(message, "not even one layer")));
}

TEST_CASE("a synthetic model is written as a file, byte by byte") {
  const test::TempFolder folder;
  const std::string path = folder / "tiny.gguf";
  REQUIRE(*write_synthetic("tiny-llama:q4_0:1", path) == 0);
  const GgufFile file = GgufFile::open(path).take();
  const auto model = make("tiny-llama:q4_0:1");
  const std::span<const std::byte> written = file.shards()[0].bytes, wanted = model->file().shards()[0].bytes;
  CHECK(std::ranges::equal(written, wanted));
  CHECK(!write_synthetic("tiny-llama:q4_0:1", "/no/such/folder/tiny.gguf").ok());
  CHECK(!write_synthetic("no-such-shape", path).ok());
}

TEST_CASE("layers with windows take little of the memory of a long context") {
  const auto share_of_whole = [](const std::string& name) {
    const SyntheticSpec spec = spec_of(name);
    EngineLayout layout = EngineLayout::make(131072, 512), whole = layout;
    layout.add_window(spec.model->longest_window(), {});
    whole.add_window(spec.model->longest_window(), whole.cache_pages);
    const auto row = static_cast<int64_t>(CacheReads::of(*spec.model, DType::U8).together(0, 1));
    CHECK(cache_bytes(*spec.model, whole, DType::U8) >= 131072 * row);
    return static_cast<double>(cache_bytes(*spec.model, layout, DType::U8)) / static_cast<double>(131072 * row);
  };
  const double gpt_oss = share_of_whole("gpt-oss-20b"), gemma = share_of_whole("gemma-3-12b");
  MESSAGE("of whole caches: gpt-oss-20b " << gpt_oss << ", gemma-3-12b " << gemma);
  CHECK(gpt_oss < 0.55);
  CHECK(gemma < 0.25);
  CHECK(share_of_whole("qwen3-8b") == doctest::Approx(1).epsilon(0.001));
}

TEST_CASE("files of Qwen 3.5 say how many pairs turn by each place, as other programs want it") {
  const auto sections = [](const std::string& spec) {
    const auto model = make(spec);
    const std::string architecture(*model->file().string("general.architecture"));
    const auto list = model->file().integers(architecture + ".rope.dimension_sections");
    return list ? *list : std::vector<int64_t>();
  };
  CHECK(sections("qwen3.5-35b-a3b:q4_0:1") == std::vector<int64_t>{11, 11, 10, 0});
  CHECK(sections("tiny-llama:q4_0:1").empty());
}
