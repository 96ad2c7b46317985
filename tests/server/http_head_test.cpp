// Heads of requests that are none: what two servers could understand in two ways is refused before anything is done.
#include "server/http_head.h"

#include <doctest/doctest.h>

#include <vector>

using namespace smelt;

namespace {

// The status of a head: 200 where it is fine, 0 where more of it is waited for.
int status_of(std::string_view text, const HeadLimits& limits = {}) {
  HeadScanner scanner(limits);
  size_t taken = 0;
  const auto state = scanner.push(text, taken);
  if (state == HeadScanner::State::More) return 0;
  if (state == HeadScanner::State::Bad) return scanner.problem().status;
  HttpHead head;
  const HeadProblem problem = read_head(scanner.text(), head);
  return problem.status == 0 ? 200 : problem.status;
}

std::string get(const std::string& headers) { return "GET / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"; }
std::string post(const std::string& headers) { return "POST / HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n"; }
std::string line(const std::string& first) { return first + "\r\nHost: x\r\n\r\n"; }

// All characters that `good` does not have, in text.
std::vector<std::string> with_each_bad(const std::string& before, const std::string& after, bool (*is_good)(int)) {
  std::vector<std::string> texts;
  for (int c = 0; c < 256; ++c)
    if (!is_good(c)) texts.push_back(before + static_cast<char>(c) + after);
  return texts;
}

}  // namespace

TEST_CASE("heads that are fine") {
  for (const std::string& text :
       {line("GET / HTTP/1.1"), line("POST /v1/chat/completions?x=1 HTTP/1.1"), line("M-SEARCH /~a%20b HTTP/1.0"),
        std::string("GET / HTTP/1.0\r\n\r\n"), "\r\n" + line("GET / HTTP/1.1"), get("A:b\r\n"), get("A:\r\n"),
        get("A: \t b c \t\r\n"), get("A: \xff\xc3\xa4\r\n"), get("a!#$%&'*+-.^_`|~9: x\r\n"),
        post("Content-Length: 0\r\n"), post("Content-Length: 007\r\n"), post("Transfer-Encoding: chunked\r\n"),
        post("transfer-encoding:CHUNKED\r\n"), post("Content-Length: 5\r\nExpect: 100-continue\r\n"),
        get("X: y\r\nX: y\r\n")}) {
    CAPTURE(text);
    CHECK(status_of(text) == 200);
  }
}

