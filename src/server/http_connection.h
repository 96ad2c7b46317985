// Connection: one client of the HTTP server: a request is read, answered, and then the next one. Only http_server.cpp
// includes this.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <charconv>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/system_calls.h"
#include "server/http_head.h"
#include "server/http_server.h"

namespace smelt {

namespace beast = boost::beast;
namespace http = beast::http;
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using beast::error_code;

// The head of an answer; `framing`: the header that says where its body ends.
std::string head_of(const HttpResponse& response, const std::string& framing, bool keep_alive);

// What is wrong with a body that could not be read; 0: the connection is simply over.
int status_of(const error_code& error);

class OpenConnection {
 public:
  virtual ~OpenConnection() = default;
  // Between two requests: over. In an answer: over behind it.
  virtual void drain() = 0;
  // Sends what was written.
  virtual void flush() = 0;
};

// What the connections of a server have in common.
struct HttpShared {
  HttpHandler handler;
  HttpLimits limits;
  std::unordered_set<OpenConnection*> connections;
  bool is_draining = false;
  asio::io_context io{1};  // behind those: what it still holds are connections, which remove themselves
  std::vector<std::shared_ptr<OpenConnection>> unsent;  // those that flush_soon() is to flush
  bool flushes_later = false;  // somebody is going to call flush_all() at the end of what is being done

  // Behind what the server has to do already: tokens that have come meanwhile go out together.
  void flush_soon(std::shared_ptr<OpenConnection> connection) {
    unsent.push_back(std::move(connection));
    if (unsent.size() == 1 && !flushes_later) asio::post(io, [this] { flush_all(); });
  }

  void flush_all() {
    for (const auto& one : std::exchange(unsent, {})) one->flush();
  }

