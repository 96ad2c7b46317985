// Answer: what a client is told of one generation, in the form of the API that it asked by. Events of the backend go
// in, JSON comes out; nothing here knows of sockets or threads.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "server/backend.h"
#include "server/fields.h"

namespace smelt {

// What names an answer, given from outside so that answers can be compared.
struct Stamp {
  std::string id;  // unique, letters and digits
  int64_t created = 0;
};

class Answer {
 public:
  virtual ~Answer() = default;
  // Of a stream: the objects to send at once, after new tokens, and at the end.
  virtual std::vector<Json> begin() { return {}; }
  virtual std::vector<Json> take(std::span<const int32_t> tokens) = 0;
  virtual std::vector<Json> finish(const GenerationEnd& end) = 0;
  // All of it. REQUIRES: finish() was called.
  virtual Json whole() const = 0;
  // A stop string has come: the generation can be cancelled, and ends as if it had stopped.
  virtual bool is_complete() const = 0;
};

// A request that was understood.
struct ApiRequest {
  GenerationRequest generation;
  bool stream = false;
  std::unique_ptr<Answer> answer;
};

Json usage_of(const GenerationEnd& end);
Json timings_of(const GenerationEnd& end);

}  // namespace smelt
