// Exchange: one request for text on its way: its generations from the backend, their answer to the client.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "server/answer.h"
#include "server/api_form.h"
#include "server/http.h"

namespace smelt {

// What exchanges have in common; outlives them.
struct ExchangeHost {
  Backend& backend;
  std::function<void(std::function<void()>)> post, post_soon;  // run work on the thread of the server (http_server.h)
  std::function<void(const GenerationEnd&)> ended;             // called there, once for each generation
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // Asks the backend. An Error, and nothing was sent: it takes no more requests. Used on the thread of the server.
  static Status start(ExchangeHost& host, const ApiForm& form, ApiRequest request, std::shared_ptr<HttpReply> reply);

 private:
  Exchange(ExchangeHost& host, const ApiForm& form, ApiRequest request, std::shared_ptr<HttpReply> reply);

  Status submit(std::vector<GenerationRequest> generations);
  void begin();
  void take(size_t number, const GenerationEvent& event);
  void finish(size_t number, GenerationEnd end);
  void tell_end(size_t number, const GenerationEnd& end);
  void finish_all();
  void fail_late(const GenerationEnd& end);
  void send(const StreamEvents& events);
  void abandon();

  ExchangeHost& host_;
  const ApiForm& form_;
  std::unique_ptr<Answer> answer_;
  std::shared_ptr<HttpReply> reply_;  // nothing once the last generation has ended
  const bool stream_;
  std::vector<Backend::Id> ids_;
  std::vector<int64_t> taken_;  // tokens of each generation up to its stop string, if there is one
  size_t running_ = 0;
  bool is_over_ = false;  // for the client: all was said, or it has gone
};

}  // namespace smelt
