// Whole pulls from a server that also cuts, lies, slows down, redirects and changes the file.
#include "hub/pull.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <thread>

#include "hub/server.h"

using namespace smelt;
using smelt::test::HubServer;
using smelt::test::quick;
namespace fs = std::filesystem;

namespace {

constexpr size_t kBytes = (5 << 20) + 12345;
constexpr const char* kFile = "model-Q4_K_M.gguf";
constexpr const char* kName = "user/repo:Q4_K_M";

std::string content(const PulledModel& model) { return *read_file(model.file()); }

// Files of a download that is not published lie beside its name and have these endings.
size_t published(const HubServer& hub) {
  size_t count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(hub.home() + "/hub/models--user--repo/blobs", ignored))
    count += entry.path().extension().empty();
  return count;
}

}  // namespace

TEST_CASE("a pulled model lies where the hub's own tools look for it, and its name finds it") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  hub.add_file("model-Q8_0.gguf", 1000, 2);
  hub.add_file("mmproj-model-Q4_K_M.gguf", 1000, 3);
  CHECK_FALSE(find_pulled(kName)->has_value());
  const auto model = pull(kName, quick());
  REQUIRE(model.ok());
  CHECK(content(*model) == bytes);
  const std::string repo = hub.home() + "/hub/models--user--repo";
  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  CHECK(model->file() == repo + "/snapshots/" + commit + "/" + kFile);
  CHECK(fs::read_symlink(model->file()).string().starts_with("../../blobs/"));
  CHECK(*read_file(repo + "/refs/main") == commit);
  CHECK(find_pulled("user/repo")->value().file() == model->file());
  CHECK(find_pulled(kName)->value().bytes == kBytes);
  CHECK_FALSE(find_pulled("user/repo:Q8_0")->has_value());
  REQUIRE(pulled_models().size() == 1);
  CHECK(pulled_models()[0].name == kName);
  hub.tell({});
  REQUIRE(pull(kName, quick()).ok());  // nothing is fetched twice
  CHECK(hub.bytes_sent() == 0);
  CHECK(*remove_pulled(*model) == kBytes);
  CHECK(pulled_models().empty());
  CHECK(published(hub) == 0);
}

TEST_CASE("all shards of a model are pulled, and it is there only with all of them") {
  const HubServer hub;
  for (int i = 1; i <= 3; ++i) hub.add_file("big-Q6_K-0000" + std::to_string(i) + "-of-00003.gguf", 1000, i);
  const auto model = pull("user/repo:q6_k", quick());
  REQUIRE(model.ok());
  CHECK(model->paths.size() == 3);
  CHECK(model->bytes == 3000);
  fs::remove(model->paths[1]);
  CHECK_FALSE(find_pulled("user/repo:Q6_K")->has_value());
}

TEST_CASE("a cut download goes on where it ended") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  hub.tell({{"cut_after", 700000}});
  const auto model = pull(kName, quick());
  REQUIRE(model.ok());
  CHECK(content(*model) == bytes);
  CHECK(hub.bytes_sent() <= kBytes + 8);  // and a byte for the size
}

