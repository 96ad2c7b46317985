// Router: which request gets which answer, who may ask, and the way of a generation from the backend to its client.
//
// The API's own forms are in files of their own (chat_completion.h, completion.h). Everything here happens on the
// thread of the HTTP server; events of the backend come there through `post`.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "server/answer.h"
#include "server/http.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace smelt {

struct RouterOptions {
  std::vector<std::string> api_keys;  // empty: whoever reaches the server may ask
  std::string host;                   // by which clients may name the server, besides localhost and addresses
  std::string build;                  // "smelt 0.1.0", for /props
  int slots = 1;                      // sequences that the backend runs at once
};

class Router {
 public:
  using Post = std::function<void(std::function<void()>)>;  // runs work on the thread of the server

  // REQUIRES: `model` and `backend` outlive this; this outlives what was posted.
  Router(const ServedModel& model, Backend& backend, RouterOptions options, Post post);
  ~Router();

  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // What everybody is answered before there is a model.
  static void refuse_while_loading(const std::shared_ptr<HttpReply>& reply);
  // From now on requests for text are answered with 503; those under way go on.
  void drain() { is_draining_ = true; }

 private:
  class Exchange;
  struct Route;
  static const std::vector<Route>& routes();

  std::optional<ApiError> why_not(const HttpRequest& request, const Route& route) const;
  std::optional<uint64_t> number_of_key(const HttpRequest& request) const;
  void generate(std::optional<ApiError> problem, ApiRequest request, const std::shared_ptr<HttpReply>& reply);
  Stamp new_stamp();

  void health(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void models(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void props(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void metrics(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void chat_completions(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void completions(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void tokenize(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void detokenize(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void apply_template(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);
  void embeddings(const HttpRequest& request, const std::shared_ptr<HttpReply>& reply);

  const ServedModel& model_;
  Backend& backend_;
  RouterOptions options_;
  Post post_;
  ServerCounts counts_;
  int64_t started_;
  bool is_draining_ = false;
  uint64_t asking_ = 0;  // number of the key of the request that is being answered: what its text may reuse
};

}  // namespace smelt
