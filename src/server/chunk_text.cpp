#include "server/chunk_text.h"

#include "base/ensure.h"

namespace smelt {

ChunkText::ChunkText(const Json& chunk) {
  const std::string text = dump(chunk), mark = dump(Json(kMark));
  const size_t at = text.rfind(mark);
  ENSURE(at != std::string::npos, "a chunk without its mark");
  before_ = text.substr(0, at);
  behind_ = text.substr(at + mark.size());
}

std::string ChunkText::with(const std::string& text) const {
  const std::string string = dump(Json(text));
  std::string chunk;
  chunk.reserve(before_.size() + string.size() + behind_.size());
  return chunk.append(before_).append(string).append(behind_);
}

}  // namespace smelt
