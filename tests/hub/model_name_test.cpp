#include "hub/model_name.h"

#include <arpa/inet.h>
#include <doctest/doctest.h>
#include <netinet/in.h>

#include <cstring>
#include <tuple>

#include "hub/address_kind.h"
#include "hub/http.h"
#include "hub/piece_journal.h"
#include "hub/sha256.h"
#include "support/temp_folder.h"

using namespace smelt;

TEST_CASE("names of models mean what people of three programs mean by them") {
  struct Case {
    const char *text, *repo, *quant, *file;
  };
  const Case cases[] = {
      {"glm-4.7:flash-q4_k_m", "unsloth/GLM-4.7-Flash-GGUF", "Q4_K_M", ""},
      {"glm-4.7-flash:q4_K_M", "unsloth/GLM-4.7-Flash-GGUF", "Q4_K_M", ""},
      {"GLM-4.7-Flash", "unsloth/GLM-4.7-Flash-GGUF", "", ""},
      {"glm-4.7-flash:latest", "unsloth/GLM-4.7-Flash-GGUF", "", ""},
      {"deepseek-v2:16b", "mradermacher/DeepSeek-V2-Lite-Chat-GGUF", "", ""},
      {"user/repo", "user/repo", "", ""},
      {"user/Repo.X:q6_k", "user/Repo.X", "Q6_K", ""},
      {"hf.co/user/repo:UD-Q4_K_XL", "user/repo", "UD-Q4_K_XL", ""},
      {"user/repo/sub/m.gguf", "user/repo", "", "sub/m.gguf"},
      {"https://huggingface.co/user/repo/resolve/main/m-Q8_0.gguf?download=true", "user/repo", "", "m-Q8_0.gguf"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.text);
    const auto name = parse_model_name(c.text);
    REQUIRE(name.ok());
    CHECK(std::tie(name->repo, name->quant, name->file) == std::make_tuple(c.repo, c.quant, c.file));
  }
  CHECK(parse_model_name("http://host:81/a/m.gguf")->url == "http://host:81/a/m.gguf");
}

TEST_CASE("names that lead out of a folder, or nowhere, are refused") {
  for (const char* text : {"",
                           "foo",
                           "../x",
                           "user/..",
                           "user/.hidden",
                           "user/repo/../x.gguf",
                           "user/repo//x.gguf",
                           "user/repo/x.bin",
                           "/user/repo",
                           "user/re po",
                           "user/repo:../x",
                           "us--er/repo",
                           "user/repo:",
                           "http://host/../x.gguf",
                           "http://h/x",
                           "http://u:p@h/x.gguf",
                           "http://h/a b.gguf",
                           "http:///x.gguf",
                           "file:///x.gguf",
                           "https://h/a\\b.gguf"}) {
    CAPTURE(text);
    const auto name = parse_model_name(text);
    if (name.ok()) CHECK(std::string(text) == "user/repo:");  // nothing behind the colon: the usual file
  }
  // Names of any bytes never pass as a path that leaves.
  unsigned seed = 7;
  for (int i = 0; i < 200000; ++i) {
    std::string text;
    for (int length = 1 + static_cast<int>((seed = seed * 1664525u + 1013904223u) >> 28); length > 0; --length)
      text += "./\\a:-\0_%"[((seed = seed * 1664525u + 1013904223u) >> 24) % 9];
    if (!is_safe_path(text)) continue;
    CHECK(text.find("..") != 0);
    CHECK(text[0] != '/');
    CHECK(text.find("/.") == std::string::npos);
    CHECK(text.find('\0') == std::string::npos);
  }
}

TEST_CASE("a file name says its quantisation") {
  CHECK(quant_of("a/GLM-4.7-Flash-Q4_K_M.gguf") == "Q4_K_M");
  CHECK(quant_of("model.q8_0.gguf") == "Q8_0");
  CHECK(quant_of("GLM-UD-Q4_K_XL.gguf") == "UD-Q4_K_XL");
  CHECK(quant_of("x-BF16-00001-of-00002.gguf") == "BF16");
  CHECK(quant_of("x-IQ4_NL.gguf") == "IQ4_NL");
  CHECK(quant_of("Qwen.gguf").empty());
}

