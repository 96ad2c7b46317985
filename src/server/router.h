// Router: which request gets which answer. Its table names the paths; the forms of the APIs are in files of their own
// (chat_completion.h, completion.h, messages.h), and so are who may ask (access.h) and the way of a generation from the
// backend to its client (exchange.h).
//
// Everything here happens on the thread of the HTTP server, but for what a request needs before its answer can begin,
// which `prepare` may do on another one (preparation.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/access.h"
#include "server/exchange.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace smelt {

struct RouterOptions {
  std::vector<std::string> api_keys;  // empty: whoever reaches the server may ask
  std::string host;                   // by which clients may name the server, besides localhost and addresses
  std::string build;                  // "smelt 0.1.0", for /props
  int slots = 1;                      // sequences that the backend runs at once
};

// Where a router's work is done.
struct RouterThreads {
  using Work = std::function<void()>;
  std::function<void(Work)> post, post_soon;  // on the thread of the server: at once; with what follows (http_server.h)
  std::function<bool(size_t bytes, Work)> prepare;  // of a request of so many bytes, anywhere; false: there is too much
};

class Router {
 public:
  using Work = RouterThreads::Work;

  // REQUIRES: `model` and `backend` outlive this; this outlives what was posted, and what is prepared.
  Router(const ServedModel& model, Backend& backend, RouterOptions options, RouterThreads threads);
  ~Router();

  void handle(HttpRequest request, std::shared_ptr<HttpReply> reply);
  // What everybody is answered before there is a model.
  static void refuse_while_loading(const std::shared_ptr<HttpReply>& reply);
  // From now on requests for text are answered with 503; those under way go on.
  void drain() { is_draining_ = true; }

  // Method and path of all but the page; a path that ends with "*" stands for all that begin so.
  static std::vector<std::pair<std::string, std::string>> paths();

 private:
  struct Route;
  struct Call;
  using Reply = std::shared_ptr<HttpReply>;
  static const std::vector<Route>& routes();

  void answer(const Route& route, HttpRequest request, const Reply& reply);
  void prepare(const Route& route, HttpRequest request, const Reply& reply);
  void understand(Call& call) const;
  void give(Call& call);
  void generate(Call& call);
  void refuse(const ApiForm& form, const ApiError& error, const Reply& reply);
  void count(const GenerationEnd& end);
  std::optional<ApiError> unavailable() const;

  HttpResponse health(const HttpRequest& request);
  HttpResponse models(const HttpRequest& request);
  HttpResponse one_model(const HttpRequest& request);
  HttpResponse props(const HttpRequest& request);
  HttpResponse metrics(const HttpRequest& request);
  HttpResponse slots(const HttpRequest& request);
  HttpResponse embeddings(const HttpRequest& request);
  Json model_json() const;

  const ServedModel& model_;
  Backend& backend_;
  const RouterOptions options_;
  const AccessRules access_;
  const std::function<bool(size_t bytes, Work)> prepare_;
  ExchangeHost host_;
  ServerCounts counts_;
  int64_t started_;
  bool is_draining_ = false;
};

}  // namespace smelt
