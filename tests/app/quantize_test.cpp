// `smelt quantize` from the outside.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "app/process.h"
#include "app/type_mix.h"
#include "base/file.h"
#include "gguf/gguf.h"
#include "support/gguf_writer.h"

using namespace smelt;
using namespace smelt::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string numbers(size_t count, float at_17) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(static_cast<float>(i));
  values[17] = at_17;
  return {reinterpret_cast<const char*>(values.data()), count * sizeof(float)};
}

// A file of two layers' feed-forward matrices and a short convolution; no model, as none is needed.
std::string file_of(const std::string& name, GgufType type = GgufType::F32, float at_17 = 0) {
  GgufWriter w;
  w.string("general.architecture", "llama").u32("general.file_type", 0).strings("tokenizer.ggml.tokens", {"a", "b"});
  w.tensor("output_norm.weight", {256}).tensor("output.weight", {256, 4});
  w.tensor("blk.0.ssm_conv1d.weight", {4, 256});
  for (const char* layer : {"blk.0.", "blk.1."}) {
    w.tensor(layer + std::string("ffn_up.weight"), {256, 8}, type, type == GgufType::F32 ? numbers(2048, at_17) : "");
    w.tensor(layer + std::string("ffn_down.weight"), {288, 8});
    w.tensor(layer + std::string("ffn_gate_inp.weight"), {256, 8});
  }
  const std::string path = scratch().file(name);
  REQUIRE(w.save(path));
  return path;
}

Outcome quantize(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "quantize");
  return smelt::test::smelt(arguments);
}

}  // namespace

TEST_CASE("a file is written with the types of the mix, what is no matrix as it was, and metadata kept") {
  const std::string in = file_of("f32.gguf"), out = scratch().file("q4_k_m.gguf");
  const Outcome done = quantize({in, out, "q4_k_m", "--tensor-type", "blk.1.ffn_up=Q8_0", "-t", "2"});
  CAPTURE(done.err);
  REQUIRE(done.exit_code == 0);
  CHECK(contains(done.out, "bits a weight"));
  const auto opened = GgufFile::open(out);
  REQUIRE(opened.ok());
  const GgufFile& file = *opened;
  CHECK(file.find("blk.0.ffn_up.weight")->type == GgufType::Q4_K);
  CHECK(file.find("blk.1.ffn_up.weight")->type == GgufType::Q8_0);
  CHECK(file.find("blk.0.ffn_down.weight")->type == GgufType::Q5_0);  // rows of 288
  CHECK(file.find("blk.1.ffn_gate_inp.weight")->type == GgufType::F32);
  CHECK(file.find("output.weight")->type == GgufType::Q6_K);
  CHECK(file.find("output_norm.weight")->type == GgufType::F32);
  CHECK(file.find("blk.0.ssm_conv1d.weight")->type == GgufType::F32);
  CHECK(*file.u64("general.file_type") == 15);
  CHECK(file.strings("tokenizer.ggml.tokens")->size() == 2);
}

TEST_CASE("a dry run lists types and writes nothing, and a pure one has one type") {
  const std::string in = file_of("dry.gguf"), out = scratch().file("none.gguf");
  const Outcome done = quantize({in, out, "Q5_K_M", "--pure", "--dry-run"});
  REQUIRE(done.exit_code == 0);
  CHECK(!std::filesystem::exists(out));
  CHECK(contains(done.out, "output.weight"));
  CHECK(contains(done.out, "Q5_K"));
  CHECK(!contains(done.out, "Q6_K"));
}

TEST_CASE("formats with codebooks and ternary ones give more to what loses most") {
  const std::string in = file_of("tiny.gguf"), out = scratch().file("iq2.gguf");
  const auto types_of = [&](const char* type) {
    const Outcome done = quantize({in, out, type});
    CAPTURE(done.err);
    REQUIRE(done.exit_code == 0);
    const auto file = GgufFile::open(out);
    REQUIRE(file.ok());
    return std::pair(file->find("blk.0.ffn_up.weight")->type, file->find("output.weight")->type);
  };
  CHECK(types_of("IQ2_XXS") == std::pair(GgufType::IQ2_XXS, GgufType::Q5_K));
  CHECK(types_of("IQ2_S").first == GgufType::IQ2_XS);
  CHECK(types_of("IQ2_M").first == GgufType::IQ2_S);
  CHECK(types_of("Q4_K") == types_of("Q4_K_M"));
  CHECK(types_of("Q2_K_S") == std::pair(GgufType::Q2_K, GgufType::Q6_K));
  CHECK(types_of("IQ3_M") == std::pair(GgufType::IQ3_S, GgufType::Q6_K));
  CHECK(types_of("TQ1_0") == std::pair(GgufType::TQ1_0, GgufType::Q6_K));
  CHECK(types_of("NVFP4") == std::pair(GgufType::NVFP4, GgufType::NVFP4));
}

