#include "server/http_head.h"

#include <algorithm>
#include <utility>

namespace smelt {
namespace {

bool is_token(std::string_view text) {
  const auto is_token_char = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
  };
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

bool is_printable(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c > 0x20 && c < 0x7f; });
}

bool is_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == text.npos; }

std::string lower(std::string_view text) {
  std::string low(text);
  for (char& c : low) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  return low;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string_view take_line(std::string_view& text) {
  const size_t end = text.find("\r\n");
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(end + 2);
  return line;
}

HeadProblem read_request_line(std::string_view line, HttpHead& head) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == line.npos || first == last) return {400, "the first line is METHOD TARGET HTTP/1.1"};
  head.method = line.substr(0, first);
  head.target = line.substr(first + 1, last - first - 1);
  const std::string_view version = line.substr(last + 1);
  if (!is_token(head.method)) return {400, "the method is no word"};
  if (!is_printable(head.target) || !head.target.starts_with('/')) return {400, "the target is no path"};
  if (version != "HTTP/1.1" && version != "HTTP/1.0") return {400, "the version is HTTP/1.1 or HTTP/1.0"};
  head.minor_version = version.back() - '0';
  return {};
}

HeadProblem read_header(std::string_view line, HttpHead& head) {
  if (line.front() == ' ' || line.front() == '\t') return {400, "a header goes on in a second line"};
  const size_t colon = line.find(':');
  if (colon == line.npos || !is_token(line.substr(0, colon))) return {400, "a header is NAME: VALUE"};
  head.headers.emplace_back(line.substr(0, colon), trimmed(line.substr(colon + 1)));
  return {};
}

bool is_host(std::string_view host) { return is_printable(host) && host.find_first_of("/?#@,\\") == host.npos; }

// How long the body is has to be said once, in one way.
HeadProblem check_headers(const HttpHead& head) {
  size_t hosts = 0, lengths = 0, encodings = 0;
  for (const auto& [name, value] : head.headers) {
    const std::string low = lower(name);
    if (low == "host") {
      ++hosts;
      if (!is_host(value)) return {400, "Host: no name of a machine"};
    } else if (low == "content-length") {
      ++lengths;
      if (!is_digits(value)) return {400, "Content-Length: expected digits"};
      if (value.size() > 18) return {413, "Content-Length: the body is too long"};
    } else if (low == "transfer-encoding") {
      ++encodings;
      if (lower(value) != "chunked") return {400, "Transfer-Encoding: expected chunked"};
    } else if (low == "expect" && lower(value) != "100-continue") {
      return {400, "Expect: expected 100-continue"};
    }
  }
  if (hosts > 1 || (hosts == 0 && head.minor_version == 1)) return {400, "a request names one Host"};
  if (lengths + encodings > 1) return {400, "the length of the body is said more than once"};
  if (encodings > 0 && head.minor_version == 0) return {400, "Transfer-Encoding: not in HTTP/1.0"};
  return {};
}

}  // namespace

HeadScanner::State HeadScanner::refuse(int status, const char* why) {
  problem_ = {status, why};
  return State::Bad;
}

HeadScanner::State HeadScanner::push(std::string_view bytes, size_t& taken) {
  taken = 0;
  for (const char c : bytes) {
    ++taken;
    const bool after_return = !text_.empty() && text_.back() == '\r';
    if (after_return != (c == '\n')) return refuse(400, "a line ends with a carriage return and a line feed");
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\r' && c != '\n' && c != '\t') || c == 0x7f)
      return refuse(400, "a control character");
    text_ += c;
    if (text_.size() > limits_.bytes) return refuse(431, "the head is too long");
    if (c != '\n') {
      if (text_.size() - line_start_ > limits_.line_bytes) return refuse(431, "a line of the head is too long");
      continue;
    }
    const bool is_empty = text_.size() - line_start_ == 2;
    line_start_ = text_.size();
    if (is_empty && lines_ > 0) return State::Whole;
    if (is_empty) {  // some clients send one behind the body before it
      if (std::exchange(skipped_a_line_, true)) return refuse(400, "empty lines in front of a request");
      text_.clear();
      line_start_ = 0;
    } else if (++lines_ > limits_.headers + 1) {
      return refuse(431, "too many headers");
    }
  }
  return State::More;
}

HeadProblem read_head(std::string_view text, HttpHead& head) {
  if (const HeadProblem problem = read_request_line(take_line(text), head); problem.status != 0) return problem;
  for (std::string_view line = take_line(text); !line.empty(); line = take_line(text))
    if (const HeadProblem problem = read_header(line, head); problem.status != 0) return problem;
  return check_headers(head);
}

}  // namespace smelt
