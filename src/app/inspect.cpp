#include "app/inspect.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/printable.h"
#include "base/progress.h"
#include "gguf/footprint.h"
#include "gguf/gguf.h"
#include "gguf/reader.h"
#include "model/hyperparameters.h"

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
  for (int i = 0; i < tensor.rank; ++i)
    text += (i ? ", " : "") + std::to_string(tensor.dims[static_cast<size_t>(i)]);
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
      case GgufKind::String:
        list.push_back(std::string(as_text(*in.take_bytes(*in.take<uint64_t>()))));
        break;
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
  if (element.is_string())
    return "\"" + printable(element.get_ref<const std::string&>(), most) + "\"";
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
  return value.is_array ? "[" + std::string(name_of(value.kind)) + "]"
                        : std::string(name_of(value.kind));
}

void print_files(const GgufFile& file) {
  std::printf("%s: GGUF version %u, %s\n", printable(file.path()).c_str(), file.version(),
              bytes_text(file.file_bytes()).c_str());
  for (const GgufFile::Shard& shard : file.shards()) {
    if (file.shards().size() > 1)
      std::printf("  %s: %s\n", printable(shard.path).c_str(),
                  bytes_text(shard.bytes.size()).c_str());
    std::printf("  data from byte %" PRIu64 ", aligned to %u\n", shard.data_offset,
                shard.alignment);
  }
}

void print_metadata(const GgufFile& file) {
  std::printf("\nMETADATA  %zu entries\n", file.metadata().size());
  for (const GgufValue& value : file.metadata()) {
    std::printf("  %-44s %-9s %s\n", printable(value.key).c_str(), kind_text(value).c_str(),
                value_text(value).c_str());
  }
}

void print_tensors(const GgufFile& file) {
  const bool split = file.shards().size() > 1;
  std::printf("\nTENSORS  %zu\n  %-36s %-8s %-22s %14s %14s%s\n", file.tensors().size(), "name",
              "type", "dims (fastest first)", "bytes", "offset", split ? "  part" : "");
  for (const GgufTensor& t : file.tensors()) {
    std::printf("  %-36s %-8s %-22s %14" PRIu64 " %14" PRIu64, printable(t.name).c_str(),
                std::string(name_of(t.type)).c_str(), dims_text(t).c_str(), t.bytes, t.offset);
    if (split) std::printf("  %u", t.shard + 1);
    std::printf("\n");
  }
}

void print_types(const GgufFile& file) {
  std::printf("\nTYPES\n");
  for (const auto& [type, total] : totals_by_type(file)) {
    std::printf("  %-8s %6" PRIu64 " tensors %16" PRIu64 " elements %16" PRIu64 " bytes (%s)%s\n",
                std::string(name_of(type)).c_str(), total.tensors, total.elements, total.bytes,
                bytes_text(total.bytes).c_str(), info_of(type).supported ? "" : "  not supported");
  }
}

void print_plan(const GgufFile& file, const Footprint& model, const Status& runs,
                uint64_t context) {
  std::printf("\nONE DECODED TOKEN\n  reads %" PRIu64 " bytes (%s) of %" PRIu64 " bytes of weights",
              model.token_bytes, bytes_text(model.token_bytes).c_str(), model.weight_bytes);
  if (model.experts) {
    std::printf("; %" PRIu64 " of %" PRIu64 " experts", model.experts_used, model.experts);
  }
  std::printf("\n\nMEMORY for a context of %" PRIu64 " tokens\n", context);
  std::printf("  %-24s %s\n", "file, mapped", bytes_text(file.file_bytes()).c_str());
  std::printf("  %-24s %s as f16, %s as f32 (%" PRIu64 " values a token)\n", "attention cache",
              bytes_text(model.cache_bytes(context, 2)).c_str(),
              bytes_text(model.cache_bytes(context, 4)).c_str(), model.cache_values);
  std::printf("  %-24s about %s\n", "working memory", bytes_text(model.work_bytes).c_str());
  std::printf("  %-24s about %s with an f16 cache, %s with f32\n", "together",
              bytes_text(model.memory_bytes(file.file_bytes(), context, 2)).c_str(),
              bytes_text(model.memory_bytes(file.file_bytes(), context, 4)).c_str());
  std::printf("\n%s\n", runs.ok()
                            ? "smelt can run this model."
                            : ("smelt cannot run this model: " + runs.error().message).c_str());
}

// --- JSON

Json value_json(const GgufValue& value) {
  if (!value.is_array) return elements(value, 1)[0];
  return {{"array", name_of(value.kind)},
          {"count", value.count},
          {"first", elements(value, kArrayShown)}};
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
  return {{"context", context},
          {"file_bytes", file.file_bytes()},
          {"cache_bytes",
           {{"f16", model.cache_bytes(context, 2)}, {"f32", model.cache_bytes(context, 4)}}},
          {"work_bytes", model.work_bytes},
          {"total_bytes",
           {{"f16", model.memory_bytes(file.file_bytes(), context, 2)},
            {"f32", model.memory_bytes(file.file_bytes(), context, 4)}}}};
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

void print_json(const GgufFile& file, const Footprint& model, const Status& runs,
                uint64_t context) {
  Json json = file_json(file);
  json["bytes_per_token"] = model.token_bytes;
  json["weight_bytes"] = model.weight_bytes;
  json["memory"] = plan_json(file, model, context);
  json["runs"] = runs.ok();
  if (!runs) json["why_not"] = runs.error().message;
  // Text from the file need not be UTF-8; what is not becomes U+FFFD.
  std::printf("%s\n", json.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
}

Status can_run(const GgufFile& file) {
  const auto model = read_hyperparameters(file);
  return model ? Status() : Status(model.error());
}

Status inspect(const InspectOptions& options) {
  if (options.context < 1 || options.context > int64_t{1} << 32) {
    return Error{"[inspect] context: " + std::to_string(options.context) +
                 " is not in the range 1 to 2^32; give another"};
  }
  const uint64_t context = static_cast<uint64_t>(options.context);
  SMELT_TRY(file, GgufFile::open(options.path));
  if (options.json) {
    SMELT_TRY(model, footprint(file));
    print_json(file, model, can_run(file), context);
    return {};
  }
  print_files(file);
  print_metadata(file);
  print_tensors(file);
  print_types(file);
  SMELT_TRY(model, footprint(file));  // after the tables: they show what is wrong with it
  print_plan(file, model, can_run(file), context);
  return {};
}

}  // namespace

int run_inspect(const InspectOptions& options) {
  const Status status = inspect(options);
  std::fflush(stdout);
  if (status) return 0;
  std::fprintf(stderr, "smelt: %s\n", status.error().message.c_str());
  return 1;
}

}  // namespace smelt
