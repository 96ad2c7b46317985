#include "app/inspect.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "app/cache_size.h"
#include "app/engine_flags.h"
#include "app/text_of.h"
#include "app/usual_checks.h"
#include "base/checked.h"
#include "base/printable.h"
#include "base/progress.h"
#include "gguf/file_type.h"
#include "gguf/footprint.h"
#include "gguf/gguf.h"
#include "gguf/reader.h"
#include "model/model.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kArrayShown = 6;   // elements of a long array
constexpr size_t kTextShown = 100;    // bytes of a long string
constexpr size_t kElementShown = 24;  // bytes of a string in an array

// Tensors of one type, together.
struct TypeTotal {
  uint64_t tensors = 0;
  uint64_t elements = 0;
  uint64_t bytes = 0;
};

std::map<GgufType, TypeTotal> totals_by_type(const GgufFile& file) {
  std::map<GgufType, TypeTotal> totals;
  for (const GgufTensor& tensor : file.tensors()) {
    TypeTotal& total = totals[tensor.type];
    total.tensors += 1;
    total.elements += tensor.elements();
    total.bytes += tensor.bytes;
  }
  return totals;
}

std::string dims_text(const GgufTensor& tensor) {
  std::string text;
  for (int i = 0; i < tensor.rank; ++i) text += (i ? ", " : "") + std::to_string(tensor.dims[static_cast<size_t>(i)]);
  return text;
}

// Elements of a metadata value as JSON, the first `most` of them.
Json elements(const GgufValue& value, uint64_t most) {
  Json list = Json::array();
  Reader in(value.bytes);
  for (uint64_t i = 0; i < std::min(value.count, most); ++i) {
    switch (value.kind) {
      case GgufKind::U8: list.push_back(*in.take<uint8_t>()); break;
      case GgufKind::I8: list.push_back(*in.take<int8_t>()); break;
      case GgufKind::U16: list.push_back(*in.take<uint16_t>()); break;
      case GgufKind::I16: list.push_back(*in.take<int16_t>()); break;
      case GgufKind::U32: list.push_back(*in.take<uint32_t>()); break;
      case GgufKind::I32: list.push_back(*in.take<int32_t>()); break;
      case GgufKind::F32: list.push_back(*in.take<float>()); break;
      case GgufKind::Bool: list.push_back(*in.take<uint8_t>() != 0); break;
      case GgufKind::String: list.push_back(std::string(as_text(*in.take_bytes(*in.take<uint64_t>())))); break;
      case GgufKind::U64: list.push_back(*in.take<uint64_t>()); break;
      case GgufKind::I64: list.push_back(*in.take<int64_t>()); break;
      case GgufKind::F64: list.push_back(*in.take<double>()); break;
      case GgufKind::Array: break;  // the reader refuses arrays of arrays
    }
  }
  return list;
}

// --- text

std::string element_text(const Json& element, bool is_float, size_t most) {
  if (element.is_string()) return "\"" + printable(element.get_ref<const std::string&>(), most) + "\"";
  if (!is_float) return element.dump();
  char text[32];
  std::snprintf(text, sizeof text, "%.7g", element.get<double>());
  return text;
}

std::string value_text(const GgufValue& value) {
  const bool is_float = value.kind == GgufKind::F32 || value.kind == GgufKind::F64;
  if (!value.is_array) return element_text(elements(value, 1)[0], is_float, kTextShown);
  std::string text = std::to_string(value.count) + ": ";
  for (const Json& element : elements(value, kArrayShown))
    text += element_text(element, is_float, kElementShown) + ", ";
  if (value.count > kArrayShown) return text + "...";
  text.resize(text.size() - 2);
  return text;
}

std::string kind_text(const GgufValue& value) {
  return value.is_array ? "[" + std::string(name_of(value.kind)) + "]" : std::string(name_of(value.kind));
}

void print_files(const GgufFile& file) {
  std::printf("%s: GGUF version %u, %s\n", printable(file.path()).c_str(), file.version(),
              bytes_text(file.file_bytes()).c_str());
  for (const GgufFile::Shard& shard : file.shards()) {
    if (file.shards().size() > 1)
      std::printf("  %s: %s\n", printable(shard.path).c_str(), bytes_text(shard.bytes.size()).c_str());
    std::printf("  data from byte %" PRIu64 ", aligned to %u\n", shard.data_offset, shard.alignment);
  }
}

