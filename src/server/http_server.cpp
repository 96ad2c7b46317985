#include "server/http_server.h"

#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/http/status.hpp>
#include <csignal>
#include <mutex>
#include <vector>

#include "server/http_connection.h"

namespace smelt {

std::string head_of(const HttpResponse& response, const std::string& framing, bool keep_alive) {
  std::string head = "HTTP/1.1 " + std::to_string(response.status) + " " +
                     std::string(http::obsolete_reason(static_cast<http::status>(response.status))) + "\r\n";
  if (!response.type.empty()) head += "Content-Type: " + response.type + "\r\n";
  for (const auto& [name, value] : response.headers) head += name + ": " + value + "\r\n";
  return head + framing + (keep_alive ? "" : "Connection: close\r\n") + "\r\n";
}

int status_of(const error_code& error) {
  if (error == http::error::body_limit) return 413;
  if (error == http::error::header_limit || error == http::error::buffer_overflow) return 431;
  if (error == beast::error::timeout || error == http::error::end_of_stream || error == http::error::partial_message)
    return 0;
  return error.category() == make_error_code(http::error::bad_method).category() ? 400 : 0;
}

class HttpServer::State {
 public:
  State(HttpHandler handler, const HttpLimits& limits)
      : acceptor_(shared_.io), drain_timer_(shared_.io), gather_timer_(shared_.io) {
    shared_.handler = std::move(handler);
    shared_.limits = limits;
  }
  ~State() { shared_.is_draining = false; }  // nobody is waited for any more

  Status secure(const HttpTls& files) {
    tls_.emplace(asio::ssl::context::tls_server);
    error_code error;
    const auto unusable = [&](const std::string& file) {
      return Error{"[serve] " + file + ": no key or certificate in PEM that can be used: " + error.message()};
    };
    tls_->set_options(
        asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 | asio::ssl::context::no_tlsv1_1, error);
    if (!error) tls_->use_certificate_chain_file(files.certificate_file, error);
    if (error) return unusable(files.certificate_file);
    tls_->use_private_key_file(files.key_file, asio::ssl::context::pem, error);
    if (error) return unusable(files.key_file);
    return {};
  }

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

  // What comes before the thread of run() has looked goes with what came first, so that it is woken once.
  void post(std::function<void()> work) {
    {
      std::lock_guard lock(posted_mutex_);
      posted_.push_back(std::move(work));
      if (std::exchange(wakes_, Wakes::Now) == Wakes::Now) return;
    }
    asio::post(shared_.io, [this] { run_posted(); });
  }

  void post_soon(std::function<void()> work) {
    {
      std::lock_guard lock(posted_mutex_);
      posted_.push_back(std::move(work));
      if (wakes_ != Wakes::Never) return;
      wakes_ = Wakes::Now;
    }
    asio::post(shared_.io, [this] { run_posted(); });
  }

  void drain() {
    if (std::exchange(shared_.is_draining, true)) return;
    error_code ignored;
    acceptor_.close(ignored);
    const auto open = shared_.connections;
    for (OpenConnection* connection : open) connection->drain();
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
  using Clock = std::chrono::steady_clock;
  // When the thread of run() is going to look at what was posted.
  enum class Wakes { Never, Now, ByTimer };

  // Where there is something again so soon, more will follow: that is left to the timer.
  void run_posted() {
    const auto now = Clock::now();
    std::vector<std::function<void()>> posted;
    bool gathers = false;
    {
      std::lock_guard lock(posted_mutex_);
      posted.swap(posted_);
      gathers = !posted.empty() && (wakes_ == Wakes::ByTimer || now - last_run_ < shared_.limits.gather_time);
      wakes_ = gathers ? Wakes::ByTimer : Wakes::Never;
    }
    if (!posted.empty()) last_run_ = now;
    // What they write is sent at once behind them: a turn of its own would look for events in between.
    shared_.flushes_later = true;
    for (const auto& work : posted) work();
    shared_.flushes_later = false;
    shared_.flush_all();
    if (gathers) gather();
  }

  void gather() {
    gather_timer_.expires_at(last_run_ + shared_.limits.gather_time);
    gather_timer_.async_wait([this](error_code error) {
      if (!error) run_posted();
    });
  }

  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) return accept_later();
      socket.set_option(tcp::no_delay(true), error);
      if (tls_)
        std::make_shared<Connection<TlsStream>>(shared_, TlsStream(PlainStream(std::move(socket)), *tls_))->start();
      else
        std::make_shared<Connection<PlainStream>>(shared_, PlainStream(std::move(socket)))->start();
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

  std::optional<asio::ssl::context> tls_;
  HttpShared shared_;
  tcp::acceptor acceptor_;
  asio::steady_timer drain_timer_, gather_timer_;
  Clock::time_point last_run_;  // of what was posted
  std::optional<asio::signal_set> signals_;
  std::mutex posted_mutex_;  // of what follows
  Wakes wakes_ = Wakes::Never;
  std::vector<std::function<void()>> posted_;  // for the thread of run(); may hold connections
};

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, int port, HttpHandler handler,
                                                       const HttpLimits& limits, const std::optional<HttpTls>& tls) {
  auto state = std::make_unique<State>(std::move(handler), limits);
  if (tls) SMELT_CHECK(state->secure(*tls));
  SMELT_CHECK(state->listen(host, port));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

int HttpServer::port() const { return state_->port(); }
bool HttpServer::run() { return state_->run(); }
void HttpServer::post(std::function<void()> work) { state_->post(std::move(work)); }
void HttpServer::post_soon(std::function<void()> work) { state_->post_soon(std::move(work)); }
void HttpServer::drain() { state_->drain(); }
void HttpServer::stop() { state_->stop(); }
void HttpServer::drain_on_signals(std::function<void()> on_first) { state_->drain_on_signals(std::move(on_first)); }

}  // namespace smelt
