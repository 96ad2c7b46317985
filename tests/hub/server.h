// HubServer: hub_server.py as a child of the test, and a scope in which it is the hub.
#pragma once

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/options.h"
#include "hub/http.h"
#include "hub/pull.h"
#include "support/temp_folder.h"

namespace smelt::test {

class HubServer {
 public:
  HubServer() : options_([&](Options& o) { set(o); }) {}
  ~HubServer() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  std::string home() const { return home_.path(); }

  // A file of the repository; the same bytes for the same size and seed.
  std::string add_file(const std::string& name, size_t size, unsigned seed = 1) const {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
    std::ofstream(served_ / name, std::ios::binary) << bytes;
    return bytes;
  }

  // What it is to do wrong from now on; forgets what was logged.
  void tell(const nlohmann::json& what) const {
    const std::string body = what.dump();
    const std::string request =
        "POST /tell HTTP/1.1\r\nHost: hub\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
    REQUIRE(write_all(socket, request) == 0);
    char answer[512];
    while (::read(socket, answer, sizeof answer) > 0) {
    }
    ::close(socket);
  }

  nlohmann::json log() const { return nlohmann::json::parse(*http_text(url() + "/log", "", 1 << 26, nullptr)); }
  uint64_t bytes_sent() const {
    uint64_t sum = 0;
    for (const auto& entry : log()) sum += entry["sent"].get<uint64_t>();
    return sum;
  }

 private:
  void set(Options& o) {
    start();
    o.hf_endpoint = url();
    o.hf_home = home_.path();
    o.hf_hub_cache.clear();
    o.hf_token = "secret";
    o.cache = home_ / "smelt";
    o.http_proxy = o.https_proxy = o.all_proxy = "";
  }

  void start() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::execlp("python3", "python3", SMELT_SOURCE_DIR "/tests/hub/hub_server.py", served_.path().c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
    std::string line;
    for (char c; ::read(ends[0], &c, 1) == 1 && c != '\n';) line += c;
    ::close(ends[0]);
    REQUIRE_MESSAGE(!line.empty(), "python3 tests/hub/hub_server.py did not start");
    port_ = std::stoi(line);
  }

  TempFolder served_, home_;
  int port_ = 0;
  pid_t child_ = -1;
  ScopedOptions options_;
};

// Quick and stubborn, as tests want it.
inline PullOptions quick() { return {.connections = 3, .patience = 4, .first_pause = 0.001}; }

}  // namespace smelt::test
