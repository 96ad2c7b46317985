#include "server/http_server.h"

#include <sys/socket.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <optional>
#include <unordered_set>

namespace smelt {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using beast::error_code;

std::string head_of(const HttpResponse& response, const std::string& framing, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " +
                     std::string(http::obsolete_reason(static_cast<http::status>(response.status))) + "\r\n";
  if (!response.type.empty()) head += "Content-Type: " + response.type + "\r\n";
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  return head + framing + (keep_alive ? "" : "Connection: close\r\n") + "\r\n";
}

std::string chunk_of(std::string_view data) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  return size + std::string(data) + "\r\n";
}

// What is wrong with a request that could not be read; 0: the connection is simply over.
int status_of(const error_code& error) {
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == beast::error::timeout || error == http::error::end_of_stream) return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

class Connection;

struct Shared {
  HttpHandler handler;
  HttpLimits limits;
  std::unordered_set<Connection*> connections;
  bool is_draining = false;
  asio::io_context io{1};  // the last: what it still holds are connections, which remove themselves

  void remove(Connection* connection) {
    connections.erase(connection);
    if (is_draining && connections.empty()) io.stop();
  }
};

// One client: a request is read, answered, and then the next one.
class Connection : public HttpReply, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Shared& shared, tcp::socket socket) : shared_(shared), stream_(std::move(socket)) {
    shared_.connections.insert(this);
  }
  ~Connection() override { shared_.remove(this); }

  void start() { read_head(shared_.limits.header_time); }

  // Between two requests: over. In an answer: over behind it.
  void drain() {
    keep_alive_ = false;
    if (!answering_) close();
  }

  void send(HttpResponse response) override {
    const std::string length = "Content-Length: " + std::to_string(response.body.size()) + "\r\n";
    out_ += head_of(response, length, keep_alive_);
    if (!is_head_) out_ += response.body;
    ended_ = true;
    pump();
  }

  void begin(HttpResponse head) override {
    chunked_ = version_ >= 11;
    if (!chunked_) keep_alive_ = false;
    out_ += head_of(head, chunked_ ? "Transfer-Encoding: chunked\r\n" : "", keep_alive_);
    pump();
  }

  void write(std::string_view data) override {
    if (is_over_ || data.empty()) return;
    if (out_.size() + data.size() > shared_.limits.unsent_bytes) return close();
    out_ += chunked_ ? chunk_of(data) : std::string(data);
    pump();
  }

  void end() override {
    if (chunked_) out_ += "0\r\n\r\n";
    ended_ = true;
    pump();
  }

  void when_gone(std::function<void()> callback) override {
    if (is_over_ && callback) return callback();
    gone_ = std::move(callback);
  }

 private:
  // --- in
  void read_head(std::chrono::milliseconds time) {
    answering_ = ended_ = chunked_ = is_head_ = false;
    version_ = 11;
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(shared_.limits.header_bytes));
    parser_->body_limit(shared_.limits.body_bytes);
    stream_.expires_after(time);
    http::async_read_header(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
      if (error) return self->refuse(error);
      self->read_body();
    });
  }

  void read_body() {
    if (parser_->get()[http::field::expect] == "100-continue") {
      out_ += "HTTP/1.1 100 Continue\r\n\r\n";
      pump();
    }
    stream_.expires_after(shared_.limits.body_time);
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, size_t) {
      if (error) return self->refuse(error);
      self->handle();
    });
  }

  void refuse(const error_code& error) {
    const int status = is_over_ ? 0 : status_of(error);
    if (status == 0) return close();
    refuse(status, error.message());
  }

  void refuse(int status, const std::string& why) {
    answering_ = true;
    keep_alive_ = false;
    send({.status = status, .type = "text/plain", .body = why + "\n"});
  }

  void handle() {
    auto message = parser_->release();
    answering_ = true;
    version_ = message.version();
    keep_alive_ = message.keep_alive() && !shared_.is_draining;
    is_head_ = message.method() == http::verb::head;
    HttpRequest request{.method = is_head_ ? "GET" : std::string(message.method_string()),
                        .path = std::string(message.target().substr(0, message.target().find('?')))};
    for (const auto& field : message) request.headers.emplace_back(field.name_string(), field.value());
    request.body = std::move(message.body());
    if (request.headers.size() > shared_.limits.headers) return refuse(431, "too many headers");
    if (request.path.empty() || request.path[0] != '/') return refuse(400, "the target is no path");
    if (message.count(http::field::host) != (version_ >= 11 ? 1u : message.count(http::field::host)))
      return refuse(400, "a request names one Host");
    watch();
    shared_.handler(std::move(request), shared_from_this());
  }

  // Notices that the client goes while its answer is being made.
  void watch() {
    stream_.socket().async_wait(tcp::socket::wait_read,
                                [self = shared_from_this(), number = ++number_](error_code error) {
                                  if (error || self->number_ != number || !self->answering_) return;
                                  char byte;
                                  const int socket = self->stream_.socket().native_handle();
                                  const ssize_t n = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
                                  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) self->close();
                                });
  }

  // --- out
  void pump() {
    if (is_over_ || writing_) return;
    if (out_.empty()) {
      if (ended_) finish();
      return;
    }
    writing_ = true;
    sending_.swap(out_);
    out_.clear();
    stream_.expires_after(shared_.limits.stall_time);
    asio::async_write(stream_, asio::buffer(sending_), [self = shared_from_this()](error_code error, size_t) {
      self->writing_ = false;
      if (error) return self->close();
      self->pump();
    });
  }

  void finish() {
    gone_ = nullptr;
    answering_ = ended_ = false;
    ++number_;
    if (!keep_alive_ || shared_.is_draining) return close();
    read_head(shared_.limits.idle_time);
  }

  void close() {
    if (std::exchange(is_over_, true)) return;
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.close();
    if (auto callback = std::exchange(gone_, nullptr)) callback();
  }

  Shared& shared_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  unsigned version_ = 11;
  bool answering_ = false, keep_alive_ = false, is_head_ = false, chunked_ = false;
  bool writing_ = false, ended_ = false, is_over_ = false;
  uint64_t number_ = 0;  // of the request, for those who waited during an earlier one
  std::string out_, sending_;
  std::function<void()> gone_;
};

}  // namespace