  void remove(OpenConnection* connection) {
    connections.erase(connection);
    if (is_draining && connections.empty()) io.stop();
  }
};

using PlainStream = beast::tcp_stream;
using TlsStream = asio::ssl::stream<beast::tcp_stream>;

template <class Stream>
class Connection final : public HttpReply,
                         public OpenConnection,
                         public std::enable_shared_from_this<Connection<Stream>> {
 public:
  Connection(HttpShared& shared, Stream stream)
      : shared_(shared), stream_(std::move(stream)), ping_timer_(shared.io), watch_timer_(shared.io) {
    shared_.connections.insert(this);
  }
  ~Connection() override { shared_.remove(this); }

  void start() {
    if constexpr (kIsTls) {
      lowest().expires_after(shared_.limits.header_time);
      stream_.async_handshake(asio::ssl::stream_base::server, [self = self()](error_code error) {
        if (error) return self->drop();
        self->is_secured_ = true;
        self->read_head(self->shared_.limits.header_time);
      });
    } else {
      error_code ignored;  // then a write waits
      stream_.socket().non_blocking(true, ignored);
      read_head(shared_.limits.header_time);
    }
  }

  void drain() override {
    keep_alive_ = false;
    if (!answering_) close();
  }

  void flush() override {
    writes_soon_ = false;
    write_now();
    pump();
  }

  void send(HttpResponse response) override {
    const std::string length = "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
    out_ += head_of(response, length, keep_alive_);
    if (!is_head_) out_ += response.body;
    ended_ = true;
    pump();
  }

  void begin(HttpResponse head, std::string ping) override {
    chunked_ = version_ >= 11;
    if (!chunked_) keep_alive_ = false;
    out_ += head_of(head, chunked_ ? "Transfer-Encoding: chunked\r\n" : "", keep_alive_);
    ping_ = std::move(ping);
    pump();
    last_write_ = Clock::now();
    ping_later();
  }

  void write(std::string_view data) override {
    if (is_over_ || data.empty()) return;
    if (out_.size() + data.size() > shared_.limits.unsent_bytes) return drop();
    if (chunked_) {
      char size[2 * sizeof(size_t)];
      const char* const end = std::to_chars(std::begin(size), std::end(size), data.size(), 16).ptr;
      out_.append(std::string_view(size, end)).append("\r\n").append(data).append("\r\n");
    } else {
      out_ += data;
    }
    last_write_ = Clock::now();
    write_soon();
  }

  void end() override {
    if (chunked_) out_ += "0\r\n\r\n";
    ended_ = true;
    ping_timer_.cancel();
    pump();
  }

  void when_gone(std::function<void()> callback) override {
    if (is_over_ && callback) return callback();
    if (!std::exchange(gone_, std::move(callback))) watch();
  }

 private:
  static constexpr bool kIsTls = !std::is_same_v<Stream, PlainStream>;
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostBuffered = 128 << 10;  // of what was read and not understood yet
  static constexpr auto kWatchTime = std::chrono::milliseconds(200), kLingerTime = std::chrono::milliseconds(2000);

  auto self() { return this->shared_from_this(); }
  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  // --- in
  void read_head(std::chrono::milliseconds time) {
    answering_ = ended_ = chunked_ = is_head_ = false;
    version_ = 11;
    const HttpLimits& limits = shared_.limits;
    scanner_.emplace(HeadLimits{limits.header_bytes, limits.header_line_bytes, limits.headers});
    lowest().expires_after(time);
    scan_head();
  }

  void scan_head() {
    const auto bytes = buffer_.data();
    const bool is_first = scanner_->text().empty();
    size_t taken = 0;
    const auto state = scanner_->push({static_cast<const char*>(bytes.data()), bytes.size()}, taken);
    buffer_.consume(taken);
    if (state == HeadScanner::State::Bad) return refuse(scanner_->problem());
    if (state == HeadScanner::State::Whole) return understand_head();
    if (is_first && taken > 0) lowest().expires_after(shared_.limits.header_time);
    reading_ = true;
    stream_.async_read_some(buffer_.prepare(4096), [self = self()](error_code error, size_t count) {
      self->reading_ = false;
      if (error) return self->close();
      self->buffer_.commit(count);
      self->scan_head();
    });
  }

  // The parser behind it reads the same head once more, for the sake of the body.
  void understand_head() {
    HttpHead head;
    if (const HeadProblem problem = smelt::read_head(scanner_->text(), head); problem.status != 0)
      return refuse(problem);
    version_ = 10 + static_cast<unsigned>(head.minor_version);
    is_head_ = head.method == "HEAD";
    request_ = {.method = is_head_ ? "GET" : head.method,
                .path = head.target.substr(0, head.target.find('?')),
                .headers = std::move(head.headers)};
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(2 * shared_.limits.header_bytes));
    parser_->body_limit(shared_.limits.body_bytes);
    error_code error;
    parser_->put(asio::buffer(scanner_->text()), error);
    if (error) return refuse(error);
    read_body();
  }

  void read_body() {
    if (!request_.header("expect").empty() && version_ >= 11) {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      pump();
    }
    lowest().expires_after(shared_.limits.body_time);
    reading_ = true;
    http::async_read(stream_, buffer_, *parser_, [self = self()](error_code error, size_t) {
      self->reading_ = false;
      if (error) return self->refuse(error);
      self->handle();
    });
  }

  void refuse(const error_code& error) {
    const int status = is_over_ ? 0 : status_of(error);
    if (status == 0) return close();
    refuse({status, "the body cannot be read"});
  }

  void refuse(const HeadProblem& problem) {
    answering_ = true;
    keep_alive_ = false;
    lingers_ = true;
    send({.status = problem.status, .type = "text/plain", .body = std::string(problem.why) + "\n"});
  }

  void handle() {
    auto message = parser_->release();
    answering_ = true;
    keep_alive_ = message.keep_alive() && !shared_.is_draining;
    request_.body = std::move(message.body());
    shared_.handler(std::exchange(request_, {}), self());
  }

  // Notices that the client goes while its answer is being made, if somebody wants to know. What it sends meanwhile
  // stays unread, so that from then on it is asked for now and then. One that has said all it has to say, and still
  // reads, counts as gone: it cannot be told from one that has.
  void watch() {
    lowest().socket().async_wait(tcp::socket::wait_read, [self = self(), number = ++number_](error_code error) {
      if (!error) self->look_whether_gone(number);
    });
  }

