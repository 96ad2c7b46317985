#include "engine/cache_file.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/build_id.h"
#include "base/file.h"
#include "base/hex.h"
#include "base/new_file.h"
#include "engine/model_identity.h"

namespace smelt {
namespace {

constexpr char kMagic[8] = {'s', 'm', 'e', 'l', 't', 'r', 'o', 'w'};
constexpr uint32_t kFormat = 1;
constexpr uint32_t kGenerated = uint32_t{1} << 31;

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t identity_bytes;
  uint64_t tokens;
  uint64_t page_bytes;
  uint64_t checksum;  // of the fields above, and of all before the pages
};
static_assert(sizeof(Header) == 40);

uint64_t pages_of(uint64_t tokens) { return (tokens + kPageSize - 1) / kPageSize; }

// What layers keep, once for neighbouring ones that keep the same.
std::string parts_text(const Model& model, DType cache_type) {
  std::string text, before;
  for (int64_t layer = 0; layer < model.numbers().layers; ++layer) {
    std::string parts;
    for (const CachePart& part : model.cache_parts(cache_type, layer))
      parts += " " + part.name + " " + std::to_string(part.row_bytes);
    for (const StatePart& part : model.state_parts(layer)) parts += " " + part.name + " " + std::to_string(part.width);
    if (parts != before) text += parts;
    before = std::move(parts);
  }
  return text;
}

// A line for each thing that rows depend on, a name and a value.
std::string identity_of(const Engine& engine) {
  const LoadedModel& loaded = engine.loaded();
  const EngineOptions& options = loaded.options();
  std::string text = "model: " + model_identity(loaded.file()) + "\n";
  const bool in_bytes = options.cache_type == DType::U8;
  text += "cache type: " + std::string(in_bytes ? "q8" : name_of(options.cache_type)) + "\n";
  text += "kind of activations: " + std::string(options.quantise_activations ? "q8" : "f32") + "\n";
  text += "weights: " + std::string(options.repack ? "repacked" : "in place") + "\n";
  text += "layers: " + std::to_string(loaded.model().numbers().layers) + "\n";
  text += "rows:";
  text += parts_text(loaded.model(), options.cache_type);
  text += "\ndevice: " + loaded.device().title() + "\n";
  return text + "program: " + build_id() + "\n";
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(text.size(), line.size() + 1));
  return line;
}

// "its cache type is f16, here it is q8": the first thing that differs.
std::string difference(std::string_view was, std::string_view is) {
  while (!was.empty() || !is.empty()) {
    const std::string_view a = take_line(was), b = take_line(is);
    if (a == b) continue;
    const size_t name = std::min(a.find(": "), b.find(": "));
    if (name > a.size() || name > b.size() || a.substr(0, name) != b.substr(0, name)) break;
    return "its " + std::string(a.substr(0, name)) + " is " + std::string(a.substr(name + 2)) + ", here it is " +
           std::string(b.substr(name + 2));
  }
  return "it was made otherwise";
}

uint64_t checksum_of(const Header& header, std::string_view rest) {
  return XXH3_64bits_withSeed(rest.data(), rest.size(), XXH3_64bits(&header, offsetof(Header, checksum)));
}

