#include "gguf/importance.h"

#include <cmath>
#include <cstring>

#include "base/byte_cursor.h"
#include "base/file.h"
#include "base/printable.h"
#include "gguf/head.h"

namespace smelt {
namespace {

constexpr std::string_view kSums = ".in_sum2", kCounts = ".counts";
constexpr uint32_t kAlignment = 32;

Error importance_error(const std::string& where, const std::string& what) {
  return Error{"[imatrix] " + printable(where) + ": " + what};
}

std::vector<float> floats_of(const GgufTensor& tensor) {
  std::vector<float> values(tensor.elements());
  std::memcpy(values.data(), tensor.data, values.size() * sizeof(float));
  return values;
}

Status check_entry(const std::string& name, const Importance::Entry& entry) {
  if (entry.counts.empty() || entry.sums.empty() || entry.sums.size() % entry.counts.size() != 0)
    return importance_error(name, std::to_string(entry.sums.size()) + " sums and " +
                                      std::to_string(entry.counts.size()) + " counts do not go together");
  for (const std::vector<float>* values : {&entry.sums, &entry.counts})
    for (float v : *values)
      if (!std::isfinite(v) || v < 0)
        return importance_error(name, "it holds " + std::to_string(v) + ", which is no sum of squares; make it again");
  return {};
}

Status read_tensor(const GgufFile& file, const GgufTensor& sums, Importance& out) {
  const std::string name(sums.name.substr(0, sums.name.size() - kSums.size()));
  const GgufTensor* counts = file.find(name + std::string(kCounts));
  if (!counts) return importance_error(name, "the file has its sums and no counts");
  if (sums.type != GgufType::F32 || counts->type != GgufType::F32)
    return importance_error(name, "its sums and counts are not F32");
  Importance::Entry& entry = out.entries[name] = {floats_of(sums), floats_of(*counts)};
  return check_entry(name, entry);
}

Result<Importance> read_gguf(const std::string& path) {
  SMELT_TRY(file, GgufFile::open(path));
  Importance out;
  for (const GgufTensor& tensor : file.tensors())
    if (tensor.name.ends_with(kSums)) SMELT_CHECK(read_tensor(file, tensor, out));
  if (out.entries.empty())
    return importance_error(path, "it has no tensor that ends in .in_sum2; `smelt imatrix` makes such files");
  if (file.has("imatrix.datasets")) {
    SMELT_TRY(datasets, file.strings("imatrix.datasets"));
    out.datasets.assign(datasets.begin(), datasets.end());
  }
  SMELT_TRY(chunks, file.u64_or("imatrix.chunk_count", 0, {0, UINT32_MAX}));
  SMELT_TRY(chunk_size, file.u64_or("imatrix.chunk_size", 0, {0, UINT32_MAX}));
  out.chunks = static_cast<uint32_t>(chunks), out.chunk_size = static_cast<uint32_t>(chunk_size);
  return out;
}

// A count of bytes that is less than none is more than there are.
std::string_view bytes_at(ByteCursor& at, int64_t count) { return at.bytes(static_cast<uint64_t>(count)); }

Result<Importance> read_older(const std::string& path) {
  SMELT_TRY(contents, read_file(path));
  ByteCursor at{contents};
  Importance out;
  const int32_t entries = at.number<int32_t>();
  for (int32_t i = 0; i < entries && at.ok; ++i) {
    const std::string name(bytes_at(at, at.number<int32_t>()));
    const int32_t calls = at.number<int32_t>(), values = at.number<int32_t>();
    const std::string_view raw = bytes_at(at, int64_t{values} * static_cast<int64_t>(sizeof(float)));
    if (!at.ok) break;
    Importance::Entry& entry = out.entries[name];
    entry.counts = {static_cast<float>(calls)};
    entry.sums.resize(raw.size() / sizeof(float));
    if (!raw.empty()) std::memcpy(entry.sums.data(), raw.data(), raw.size());
    SMELT_CHECK(check_entry(name, entry));
  }
  if (!at.ok || out.entries.empty())
    return importance_error(path, "it is no importance matrix, or it ends too early; `smelt imatrix` makes one");
  out.chunks = static_cast<uint32_t>(std::max(0, at.number<int32_t>()));
  if (const std::string dataset(bytes_at(at, at.number<int32_t>())); at.ok) out.datasets = {dataset};
  return out;
}

}  // namespace

Result<Importance> read_importance(const std::string& path) {
  SMELT_TRY(file, MappedFile::open(path));
  const bool is_gguf = file.size() >= 4 && std::memcmp(file.bytes().data(), "GGUF", 4) == 0;
  return is_gguf ? read_gguf(path) : read_older(path);
}

Status add_entry(const std::string& name, const Importance::Entry& entry, Importance& to) {
  auto [found, is_new] = to.entries.try_emplace(name, entry);
  if (is_new) return {};
  Importance::Entry& sum = found->second;
  // Older files do not tell the matrices of a stack apart.
  if (sum.counts.size() == 1 && entry.counts.size() > 1) sum.counts.resize(entry.counts.size(), sum.counts[0]);
  if (sum.sums.size() != entry.sums.size() || sum.counts.size() != entry.counts.size())
    return importance_error(name, std::to_string(sum.sums.size()) + " columns where this model has " +
                                      std::to_string(entry.sums.size()) + "; add files of one model");
  for (size_t i = 0; i < entry.sums.size(); ++i) sum.sums[i] += entry.sums[i];
  for (size_t i = 0; i < entry.counts.size(); ++i) sum.counts[i] += entry.counts[i];
  return {};
}

std::string importance_file(const Importance& importance) {
  NewMetadata metadata;
  metadata.text("general.type", "imatrix");
  metadata.texts("imatrix.datasets", importance.datasets);
  metadata.number("imatrix.chunk_count", importance.chunks);
  metadata.number("imatrix.chunk_size", importance.chunk_size);
  std::vector<NewTensor> tensors;
  std::vector<const std::vector<float>*> values;
  const auto add = [&](const std::string& name, const std::vector<float>& list, uint64_t matrices) {
    tensors.push_back({name, {list.size() / matrices, matrices}, GgufType::F32, list.size() * sizeof(float)});
    values.push_back(&list);
  };
  for (const auto& [name, entry] : importance.entries) {
    add(name + std::string(kSums), entry.sums, entry.counts.size());
    add(name + std::string(kCounts), entry.counts, entry.counts.size());
  }
  const NewHead head = new_head(metadata, tensors, kAlignment);
  std::string bytes = head.bytes;
  bytes.resize(head.bytes.size() + head.data_bytes);
  for (size_t i = 0; i < values.size(); ++i)
    std::memcpy(bytes.data() + head.bytes.size() + head.offsets[i], values[i]->data(), tensors[i].bytes);
  return bytes;
}

std::vector<float> means_of(const Importance::Entry& entry) {
  std::vector<float> means(entry.sums.size(), 1.0f);
  const size_t k = entry.sums.size() / entry.counts.size();
  for (size_t i = 0; i < means.size(); ++i)
    if (const float count = entry.counts[i / k]; count > 0) means[i] = entry.sums[i] / count;
  return means;
}

}  // namespace smelt