void print_metadata(const GgufFile& file) {
  std::printf("\nMETADATA  %zu entries\n", file.metadata().size());
  for (const GgufValue& value : file.metadata()) {
    std::printf("  %-44s %-9s %s\n", printable(value.key).c_str(), kind_text(value).c_str(), value_text(value).c_str());
  }
}

void print_tensors(const GgufFile& file) {
  const bool split = file.shards().size() > 1;
  std::printf("\nTENSORS  %zu\n  %-36s %-8s %-22s %14s %14s%s\n", file.tensors().size(), "name", "type",
              "dims (fastest first)", "bytes", "offset", split ? "  part" : "");
  for (const GgufTensor& t : file.tensors()) {
    std::printf("  %-36s %-8s %-22s %14" PRIu64 " %14" PRIu64, printable(t.name).c_str(),
                std::string(name_of(t.type)).c_str(), dims_text(t).c_str(), t.bytes, t.offset);
    if (split) std::printf("  %u", t.shard + 1);
    std::printf("\n");
  }
}

uint64_t parameters(const GgufFile& file) {
  uint64_t count = 0;
  for (const GgufTensor& tensor : file.tensors()) count += tensor.elements();
  return count;
}

double bits_per_weight(const GgufFile& file, const Footprint& model) {
  const uint64_t count = parameters(file);
  return count ? 8 * static_cast<double>(model.weight_bytes) / static_cast<double>(count) : 0;
}

// What the file says; else the type of the matrices that most weights are in.
std::string quantisation(const GgufFile& file) {
  const auto said = file.u64_or("general.file_type", UINT64_MAX, {0, UINT64_MAX});
  if (const std::string_view name = said ? file_type_name(*said) : ""; !name.empty()) return std::string(name);
  std::string most;
  uint64_t elements = 0;
  for (const auto& [type, total] : totals_by_type(file))
    if (total.elements > elements) elements = total.elements, most = name_of(type);
  return most.empty() ? "" : "mostly " + most;
}

// "29.9 B", "3.21 M"
std::string count_text(uint64_t count) {
  static constexpr const char* kUnits[] = {"", " K", " M", " B", " T"};
  double value = static_cast<double>(count);
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return text_of(unit == 0 ? "%.0f" : value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value) + kUnits[unit];
}

void print_weights(const GgufFile& file, const Footprint& model) {
  if (file.tensors().empty()) {
    std::printf("\nno weights: this file holds a vocabulary alone\n");
    return;
  }
  std::printf("\nWEIGHTS\n  %s parameters (%" PRIu64 "), %s, %.2f bits a weight\n",
              count_text(parameters(file)).c_str(), parameters(file), quantisation(file).c_str(),
              bits_per_weight(file, model));
}

void print_types(const GgufFile& file) {
  std::printf("\nTYPES\n");
  for (const auto& [type, total] : totals_by_type(file)) {
    std::printf("  %-8s %6" PRIu64 " tensors %16" PRIu64 " elements %16" PRIu64 " bytes (%s)%s\n",
                std::string(name_of(type)).c_str(), total.tensors, total.elements, total.bytes,
                bytes_text(total.bytes).c_str(), info_of(type).supported ? "" : "  not supported");
  }
}

// Of the attention cache; the first one is the default.
struct CacheSize {
  const char* type;
  uint64_t bytes;
};

// The q8 cache has a form of its own, which only models that smelt can run have; what of others is known are keys.
std::vector<CacheSize> cache_sizes(const GgufFile& file, const Footprint& model, uint64_t context) {
  std::vector<CacheSize> sizes;
  for (const char* type : {"q8", "f16", "f32"})
    if (const auto bytes = cache_bytes(file, type, context)) sizes.push_back({type, *bytes});
  if (sizes.empty()) sizes = {{"f16", model.cache_bytes(context, 2)}, {"f32", model.cache_bytes(context, 4)}};
  return sizes;
}

