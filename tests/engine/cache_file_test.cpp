// Conversations that are kept on disk with their rows: the bits that come after them are those of one that was never
// left, and a file that cannot serve is refused by a sentence.
#include "engine/cache_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "engine/session.h"
#include "model/random_model.h"
#include "support/compare_logits.h"
#include "support/temp_folder.h"

using namespace smelt;
using test::same_bits;
namespace fs = std::filesystem;

namespace {

using Logits = std::vector<float>;

constexpr const char* kModel = SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf";

struct Opened {
  std::unique_ptr<GgufFile> file;
  std::unique_ptr<Session> session;
};

Opened open(GgufFile file, DType cache, int64_t context = 512, bool quantise = true) {
  Opened opened{.file = std::make_unique<GgufFile>(std::move(file)), .session = nullptr};
  auto session = Session::open(*opened.file,
                               {.threads = 1,
                                .context = context,
                                .kept_windows = 0,
                                .cache_type = cache,
                                .quantise_activations = quantise,
                                .use_tuned = false},
                               {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  opened.session = session.take();
  return opened;
}

Opened open(DType cache = DType::U8, int64_t context = 512, bool quantise = true) {
  return open(GgufFile::open(kModel).take(), cache, context, quantise);
}

std::vector<int32_t> prompt(int64_t size) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < size; ++i) ids.push_back(static_cast<int32_t>(5 + i * 7 % 80));
  return ids;
}

Logits bits(const Result<std::span<const float>>& logits) {
  REQUIRE_MESSAGE(logits.ok(), logits.error().message);
  return {logits->begin(), logits->end()};
}

void read_and_write(Session& session, int64_t tokens) {
  bits(session.append(prompt(tokens)));
  for (int32_t token : {9, 30, 7}) bits(session.extend(token));
}

// What comes after a conversation: some more prompt, and generated tokens.
Logits next_turn(Session& session) {
  Logits all = bits(session.append(prompt(11)));
  for (int32_t token : {12, 40}) {
    const Logits more = bits(session.extend(token));
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

// Writes a file in one session and goes on in another.
void check_resumed(const std::function<Opened()>& open_model, int64_t tokens) {
  CAPTURE(tokens);
  const test::TempFolder folder;
  const std::string path = folder / "talk.cache";
  const Opened left = open_model(), resumed = open_model();
  read_and_write(*left.session, tokens);
  REQUIRE(left.session->save(path).ok());
  const std::vector<CachedToken> kept(left.session->tokens().begin(), left.session->tokens().end());
  const Status restored = resumed.session->restore(path);
  REQUIRE_MESSAGE(restored.ok(), (restored ? "" : restored.error().message));
  CHECK(resumed.session->position() == tokens + 3);
  CHECK(std::equal(kept.begin(), kept.end(), resumed.session->tokens().begin(), resumed.session->tokens().end()));
  CHECK(same_bits(next_turn(*left.session), next_turn(*resumed.session)));
}

std::string why_refused(Session& session, const std::string& path) {
  const Status restored = session.restore(path);
  CHECK_FALSE(restored.ok());
  CHECK(session.position() == 0);
  return restored ? "" : restored.error().message;
}

fs::path in_zoo(const std::string& name) {
  return fs::path(SMELT_SOURCE_DIR) / "../shared/models/zoo" / name / (name + "-Q4_K_M.gguf");
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("the turn after a conversation from disk has the bits that it would have had without leaving") {
  for (int64_t tokens : {1, 61, 64, 130}) check_resumed([] { return open(); }, tokens);
  for (DType cache : {DType::F16, DType::F32}) check_resumed([=] { return open(cache); }, 70);
}

TEST_CASE("so it has for every architecture's cache" * doctest::test_suite("generated")) {
  const std::vector<std::byte> bytes = test::RandomModel({}).writer().bytes();
  check_resumed([&] { return open(GgufFile::open_memory(bytes).take(), DType::U8, 256); }, 70);
  for (const char* name : {"gemma3", "gpt-oss", "llama", "qwen3moe", "qwen35moe"}) {
    const fs::path path = in_zoo(name);
    if (!fs::exists(path)) {
      MESSAGE(path.string() << " is not there and not tested");
      continue;
    }
    for (int64_t tokens : {150, 450})
      check_resumed([&] { return open(GgufFile::open(path.string()).take(), DType::U8); }, tokens);
  }
}

TEST_CASE("of layers with a window the file has the last pages, and who goes back further begins anew") {
  const fs::path path = in_zoo("gpt-oss");
  if (!fs::exists(path)) {
    MESSAGE(path.string() << " is not there and not tested");
    return;
  }
  const test::TempFolder folder;
  const auto open_model = [&] { return open(GgufFile::open(path.string()).take(), DType::U8); };
  const Opened left = open_model(), resumed = open_model();
  read_and_write(*left.session, 450);
  REQUIRE(left.session->save(folder / "talk.cache").ok());
  const Engine::Pieces pieces = left.session->engine().pieces(left.session->sequence());
  CHECK(pieces.pages == 8);
  CHECK(pieces.local_pages < 4);
  CHECK(pieces.local_page_bytes == 2 * pieces.page_bytes);  // layers 0 and 2, and 1
  REQUIRE(resumed.session->restore(folder / "talk.cache").ok());
  resumed.session->rewind(449);
  CHECK(resumed.session->position() == 449);
  resumed.session->rewind(200);
  CHECK(resumed.session->position() == 0);
  left.session->reset();
  CHECK(same_bits(next_turn(*left.session), next_turn(*resumed.session)));
}

TEST_CASE("a conversation that begins anew after one from disk is not changed by it") {
  const test::TempFolder folder;
  const Opened model = open(), fresh = open();
  read_and_write(*model.session, 100);
  REQUIRE(model.session->save(folder / "talk.cache").ok());
  model.session->reset();
  REQUIRE(model.session->restore(folder / "talk.cache").ok());
  model.session->rewind(40);
  model.session->reset();
  CHECK(same_bits(next_turn(*model.session), next_turn(*fresh.session)));
}

TEST_CASE("nothing is kept of nothing, and what is kept is for its user alone") {
  const test::TempFolder folder;
  const Opened model = open();
  REQUIRE(model.session->save(folder / "empty.cache").ok());
  CHECK_FALSE(fs::exists(folder / "empty.cache"));
  read_and_write(*model.session, 5);
  REQUIRE(model.session->save(folder / "talk.cache").ok());
  struct stat info{};
  REQUIRE(::stat((folder / "talk.cache").c_str(), &info) == 0);
  CHECK((info.st_mode & 077) == 0);
  const Status nowhere = model.session->save(folder / "no/folder.cache");
  REQUIRE_FALSE(nowhere.ok());
  CHECK(contains(nowhere.error().message, "folder.cache"));
}

TEST_CASE("another model, kind of cache, arithmetic or context is said") {
  const test::TempFolder folder;
  const std::string path = folder / "talk.cache";
  const Opened model = open();
  read_and_write(*model.session, 70);
  REQUIRE(model.session->save(path).ok());
  CHECK(why_refused(*open(DType::F16).session, path) ==
        "[cache file] " + path + ": its cache type is q8, here it is f16");
  CHECK(contains(why_refused(*open(DType::U8, 512, false).session, path),
                 "its kind of activations is q8, here it is f32"));
  CHECK(contains(why_refused(*open(DType::U8, 64).session, path), "its 73 tokens do not fit a context of 64"));
  const std::vector<std::byte> other = test::RandomModel({}).writer().bytes();
  const Opened random = open(GgufFile::open_memory(other).take(), DType::U8);
  CHECK(contains(why_refused(*random.session, path), "its model is "));
  CHECK(contains(why_refused(*random.session, folder / "none.cache"), "none.cache"));
}

TEST_CASE("a file that is short, long, changed anywhere or another's is refused") {
  const test::TempFolder folder;
  const std::string path = folder / "talk.cache";
  const Opened model = open();
  read_and_write(*model.session, 70);
  REQUIRE(model.session->save(path).ok());
  const std::string whole = read_file(path).take();
  const auto refused = [&](const std::string& contents) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
    model.session->reset();
    return why_refused(*model.session, path);
  };
  for (size_t size : {size_t{0}, size_t{1}, size_t{39}, size_t{40}, size_t{200}, whole.size() / 2, whole.size() - 1})
    CHECK(contains(refused(whole.substr(0, size)), path));
  CHECK(contains(refused(whole + "x"), "it is too long"));
  for (size_t at = 0; at < whole.size(); at += at < 2000 ? 7 : 4099) {
    CAPTURE(at);
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    CHECK(contains(refused(changed), path));
  }
  std::ofstream(path, std::ios::binary | std::ios::trunc) << whole;
  model.session->reset();
  CHECK(model.session->restore(path).ok());
  REQUIRE(::chmod(path.c_str(), 0666) == 0);
  model.session->reset();
  CHECK(contains(why_refused(*model.session, path), "others could have written it"));
}
