// ChunkText: chunks of a stream that differ in one string, as JSON text. Nearly all chunks are such; to build each of
// them as a tree of values would cost most of what a token costs the server.
#pragma once

#include <string>

#include "server/fields.h"

namespace smelt {

class ChunkText {
 public:
  // What the string is in the chunk that others are made like.
  static constexpr char kMark[] = "\x01";

  // `chunk`: with kMark for the string that changes, which comes behind all strings of others.
  explicit ChunkText(const Json& chunk);

  std::string with(const std::string& text) const;

 private:
  std::string before_, behind_;
};

}  // namespace smelt
