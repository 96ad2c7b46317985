// A server that runs, and a client that says byte by byte what it wants.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "server/http_server.h"

namespace smelt::test {

// A server on a free port and the thread that runs it.
class Running {
 public:
  explicit Running(HttpHandler handler, const HttpLimits& limits = {}) {
    auto listening = HttpServer::listen("127.0.0.1", 0, std::move(handler), limits);
    REQUIRE_MESSAGE(listening.ok(), listening.error().message);
    server = listening.take();
    thread_ = std::thread([this] { all_answered = server->run(); });
  }
  ~Running() { end(); }
  void end() {
    server->post([this] { server->drain(); });
    if (thread_.joinable()) thread_.join();
  }

  std::unique_ptr<HttpServer> server;
  bool all_answered = false;

 private:
  std::thread thread_;
};

class Client {
 public:
  explicit Client(const Running& to) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(to.server->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  }
  ~Client() { close(); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }

  void send(std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL);
      if (n <= 0) return;
      text.remove_prefix(static_cast<size_t>(n));
    }
  }
  void end_of_sending() { ::shutdown(socket_, SHUT_WR); }
  // Until the text has come, or the server closes.
  std::string read_until(std::string_view end) {
    std::string text;
    char byte;
    while (!text.ends_with(end) && ::recv(socket_, &byte, 1, 0) == 1) text += byte;
    return text;
  }
  std::string read_all() {
    std::string text;
    char bytes[4096];
    for (ssize_t n; (n = ::recv(socket_, bytes, sizeof bytes, 0)) > 0;) text.append(bytes, static_cast<size_t>(n));
    return text;
  }

 private:
  int socket_;
};

}  // namespace smelt::test