TEST_CASE("mixes around IQ3_S and Q2_K give layers and matrices what llama-quantize gives them") {
  const auto type = [](const char* mix, const char* name, int64_t layer) {
    return type_in_mix(*find_mix(mix), name, layer, 32);
  };
  CHECK(type("IQ3_XS", "attn_q", 0) == GgufType::IQ3_XXS);
  CHECK(type("IQ3_XS", "attn_v", 0) == GgufType::Q4_K);
  CHECK(type("IQ3_XS", "ffn_up", 3) == GgufType::IQ3_S);
  CHECK(type("IQ3_XS", "ffn_gate_exps", 4) == GgufType::IQ3_XXS);
  CHECK(type("IQ3_XS", "ffn_up", 28) == GgufType::IQ3_S);
  CHECK(type("IQ3_XS", "ffn_down", 10) == GgufType::IQ3_S);
  CHECK(type("IQ3_M", "attn_output", 20) == GgufType::Q4_K);
  CHECK(type("IQ3_M", "ffn_down", 3) == GgufType::Q4_K);
  CHECK(type("IQ3_M", "ffn_down", 4) == GgufType::IQ3_S);
  CHECK(type("Q2_K_S", "attn_v", 9) == GgufType::Q4_K);
  CHECK(type("Q2_K_S", "attn_output", 9) == GgufType::Q2_K);
  CHECK(type("Q2_K_S", "ffn_down", 4) == GgufType::Q2_K);
}

TEST_CASE("what cannot be quantised is refused in a sentence, and an old file stays") {
  const std::string good = file_of("good.gguf"), out = file_of("old.gguf");
  const auto size = std::filesystem::file_size(out);
  const auto refusal = [&](std::vector<std::string> arguments) {
    const Outcome done = quantize(std::move(arguments));
    CHECK(done.exit_code == 1);
    CHECK(std::count(done.err.begin(), done.err.end(), '\n') == 1);
    return done.err;
  };
  CHECK(contains(refusal({good, out, "Q9_9"}), "Q9_9: no such type; `smelt quantize --help` lists them"));
  CHECK(contains(refusal({good, out, "q3_k_"}), "no such type; those that begin so are Q3_K_S, Q3_K_M, Q3_K_L\n"));
  CHECK(contains(refusal({good, out, "Q5_"}), "no such type; those that begin so are Q5_0, Q5_1, Q5_K_S, Q5_K_M\n"));
  CHECK(contains(refusal({good, out, "Q4_0", "--tensor-type", "ffn_up"}), "NAME=TYPE"));
  CHECK(contains(refusal({good, out, "Q4_0", "--tensor-type", "ffn_up=Q8_K"}), "NAME=TYPE"));
  CHECK(contains(refusal({file_of("q4.gguf", GgufType::Q4_K), out, "Q5_K_M"}), "blk.0.ffn_up.weight: type Q4_K"));
  CHECK(contains(refusal({file_of("nan.gguf", GgufType::F32, NAN), out, "Q4_0"}), "blk.0.ffn_up.weight: it holds"));
  CHECK(contains(refusal({scratch().file("missing.gguf"), out, "Q4_0"}), "missing.gguf"));
  CHECK(contains(refusal({good, scratch().file("no/such/folder.gguf"), "Q4_0"}), "folder.gguf"));
  CHECK(std::filesystem::file_size(out) == size);
}

TEST_CASE("a file that is read is not written, by whatever name") {
  namespace fs = std::filesystem;
  const std::string in = file_of("source.gguf"), link = scratch().file("link.gguf"), hard = scratch().file("hard.gguf");
  fs::create_symlink(in, link);
  fs::create_hard_link(in, hard);
  fs::permissions(in, fs::perms::owner_read);
  const std::string before = *read_file(in);
  const std::string beside = scratch().file("./source.gguf");
  for (const std::string& out : {in, link, hard, beside}) {
    const Outcome done = quantize({in, out, "Q4_0"});
    CHECK(done.exit_code == 1);
    CHECK(done.err == "smelt: " + out + ": this file" + (out == in ? "" : ", also " + in + ",") +
                          " is read; name another one to write\n");
  }
  CHECK(*read_file(in) == before);
  CHECK(fs::is_symlink(link));
  CHECK(quantize({in, in, "Q4_0", "--dry-run"}).exit_code == 0);  // it writes none
}