class HttpServer::State {
 public:
  State(HttpHandler handler, const HttpLimits& limits) : acceptor_(shared_.io), drain_timer_(shared_.io) {
    shared_.handler = std::move(handler);
    shared_.limits = limits;
  }
  ~State() { shared_.is_draining = false; }  // nobody is waited for any more

  Status listen(const std::string& host, int port) {
    const std::string where = host + ":" + std::to_string(port);
    error_code error;
    tcp::resolver resolver(shared_.io);
    const auto found = resolver.resolve(host, std::to_string(port), tcp::resolver::passive, error);
    if (error || found.empty()) return Error{"[serve] " + host + ": no address of this machine: " + error.message()};
    const tcp::endpoint endpoint = found.begin()->endpoint();
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(tcp::acceptor::max_listen_connections, error);
    if (error)
      return Error{"[serve] " + where + ": cannot listen there: " + error.message() + "; choose another --port"};
    accept();
    return {};
  }

  int port() const { return acceptor_.local_endpoint().port(); }

  bool run() {
    shared_.io.run();
    return shared_.connections.empty();
  }

  void post(std::function<void()> work) { asio::post(shared_.io, std::move(work)); }

  void drain() {
    if (std::exchange(shared_.is_draining, true)) return;
    error_code ignored;
    acceptor_.close(ignored);
    const auto open = shared_.connections;
    for (Connection* connection : open) connection->drain();
    if (shared_.connections.empty()) return stop();
    drain_timer_.expires_after(shared_.limits.drain_time);
    drain_timer_.async_wait([this](error_code error) {
      if (!error) stop();
    });
  }

  void stop() { shared_.io.stop(); }

  void drain_on_signals(std::function<void()> on_first) {
    signals_.emplace(shared_.io, SIGINT, SIGTERM);
    signals_->async_wait([this, on_first = std::move(on_first)](error_code error, int) {
      if (error) return;
      signals_->async_wait([this](error_code again, int) {
        if (!again) stop();
      });
      on_first();
      drain();
    });
  }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();
      socket.set_option(tcp::no_delay(true), error);
      std::make_shared<Connection>(shared_, std::move(socket))->start();
      accept();
    });
  }

  // Out of descriptors, mostly: others will be given back.
  void accept_later() {
    drain_timer_.expires_after(std::chrono::milliseconds(50));
    drain_timer_.async_wait([this](error_code error) {
      if (!error && acceptor_.is_open()) accept();
    });
  }

  Shared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer drain_timer_;
  std::optional<asio::signal_set> signals_;
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, int port, HttpHandler handler,
                                                       const HttpLimits& limits) {
  auto state = std::make_unique<State>(std::move(handler), limits);
  SMELT_CHECK(state->listen(host, port));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

int HttpServer::port() const { return state_->port(); }
bool HttpServer::run() { return state_->run(); }
void HttpServer::post(std::function<void()> work) { state_->post(std::move(work)); }
void HttpServer::drain() { state_->drain(); }
void HttpServer::stop() { state_->stop(); }
void HttpServer::drain_on_signals(std::function<void()> on_first) { state_->drain_on_signals(std::move(on_first)); }

}  // namespace smelt
