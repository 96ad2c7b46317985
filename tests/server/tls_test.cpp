// TLS: a certificate made here, and OpenSSL as the client.
#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <future>
#include <thread>

#include "server/http_server.h"

using namespace smelt;

namespace {

template <class T, auto Free>
struct Freed {
  void operator()(T* object) const { Free(object); }
};
template <class T, auto Free>
using Owned = std::unique_ptr<T, Freed<T, Free>>;
using File = Owned<FILE, std::fclose>;

// A key and a certificate for it that nobody else has signed.
struct Certificate {
  Certificate() : folder(std::filesystem::temp_directory_path() / ("smelt-tls-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder);
    Owned<EVP_PKEY, EVP_PKEY_free> key(EVP_EC_gen("P-256"));
    Owned<X509, X509_free> made(X509_new());
    ASN1_INTEGER_set(X509_get_serialNumber(made.get()), 1);
    X509_gmtime_adj(X509_getm_notBefore(made.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(made.get()), 3600);
    X509_set_pubkey(made.get(), key.get());
    X509_NAME* name = X509_get_subject_name(made.get());
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, reinterpret_cast<const unsigned char*>("localhost"), -1, -1,
                               0);
    X509_set_issuer_name(made.get(), name);
    REQUIRE(X509_sign(made.get(), key.get(), EVP_sha256()) > 0);
    files = {(folder / "cert.pem").string(), (folder / "key.pem").string()};
    PEM_write_X509(File(std::fopen(files.certificate_file.c_str(), "w")).get(), made.get());
    PEM_write_PrivateKey(File(std::fopen(files.key_file.c_str(), "w")).get(), key.get(), nullptr, nullptr, 0, nullptr,
                         nullptr);
  }
  ~Certificate() { std::filesystem::remove_all(folder); }

  std::filesystem::path folder;
  HttpTls files;
};

class Running {
 public:
  Running(const HttpTls& tls, HttpHandler handler, const HttpLimits& limits = {}) {
    auto listening = HttpServer::listen("127.0.0.1", 0, std::move(handler), limits, tls);
    REQUIRE_MESSAGE(listening.ok(), listening.error().message);
    server = listening.take();
    thread_ = std::thread([this] { server->run(); });
  }
  ~Running() {
    server->post([this] { server->drain(); });
    thread_.join();
  }
  std::unique_ptr<HttpServer> server;

 private:
  std::thread thread_;
};

int connect_to(const Running& running) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(running.server->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return socket;
}

class TlsClient {
 public:
  // Trusts this certificate and no other.
  TlsClient(const Running& running, const std::string& trusted, int newest = TLS1_3_VERSION)
      : context_(SSL_CTX_new(TLS_client_method())), socket_(connect_to(running)) {
    SSL_CTX_load_verify_locations(context_.get(), trusted.c_str(), nullptr);
    SSL_CTX_set_verify(context_.get(), SSL_VERIFY_PEER, nullptr);
    SSL_CTX_set_max_proto_version(context_.get(), newest);
    SSL_CTX_set_cipher_list(context_.get(), "ALL:@SECLEVEL=0");
    ssl_.reset(SSL_new(context_.get()));
    SSL_set_fd(ssl_.get(), socket_);
    is_secured = SSL_connect(ssl_.get()) == 1;
  }
  ~TlsClient() { close(); }
  void close() {
    if (socket_ < 0) return;
    if (is_secured) SSL_shutdown(ssl_.get());
    ::close(std::exchange(socket_, -1));
  }

  void send(std::string_view text) { SSL_write(ssl_.get(), text.data(), static_cast<int>(text.size())); }
  std::string read_all() {
    std::string text;
    char bytes[4096];
    for (int n; (n = SSL_read(ssl_.get(), bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(n));
    ended_in_order = SSL_get_shutdown(ssl_.get()) & SSL_RECEIVED_SHUTDOWN;
    return text;
  }

  bool is_secured = false, ended_in_order = false;

 private:
  Owned<SSL_CTX, SSL_CTX_free> context_;
  Owned<SSL, SSL_free> ssl_;
  int socket_;
};

void echo(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  reply->send({.type = "text/plain", .body = request.method + " " + request.path + " " + request.body});
}

}  // namespace

TEST_CASE("requests and answers come over TLS, one behind another, and the end is told") {
  const Certificate certificate;
  Running running(certificate.files, echo);
  TlsClient client(running, certificate.files.certificate_file);
  REQUIRE(client.is_secured);
  client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  client.send("GET /c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_all();
  CHECK(all.find("POST /b abc") != std::string::npos);
  CHECK(all.ends_with("GET /c "));
  CHECK(client.ended_in_order);
}

TEST_CASE("a stream over TLS comes in chunks, with pings where it is silent") {
  const Certificate certificate;
  HttpLimits limits;
  limits.ping_time = std::chrono::milliseconds(20);
  Running running(
      certificate.files,
      [&](HttpRequest, std::shared_ptr<HttpReply> reply) {
        reply->begin({.type = "text/event-stream"}, ": ping\n\n");
        std::thread([reply, &running] {
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
          running.server->post([reply] {
            reply->write("data");
            reply->end();
          });
        }).detach();
      },
      limits);
  TlsClient client(running, certificate.files.certificate_file);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string all = client.read_all();
  CHECK(all.find("8\r\n: ping\n\n\r\n") != std::string::npos);
  CHECK(all.ends_with("4\r\ndata\r\n0\r\n\r\n"));
}

TEST_CASE("a client that goes is noticed over TLS too") {
  const Certificate certificate;
  std::promise<void> asked, gone;
  Running running(certificate.files, [&](HttpRequest, std::shared_ptr<HttpReply> reply) {
    reply->when_gone([&gone, reply] { gone.set_value(); });
    asked.set_value();
  });
  TlsClient client(running, certificate.files.certificate_file);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  asked.get_future().get();
  client.close();
  gone.get_future().get();
}

TEST_CASE("who speaks no TLS, or an old one, is not answered") {
  const Certificate certificate;
  Running running(certificate.files, [](HttpRequest, std::shared_ptr<HttpReply>) { FAIL("it was asked"); });
  const int plain = connect_to(running);
  const std::string text = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  REQUIRE(::send(plain, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  char bytes[100];
  std::string answer;
  for (ssize_t n; (n = ::recv(plain, bytes, sizeof bytes, 0)) > 0;) answer.append(bytes, static_cast<size_t>(n));
  CHECK(answer.find("HTTP") == std::string::npos);
  ::close(plain);
  CHECK_FALSE(TlsClient(running, certificate.files.certificate_file, TLS1_1_VERSION).is_secured);
}

TEST_CASE("files that are no key or certificate are named") {
  const Certificate certificate;
  const auto problem = [](const HttpTls& files) {
    auto listening = HttpServer::listen("127.0.0.1", 0, echo, {}, files);
    return listening ? std::string() : listening.error().message;
  };
  CHECK(problem(certificate.files) == "");
  CHECK(problem({"/no/such/file", certificate.files.key_file}).find("/no/such/file") != std::string::npos);
  CHECK(problem({certificate.files.certificate_file, "/no/such/key"}).find("/no/such/key") != std::string::npos);
  CHECK(problem({certificate.files.key_file, certificate.files.key_file}).find("key.pem") != std::string::npos);
}
