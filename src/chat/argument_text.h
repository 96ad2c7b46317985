// ArgumentText: the arguments of a call that a model writes as a JSON object, given out as they come, without the
// spaces between their parts.
#pragma once

#include <string_view>

#include "chat/json_follower.h"
#include "chat/output_parser.h"

namespace smelt {

class ArgumentText {
 public:
  // Ends the call with its object. REQUIRES: a call has begun, the first byte is a brace, !is_over().
  void take(char byte, Output& out) {
    const bool is_between_parts =
        !json_.in_string() && std::string_view(" \t\r\n").find(byte) != std::string_view::npos;
    json_.take(byte);
    if (!is_between_parts) out.grow_call({&byte, 1});
    if (json_.depth() > 0) return;
    is_over_ = true;
    out.end_call();
  }
  bool is_over() const { return is_over_; }

 private:
  JsonFollower json_;
  bool is_over_ = false;
};

}  // namespace smelt
