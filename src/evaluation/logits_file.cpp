#include "evaluation/logits_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/checked.h"

namespace smelt {
namespace {

constexpr std::string_view kMagic = "_logits_";
constexpr uint64_t kHeaderBytes = 8 + 3 * 4;
constexpr size_t kPending = 4u << 20;  // bytes that are written together

uint64_t row_bytes(uint64_t vocabulary) { return 8 + (vocabulary + 1) / 2 * 4; }

template <class T>
void append(std::string& to, const T* values, size_t count) {
  to.append(reinterpret_cast<const char*>(values), count * sizeof(T));
}

Error logits_error(const std::string& path, const std::string& what) {
  return Error{"[perplexity] " + path + ": " + what};
}

}  // namespace

Result<LogitsWriter> LogitsWriter::create(const std::string& path, const LogitsHeader& header,
                                          std::span<const int32_t> tokens) {
  SMELT_TRY(file, NewFile::create(path, 0644));
  LogitsWriter writer(path, std::move(file));
  const int32_t numbers[] = {static_cast<int32_t>(header.chunk), static_cast<int32_t>(header.vocabulary),
                             static_cast<int32_t>(header.chunks)};
  writer.pending_ = kMagic;
  append(writer.pending_, numbers, 3);
  append(writer.pending_, tokens.data(), tokens.size());
  return writer;
}

void LogitsWriter::add(std::span<const float> logits) {
  const float greatest = *std::max_element(logits.begin(), logits.end()),
              least = std::max(*std::min_element(logits.begin(), logits.end()), greatest - kLogitsDepth);
  double sum = 0;
  for (float x : logits) sum += std::exp(double{x} - greatest);
  const float head[] = {(greatest - least) / 65535, static_cast<float>(least - greatest - std::log(sum))};
  append(pending_, head, 2);
  std::vector<uint16_t> steps(logits.size() + logits.size() % 2);
  for (size_t i = 0; i < logits.size(); ++i)
    if (logits[i] > least) steps[i] = static_cast<uint16_t>(std::lround((logits[i] - least) / head[0]));
  append(pending_, steps.data(), steps.size());
  if (pending_.size() > kPending) failed_ = !write_out() || failed_;
}

Status LogitsWriter::write_out() {
  const bool written = write_all(file_.fd(), pending_) == 0;
  pending_.clear();
  if (!written) return logits_error(path_, "writing failed; is the disk full?");
  return {};
}

Status LogitsWriter::publish() {
  if (failed_) return logits_error(path_, "writing failed; is the disk full?");
  SMELT_CHECK(write_out());
  return file_.publish();
}

Result<LogitsReader> LogitsReader::open(const std::string& path) {
  SMELT_TRY(file, MappedFile::open(path));
  LogitsReader reader;
  int32_t numbers[3] = {};
  const bool has_head =
      file.size() >= kHeaderBytes && std::memcmp(file.bytes().data(), kMagic.data(), kMagic.size()) == 0;
  if (has_head) std::memcpy(numbers, file.bytes().data() + kMagic.size(), sizeof numbers);
  if (!has_head || numbers[0] < 4 || numbers[1] < 1 || numbers[2] < 1)
    return logits_error(path, "no file of a base run; write one with --save-logits");
  LogitsHeader& h = reader.header_;
  h = {numbers[0], numbers[1], numbers[2]};
  const uint64_t chunks = static_cast<uint64_t>(h.chunks);
  const Checked wanted =
      Checked(kHeaderBytes) + Checked(chunks) * static_cast<uint64_t>(h.chunk) * 4 +
      Checked(chunks) * static_cast<uint64_t>(h.positions()) * row_bytes(static_cast<uint64_t>(h.vocabulary));
  if (!wanted.within(file.size())) return logits_error(path, "the file is cut off; write it again with --save-logits");
  reader.file_ = std::move(file);
  for (int32_t token : reader.tokens())
    if (token < 0 || token >= h.vocabulary)
      return logits_error(path, "token " + std::to_string(token) + " is not in its vocabulary; the file is damaged");
  return reader;
}

std::vector<int32_t> LogitsReader::tokens() const {
  std::vector<int32_t> tokens(static_cast<size_t>(header_.chunks * header_.chunk));
  std::memcpy(tokens.data(), file_.bytes().data() + kHeaderBytes, tokens.size() * 4);
  return tokens;
}

std::vector<double> LogitsReader::log_probabilities(int64_t chunk, int64_t position) const {
  const auto row = static_cast<uint64_t>(chunk * header_.positions() + position - header_.first());
  const std::byte* at = file_.bytes().data() + kHeaderBytes + header_.chunks * header_.chunk * 4 +
                        row * row_bytes(static_cast<uint64_t>(header_.vocabulary));
  float head[2];
  std::memcpy(head, at, sizeof head);
  std::vector<uint16_t> steps(static_cast<size_t>(header_.vocabulary));
  std::memcpy(steps.data(), at + sizeof head, steps.size() * 2);
  std::vector<double> out;
  for (uint16_t step : steps) out.push_back(head[1] + double{head[0]} * step);
  return out;
}

}  // namespace smelt