TEST_CASE("cuts at any place leave no gap") {
  const HubServer hub;
  unsigned seed = 7;
  const auto random = [&](unsigned below) { return (seed = seed * 1664525u + 1013904223u) / 65536 % below; };
  for (int round = 0; round < 25; ++round) {
    const std::string bytes = hub.add_file(kFile, 100'000 + random(50'000), seed);
    hub.tell({{"cut_after", 1 + random(60'000)}, {"times", 1 + random(3)}});
    const auto model = pull(kName, quick());
    REQUIRE(model.ok());
    CHECK(content(*model) == bytes);
    REQUIRE(remove_pulled(*model).ok());
  }
}

TEST_CASE("an older copy stays until a newer one is whole") {
  const HubServer hub;
  const std::string older = hub.add_file(kFile, 200'000, 1);
  REQUIRE(pull(kName, quick()).ok());
  const std::string newer = hub.add_file(kFile, 200'000, 2), commit(40, 'f');
  hub.tell({{"commit", commit}, {"flip", true}});
  REQUIRE_FALSE(pull(kName, quick()).ok());
  const auto kept = find_pulled(kName);
  REQUIRE(kept.ok());
  REQUIRE(kept->has_value());
  CHECK(content(**kept) == older);
  hub.tell({{"commit", commit}});
  const auto model = pull(kName, quick());
  REQUIRE(model.ok());
  CHECK(content(*model) == newer);
}

TEST_CASE("what one process has fetched the next one does not fetch again") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  hub.tell({{"cut_after", 3 << 20}, {"times", 1}, {"no_such", 1}});
  PullOptions impatient = quick();
  impatient.patience = 0;
  impatient.connections = 1;
  REQUIRE_FALSE(pull(kName, impatient).ok());
  CHECK(published(hub) == 0);
  hub.tell({});
  const auto model = pull(kName, quick());
  REQUIRE(model.ok());
  CHECK(content(*model) == bytes);
  CHECK(hub.bytes_sent() <= kBytes - (2 << 20));
}

TEST_CASE("a server that lies gets nothing published, or the right bytes in the end") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  for (const char* lie : {"wrong_range", "flip", "shorter", "longer", "gzip", "no_ranges"}) {
    CAPTURE(lie);
    hub.tell({{lie, true}, {"times", 3}});
    const auto model = pull(kName, quick());
    if (model) {
      CHECK(content(*model) == bytes);
      REQUIRE(remove_pulled(*model).ok());
    } else {
      CHECK(published(hub) == 0);
    }
    hub.tell({});
    const auto again = pull(kName, quick());
    REQUIRE(again.ok());
    CHECK(content(*again) == bytes);
    REQUIRE(remove_pulled(*again).ok());
  }
}

TEST_CASE("a server that always lies is told so in a sentence") {
  const HubServer hub;
  hub.add_file(kFile, kBytes);
  for (const auto& [lie, says] : {std::pair{"wrong_range", "another part"},
                                  {"flip", "SHA-256"},
                                  {"shorter", "another part"},
                                  {"gzip", "not asked for"}}) {
    CAPTURE(lie);
    hub.tell({{lie, true}});
    const auto model = pull(kName, quick());
    REQUIRE_FALSE(model.ok());
    CAPTURE(model.error().message);
    CHECK(model.error().message.find(says) != std::string::npos);
    CHECK(published(hub) == 0);
  }
}

TEST_CASE("answers that are errors end a download at once or after some tries, and say what to do") {
  const HubServer hub;
  hub.add_file(kFile, kBytes);
  for (const auto& [status, says] :
       {std::pair{401, "HF_TOKEN"}, {403, "HF_TOKEN"}, {404, "no such file"}, {503, "503"}}) {
    hub.tell({{"status", status}});
    const auto model = pull(kName, quick());
    REQUIRE_FALSE(model.ok());
    CHECK(model.error().message.find(says) != std::string::npos);
  }
  hub.tell({{"status", 503}, {"times", 3}});
  CHECK(pull(kName, quick()).ok());
}

TEST_CASE("a token goes to its server and to no other") {
  const HubServer hub;
  hub.add_file(kFile, 100000);
  hub.tell({{"redirect", true}});
  REQUIRE(pull(kName, quick()).ok());
  int with = 0, without = 0;
  for (const auto& entry : hub.log()) {
    const bool is_there = entry["authorization"] == "Bearer secret";
    CHECK(is_there == entry["host"].get<std::string>().starts_with("127.0.0.1"));
    ++(is_there ? with : without);
  }
  CHECK(with > 0);
  CHECK(without > 1);  // the content, which lies at "localhost"
}

TEST_CASE("a redirect never leads to another kind of network, nor out of http") {
  const HubServer hub;
  hub.add_file(kFile, 100000);
  for (const char* target : {"http://169.254.169.254/latest", "http://[fe80::1]/x", "http://10.0.0.1/x", "http://0/x",
                             "http://2852039166/latest", "http://[::ffff:169.254.169.254]/x", "file:///etc/passwd",
                             "ftp://127.0.0.1/x", "http://user:password@127.0.0.1/x", "gopher://127.0.0.1/x"}) {
    CAPTURE(target);
    hub.tell({{"redirect_to", target}});
    PullOptions once = quick();
    once.patience = 0;
    CHECK_FALSE(pull(kName, once).ok());
    CHECK(published(hub) == 0);
  }
}

TEST_CASE("a file of a URL that changes while it is fetched is not put together from both") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  const std::string url = hub.url() + "/content/" + kFile;
  hub.tell({{"etag", "one"}});
  const auto model = pull(url, quick());
  REQUIRE_FALSE(model.ok());
  CHECK(model.error().message.find("has changed") != std::string::npos);
  CHECK_FALSE(find_pulled(url)->has_value());
  hub.tell({});
  const auto again = pull(url, quick());
  REQUIRE(again.ok());
  CHECK(content(*again) == bytes);
  CHECK(find_pulled(url)->value().file() == again->file());
}

TEST_CASE("two that fetch the same model share one transfer") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  hub.tell({{"slow", 0.002}});
  std::vector<std::thread> both;
  std::atomic<int> succeeded = 0;
  for (int i = 0; i < 2; ++i)
    both.emplace_back([&] {
      const auto model = pull(kName, quick());
      if (model && content(*model) == bytes) ++succeeded;
    });
  for (std::thread& t : both) t.join();
  CHECK(succeeded == 2);
  CHECK(hub.bytes_sent() <= kBytes + 8);
}

TEST_CASE("a download that is killed again and again is whole in the end, and never published before") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  hub.tell({{"slow", 0.003}});
  for (uint64_t kills = 0; kills < 8 && published(hub) == 0; ++kills) {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
      PullOptions telling = quick();
      telling.events = [&](const std::string&) {
        return DownloadEvents{.received = [&](uint64_t n) { (void)!::write(ends[1], &n, sizeof n); }};
      };
      (void)pull(kName, telling);
      ::_exit(0);
    }
    ::close(ends[1]);
    uint64_t received = 0;
    for (uint64_t n; received < (1 + kills % 5) << 18 && ::read(ends[0], &n, sizeof n) == sizeof n;) received += n;
    CHECK(received > 0);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ::close(ends[0]);
  }
  hub.tell({});
  const auto model = pull(kName, quick());
  REQUIRE(model.ok());
  CHECK(content(*model) == bytes);
}