TEST_CASE("heads that are refused") {
  std::vector<std::string> texts = {
      // the first line
      "\r\n\r\n", line("GET"), line("GET /"), line("GET / "), line(" GET / HTTP/1.1"), line("GET  / HTTP/1.1"),
      line("GET / HTTP/1.1 "), line("GET /a b HTTP/1.1"), line("GET / HTTP/1.2"), line("GET / HTTP/2.0"),
      line("GET / HTTP/0.9"), line("GET / HTTP/1.10"), line("GET / HTTP/01.1"), line("GET / http/1.1"),
      line("GET / HTTP /1.1"), line("GET / HTTPS/1.1"), line("GET / HTTP/1,1"), line("GET\t/ HTTP/1.1"),
      line("GET /\tHTTP/1.1"), line("GET x HTTP/1.1"), line("GET * HTTP/1.1"), line("OPTIONS * HTTP/1.1"),
      line("GET http://x/ HTTP/1.1"), line("CONNECT x:80 HTTP/1.1"), line("G(T / HTTP/1.1"),
      line("GET /\xc3\xa4 HTTP/1.1"), line("PRI * HTTP/2.0"), line("/ GET HTTP/1.1"),
      // lines that end otherwise
      "GET / HTTP/1.1\nHost: x\n\n", "GET / HTTP/1.1\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: x\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\r\n\n", "GET / HTTP/1.1\r\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\rHost: x\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", get("A: b\nContent-Length: 5\r\n"), get("A: b\rContent-Length: 5\r\n"),
      "\n" + line("GET / HTTP/1.1"), "\r\n\r\n" + line("GET / HTTP/1.1"),
      // names and values
      get("A : b\r\n"), get(" A: b\r\n"), get("\tA: b\r\n"), get("A: b\r\n c\r\n"), get("A: b\r\n\tc\r\n"),
      get("A\tB: c\r\n"), get("A B: c\r\n"), get(": b\r\n"), get("A\r\n"), get("A;b\r\n"), get("\xc3\xa4: b\r\n"),
      "GET / HTTP/1.1\r\n Host: x\r\n\r\n", "GET / HTTP/1.1\r\nHost : x\r\n\r\n",
      // Host
      "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n\r\n", get("Host: x\r\n"), get("Host: y\r\n"),
      get("hOST: y\r\n"), "GET / HTTP/1.0\r\nHost: x\r\nHost: x\r\n\r\n", "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a,b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a?b\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: a#b\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\\b\r\n\r\n",
      // the length of the body
      post("Content-Length: +5\r\n"), post("Content-Length: -2\r\n"), post("Content-Length: 0x2\r\n"),
      post("Content-Length: 5 5\r\n"), post("Content-Length: 5,5\r\n"), post("Content-Length: 5, 6\r\n"),
      post("Content-Length:\r\n"), post("Content-Length: five\r\n"), post("Content-Length: 5.0\r\n"),
      post("Content-Length: 1e1\r\n"), post("Content-Length: \xd9\xa5\r\n"), post("Content-Length: 5;\r\n"),
      post("Content-Length: \"5\"\r\n"), post("Content-Length: 5\r\nContent-Length: 5\r\n"),
      post("Content-Length: 5\r\nContent-Length: 6\r\n"), post("Content-Length: 5\r\ncontent-length: 5\r\n"),
      post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"),
      post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"),
      post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
      post("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n"), post("Transfer-Encoding: identity\r\n"),
      post("Transfer-Encoding: gzip\r\n"), post("Transfer-Encoding: gzip, chunked\r\n"),
      post("Transfer-Encoding: chunked, gzip\r\n"), post("Transfer-Encoding: chunked, chunked\r\n"),
      post("Transfer-Encoding: chunked;q=1\r\n"), post("Transfer-Encoding: xchunked\r\n"),
      post("Transfer-Encoding: \x0b"
           "chunked\r\n"),
      post("Transfer-Encoding:\r\n"), post("Transfer-Encoding: \"chunked\"\r\n"),
      post("Transfer-Encoding : chunked\r\n"), post(" Transfer-Encoding: chunked\r\n"), post("Content-Length : 5\r\n"),
      post("Content-Length\t: 5\r\n"), post("X: y\r\n Content-Length: 5\r\n"),
      "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", post("Expect: 200-ok\r\n"), post("Expect: x\r\n")};
  const auto add = [&](std::vector<std::string> more) { texts.insert(texts.end(), more.begin(), more.end()); };
  add(with_each_bad("GET / HTTP/1.1\r\nHost: x\r\nA: b", "c\r\n\r\n",
                    [](int c) { return (c >= 0x20 && c != 0x7f) || c == '\t'; }));
  add(with_each_bad("GET /", " HTTP/1.1\r\nHost: x\r\n\r\n", [](int c) { return c > 0x20 && c < 0x7f; }));
  CHECK(texts.size() > 150);
  for (const std::string& text : texts) {
    CAPTURE(text);
    CHECK(status_of(text) == 400);
  }
}

TEST_CASE("a head has limits, of which each one has an answer") {
  const HeadLimits limits{.bytes = 200, .line_bytes = 60, .headers = 4};
  const std::string host = "GET / HTTP/1.1\r\nHost: x\r\n";                           // 25 bytes
  CHECK(status_of(host + "A: " + std::string(55, 'b') + "\r\n\r\n", limits) == 200);  // 58 and the end of the line
  CHECK(status_of(host + "A: " + std::string(57, 'b') + "\r\n\r\n", limits) == 431);
  CHECK(status_of("GET /" + std::string(60, 'a'), limits) == 431);
  CHECK(status_of(host + "A:\r\nB:\r\nC:\r\n\r\n", limits) == 200);
  CHECK(status_of(host + "A:\r\nB:\r\nC:\r\nD:\r\n\r\n", limits) == 431);
  const std::string wide = "A: " + std::string(50, 'b') + "\r\n";
  CHECK(status_of(host + wide + wide + wide + "\r\n", limits) == 200);
  CHECK(status_of(host + wide + wide + wide + "C: " + std::string(20, 'c') + "\r\n\r\n", limits) == 431);
  CHECK(status_of(post("Content-Length: 9999999999999999999\r\n")) == 413);
  CHECK(status_of(post("Content-Length: 99999999999999999999999999\r\n")) == 413);
}

TEST_CASE("a head comes in pieces of any size, and what is behind it stays") {
  const std::string head = get("A: b\r\n"), all = head + "body";
  for (size_t piece = 1; piece <= all.size(); ++piece) {
    HeadScanner scanner({});
    size_t at = 0, taken = 0;
    auto state = HeadScanner::State::More;
    while (state == HeadScanner::State::More) {
      state = scanner.push(std::string_view(all).substr(at, piece), taken);
      at += taken;
    }
    CHECK(state == HeadScanner::State::Whole);
    CHECK(at == head.size());
    CHECK(scanner.text() == head);
  }
  HttpHead read;
  CHECK(read_head(head, read).status == 0);
  CHECK(read.method == "GET");
  CHECK(read.target == "/");
  CHECK(read.headers == HttpHeaders{{"Host", "x"}, {"A", "b"}});
}
