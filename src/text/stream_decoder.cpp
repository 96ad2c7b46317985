#include "text/tokenizer.h"
#include "text/utf8.h"

namespace smelt {

std::string StreamDecoder::push(int32_t id) {
  if (hide_control_ && tokenizer_->is_control(id)) return {};
  held_ += tokenizer_->piece(id);
  // Only the last character can be incomplete, and then it is shorter than 4 bytes.
  size_t pos = 0;
  std::string out;
  while (pos < held_.size()) {
    Utf8Char c = utf8_at(held_, pos);
    if (c.status == Utf8::incomplete) break;
    if (c.status == Utf8::valid) out.append(held_, pos, c.length);
    if (c.status == Utf8::invalid) out += kReplacementCharacter;
    pos += c.length;
  }
  held_.erase(0, pos);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out = to_valid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace smelt