TEST_CASE("a cancelled pull ends soon and can go on") {
  const HubServer hub;
  const std::string bytes = hub.add_file(kFile, kBytes);
  hub.tell({{"slow", 0.01}});
  std::atomic<bool> cancel = false;
  PullOptions options = quick();
  options.cancel = &cancel;
  std::atomic<uint64_t> received = 0;
  options.events = [&](const std::string&) {
    DownloadEvents events;
    events.received = [&](uint64_t n) { cancel = (received += n) > 100000; };
    return events;
  };
  CHECK_FALSE(pull(kName, options).ok());
  CHECK(received < kBytes);
  hub.tell({});
  CHECK(content(*pull(kName, quick())) == bytes);
}

TEST_CASE("a repository that lists what leads elsewhere has it left out") {
  const std::string commit(40, 'a'), hash(64, 'b');
  const auto listing = [&](const std::string& name) {
    return parse_listing(
        "user/repo",
        nlohmann::json{{"sha", commit},
                       {"siblings", {{{"rfilename", name}, {"size", 5}, {"lfs", {{"sha256", hash}, {"size", 5}}}}}}}
            .dump());
  };
  CHECK(listing("a/b-Q4_0.gguf")->files.size() == 1);
  for (const char* name : {"../x.gguf", "/etc/x.gguf", "a/../../x.gguf", "a//x.gguf", ".git/x.gguf", "a\nb.gguf", ""})
    CHECK(listing(name)->files.empty());
  CHECK_FALSE(parse_listing("user/repo", "[]").ok());
  CHECK_FALSE(parse_listing("user/repo", std::string(1 << 20, '[')).ok());
  CHECK_FALSE(parse_listing("user/repo", "{\"sha\":\"../..\",\"siblings\":[]}").ok());
}
