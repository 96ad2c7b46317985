// `smelt quantize`: a model file with its weights in other types.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <thread>

#include "app/checks.h"
#include "app/command.h"
#include "app/interrupt.h"
#include "app/sources.h"
#include "app/type_mix.h"
#include "base/file.h"
#include "base/new_file.h"
#include "base/parallel.h"
#include "base/progress.h"
#include "gguf/head.h"
#include "gguf/importance.h"
#include "model/dequant.h"
#include "model/quantise.h"
#include "safetensors/folder.h"

namespace smelt {
namespace {

struct QuantizeFlags {
  std::string input, output, type;
  std::string imatrix;
  std::vector<std::string> tensor_types;  // NAME=TYPE
  bool pure = false;
  bool dry_run = false;
  int64_t threads = 0;
};

constexpr const char* kExplanation =
    "TYPE is a mix, which gives some matrices a better type, or one type: F32 F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 Q2_K\n"
    "Q2_K_S Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ2_M IQ3_XXS\n"
    "IQ3_XS IQ3_S IQ3_M IQ4_NL IQ4_XS MXFP4 NVFP4, and TQ1_0 TQ2_0 for weights that are ternary already.\n"
    "IN has F32, F16, BF16 or Q8_0 weights. Norms, biases, routers and short convolutions stay as they are. Matrices\n"
    "whose rows are not whole blocks of a type take the nearest type that fits.\n"
    "With --imatrix the weights that matter most for a text are kept more exactly: `smelt imatrix` makes that file.\n"
    "IQ1 and IQ2 lose too much without one.\n"
    "\nExamples:\n"
    "  smelt quantize model-F16.gguf model-Q4_K_M.gguf Q4_K_M\n"
    "  smelt quantize model-F16.gguf model.gguf Q4_K_M --tensor-type ffn_down=Q6_K --dry-run\n";

constexpr uint64_t kPart = 1 << 20;  // elements that a thread takes at a time

Error quantize_error(const std::string& where, const std::string& what) {
  return Error{"[quantize] " + where + ": " + what};
}

std::string capitals(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return text;
}

Error no_such_type(const std::string& text) {
  std::string alike;
  for (const TypeMix& mix : type_mixes())
    if (mix.name.starts_with(capitals(text))) alike += (alike.empty() ? "" : ", ") + std::string(mix.name);
  if (alike.empty()) return quantize_error(text, "no such type; `smelt quantize --help` lists them");
  return quantize_error(text, "no such type; those that begin so are " + alike);
}

struct TensorType {
  std::string name;  // a part of the name of the tensor
  GgufType type;
};

Result<std::vector<TensorType>> tensor_types(const std::vector<std::string>& texts) {
  std::vector<TensorType> list;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const auto type = gguf_type_from_name(equals == std::string::npos ? "" : capitals(text.substr(equals + 1)));
    if (equals == 0 || !type || !can_quantise_to(*type))
      return quantize_error("--tensor-type",
                            "'" + text + "' is not NAME=TYPE with a type that can be written, such as ffn_down=Q6_K");
    list.push_back({text.substr(0, equals), *type});
  }
  return list;
}

// "blk.3.attn_v.weight": the layer, -1 for those of none, and "attn_v".
struct TensorName {
  int64_t layer = -1;
  std::string role;
};
TensorName parts_of(std::string name) {
  TensorName parts;
  if (name.starts_with("blk.")) {
    const size_t dot = name.find('.', 4);
    parts.layer = std::atoll(name.substr(4).c_str());
    name.erase(0, dot == std::string::npos ? name.size() : dot + 1);
  }
  parts.role = name.substr(0, name.rfind('.'));
  return parts;
}

// Matrices that products are made with: neither routers nor the short convolutions of recurrent layers.
bool is_matrix(const GgufTensor& tensor) {
  const auto has = [&](std::string_view part) { return tensor.name.find(part) != std::string_view::npos; };
  return tensor.rows() > 1 && tensor.name.ends_with(".weight") && !has("norm") && !has("ffn_gate_inp") &&
         !has("ssm_conv1d");
}

struct Planned {
  const GgufTensor* from;
  NewTensor to;
  std::vector<float> importance = {};  // of each column of each matrix; or empty
};

class Planner {
 public:
  Planner(const GgufFile& file, TypeMix mix, std::vector<TensorType> chosen)
      : file_(file), mix_(mix), chosen_(std::move(chosen)) {
    for (const GgufTensor& tensor : file.tensors())
      layers_ = std::max(layers_, parts_of(std::string(tensor.name)).layer + 1);
  }