uint64_t together(const GgufFile& file, const Footprint& model, const CacheSize& cache) {
  return (Checked(file.file_bytes()) + cache.bytes + model.work_bytes).get().value_or(UINT64_MAX);
}

// "7.08 MB as q8 (the default), 6.58 MB as f16, ..."
std::string sizes_text(const std::vector<CacheSize>& sizes, const std::function<uint64_t(const CacheSize&)>& bytes) {
  std::string text;
  for (const CacheSize& size : sizes)
    text += (text.empty() ? "" : ", ") + bytes_text(bytes(size)) + " as " + size.type +
            (std::string_view(size.type) == kDefaultCacheType ? " (the default)" : "");
  return text;
}

// What memory alone allows: every token reads its weights once, and model, cache and work must have room.
struct MemoryLimit {
  double tokens_per_second = 0;  // 0: its bandwidth is not known
  bool has_room = true;          // as far as is known
};

MemoryLimit memory_limit(const GgufFile& file, const Footprint& model, uint64_t context, const Machine& machine) {
  const uint64_t needed = together(file, model, cache_sizes(file, model, context)[0]);
  return {.tokens_per_second = machine.bandwidth / static_cast<double>(std::max<uint64_t>(model.token_bytes, 1)),
          .has_room = machine.memory_bytes == 0 || needed <= static_cast<uint64_t>(machine.memory_bytes)};
}

void print_machine(const MemoryLimit& limit, const Machine& machine) {
  std::printf("\nON %s (%s)\n  ", machine.name.c_str(), machine.title.c_str());
  if (limit.tokens_per_second > 0)
    std::printf("at most %.1f tok/s for one sequence, by %.0f GB/s of memory", limit.tokens_per_second,
                machine.bandwidth / 1e9);
  else
    std::printf("the bandwidth of its memory is not known");
  if (machine.memory_bytes > 0)
    std::printf("; all of it %s the %s of its memory", limit.has_room ? "fits" : "does not fit",
                bytes_text(static_cast<uint64_t>(machine.memory_bytes)).c_str());
  std::printf("\n");
}

void print_plan(const GgufFile& file, const Footprint& model, const Status& runs, uint64_t context) {
  const std::vector<CacheSize> sizes = cache_sizes(file, model, context);
  std::printf("\nONE DECODED TOKEN\n  reads %" PRIu64 " bytes (%s) of %" PRIu64 " bytes of weights", model.token_bytes,
              bytes_text(model.token_bytes).c_str(), model.weight_bytes);
  if (model.experts) {
    std::printf("; %" PRIu64 " of %" PRIu64 " experts", model.experts_used, model.experts);
  }
  std::printf("\n\nMEMORY for a context of %" PRIu64 " tokens\n", context);
  std::printf("  %-24s %s\n", "file, mapped", bytes_text(file.file_bytes()).c_str());
  std::printf("  %-24s %s; %" PRIu64 " values a token\n", "attention cache",
              sizes_text(sizes, [](const CacheSize& s) { return s.bytes; }).c_str(), model.cache_values);
  std::printf("  %-24s about %s\n", "working memory", bytes_text(model.work_bytes).c_str());
  std::printf("  %-24s about %s\n", "together",
              sizes_text(sizes, [&](const CacheSize& s) { return together(file, model, s); }).c_str());
  std::printf("\n%s\n", runs.ok() ? "smelt can run this model."
                                  : ("smelt cannot run this model: " + runs.error().message).c_str());
}

// --- JSON

Json value_json(const GgufValue& value) {
  if (!value.is_array) return elements(value, 1)[0];
  return {{"array", name_of(value.kind)}, {"count", value.count}, {"first", elements(value, kArrayShown)}};
}

Json tensor_json(const GgufTensor& tensor) {
  return {{"name", tensor.name},
          {"type", name_of(tensor.type)},
          {"dims", std::vector<uint64_t>(tensor.dims.begin(), tensor.dims.begin() + tensor.rank)},
          {"bytes", tensor.bytes},
          {"offset", tensor.offset},
          {"file", tensor.shard}};
}

