// Answer: what a client is told of its request, in the form of the API that it asked by. Events of the backend go in,
// JSON comes out; nothing here knows of sockets or threads.
#pragma once

#include <memory>
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

// One event of a stream. Some APIs name them.
struct StreamEvent {
  std::string name = {};
  Json data = {};
  std::string text = {};  // of the data, where it was made as text (chunk_text.h)
};
using StreamEvents = std::vector<StreamEvent>;

// A request may have several generations, which are numbered from 0 and run side by side.
class Answer {
 public:
  virtual ~Answer() = default;
  // What a stream sends at once, after news of a generation, when one has ended, and when the last of them has.
  virtual StreamEvents begin() { return {}; }
  virtual StreamEvents take(size_t number, const GenerationEvent& news) = 0;
  virtual StreamEvents finish(size_t number, const GenerationEnd& end) = 0;
  virtual StreamEvents finish_all() { return {}; }
  // All of it. REQUIRES: finish() was called for every generation.
  virtual Json whole() const = 0;
  // A stop string has come: the generation can be cancelled, and ends as if it had stopped.
  virtual bool is_complete(size_t number) const = 0;
};

// A request that was understood.
struct ApiRequest {
  std::vector<GenerationRequest> generations;
  bool stream = false;
  std::unique_ptr<Answer> answer;
};

// `times` of the same generation. With a seed each has its own, so that they differ.
std::vector<GenerationRequest> repeated(const GenerationRequest& request, int64_t times);

// What was read and written, and its form in OpenAI's API.
struct Usage {
  int64_t prompt_tokens = 0, cached_tokens = 0, tokens = 0;
};
Json json_of(const Usage& usage);
Json timings_of(const GenerationEnd& end);

}  // namespace smelt