  Result<std::vector<Planned>> run() const {
    std::vector<Planned> list;
    for (const GgufTensor& tensor : file_.tensors()) {
      const GgufType type =
          is_matrix(tensor) ? that_fits(type_of(tensor), static_cast<int64_t>(tensor.dims[0])) : tensor.type;
      if (type != tensor.type && !can_quantise_from(tensor.type))
        return quantize_error(std::string(tensor.name),
                              "type " + std::string(name_of(tensor.type)) +
                                  " has lost what another one would keep; quantise a file of F32, F16, BF16 or Q8_0");
      const uint64_t bytes = tensor.elements() / info_of(type).elements * info_of(type).bytes;
      list.push_back(
          {&tensor, {std::string(tensor.name), {tensor.dims.begin(), tensor.dims.begin() + tensor.rank}, type, bytes}});
    }
    return list;
  }

 private:
  GgufType type_of(const GgufTensor& tensor) const {
    for (const TensorType& t : chosen_)
      if (tensor.name.find(t.name) != std::string_view::npos) return t.type;
    auto [layer, role] = parts_of(std::string(tensor.name));
    if (role == "token_embd" && !file_.find("output.weight")) role = "output";
    return type_in_mix(mix_, role, layer, layers_);
  }

  const GgufFile& file_;
  TypeMix mix_;
  std::vector<TensorType> chosen_;
  int64_t layers_ = 0;
};

// Matrices of which the file says nothing, such as the output, do without; it is no error.
Status add_importance(const Importance& importance, const std::string& path, std::vector<Planned>& plan) {
  int64_t missing = 0;
  std::string first;
  for (Planned& p : plan) {
    if (p.to.type == p.from->type || is_plain(p.to.type)) continue;
    const auto entry = importance.entries.find(p.to.name);
    if (entry == importance.entries.end()) {
      if (missing++ == 0) first = p.to.name;
      continue;
    }
    p.importance = means_of(entry->second);
    const uint64_t k = p.from->dims[0], columns = k * p.from->dims[2] * p.from->dims[3];
    if (p.importance.size() != columns && p.importance.size() != k)
      return quantize_error(path, p.to.name + " has " + std::to_string(columns) + " columns, and this is about " +
                                      std::to_string(p.importance.size()) +
                                      "; take a file that was made of this model");
  }
  if (missing > 0)
    std::fprintf(stderr, "%lld matrices are not in %s, such as %s: all their weights matter alike\n",
                 static_cast<long long>(missing), path.c_str(), first.c_str());
  return {};
}

// Where the importances came from, as other programs note it.
struct Provenance {
  std::string file;
  Importance importance;
};

NewMetadata metadata_of(const GgufFile& file, const TypeMix& mix, const std::optional<Provenance>& from) {
  NewMetadata out;
  for (const GgufValue& value : file.metadata())
    if (!value.key.starts_with("split.") && !value.key.starts_with("quantize.imatrix.") &&
        value.key != "general.file_type" && value.key != "general.quantization_version")
      out.copy(value);
  out.number("general.file_type", mix.file_type);
  out.number("general.quantization_version", 2);
  if (!from) return out;
  out.text("quantize.imatrix.file", from->file);
  if (!from->importance.datasets.empty()) out.text("quantize.imatrix.dataset", from->importance.datasets.front());
  out.number("quantize.imatrix.entries_count", static_cast<uint32_t>(from->importance.entries.size()));
  if (from->importance.chunks) out.number("quantize.imatrix.chunks_count", from->importance.chunks);
  return out;
}

void print_plan(const std::vector<Planned>& plan) {
  for (const Planned& p : plan)
    std::printf("%-40s %8s -> %-8s %12llu bytes\n", p.to.name.c_str(), std::string(name_of(p.from->type)).c_str(),
                std::string(name_of(p.to.type)).c_str(), static_cast<unsigned long long>(p.to.bytes));
}

void print_total(const std::vector<Planned>& plan) {
  uint64_t before = 0, after = 0, elements = 0;
  for (const Planned& p : plan) before += p.from->bytes, after += p.to.bytes, elements += p.from->elements();
  std::printf("%s to %s, %.2f bits a weight\n", bytes_text(before).c_str(), bytes_text(after).c_str(),
              8.0 * static_cast<double>(after) / static_cast<double>(std::max<uint64_t>(elements, 1)));
}

// Of `count` elements from `begin` on, a value for each; columns are the same for all rows of a matrix.
std::vector<float> importance_of(const Planned& p, uint64_t begin, uint64_t count) {
  std::vector<float> values;
  if (p.importance.empty()) return values;
  const uint64_t k = p.from->dims[0], in_matrix = k * p.from->dims[1];
  const bool is_stack = p.importance.size() > k;
  for (uint64_t i = begin; i < begin + count; ++i)
    values.push_back(p.importance[(is_stack ? i / in_matrix * k : 0) + i % k]);
  return values;
}

// The tensor in its new type.
Result<std::string> converted(const Planned& p, int threads) {
  const GgufTensor& from = *p.from;
  const std::span<const std::byte> source(from.data, from.bytes);
  std::string bytes(p.to.bytes, '\0');
  if (p.to.type == from.type) {
    std::copy_n(reinterpret_cast<const char*>(from.data), from.bytes, bytes.data());
    return bytes;
  }
  const GgufTypeInfo &old_type = info_of(from.type), &new_type = info_of(p.to.type);
  const size_t parts = (from.elements() + kPart - 1) / kPart;
  std::atomic<bool> is_finite = true;
  for_each_in_parallel(parts, threads, [&](size_t part, int) {
    if (interrupted()) return;
    const uint64_t begin = part * kPart, count = std::min(kPart, from.elements() - begin);
    std::vector<float> values(count);
    read_values(from.type,
                source.subspan(begin / old_type.elements * old_type.bytes, count / old_type.elements * old_type.bytes),
                values);
    if (!std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); }))
      return is_finite = false, void();
    quantise(p.to.type, values,
             std::as_writable_bytes(std::span(bytes))
                 .subspan(begin / new_type.elements * new_type.bytes, count / new_type.elements * new_type.bytes),
             importance_of(p, begin, count));
  });
  if (!is_finite) return quantize_error(p.to.name, "it holds infinities or what is no number; convert the model again");
  return bytes;
}

