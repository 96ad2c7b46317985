// HTTP over sockets: requests of every kind of shape, clients that go, and servers that end.
#include <doctest/doctest.h>

#include <future>
#include <thread>

#include "server/http_client.h"

using namespace smelt;
using smelt::test::Client;
using smelt::test::Running;

namespace {

void echo(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  reply->send({.type = "text/plain", .body = request.method + " " + request.path + " " + request.body});
}

std::string status_line(const std::string& answer) { return answer.substr(0, answer.find("\r\n")); }

}  // namespace

TEST_CASE("requests follow each other on one connection") {
  Running running(echo);
  Client client(running);
  client.send("GET /a?q=1 HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_until("GET /a ").starts_with("HTTP/1.1 200 OK\r\n"));
  client.send("POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
  CHECK(client.read_until("POST /b abc").starts_with("HTTP/1.1 200 OK\r\n"));
  client.send("POST /c HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n");
  CHECK(client.read_until("POST /c abc").starts_with("HTTP/1.1 200 OK\r\n"));
  client.send("GET /1 HTTP/1.1\r\nHost: x\r\n\r\nGET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string both = client.read_all();
  CHECK(both.find("GET /1 ") < both.find("GET /2 "));
  CHECK(both.find("GET /2 ") != std::string::npos);
}

TEST_CASE("a head without a body, and an answer that is asked for before the body is sent") {
  Running running(echo);
  Client client(running);
  client.send("HEAD /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  const std::string head = client.read_all();
  CHECK(head.find("Content-Length: 7\r\n") != std::string::npos);
  CHECK(head.ends_with("\r\n\r\n"));
  Client expecting(running);
  expecting.send("POST /b HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  CHECK(expecting.read_until("\r\n\r\n") == "HTTP/1.1 100 Continue\r\n\r\n");
  expecting.send("ok");
  CHECK(expecting.read_until("POST /b ok").ends_with("POST /b ok"));
}

TEST_CASE("what is no request is refused, and its connection closed") {
  Running running(echo);
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n", post = "POST / HTTP/1.1\r\nHost: x\r\n";
  for (const auto& [text, status] : std::vector<std::pair<std::string, int>>{
           {"nonsense\r\n\r\n", 400},
           {"GET\r\n\r\n", 400},
           {"GET / HTTP/2.5\r\nHost: x\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\n\r\n", 400},
           {"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400},
           {"GET x HTTP/1.1\r\nHost: x\r\n\r\n", 400},
           {get + "A : b\r\n\r\n", 400},
           {get + std::string("A: b\0c\r\n\r\n", 10), 400},
           {post + "Content-Length: +5\r\n\r\nabcde", 400},
           {post + "Content-Length: -2\r\n\r\nab", 400},
           {post + "Content-Length: 0x2\r\n\r\nab", 400},
           {post + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc", 400},
           {post + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
           {post + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
           {post + "Content-Length: 99999999999\r\n\r\n", 413},
           {get + "A: " + std::string(40'000, 'x') + "\r\n\r\n", 431}}) {
    CAPTURE(text.substr(0, 80));
    Client client(running);
    client.send(text);
    CHECK(status_line(client.read_all()).starts_with("HTTP/1.1 " + std::to_string(status) + " "));
  }
  std::string many = get;
  for (int i = 0; i < 101; ++i) many += "A" + std::to_string(i) + ": b\r\n";
  Client client(running);
  client.send(many + "\r\n");
  CHECK(status_line(client.read_all()).starts_with("HTTP/1.1 431 "));
}

TEST_CASE("a stream comes in chunks as it is written, to an old client until the end") {
  Running running([](HttpRequest, std::shared_ptr<HttpReply> reply) {
    reply->begin({.type = "text/event-stream"});
    reply->write("one");
    reply->write("two");
    reply->end();
  });
  Client client(running);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  CHECK(client.read_until("0\r\n\r\n").ends_with("\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n"));
  Client old(running);
  old.send("GET / HTTP/1.0\r\n\r\n");
  CHECK(old.read_all().ends_with("\r\n\r\nonetwo"));
}

TEST_CASE("a stream that is silent has pings, and none behind its end") {
  HttpLimits limits;
  limits.ping_time = std::chrono::milliseconds(5);
  std::promise<std::shared_ptr<HttpReply>> asked;
  Running running(
      [&](HttpRequest, std::shared_ptr<HttpReply> reply) {
        reply->begin({.type = "text/event-stream"}, ": ping\n\n");
        asked.set_value(std::move(reply));
      },
      limits);
  Client client(running);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  auto reply = asked.get_future().get();
  CHECK(client.read_until(": ping\n\n\r\n8\r\n: ping\n\n\r\n").starts_with("HTTP/1.1 200 OK\r\n"));
  running.server->post([&] {
    reply->end();
    reply = nullptr;
  });
  client.read_until("0\r\n\r\n");
  client.send("GET / HTTP/1.1\r\n\r\n");
  CHECK(client.read_all().starts_with("HTTP/1.1 400 "));
}

TEST_CASE("an answer to a body that nobody reads arrives all the same") {
  Running running(echo);
  Client client(running);
  client.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n");
  for (int i = 0; i < 64; ++i) client.send(std::string(1 << 16, 'x'));
  CHECK(client.read_all().starts_with("HTTP/1.1 413 "));
}

TEST_CASE("bodies in chunks that are none are refused") {
  Running running(echo);
  const std::string post = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& body :
       {std::string("xyz\r\n"), std::string("+5\r\nabcde\r\n0\r\n\r\n"), std::string("-1\r\n\r\n"),
        std::string("0x5\r\nabcde\r\n0\r\n\r\n"), std::string("5 \nabcde\r\n0\r\n\r\n\r\n\r\n"),
        std::string("3\r\nabcd\r\n0\r\n\r\n"), std::string("3\r\nabc0\r\n\r\n"), std::string("fffffffffffffffff\r\n"),
        std::string("ffffffffffffffff\r\n"), "5;" + std::string(300'000, 'x') + "\r\nabcde\r\n0\r\n\r\n"}) {
    CAPTURE(body.substr(0, 60));
    Client client(running);
    client.send(post + body);
    const std::string status = status_line(client.read_all()).substr(0, 13);
    CHECK((status == "HTTP/1.1 400 " || status == "HTTP/1.1 413 " || status == "HTTP/1.1 431 "));
  }
}

TEST_CASE("trailers of a body in chunks are no headers") {
  Running running([](HttpRequest request, std::shared_ptr<HttpReply> reply) {
    reply->send(
        {.type = "text/plain", .body = request.body + "[" + std::string(request.header("authorization")) + "]"});
  });
  Client client(running);
  client.send(
      "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
      "2\r\nok\r\n0\r\nAuthorization: Bearer stolen\r\n\r\n");
  CHECK(client.read_all().ends_with("ok[]"));
}

TEST_CASE("a client that goes is noticed, whether anything is written to it or not") {
  for (bool stream : {false, true}) {
    std::promise<void> asked, gone;
    Running running([&](HttpRequest, std::shared_ptr<HttpReply> reply) {
      reply->when_gone([&gone, reply] { gone.set_value(); });
      if (stream) reply->begin({.type = "text/event-stream"});
      asked.set_value();
    });
    Client client(running);
    client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    asked.get_future().get();
    client.close();
    gone.get_future().get();
  }
}

TEST_CASE("a client that has nothing more to say gets an answer that nobody was to give up") {
  std::promise<std::shared_ptr<HttpReply>> asked;
  Running running([&](HttpRequest, std::shared_ptr<HttpReply> reply) { asked.set_value(std::move(reply)); });
  Client client(running);
  client.send("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  client.end_of_sending();
  auto reply = asked.get_future().get();
  running.server->post([] {});  // a turn in which the end could be seen
  running.server->post([&] { std::exchange(reply, nullptr)->send({.body = "all"}); });
  CHECK(client.read_all().ends_with("\r\n\r\nall"));
}

TEST_CASE("a stream that nobody reads is given up when too much of it waits") {
  std::promise<void> gone;
  HttpLimits limits;
  limits.unsent_bytes = 1 << 20;
  Running running(
      [&](HttpRequest, std::shared_ptr<HttpReply> reply) {
        reply->when_gone([&gone] { gone.set_value(); });
        reply->begin({.type = "text/event-stream"});
        for (int i = 0; i < 100; ++i) reply->write(std::string(1 << 16, 'x'));  // more than sockets hold, and not read
      },
      limits);
  Client client(running);
  client.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  gone.get_future().get();
}

TEST_CASE("a head that does not come to its end, and a body that stops, are not waited for") {
  HttpLimits limits;
  limits.header_time = limits.body_time = std::chrono::milliseconds(50);
  Running running(echo, limits);
  Client half(running), silent(running), body(running);
  half.send("GET / HT");
  body.send("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\na");
  CHECK(half.read_all() == "");
  CHECK(silent.read_all() == "");
  CHECK(body.read_all() == "");
}

TEST_CASE("a server that drains ends idle connections, and the others behind their answers") {
  std::promise<std::shared_ptr<HttpReply>> asked;
  Running running([&](HttpRequest, std::shared_ptr<HttpReply> reply) { asked.set_value(std::move(reply)); });
  Client idle(running), busy(running);
  busy.send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  auto reply = asked.get_future().get();
  running.server->post([&] { running.server->drain(); });
  CHECK(idle.read_all() == "");
  running.server->post([&] { std::exchange(reply, nullptr)->send({.type = "text/plain", .body = "done"}); });
  CHECK(busy.read_all().ends_with("done"));
  running.end();
  CHECK(running.all_answered);
}

TEST_CASE("a port that is taken, and an address of nobody, are named") {
  Running running(echo);
  const auto again = HttpServer::listen("127.0.0.1", running.server->port(), echo);
  REQUIRE_FALSE(again.ok());
  CHECK(again.error().message.find("127.0.0.1:") != std::string::npos);
  CHECK_FALSE(HttpServer::listen("256.1.1.1", 0, echo).ok());
}