Json plan_json(const GgufFile& file, const Footprint& model, uint64_t context) {
  Json cache = Json::object(), total = Json::object();
  for (const CacheSize& size : cache_sizes(file, model, context)) {
    cache[size.type] = size.bytes;
    total[size.type] = together(file, model, size);
  }
  return {{"context", context},
          {"file_bytes", file.file_bytes()},
          {"cache_bytes", std::move(cache)},
          {"work_bytes", model.work_bytes},
          {"total_bytes", std::move(total)}};
}

Json file_json(const GgufFile& file) {
  Json json = {{"path", file.path()}, {"version", file.version()}};
  for (const GgufFile::Shard& shard : file.shards()) {
    json["files"].push_back({{"path", shard.path},
                             {"bytes", shard.bytes.size()},
                             {"data_offset", shard.data_offset},
                             {"alignment", shard.alignment},
                             {"tensors", shard.tensors}});
  }
  // Appended as pairs: keys are unique already, and json[key] would search all those before it for
  // each.
  auto& metadata = (json["metadata"] = Json::object()).get_ref<Json::object_t&>();
  using Pairs = Json::object_t::Container;
  for (const GgufValue& value : file.metadata()) {
    static_cast<Pairs&>(metadata).emplace_back(std::string(value.key), value_json(value));
  }
  json["tensors"] = Json::array();
  for (const GgufTensor& tensor : file.tensors()) json["tensors"].push_back(tensor_json(tensor));
  json["types"] = Json::object();
  for (const auto& [type, total] : totals_by_type(file)) {
    json["types"][std::string(name_of(type))] = {{"tensors", total.tensors},
                                                 {"elements", total.elements},
                                                 {"bytes", total.bytes},
                                                 {"supported", info_of(type).supported}};
  }
  return json;
}

void print_json(const GgufFile& file, const Footprint& model, const Status& runs, uint64_t context,
                const std::optional<Machine>& machine) {
  Json json = file_json(file);
  json["parameters"] = parameters(file);
  json["bits_per_weight"] = bits_per_weight(file, model);
  json["quantisation"] = quantisation(file);
  json["bytes_per_token"] = model.token_bytes;
  json["weight_bytes"] = model.weight_bytes;
  json["memory"] = plan_json(file, model, context);
  if (machine) {
    const MemoryLimit limit = memory_limit(file, model, context, *machine);
    json["machine"] = {{"name", machine->name},
                       {"bandwidth", machine->bandwidth},
                       {"tokens_per_second_at_most", limit.tokens_per_second},
                       {"fits", limit.has_room}};
  }
  json["runs"] = runs.ok();
  if (!runs) json["why_not"] = runs.error().message;
  // Text from the file need not be UTF-8; what is not becomes U+FFFD.
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

Status can_run(const GgufFile& file, uint64_t context) {
  const auto model = read_model(file);
  if (!model) return Error{without_tag(model.error().message)};
  const auto longest = static_cast<uint64_t>((*model)->numbers().context);
  if (context <= longest) return {};
  return Error{"a context of " + std::to_string(context) + " tokens is longer than the " + std::to_string(longest) +
               " that it was made for"};
}

}  // namespace

Status inspect(const InspectOptions& options) {
  if (options.context < 1 || options.context > int64_t{1} << 32) {
    return Error{"[inspect] context: " + std::to_string(options.context) +
                 " is not in the range 1 to 2^32; give another"};
  }
  const uint64_t context = static_cast<uint64_t>(options.context);
  std::optional<Machine> machine;
  if (!options.machine.empty()) {
    SMELT_TRY(found, find_machine(options.machine));
    machine = std::move(found);
  }
  SMELT_TRY(file, open_model(options.model));
  if (options.json) {
    SMELT_TRY(model, footprint(file));
    print_json(file, model, can_run(file, context), context, machine);
    return {};
  }
  print_files(file);
  print_metadata(file);
  print_tensors(file);
  print_types(file);
  SMELT_TRY(model, footprint(file));  // after the tables: they show what is wrong with it
  print_weights(file, model);
  if (!file.tensors().empty()) print_plan(file, model, can_run(file, context), context);
  if (machine) print_machine(memory_limit(file, model, context, *machine), *machine);
  return {};
}

}  // namespace smelt