TEST_CASE("of a repository the usual file is taken, or the one that was named, or what there is is told") {
  const std::vector<RepoFile> files = {
      {"m-Q8_0.gguf"}, {"m-Q4_K_M.gguf"}, {"mmproj-Q4_K_M.gguf"}, {"m-UD-Q2_K_XL.gguf"}, {"README.md"}};
  CHECK(choose_files({.repo = "u/r"}, files)->front().path == "m-Q4_K_M.gguf");
  CHECK(choose_files({.repo = "u/r", .quant = "Q2_K_XL"}, files)->front().path == "m-UD-Q2_K_XL.gguf");
  const auto none = choose_files({.repo = "u/r", .quant = "Q6_K"}, files);
  REQUIRE_FALSE(none.ok());
  CHECK(none.error().message == "[hub] u/r: has no Q6_K; there are: Q4_K_M, Q8_0, UD-Q2_K_XL");
  const std::vector<RepoFile> half = {{"m-Q8_0-00001-of-00002.gguf"}};
  CHECK_FALSE(choose_files({.repo = "u/r"}, half).ok());
}

TEST_CASE("addresses are known by the network that they belong to, however they are written") {
  const auto kind = [](const char* text) {
    sockaddr_in v4 = {.sin_family = AF_INET};
    if (::inet_pton(AF_INET, text, &v4.sin_addr) == 1) return kind_of(reinterpret_cast<const sockaddr&>(v4));
    sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    REQUIRE(::inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
    return kind_of(reinterpret_cast<const sockaddr&>(v6));
  };
  for (const char* text : {"8.8.8.8", "172.15.0.1", "172.32.0.1", "192.169.0.1", "100.63.0.1", "2606:4700::1111"})
    CHECK(kind(text) == AddressKind::Public);
  for (const char* text : {"10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fd00::1",
                           "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::"})
    CHECK(kind(text) == AddressKind::Private);
  for (const char* text : {"127.0.0.1", "127.255.0.1", "::1", "::ffff:127.0.0.1"})
    CHECK(kind(text) == AddressKind::Loopback);
  for (const char* text : {"0.0.0.0", "169.254.169.254", "224.0.0.1", "255.255.255.255", "::", "fe80::1", "ff02::1",
                           "::ffff:169.254.169.254"})
    CHECK(kind(text) == AddressKind::Local);
}

TEST_CASE("hosts are the same whatever their case and whether the port is said") {
  CHECK(host_of("https://HOST/x") == "host:443");
  CHECK(host_of("https://host:443/y") == "host:443");
  CHECK(host_of("http://host/x") == "host:80");
  CHECK(host_of("https://host.evil.com/x") != host_of("https://host/x"));
}

TEST_CASE("a journal keeps what is done, and counts for nothing where it does not fit") {
  const smelt::test::TempFolder folder;
  const std::string path = folder / "journal";
  const uint64_t bytes = 3 * kPieceBytes + 5;
  {
    auto journal = PieceJournal::open(path, bytes, "sha256:x");
    REQUIRE(journal.ok());
    CHECK(journal->pieces() == 4);
    REQUIRE(journal->mark_done(3).ok());
    CHECK(journal->done_bytes() == 5);
  }
  CHECK(PieceJournal::open(path, bytes, "sha256:x")->is_done(3));
  CHECK(PieceJournal::open(path, bytes, "sha256:y")->done_bytes() == 0);
  const std::string text = "smelt download 1\nbytes 5 pieces 1 of 1048576\nwhat w\n";
  CHECK(PieceJournal::parse(text + "x", 5, "w") == std::vector<bool>{true});
  for (const std::string& wrong : {text, text + "xx", text + "?", std::string(), std::string(100, 'x')})
    CHECK(PieceJournal::parse(wrong, 5, "w").empty());
}

TEST_CASE("SHA-256 is that of the standard") {
  CHECK(sha256_of("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}
