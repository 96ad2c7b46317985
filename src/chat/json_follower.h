// JsonFollower: where a JSON text stands that comes byte by byte: how deep in brackets, and whether within a string.
#pragma once

namespace smelt {

class JsonFollower {
 public:
  void take(char byte) {
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (in_string_) {
      is_escaped_ = byte == '\\';
      in_string_ = byte != '"';
    } else if (byte == '"') {
      in_string_ = depth_ > 0;  // quotes before the first bracket are of no JSON
    } else if (byte == '{' || byte == '[') {
      ++depth_;
    } else if ((byte == '}' || byte == ']') && depth_ > 0) {
      --depth_;
    }
  }

  int depth() const { return depth_; }
  bool in_string() const { return in_string_; }

 private:
  int depth_ = 0;
  bool in_string_ = false, is_escaped_ = false;
};

}  // namespace smelt
