// Constraint: which tokens may come next, so that the text stays within a grammar.
//
// What a position of the automaton says about all tokens is worked out once (TokenMasks): most are allowed or refused
// whatever surrounds the rule. The few that lead out of the rule are tried where they come up. So a mask costs some
// microseconds once a grammar is warm, for any vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/matcher.h"
#include "grammar/token_table.h"

namespace smelt {

// A set of tokens, one bit each.
class TokenMask {
 public:
  explicit TokenMask(int32_t tokens) : words_((static_cast<size_t>(tokens) + 63) / 64) {}
  void set(int32_t token) { words_[static_cast<size_t>(token) / 64] |= uint64_t{1} << (token % 64); }
  bool has(int32_t token) const { return words_[static_cast<size_t>(token) / 64] >> (token % 64) & 1; }
  void add(const TokenMask& other);
  bool empty() const;
  std::span<const uint64_t> words() const { return words_; }

 private:
  std::vector<uint64_t> words_;
};

// One grammar over one vocabulary, for any number of texts at once. Thread-safe.
class TokenMasks {
 public:
  static Result<std::shared_ptr<const TokenMasks>> make(const Grammar& grammar,
                                                        std::shared_ptr<const TokenTable> tokens);

  // What can be said of all tokens at a position without knowing what called its rule.
  struct Base {
    TokenMask allowed;
    std::vector<int32_t> depends;  // places in the token table, ascending
  };
  const Base& base(int32_t position) const;

  // States that texts have met and the masks of these: those of a text that has ended serve the next one.
  struct Found {
    explicit Found(const Automaton& automaton) : matcher(automaton) {}
    Matcher matcher;
    std::unordered_map<Matcher::State, TokenMask> masks;
  };
  std::unique_ptr<Found> take_found() const;
  void give_back(std::unique_ptr<Found> found) const;

  const Automaton& automaton() const { return automaton_; }
  const TokenTable& tokens() const { return *tokens_; }

 private:
  TokenMasks(Automaton automaton, std::shared_ptr<const TokenTable> tokens);
  Base make_base(int32_t position) const;

  Automaton automaton_;
  std::shared_ptr<const TokenTable> tokens_;
  mutable std::mutex mutex_;
  mutable Matcher matcher_;
  mutable std::unordered_map<int32_t, std::unique_ptr<const Base>> bases_;
  mutable std::vector<std::unique_ptr<Found>> found_;
};

// One text that is being written.
class Constraint {
 public:
  explicit Constraint(std::shared_ptr<const TokenMasks> masks);
  Constraint(Constraint&&) = default;
  Constraint& operator=(Constraint&&) = delete;
  ~Constraint();

  // The tokens that may come next; valid until the next call of any function. Empty: only the end may.
  const TokenMask& mask();
  bool can_end() const { return found_->matcher.is_complete(state_); }
  // The text is complete and nothing can follow.
  bool is_finished() { return can_end() && mask().empty(); }
  // Appends a token, or bytes. An Error (and nothing appended) if the grammar has no such text.
  Status accept(int32_t token);
  Status accept(std::string_view bytes);

 private:
  TokenMask make_mask();
  void forget_if_large();

  std::shared_ptr<const TokenMasks> masks_;
  std::unique_ptr<TokenMasks::Found> found_;
  Matcher::State state_;
  std::string text_;  // all that was accepted: states can be found again from it
};

}  // namespace smelt
