// The head for multi-token prediction against its oracle, however a text has come, and what it does where a file has
// none.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/draft_choice.h"
#include "engine/mtp_drafter.h"
#include "engine/session.h"
#include "support/effort.h"

using namespace smelt;
using Json = nlohmann::json;
using Tokens = std::vector<int32_t>;

namespace {

const std::string kFolder = SMELT_SOURCE_DIR "/../shared/models/tiny-glm/";
const std::string kName = "tiny-glm-mtp-Q4_0";

bool is_there() {
  if (std::filesystem::exists(kFolder + kName + ".gguf")) return true;
  MESSAGE(kFolder << " is not there");
  return false;
}

const GgufFile& mtp_file() {
  static const GgufFile file = GgufFile::open(kFolder + kName + ".gguf").take();
  return file;
}

std::unique_ptr<Session> open(int64_t chunk, bool quantise = false) {
  auto session = Session::open(mtp_file(),
                               {.threads = 1,
                                .context = 512,
                                .drafts = 3,
                                .mtp = true,
                                .cache_type = quantise ? DType::U8 : DType::F32,
                                .quantise_activations = quantise,
                                .prefill_chunk = chunk,
                                .use_tuned = false},
                               {});
  REQUIRE_MESSAGE(session.ok(), session.error().message);
  return session.take();
}

const Json& oracle() {
  static const Json json = Json::parse(std::ifstream(kFolder + "oracle/" + kName + ".json"));
  return json;
}

std::vector<float> floats_at(int64_t offset, size_t count) {
  std::ifstream bin(kFolder + "oracle/" + kName + ".bin", std::ios::binary);
  std::vector<float> out(count);
  bin.seekg(offset);
  bin.read(reinterpret_cast<char*>(out.data()), static_cast<std::streamsize>(count * 4));
  return out;
}

// The first guess behind `next`.
int32_t guess(Session& session, int32_t next, std::vector<float>* logits = nullptr) {
  const auto drafts = session.draft(next, 1, [&](std::span<const float> row) {
    if (logits) logits->assign(row.begin(), row.end());
    return likely_token(row, 0);
  });
  REQUIRE_MESSAGE(drafts.ok(), drafts.error().message);
  REQUIRE(drafts->size() == 1);
  return drafts->front();
}

double relative_difference(std::span<const float> got, std::span<const float> expected) {
  double dot = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    dot += std::pow(static_cast<double>(got[i]) - expected[i], 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(dot / norm);
}

}  // namespace

TEST_CASE("logits and guesses of the MTP head equal the oracle's") {
  if (!is_there()) return;
  for (int64_t chunk : test::some<int64_t>({512, 64})) {
    const auto session = open(chunk);
    for (const Json& prompt : oracle()["prompts"]) {
      CAPTURE(chunk);
      CAPTURE(prompt["name"].get<std::string>());
      const auto ids = prompt["ids"].get<Tokens>(), greedy = prompt["greedy"].get<Tokens>(),
                 drafts = prompt["mtp_draft"].get<Tokens>();
      session->reset();
      REQUIRE(session->append(ids).ok());
      std::vector<float> logits;
      CHECK(guess(*session, greedy[0], &logits) == drafts[0]);
      const auto expected = floats_at(prompt["mtp_logits"]["offset"].get<int64_t>(), logits.size());
      CHECK(relative_difference(logits, expected) < 1e-5);
      for (size_t i = 0; i + 1 < greedy.size(); ++i) {
        REQUIRE(session->extend(greedy[i]).ok());
        CAPTURE(i);
        if (prompt["mtp_draft_gap"][i + 1].get<double>() < 1e-3) continue;
        CHECK(guess(*session, greedy[i + 1]) == drafts[i + 1]);
      }
    }
  }
}

TEST_CASE("guesses are the same whether tokens came one by one or as drafts, some of which were taken back") {
  if (!is_there()) return;
  const Json& prompt = oracle()["prompts"][2];
  const auto ids = prompt["ids"].get<Tokens>(), greedy = prompt["greedy"].get<Tokens>(),
             drafts = prompt["mtp_draft"].get<Tokens>();
  const auto session = open(512);
  REQUIRE(session->append(ids).ok());
  int64_t compared = 0;
  for (size_t done = 0; done + 4 < greedy.size();) {
    const size_t right = 1 + done % 3;
    Tokens step(greedy.begin() + static_cast<std::ptrdiff_t>(done),
                greedy.begin() + static_cast<std::ptrdiff_t>(done + right));
    step.resize(4, 17);
    // Guesses far ahead leave rows in the cache, which the right ones replace.
    REQUIRE(session->draft(step[0], 3, [](std::span<const float> row) { return likely_token(row, 0); }).ok());
    REQUIRE(session->extend_all(step, [](int64_t, std::span<const float>) {}).ok());
    done += right;
    session->rewind(static_cast<int64_t>(ids.size() + done));
    CHECK(guess(*session, greedy[done]) == drafts[done]);
    // What the step has left was taken.
    const auto again = session->draft(greedy[done], 1, [](std::span<const float> row) { return likely_token(row, 0); });
    REQUIRE(again.ok());
    CHECK(again->empty());
    ++compared;
  }
  CHECK(compared > 15);
}

TEST_CASE("guesses go on as far as they are wanted, likely and inside the context") {
  if (!is_there()) return;
  const auto session = open(512, true);
  Tokens text(505, 4);
  REQUIRE(session->append(text).ok());
  text.push_back(5);
  MtpDrafter drafter(session->engine(), session->sequence(), {0, false});
  MtpDrafter sure(session->engine(), session->sequence(), {1, false});
  CHECK(drafter.draft(text, 3)->size() == 3);
  CHECK(session->position() == 505);
  REQUIRE(session->extend(5).ok());
  text.push_back(6);
  CHECK(sure.draft(text, 3)->empty());
  for (int32_t token : {6, 7, 8}) REQUIRE(session->extend(token).ok());
  text.insert(text.end(), {7, 8, 9});
  CHECK(drafter.draft(text, 0)->empty());
  REQUIRE(session->extend(9).ok());
  text.push_back(10);
  CHECK(drafter.draft(text, 9)->size() == 2);  // 510 tokens, 512 places
}

TEST_CASE("a file without the head says so, and without --mtp it is not read") {
  const GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  const auto session = Session::open(file, {.threads = 1, .drafts = 3, .mtp = true}, {});
  REQUIRE(!session.ok());
  CHECK(session.error().message ==
        "[model] blk.6.nextn.eh_proj.weight: this file has no head for multi-token prediction; choose one that has, "
        "or run without --mtp");
  const auto without = Session::open(file, {.threads = 1, .context = 64, .drafts = 3}, {});
  REQUIRE(without.ok());
  REQUIRE((*without)->append(Tokens{1, 2}).ok());
  CHECK((*without)->draft(3, 3, [](std::span<const float>) { return 1; })->empty());
}

TEST_CASE("the most likely token, where it is likely enough") {
  const float logits[] = {0, 2, 1};
  CHECK(likely_token(logits, 0) == 1);
  CHECK(likely_token(logits, 0.66) == 1);  // e^2 / (1 + e + e^2) = 0.665
  CHECK(likely_token(logits, 0.67) == std::nullopt);
}