template <class T>
void append_value(std::string& text, T value) {
  text.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T value_at(std::string_view bytes, uint64_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

Error cannot_write(const std::string& path) {
  return Error{"[cache file] " + path + ": cannot be written: " + std::strerror(errno)};
}

// The parts of a file, in its mapping.
struct Contents {
  std::string_view identity, tokens, checksums, pages, state;
  uint64_t page_bytes = 0;
};

// Why it is none, or its parts. Nothing of the file is believed before its checksum; numbers that would lead out of it
// are refused before.
Result<Contents> parse(std::span<const std::byte> file, uint64_t most_tokens, uint64_t state_bytes) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  Header header;
  if (bytes.size() < sizeof header) return Error{"it is too short"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return Error{"it is no file of cache rows"};
  if (header.format != kFormat) return Error{"its format " + std::to_string(header.format) + " is unknown"};
  if (header.tokens == 0 || header.page_bytes == 0 || header.page_bytes > bytes.size()) return Error{"it is damaged"};
  if (header.tokens > most_tokens)
    return Error{"its " + std::to_string(header.tokens) + " tokens do not fit a context of " +
                 std::to_string(most_tokens)};
  const uint64_t pages = pages_of(header.tokens);
  if (pages > bytes.size() / header.page_bytes) return Error{"it is too short"};
  const uint64_t sizes[] = {header.identity_bytes, header.tokens * sizeof(uint32_t),
                            (pages + (state_bytes > 0)) * sizeof(uint64_t), pages * header.page_bytes, state_bytes};
  const uint64_t front = sizes[0] + sizes[1] + sizes[2];
  std::string_view rest = bytes.substr(sizeof header);
  if (rest.size() < front + sizes[3] + sizes[4]) return Error{"it is too short"};
  if (rest.size() > front + sizes[3] + sizes[4]) return Error{"it is too long"};
  if (checksum_of(header, rest.substr(0, front)) != header.checksum) return Error{"it is damaged"};
  Contents contents{.page_bytes = header.page_bytes};
  std::string_view* const parts[] = {&contents.identity, &contents.tokens, &contents.checksums, &contents.pages,
                                     &contents.state};
  for (size_t i = 0; i < std::size(parts); ++i) {
    *parts[i] = rest.substr(0, sizes[i]);
    rest.remove_prefix(sizes[i]);
  }
  return contents;
}

std::vector<CachedToken> tokens_of(const Contents& contents) {
  std::vector<CachedToken> tokens;
  for (uint64_t i = 0; i < contents.tokens.size() / sizeof(uint32_t); ++i) {
    const auto value = value_at<uint32_t>(contents.tokens, i);
    tokens.push_back({static_cast<int32_t>(value & ~kGenerated), (value & kGenerated) != 0});
  }
  return tokens;
}

Status restore(Engine& engine, SequenceId sequence, const MappedFile& file) {
  const auto state_bytes = static_cast<uint64_t>(engine.state_bytes());
  SMELT_TRY(contents, parse(file.bytes(), static_cast<uint64_t>(engine.context()), state_bytes));
  if (const std::string identity = identity_of(engine); contents.identity != identity)
    return Error{difference(contents.identity, identity)};
  if (contents.page_bytes != static_cast<uint64_t>(engine.page_bytes())) return Error{"its pages have another size"};
  return engine.restore(sequence, tokens_of(contents), [&](int64_t index, std::span<std::byte> rows) -> Status {
    const auto i = static_cast<uint64_t>(index);
    const uint64_t begin = i * contents.page_bytes;
    const char* from = begin < contents.pages.size() ? contents.pages.data() + begin : contents.state.data();
    std::memcpy(rows.data(), from, rows.size());
    if (XXH3_64bits(rows.data(), rows.size()) != value_at<uint64_t>(contents.checksums, i))
      return Error{"it is damaged"};
    return {};
  });
}

// All that comes before the pages, but for the header.
std::string front_of(const Engine& engine, std::span<const CachedToken> tokens, std::span<const uint64_t> checksums) {
  std::string front = identity_of(engine);
  for (const CachedToken& token : tokens)
    append_value(front, static_cast<uint32_t>(token.id) | (token.is_generated ? kGenerated : 0));
  for (uint64_t checksum : checksums) append_value(front, checksum);
  return front;
}

}  // namespace

Status write_cache_file(Engine& engine, SequenceId sequence, const std::string& path) {
  const std::span<const CachedToken> tokens = engine.tokens(sequence);
  if (tokens.empty()) return {};
  Header header{.format = kFormat, .tokens = tokens.size(), .page_bytes = static_cast<uint64_t>(engine.page_bytes())};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.identity_bytes = static_cast<uint32_t>(identity_of(engine).size());
  const uint64_t pages = pages_of(tokens.size()), state_bytes = static_cast<uint64_t>(engine.state_bytes());
  std::vector<uint64_t> checksums(pages + (state_bytes > 0));
  SMELT_TRY(file, NewFile::create(path));
  // Checksums come before the pages and are known after them.
  std::string front(sizeof header, '\0');
  front += front_of(engine, tokens, checksums);
  if (write_all(file.fd(), front) != 0) return cannot_write(path);
  std::vector<std::byte> rows(header.page_bytes);
  for (uint64_t i = 0; i < checksums.size(); ++i) {
    if (i == pages) rows.resize(state_bytes);
    SMELT_CHECK(i < pages ? engine.read_page(sequence, static_cast<int64_t>(i), rows)
                          : engine.read_state(sequence, rows));
    checksums[i] = XXH3_64bits(rows.data(), rows.size());
    if (write_all(file.fd(), {reinterpret_cast<const char*>(rows.data()), rows.size()}) != 0) return cannot_write(path);
  }
  const std::string rest = front_of(engine, tokens, checksums);
  header.checksum = checksum_of(header, rest);
  std::memcpy(front.data(), &header, sizeof header);
  front.replace(sizeof header, rest.size(), rest);
  if (::lseek(file.fd(), 0, SEEK_SET) != 0 || write_all(file.fd(), front) != 0) return cannot_write(path);
  return file.publish();
}

Status read_cache_file(Engine& engine, SequenceId sequence, const std::string& path) {
  auto file = MappedFile::open_own(path);
  if (!file) return file.error();
  const Status status = restore(engine, sequence, *file);
  if (status) return {};
  return Error{"[cache file] " + path + ": " + status.error().message};
}

}  // namespace smelt
