// `smelt serve` from outside: what it refuses before it listens.
#include <doctest/doctest.h>

#include <fstream>

#include "app/process.h"

using namespace smelt::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an address that others reach wants a key") {
  for (const char* host : {"0.0.0.0", "::", "192.168.1.1", "example.org"}) {
    CAPTURE(host);
    const Outcome run = smelt::test::smelt({"serve", "--host", host});
    CHECK(run.exit_code == 1);
    CHECK(contains(run.err, std::string("--host ") + host + ": other machines can reach that"));
  }
  const std::string path = scratch().file("no-keys");
  std::ofstream(path) << "\n \r\n";
  const Outcome empty = smelt::test::smelt({"serve", "--host", "0.0.0.0", "--api-key-file", path});
  CHECK(empty.exit_code == 1);
  CHECK(contains(empty.err, "has no key"));
  CHECK(smelt::test::smelt({"serve", "--port", "65536"}).exit_code == 2);
  CHECK(smelt::test::smelt({"serve", "--api-key", ""}).exit_code == 2);
}

TEST_CASE("drafts are as those of run, but for drawn ones") {
  const Outcome two = smelt::test::smelt({"serve", "--lookup", "--mtp", "2"});
  CHECK(two.exit_code == 1);
  CHECK(contains(two.err, "only one of them can draft"));
  const Outcome headless = smelt::test::smelt({"serve", "--port", "0", "--mtp", "2"});
  CHECK(headless.exit_code == 1);
  CHECK(contains(headless.err, "multi-token prediction"));
  const Outcome none = smelt::test::smelt({"serve", "--port", "0", "-md", "/no/model.gguf"});
  CHECK(none.exit_code == 1);
  CHECK(contains(none.err, "/no/model.gguf"));
  const Outcome drawn = smelt::test::smelt({"serve", "--port", "0", "-md", "/no/model.gguf", "--draft-draw"});
  CHECK(drawn.exit_code == 1);
  CHECK(contains(drawn.err, "--draft-draw: answers of a server"));
}

TEST_CASE("TLS wants a key and a certificate that can be read") {
  const Outcome half = smelt::test::smelt({"serve", "--ssl-key-file", "key.pem"});
  CHECK(half.exit_code == 1);
  CHECK(contains(half.err, "--ssl-key-file and --ssl-cert-file"));
  const Outcome none = smelt::test::smelt({"serve", "--ssl-key-file", "/no/key", "--ssl-cert-file", "/no/cert"});
  CHECK(none.exit_code == 1);
  CHECK(contains(none.err, "/no/cert"));
}
