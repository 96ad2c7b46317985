#include "gguf/gguf.h"

#include <algorithm>
#include <numeric>

#include "base/file.h"
#include "gguf/limits.h"
#include "gguf/metadata.h"
#include "gguf/model_parts.h"
#include "gguf/parse.h"
#include "gguf/shards.h"

namespace smelt {

struct GgufFile::State {
  std::string path;
  uint32_t version = 0;
  std::vector<MappedFile> maps;
  ModelParts parts;  // of from_parts(); names and tensors point into them
  std::string head;  // likewise: their metadata
  std::vector<Shard> shards;
  GgufMetadata metadata;
  std::vector<GgufTensor> tensors;
  std::vector<uint32_t> by_name;  // indices into tensors, sorted by name

  Status add_shard(std::span<const std::byte> bytes, const std::string& shard_path);
  Status map_shard(const std::string& shard_path);
  Status check_part(const GgufMetadata& part, uint32_t number, uint32_t count) const;
  Status map_parts(const ShardName& name);
  Status add_part(const ModelParts::Tensor& part, uint32_t own_shard);
  Status index_tensors();
};

namespace {

constexpr std::string_view kSplitCount = "split.count";
constexpr std::string_view kSplitNumber = "split.no";
constexpr std::string_view kSplitTensors = "split.tensors.count";
constexpr GgufRange kSplitRange = {.min = 0, .max = UINT16_MAX};

constexpr uint64_t kPartsAlignment = 32;

// A file by itself must not say that it is one of several.
Status check_single(const GgufMetadata& metadata) {
  if (!metadata.find(kSplitCount)) return {};
  SMELT_TRY(count, metadata.u64(kSplitCount, kSplitRange));
  if (count <= 1) return {};
  return gguf_error(kSplitCount, "the file is one of " + std::to_string(count) +
                                     " parts; give its parts names that end in -00001-of-" +
                                     std::string(5 - std::to_string(count).size(), '0') + std::to_string(count) +
                                     ".gguf and so on");
}

Status expect(const GgufMetadata& metadata, std::string_view key, uint64_t expected, const std::string& why) {
  SMELT_TRY(value, metadata.u64(key, {}));
  if (value == expected) return {};
  return gguf_error(key, "value " + std::to_string(value) + " is not " + std::to_string(expected) + ", " + why +
                             "; the parts belong to different files, download them again");
}

}  // namespace

Status GgufFile::State::add_shard(std::span<const std::byte> bytes, const std::string& shard_path) {
  SMELT_TRY(parsed, parse_gguf(bytes, shard_path));
  const uint32_t number = static_cast<uint32_t>(shards.size());
  shards.push_back({.path = shard_path,
                    .bytes = bytes,
                    .data_offset = parsed.data_offset,
                    .alignment = parsed.alignment,
                    .tensors = parsed.tensors.size()});
  if (tensors.size() + parsed.tensors.size() > gguf_limits::kTensors) {
    return gguf_error(shard_path, "more than " + std::to_string(gguf_limits::kTensors) +
                                      " tensors in all parts; the file is damaged, download it again");
  }
  for (GgufTensor& tensor : parsed.tensors) tensor.shard = number;
  if (number == 0) {
    tensors = std::move(parsed.tensors);
    metadata = std::move(parsed.metadata);
    version = parsed.version;
    return {};
  }
  tensors.insert(tensors.end(), parsed.tensors.begin(), parsed.tensors.end());
  const uint32_t count = parse_shard_name(shard_path)->count;
  return check_part(parsed.metadata, number, count);
}

Status GgufFile::State::map_shard(const std::string& shard_path) {
  SMELT_TRY(map, MappedFile::open(shard_path));
  maps.push_back(std::move(map));
  SMELT_CHECK(add_shard(maps.back().bytes(), shard_path));
  shards.back().is_mapped = true;
  return {};
}

Status GgufFile::State::check_part(const GgufMetadata& part, uint32_t number, uint32_t count) const {
  SMELT_CHECK(expect(part, kSplitCount, count, "as the name of the file says"));
  return expect(part, kSplitNumber, number, "as the name of the file says (counted from 0 here)");
}

Status GgufFile::State::map_parts(const ShardName& name) {
  if (name.count > gguf_limits::kShards) {
    return gguf_error(name.path_of(name.number), std::to_string(name.count) + " parts are over the limit of " +
                                                     std::to_string(gguf_limits::kShards) + "; rename the file");
  }
  for (uint32_t i = 1; i <= name.count; ++i) {
    const std::string part = name.path_of(i);
    Status mapped = map_shard(part);
    if (mapped && i == 1) mapped = check_part(metadata, 0, name.count);
    if (!mapped) return Error{mapped.error().message + " (part " + std::to_string(i) + " of the model, " + part + ")"};
  }
  return expect(metadata, kSplitTensors, tensors.size(), "the number of tensors in all parts");
}

Status GgufFile::State::index_tensors() {
  by_name.resize(tensors.size());
  std::iota(by_name.begin(), by_name.end(), 0u);
  const auto name = [&](uint32_t i) { return tensors[i].name; };
  std::sort(by_name.begin(), by_name.end(), [&](uint32_t a, uint32_t b) { return name(a) < name(b); });
  const auto twice =
      std::adjacent_find(by_name.begin(), by_name.end(), [&](uint32_t a, uint32_t b) { return name(a) == name(b); });
  if (twice == by_name.end()) return {};
  return gguf_error(name(*twice), "the tensor appears twice; the file is damaged, convert the model again");
}

Status GgufFile::State::add_part(const ModelParts::Tensor& part, uint32_t own_shard) {
  GgufTensor tensor{.name = part.name, .type = part.type, .rank = static_cast<int>(part.dims.size())};
  if (part.dims.empty() || part.dims.size() > tensor.dims.size())
    return gguf_error(part.name, std::to_string(part.dims.size()) + " axes; 1 to 4 are possible");
  std::copy(part.dims.begin(), part.dims.end(), tensor.dims.begin());
  const bool is_own = !part.own.empty();
  tensor.data = is_own ? reinterpret_cast<const std::byte*>(part.own.data()) : part.data.data();
  tensor.bytes = is_own ? part.own.size() : part.data.size();
  tensor.shard = is_own ? own_shard : static_cast<uint32_t>(part.file);
  if (!is_own) tensor.offset = static_cast<uint64_t>(tensor.data - parts.files[part.file].map.bytes().data());
  tensors.push_back(tensor);
  return {};
}

Result<GgufFile> GgufFile::from_parts(ModelParts parts) {
  auto state = std::make_unique<State>();
  state->path = parts.path;
  state->parts = std::move(parts);
  state->head = new_head(state->parts.metadata, {}, kPartsAlignment).bytes;
  SMELT_TRY(parsed, parse_gguf(std::as_bytes(std::span(state->head)), state->path));
  state->metadata = std::move(parsed.metadata);
  state->version = parsed.version;
  for (const ModelParts::File& file : state->parts.files)
    state->shards.push_back({.path = file.path, .bytes = file.map.bytes(), .is_mapped = true});
  const auto own_shard = static_cast<uint32_t>(state->shards.size());
  state->shards.push_back({.path = state->path, .bytes = std::as_bytes(std::span(state->head))});
  for (const ModelParts::Tensor& part : state->parts.tensors) {
    SMELT_CHECK(state->add_part(part, own_shard));
    ++state->shards[state->tensors.back().shard].tensors;
  }
  SMELT_CHECK(state->index_tensors());
  return GgufFile(std::move(state));
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->path = path;
  const auto name = parse_shard_name(path);
  if (name && name->count > 1) {
    SMELT_CHECK(state->map_parts(*name));
  } else {
    SMELT_CHECK(state->map_shard(path));
    SMELT_CHECK(check_single(state->metadata));
  }
  SMELT_CHECK(state->index_tensors());
  return GgufFile(std::move(state));
}

Result<GgufFile> GgufFile::open_memory(std::span<const std::byte> bytes, std::string name) {
  auto state = std::make_unique<State>();
  state->path = std::move(name);
  SMELT_CHECK(state->add_shard(bytes, state->path));
  SMELT_CHECK(check_single(state->metadata));
  SMELT_CHECK(state->index_tensors());
  return GgufFile(std::move(state));
}

GgufFile::GgufFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
GgufFile::GgufFile(GgufFile&&) noexcept = default;
GgufFile& GgufFile::operator=(GgufFile&&) noexcept = default;
GgufFile::~GgufFile() = default;

const std::string& GgufFile::path() const { return state_->path; }
uint32_t GgufFile::version() const { return state_->version; }
std::span<const GgufFile::Shard> GgufFile::shards() const { return state_->shards; }

uint64_t GgufFile::file_bytes() const {
  uint64_t sum = 0;
  for (const Shard& shard : state_->shards) sum += shard.bytes.size();
  return sum;
}

std::span<const GgufValue> GgufFile::metadata() const { return state_->metadata.values(); }
const GgufValue* GgufFile::value(std::string_view key) const { return state_->metadata.find(key); }

Result<uint64_t> GgufFile::u64(std::string_view key, GgufRange range) const { return state_->metadata.u64(key, range); }
Result<int64_t> GgufFile::i64(std::string_view key) const { return state_->metadata.i64(key); }
Result<double> GgufFile::f64(std::string_view key) const { return state_->metadata.f64(key); }
Result<bool> GgufFile::boolean(std::string_view key) const { return state_->metadata.boolean(key); }
Result<std::string_view> GgufFile::string(std::string_view key) const { return state_->metadata.string(key); }

Result<uint64_t> GgufFile::u64_or(std::string_view key, uint64_t fallback, GgufRange range) const {
  return has(key) ? u64(key, range) : Result<uint64_t>(fallback);
}
Result<double> GgufFile::f64_or(std::string_view key, double fallback) const {
  return has(key) ? f64(key) : Result<double>(fallback);
}
Result<bool> GgufFile::boolean_or(std::string_view key, bool fallback) const {
  return has(key) ? boolean(key) : Result<bool>(fallback);
}
Result<std::string_view> GgufFile::string_or(std::string_view key, std::string_view fallback) const {
  return has(key) ? string(key) : Result<std::string_view>(fallback);
}

Result<std::vector<std::string_view>> GgufFile::strings(std::string_view key) const {
  return state_->metadata.strings(key);
}
Result<std::vector<int64_t>> GgufFile::integers(std::string_view key) const { return state_->metadata.integers(key); }
Result<std::vector<double>> GgufFile::floats(std::string_view key) const { return state_->metadata.floats(key); }

std::span<const GgufTensor> GgufFile::tensors() const { return state_->tensors; }

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto& tensors = state_->tensors;
  const auto found = std::lower_bound(state_->by_name.begin(), state_->by_name.end(), name,
                                      [&](uint32_t i, std::string_view n) { return tensors[i].name < n; });
  return found != state_->by_name.end() && tensors[*found].name == name ? &tensors[*found] : nullptr;
}

Result<const GgufTensor*> GgufFile::require(std::string_view name) const {
  const GgufTensor* tensor = find(name);
  if (!tensor) return gguf_error(name, "the tensor is missing; convert the model again");
  if (!info_of(tensor->type).supported) {
    return gguf_error(name, "type " + std::string(name_of(tensor->type)) +
                                " is not supported; quantise the model again with another type");
  }
  return tensor;
}

}  // namespace smelt
