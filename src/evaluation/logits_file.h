// The probabilities that a model gave to the tokens of a text, kept to compare another run with: the form of files that
// llama-perplexity writes with --kl-divergence-base.
//
//   "_logits_"  i32 chunk, vocabulary, chunks  i32 tokens[chunks * chunk]
//   for each chunk, the positions chunk / 2 .. chunk - 2:
//     f32 scale, least  u16 steps[vocabulary, made even]     log p = least + scale * step; least: 16 below the greatest
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/new_file.h"

namespace smelt {

constexpr float kLogitsDepth = 16;  // logarithms below the greatest that are told apart

struct LogitsHeader {
  int64_t chunk = 0, vocabulary = 0, chunks = 0;
  int64_t first() const { return chunk / 2; }  // position of each chunk that is kept
  int64_t positions() const { return chunk - 1 - first(); }
};

// Others see the file once it is whole.
class LogitsWriter {
 public:
  static Result<LogitsWriter> create(const std::string& path, const LogitsHeader& header,
                                     std::span<const int32_t> tokens);
  void add(std::span<const float> logits);  // of the next position
  Status publish();

 private:
  LogitsWriter(std::string path, NewFile file) : path_(std::move(path)), file_(std::move(file)) {}
  Status write_out();

  std::string path_;
  NewFile file_;
  std::string pending_;
  bool failed_ = false;
};

class LogitsReader {
 public:
  static Result<LogitsReader> open(const std::string& path);
  const LogitsHeader& header() const { return header_; }
  std::vector<int32_t> tokens() const;
  std::vector<double> log_probabilities(int64_t chunk, int64_t position) const;  // position >= header().first()

 private:
  MappedFile file_;
  LogitsHeader header_;
};

}  // namespace smelt
