#include "server/logprobs_json.h"

namespace smelt {
namespace {

Json json_of(const TokenLogprob& one, const Tokenizer& tokenizer) {
  const std::string piece(tokenizer.piece(one.token));
  Json bytes = Json::array();
  for (char c : piece) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", piece}, {"logprob", one.logprob}, {"bytes", bytes}};
}

}  // namespace

Json json_of(const Logprobs& logprobs, const Tokenizer& tokenizer) {
  Json json = json_of(logprobs.chosen, tokenizer);
  json["top_logprobs"] = Json::array();
  for (const TokenLogprob& one : logprobs.top) json["top_logprobs"].push_back(json_of(one, tokenizer));
  return json;
}

Json legacy_json_of(std::span<const Logprobs> logprobs, const Tokenizer& tokenizer, size_t offset) {
  Json tokens = Json::array(), values = Json::array(), tops = Json::array(), offsets = Json::array();
  for (const Logprobs& one : logprobs) {
    const std::string piece(tokenizer.piece(one.chosen.token));
    Json top = Json::object();
    for (const TokenLogprob& other : one.top) top[std::string(tokenizer.piece(other.token))] = other.logprob;
    tokens.push_back(piece);
    values.push_back(one.chosen.logprob);
    tops.push_back(std::move(top));
    offsets.push_back(offset);
    offset += piece.size();
  }
  return {{"tokens", tokens}, {"token_logprobs", values}, {"top_logprobs", tops}, {"text_offset", offsets}};
}

}  // namespace smelt