Status put(const NewFile& file, const std::string& path, std::string bytes, uint64_t padded) {
  bytes.resize(padded);
  if (write_all(file.fd(), bytes) == 0) return {};
  return quantize_error(path, "writing failed; is the disk full?");
}

Result<int> write(const QuantizeFlags& flags, const GgufFile& source, const NewMetadata& metadata,
                  const std::vector<Planned>& plan) {
  std::vector<NewTensor> tensors;
  for (const Planned& p : plan) tensors.push_back(p.to);
  const NewHead head = new_head(metadata, tensors, source.shards()[0].alignment);
  SMELT_TRY(file, NewFile::create(flags.output, 0644));
  SMELT_CHECK(put(file, flags.output, head.bytes, head.bytes.size()));
  const int threads =
      flags.threads ? static_cast<int>(flags.threads) : static_cast<int>(std::thread::hardware_concurrency());
  Progress progress("quantising", head.data_bytes, ProgressUnit::bytes);
  for (size_t i = 0; i < plan.size(); ++i) {
    SMELT_TRY(bytes, converted(plan[i], threads));
    if (interrupted()) return kExitInterrupted;
    const uint64_t end = i + 1 < plan.size() ? head.offsets[i + 1] : head.data_bytes;
    SMELT_CHECK(put(file, flags.output, std::move(bytes), end - head.offsets[i]));
    progress.add(end - head.offsets[i]);
  }
  SMELT_CHECK(file.publish());
  progress.finish();
  return 0;
}

Result<int> run(const QuantizeFlags& flags) {
  auto mix = find_mix(capitals(flags.type));
  if (!mix) return no_such_type(flags.type);
  mix->is_uniform = mix->is_uniform || flags.pure;
  SMELT_TRY(chosen, tensor_types(flags.tensor_types));
  SMELT_TRY(source, open_model_files(flags.input));
  std::vector<std::string> sources = files_of(source);
  if (!flags.imatrix.empty()) sources.push_back(flags.imatrix);
  if (!flags.dry_run) SMELT_CHECK(check_is_no_source("quantize", flags.output, sources));
  SMELT_TRY(plan, Planner(source, *mix, std::move(chosen)).run());
  std::optional<Provenance> provenance;
  if (!flags.imatrix.empty()) {
    SMELT_TRY(importance, read_importance(flags.imatrix));
    SMELT_CHECK(add_importance(importance, flags.imatrix, plan));
    provenance = {flags.imatrix, std::move(importance)};
  }
  if (flags.dry_run) {
    print_plan(plan);
    print_total(plan);
    return 0;
  }

  SMELT_TRY(code, write(flags, source, metadata_of(source, *mix, provenance), plan));
  if (code == 0) print_total(plan);
  return code;
}

}  // namespace

Action declare_quantize(CLI::App& app) {
  const auto flags = std::make_shared<QuantizeFlags>();
  app.add_option("input", flags->input, "the model to read")->type_name("IN")->required();
  app.add_option("output", flags->output, "the file to write")->type_name("OUT")->required();
  app.add_option("type", flags->type, "the type or mix of types to write")->type_name("TYPE")->required();
  app.add_option("--imatrix", flags->imatrix, "what `smelt imatrix` or llama-imatrix has measured")->type_name("FILE");
  app.add_option("--tensor-type", flags->tensor_types, "tensors whose name contains NAME take this type")
      ->type_name("NAME=TYPE")
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_flag("--pure", flags->pure, "all matrices take the one type of the mix");
  app.add_flag("--dry-run", flags->dry_run, "list what would be written, and write nothing");
  app.add_option("-t,--threads", flags->threads, "processor cores to use; 0: all")
      ->type_name("N")
      ->check(whole_number(0, 1024));
  app.footer(kExplanation);
  return [flags] { return run(*flags); };
}

}  // namespace smelt