  void look_whether_gone(uint64_t number) {
    if (number_ != number || !answering_ || is_over_) return;
    if (has_hung_up(lowest().socket().native_handle())) return drop();
    watch_timer_.expires_after(kWatchTime);
    watch_timer_.async_wait([self = self(), number](error_code error) {
      if (!error) self->look_whether_gone(number);
    });
  }

  // --- out

  // When nothing was written for a while. One timer of a stream: it looks how long the last write was ago.
  void ping_later() {
    if (ping_.empty() || is_over_ || ended_) return;
    ping_timer_.expires_at(last_write_ + shared_.limits.ping_time);
    ping_timer_.async_wait([weak = this->weak_from_this()](error_code error) {
      const auto self = error ? nullptr : weak.lock();
      if (!self || !self->answering_ || self->ended_) return;
      if (Clock::now() >= self->last_write_ + self->shared_.limits.ping_time) self->write(self->ping_);
      self->ping_later();
    });
  }

  void write_soon() {
    if (!std::exchange(writes_soon_, true)) shared_.flush_soon(self());
  }

  // A few tokens are a few bytes, which the system takes at once unless the client does not read: then no timer is set
  // and nothing has to be waited for. pump() writes what is left.
  void write_now() {
    if constexpr (!kIsTls) {
      if (writing_ || is_over_ || out_.empty()) return;
      error_code error;
      const size_t sent = stream_.socket().write_some(asio::buffer(out_), error);
      if (!error) out_.erase(0, sent);
      if (error && error != asio::error::would_block) drop();
    }
  }

  void pump() {
    if (is_over_ || writing_) return;
    if (out_.empty()) {
      if (ended_) finish();
      return;
    }
    writing_ = true;
    sending_.swap(out_);
    out_.clear();
    lowest().expires_after(shared_.limits.stall_time);
    asio::async_write(stream_, asio::buffer(sending_), [self = self()](error_code error, size_t) {
      self->writing_ = false;
      if (error) return self->drop();
      self->flush();  // what came meanwhile needs no timer either
    });
  }

  void finish() {
    gone_ = nullptr;
    answering_ = ended_ = false;
    ++number_;
    watch_timer_.cancel();
    if (!keep_alive_ || shared_.is_draining) return close();
    read_head(shared_.limits.idle_time);
  }

  // --- the end

  // In order: the client learns that nothing more comes.
  void close() {
    if (!may_hang_up()) return;
    if constexpr (kIsTls) {
      if (!is_secured_ || reading_ || writing_) return lowest().close();
      lowest().expires_after(kLingerTime);
      stream_.async_shutdown([self = self()](error_code) { self->lowest().close(); });
    } else {
      error_code ignored;
      stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
      if (!lingers_) return stream_.close();
      stream_.expires_after(kLingerTime);
      linger();
    }
  }

  // A socket that is closed while bytes in it are unread takes the answer back; so they are read, for some time.
  void linger() {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(4096), [self = self()](error_code error, size_t) {
      if (error) return self->stream_.close();
      self->linger();
    });
  }

  // At once.
  void drop() {
    if (may_hang_up()) lowest().close();
  }

  bool may_hang_up() {
    if (std::exchange(is_over_, true)) return false;
    ping_timer_.cancel();
    watch_timer_.cancel();
    if (auto callback = std::exchange(gone_, nullptr)) callback();
    return true;
  }

  HttpShared& shared_;
  Stream stream_;
  beast::flat_buffer buffer_{kMostBuffered};
  std::optional<HeadScanner> scanner_;
  std::optional<http::request_parser<http::string_body>> parser_;
  HttpRequest request_;
  unsigned version_ = 11;
  bool answering_ = false, keep_alive_ = false, is_head_ = false, chunked_ = false;
  bool reading_ = false, writing_ = false, writes_soon_ = false, ended_ = false;
  bool is_over_ = false, is_secured_ = false, lingers_ = false;
  uint64_t number_ = 0;  // of the request, for those who waited during an earlier one
  std::string out_, sending_, ping_;
  asio::steady_timer ping_timer_, watch_timer_;
  Clock::time_point last_write_;
  std::function<void()> gone_;
};

}  // namespace smelt
