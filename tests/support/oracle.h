// A model's oracle: what another implementation of it gives, in doubles (tests/data/README.md), and how far ours is
// from that.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/session.h"

namespace smelt::test {

namespace fs = std::filesystem;
using Json = nlohmann::json;

struct Oracle {
  std::string name;
  fs::path model, folder;
  Json json;
  std::vector<float> logits;
};

inline Oracle load_oracle(const fs::path& model, const fs::path& folder, const std::string& name) {
  Oracle o{.name = name, .model = model, .folder = folder};
  o.json = Json::parse(std::ifstream(folder / (name + ".json")));
  std::ifstream bin(folder / (name + ".bin"), std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(bin)), {});
  o.logits.resize(bytes.size() / 4);
  std::memcpy(o.logits.data(), bytes.data(), o.logits.size() * 4);
  return o;
}

struct Difference {
  double greatest = 0, relative = 0, kl = 0;
  bool same_top = true;
};

inline Difference difference(std::span<const float> got, const float* expected) {
  Difference d;
  double dot = 0, norm = 0, mg = -1e30, me = -1e30;
  for (size_t i = 0; i < got.size(); ++i) {
    const double e = expected[i], x = got[i];
    d.greatest = std::max(d.greatest, std::abs(x - e));
    dot += (x - e) * (x - e);
    norm += e * e;
    mg = std::max(mg, x);
    me = std::max(me, e);
  }
  d.relative = std::sqrt(dot / norm);
  double zg = 0, ze = 0;
  for (size_t i = 0; i < got.size(); ++i) zg += std::exp(got[i] - mg), ze += std::exp(expected[i] - me);
  for (size_t i = 0; i < got.size(); ++i) {
    const double le = expected[i] - me - std::log(ze), lg = got[i] - mg - std::log(zg);
    d.kl += std::exp(le) * (le - lg);
  }
  d.same_top = std::max_element(got.begin(), got.end()) - got.begin() ==
               std::max_element(expected, expected + got.size()) - expected;
  return d;
}

inline int32_t argmax(std::span<const float> x) {
  return static_cast<int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
}

// Greedy tokens after a prompt, at most so many, and up to the first place where the oracle was nearly undecided.
inline void check_greedy(Session& session, const Json& prompt, std::span<const float> logits, size_t most = SIZE_MAX) {
  std::vector<float> current(logits.begin(), logits.end());
  const size_t count = std::min(most, prompt["greedy"].size());
  for (size_t i = 0; i < count; ++i) {
    if (prompt["greedy_gap"][i].get<double>() < 1e-3) break;
    const int32_t token = argmax(current);
    REQUIRE(token == prompt["greedy"][i].get<int32_t>());
    if (i + 1 == count) break;
    auto next = session.extend(token);
    REQUIRE(next.ok());
    current.assign(next->begin(), next->end());
  }
}

}  // namespace smelt::test
