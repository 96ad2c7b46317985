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
constexpr uint32_t kFormat = 2;
constexpr uint32_t kGenerated = uint32_t{1} << 31;

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t identity_bytes;
  uint64_t tokens;
  uint32_t local_pages;
  uint32_t pieces;
  uint64_t piece_bytes;  // of all of them
  uint64_t checksum;     // of the fields above, and of all before the pieces
};
static_assert(sizeof(Header) == 48);

// What layers keep, once for neighbouring ones that keep the same.
std::string parts_text(const Model& model, DType cache_type) {
  std::string text, before;
  for (int64_t layer = 0; layer < model.numbers().layers; ++layer) {
    std::string parts;
    for (const CachePart& part : model.cache_parts(cache_type, layer))
      parts += " " + part.name + " " + std::to_string(part.row_bytes);
    if (const int64_t window = model.window(layer)) parts += " window " + std::to_string(window);
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
  text += "prompts: " + std::string(options.deterministic ? "deterministic" : "as fast as they can be") + "\n";
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
  std::string_view identity, tokens, checksums, pieces;
  int64_t local_pages = 0;
};

// Why it is none, or its parts. Nothing of the file is believed before its checksum; numbers that would lead out of it
// are refused before. How large each piece is the engine knows.
Result<Contents> parse(std::span<const std::byte> file, uint64_t most_tokens) {
  const std::string_view bytes(reinterpret_cast<const char*>(file.data()), file.size());
  Header header;
  if (bytes.size() < sizeof header) return Error{"it is too short"};
  std::memcpy(&header, bytes.data(), sizeof header);
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return Error{"it is no file of cache rows"};
  if (header.format != kFormat) return Error{"its format " + std::to_string(header.format) + " is unknown"};
  if (header.tokens == 0) return Error{"it is damaged"};
  if (header.tokens > most_tokens)
    return Error{"its " + std::to_string(header.tokens) + " tokens do not fit a context of " +
                 std::to_string(most_tokens)};
  std::string_view rest = bytes.substr(sizeof header);
  const uint64_t sizes[] = {header.identity_bytes, header.tokens * sizeof(uint32_t), header.pieces * sizeof(uint64_t)};
  const uint64_t front = sizes[0] + sizes[1] + sizes[2];
  if (rest.size() < front || rest.size() - front < header.piece_bytes) return Error{"it is too short"};
  if (rest.size() - front > header.piece_bytes) return Error{"it is too long"};
  if (checksum_of(header, rest.substr(0, front)) != header.checksum) return Error{"it is damaged"};
  Contents contents{.local_pages = static_cast<int64_t>(header.local_pages)};
  std::string_view* const parts[] = {&contents.identity, &contents.tokens, &contents.checksums};
  for (size_t i = 0; i < std::size(parts); ++i) {
    *parts[i] = rest.substr(0, sizes[i]);
    rest.remove_prefix(sizes[i]);
  }
  contents.pieces = rest;
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

uint64_t bytes_of(const Engine::Pieces& pieces) {
  uint64_t bytes = 0;
  for (int64_t i = 0; i < pieces.count(); ++i) bytes += static_cast<uint64_t>(pieces.bytes(i));
  return bytes;
}

Status restore(Engine& engine, SequenceId sequence, const MappedFile& file) {
  SMELT_TRY(contents, parse(file.bytes(), static_cast<uint64_t>(engine.context())));
  if (const std::string identity = identity_of(engine); contents.identity != identity)
    return Error{difference(contents.identity, identity)};
  const std::vector<CachedToken> tokens = tokens_of(contents);
  SMELT_TRY(pieces, engine.pieces_of(std::ssize(tokens), contents.local_pages));
  if (bytes_of(pieces) != contents.pieces.size() ||
      static_cast<size_t>(pieces.count()) * sizeof(uint64_t) != contents.checksums.size())
    return Error{"its pages have another size"};
  std::string_view rest = contents.pieces;  // pieces are asked for in order
  return engine.restore(sequence, tokens, pieces, [&](int64_t piece, std::span<std::byte> bytes) -> Status {
    std::memcpy(bytes.data(), rest.data(), bytes.size());
    rest.remove_prefix(bytes.size());
    if (XXH3_64bits(bytes.data(), bytes.size()) != value_at<uint64_t>(contents.checksums, static_cast<uint64_t>(piece)))
      return Error{"it is damaged"};
    return {};
  });
}

// All that comes before the pieces, but for the header.
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
  const Engine::Pieces pieces = engine.pieces(sequence);
  Header header{.format = kFormat,
                .tokens = tokens.size(),
                .local_pages = static_cast<uint32_t>(pieces.local_pages),
                .pieces = static_cast<uint32_t>(pieces.count()),
                .piece_bytes = bytes_of(pieces)};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.identity_bytes = static_cast<uint32_t>(identity_of(engine).size());
  std::vector<uint64_t> checksums(static_cast<size_t>(pieces.count()));
  SMELT_TRY(file, NewFile::create(path));
  // Checksums come before the pieces and are known after them.
  std::string front(sizeof header, '\0');
  front += front_of(engine, tokens, checksums);
  if (write_all(file.fd(), front) != 0) return cannot_write(path);
  for (int64_t i = 0; i < pieces.count(); ++i) {
    std::vector<std::byte> bytes(static_cast<size_t>(pieces.bytes(i)));
    SMELT_CHECK(engine.read_piece(sequence, i, bytes));
    checksums[static_cast<size_t>(i)] = XXH3_64bits(bytes.data(), bytes.size());
    if (write_all(file.fd(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}) != 0)
      return cannot_write(path);
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
