// HttpHead: the head of a request, read strictly. What two servers could understand in two ways is no request.
//
//   HeadScanner scanner(limits);   scanner.push("GET / HT") == More   scanner.push("TP/1.1\r\n...\r\n\r\n") == Whole
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http.h"

namespace smelt {

struct HeadLimits {
  size_t bytes = 32 << 10, line_bytes = 16 << 10, headers = 100;
};

struct HttpHead {
  std::string method, target;
  int minor_version = 1;  // of HTTP/1
  HttpHeaders headers = {};
};

// Why a head is refused; status 0: it is not.
struct HeadProblem {
  int status = 0;
  const char* why = "";
};

// Finds where a head ends, in pieces as they come, and refuses at the first byte that no head can have.
class HeadScanner {
 public:
  enum class State { More, Whole, Bad };
  explicit HeadScanner(const HeadLimits& limits) : limits_(limits) {}

  // Bytes are taken up to the end of the head. `taken` counts them.
  State push(std::string_view bytes, size_t& taken);
  const HeadProblem& problem() const { return problem_; }
  const std::string& text() const { return text_; }  // of the whole head, with the empty line

 private:
  State refuse(int status, const char* why);

  HeadLimits limits_;
  std::string text_;
  size_t line_start_ = 0, lines_ = 0;
  bool skipped_a_line_ = false;
  HeadProblem problem_;
};

// REQUIRES: `text` is a whole head of a scanner.
HeadProblem read_head(std::string_view text, HttpHead& head);

}  // namespace smelt
