#include "server/router.h"

#include <algorithm>
#include <ctime>
#include <random>

#include "server/chat_completion.h"
#include "server/completion.h"
#include "server/page.h"
#include "server/settings.h"

namespace smelt {
namespace {

using Reply = std::shared_ptr<HttpReply>;

HttpResponse json_response(const Json& json, int status = 200) {
  return {.status = status, .body = dump(json), .headers = {{"Cache-Control", "no-store"}}};
}

void fail(const Reply& reply, const ApiError& error) {
  HttpResponse response = json_response(json_of(error), error.status);
  if (error.status == 429 || error.status == 503) response.headers.emplace_back("Retry-After", "1");
  if (error.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  reply->send(std::move(response));
}

// The time does not tell how much of a key was right.
bool same_secret(std::string_view given, std::string_view key) {
  unsigned difference = given.size() == key.size() ? 0 : 1;
  for (size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(key[i % key.size()]);
  return difference == 0;
}

std::string_view without_port(std::string_view host) {
  const size_t colon = host.find(':', host.starts_with('[') ? host.find(']') : 0);
  return host.substr(0, colon);
}

// An address cannot be made to mean another machine, as a name can.
bool is_address(std::string_view host) {
  return host.starts_with('[') || host.find_first_not_of("0123456789.") == std::string_view::npos;
}

bool is_own_origin(std::string_view origin, std::string_view host) {
  for (std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme) && origin.substr(scheme.size()) == host) return true;
  return false;
}

// What the page may load and do, and nobody else with it.
const HttpHeaders& page_headers() {
  static const HttpHeaders headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cache-Control", "no-cache"}};
  return headers;
}

}  // namespace

// One generation on its way to a client.
class Router::Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(Router& router, ApiRequest request, Reply reply)
      : router_(router), answer_(std::move(request.answer)), reply_(std::move(reply)), stream_(request.stream) {}

  Status start(GenerationRequest request) {
    auto sink = [self = shared_from_this()](GenerationEvent event) {
      self->router_.post_([self, event = std::move(event)] { self->take(event); });
    };
    SMELT_TRY(id, router_.backend_.submit(std::move(request), std::move(sink)));
    id_ = id;
    reply_->when_gone([self = weak_from_this(), &backend = router_.backend_, id] {
      if (const auto exchange = self.lock()) exchange->is_gone_ = true;
      backend.cancel(id);
    });
    if (stream_) {
      reply_->begin({.type = "text/event-stream", .headers = {{"Cache-Control", "no-store"}}});
      send(answer_->begin());
    }
    return {};
  }

 private:
  void take(const GenerationEvent& event) {
    if (!event.tokens.empty() && !answer_->is_complete()) {
      taken_ += static_cast<int64_t>(event.tokens.size());
      send(answer_->take(event.tokens));
      if (answer_->is_complete()) router_.backend_.cancel(id_);
    }
    if (event.end) finish(*event.end);
  }

  void finish(GenerationEnd end) {
    // The backend may have gone on, or come to an end of its own, before it heard of the stop string.
    if (answer_->is_complete()) {
      end.reason = Finish::Stop;
      end.tokens = taken_;
    }
    count(end);
    if (is_gone_) return;
    if (end.reason == Finish::Failed || end.reason == Finish::Cancelled) return fail_late(end);
    std::vector<Json> last = answer_->finish(end);
    if (!stream_) return reply_->send(json_response(answer_->whole()));
    send(last);
    reply_->write("data: [DONE]\n\n");
    reply_->end();
  }

  void fail_late(const GenerationEnd& end) {
    const bool cancelled = end.reason == Finish::Cancelled;
    const ApiError error{.status = cancelled ? 503 : 500,
                         .message = cancelled ? "the server ends" : plain_message({end.error})};
    if (!stream_) return fail(reply_, error);
    send({json_of(error)});
    reply_->end();
  }

  void send(const std::vector<Json>& chunks) {
    if (!stream_ || is_gone_) return;
    std::string text;
    for (const Json& chunk : chunks) text += "data: " + dump(chunk) + "\n\n";
    reply_->write(text);
  }

  void count(const GenerationEnd& end) {
    ServerCounts& c = router_.counts_;
    switch (end.reason) {
      case Finish::Stop: ++c.stopped; break;
      case Finish::Length: ++c.cut; break;
      case Finish::Cancelled: ++c.cancelled; break;
      case Finish::Failed: ++c.failed; break;
    }
  }

  Router& router_;
  std::unique_ptr<Answer> answer_;
  Reply reply_;
  const bool stream_;
  Backend::Id id_ = 0;
  bool is_gone_ = false;
  int64_t taken_ = 0;  // tokens up to the stop string, if there is one
};

struct Router::Route {
  const char* method;
  const char* path;
  void (Router::*answer)(const HttpRequest&, const Reply&);
  bool is_open = false;  // to those without a key
};

const std::vector<Router::Route>& Router::routes() {
  static const std::vector<Route> routes = {
      {"GET", "/health", &Router::health, true},
      {"GET", "/v1/health", &Router::health, true},
      {"GET", "/v1/models", &Router::models},
      {"GET", "/models", &Router::models},
      {"GET", "/props", &Router::props},
      {"GET", "/metrics", &Router::metrics},
      {"POST", "/v1/chat/completions", &Router::chat_completions},
      {"POST", "/chat/completions", &Router::chat_completions},
      {"POST", "/v1/completions", &Router::completions},
      {"POST", "/completions", &Router::completions},
      {"POST", "/tokenize", &Router::tokenize},
      {"POST", "/detokenize", &Router::detokenize},
      {"POST", "/apply-template", &Router::apply_template},
      {"POST", "/v1/embeddings", &Router::embeddings},
  };
  return routes;
}

Router::Router(const ServedModel& model, Backend& backend, RouterOptions options, Post post)
    : model_(model),
      backend_(backend),
      options_(std::move(options)),
      post_(std::move(post)),
      started_(std::time(nullptr)) {}

Router::~Router() = default;

// A page of another site can neither read answers nor ask; a name that was made to mean this machine is no name of it.
// With a key nobody can ask who does not know it.
std::optional<ApiError> Router::why_not(const HttpRequest& request, const Route& route) const {
  const std::string_view host = request.header("host"), origin = request.header("origin"), name = without_port(host);
  if (options_.api_keys.empty() && !host.empty() && name != "localhost" && name != options_.host && !is_address(name))
    return ApiError{.status = 403,
                    .message = "Host: this server is not known as " + std::string(name) +
                               "; use its address, or start it with an API key"};
  if (!origin.empty() && !is_own_origin(origin, host))
    return ApiError{.status = 403, .message = "Origin: pages of " + std::string(origin) + " may not ask this server"};
  if (!route.is_open && !number_of_key(request))
    return ApiError{.status = 401,
                    .message = "the API key is missing or wrong; send it as Authorization: Bearer KEY",
                    .code = "invalid_api_key"};
  if (std::string_view(route.method) == "POST" && !request.header("content-type").starts_with("application/json"))
    return ApiError{.status = 415, .message = "Content-Type: expected application/json"};
  return std::nullopt;
}

// From 1 on; 0 where everybody may ask.
std::optional<uint64_t> Router::number_of_key(const HttpRequest& request) const {
  if (options_.api_keys.empty()) return 0;
  std::string_view given = request.header("authorization");
  if (given.starts_with("Bearer "))
    given.remove_prefix(7);
  else
    given = request.header("x-api-key");
  std::optional<uint64_t> known;
  for (size_t i = 0; i < options_.api_keys.size(); ++i)
    if (same_secret(given, options_.api_keys[i])) known = i + 1;
  return known;
}

void Router::handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  bool path_is_known = false;
  for (const Route& route : routes()) {
    if (route.path != request.path) continue;
    path_is_known = true;
    if (route.method != request.method) continue;
    if (const auto problem = why_not(request, route)) return fail(reply, *problem);
    asking_ = number_of_key(request).value_or(0);
    return (this->*route.answer)(request, reply);
  }
  if (const PageFile* file = page_file(request.path)) {
    if (const auto problem = why_not(request, {"GET", "", nullptr, true})) return fail(reply, *problem);
    if (request.method == "GET")
      return reply->send({.type = file->type, .body = std::string(file->bytes), .headers = page_headers()});
    path_is_known = true;
  }
  fail(reply, path_is_known ? ApiError{.status = 405, .message = request.method + ": not the method of this path"}
                            : ApiError{.status = 404, .message = request.path + ": there is no such path"});
}

Stamp Router::new_stamp() {
  static constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string id;
  while (id.size() < 20) id += kDigits[random() % (sizeof kDigits - 1)];
  return {.id = id, .created = std::time(nullptr)};
}

void Router::generate(std::optional<ApiError> problem, ApiRequest request, const Reply& reply) {
  if (!problem && is_draining_) problem = ApiError{.status = 503, .message = "the server ends and takes no requests"};
  if (const std::string failure = backend_.load().failure; !problem && !failure.empty())
    problem = ApiError{.status = 503, .message = plain_message({failure})};
  if (!problem) {
    GenerationRequest generation = std::move(request.generation);
    generation.cache_owner = asking_;
    const auto exchange = std::make_shared<Exchange>(*this, std::move(request), reply);
    const Status started = exchange->start(std::move(generation));
    if (started) return;
    problem = ApiError{.status = 429, .message = plain_message(started.error())};
  }
  ++counts_.refused;
  fail(reply, *problem);
}

void Router::refuse_while_loading(const Reply& reply) {
  fail(reply, {.status = 503, .message = "the model is being loaded; try again in a moment"});
}

// --- the routes

void Router::health(const HttpRequest&, const Reply& reply) {
  if (is_draining_) return fail(reply, {.status = 503, .message = "the server ends"});
  if (const std::string failure = backend_.load().failure; !failure.empty())
    return fail(reply, {.status = 503, .message = plain_message({failure})});
  reply->send(json_response({{"status", "ok"}}));
}

void Router::models(const HttpRequest&, const Reply& reply) {
  const Json meta = {{"n_ctx", model_.context()}, {"n_vocab", model_.tokenizer().size()}};
  const Json model = {
      {"id", model_.name()}, {"object", "model"}, {"created", started_}, {"owned_by", "smelt"}, {"meta", meta}};
  reply->send(json_response({{"object", "list"}, {"data", Json::array({model})}}));
}

void Router::props(const HttpRequest&, const Reply& reply) {
  const SamplerOptions& s = model_.sampling();
  const Json params = {{"temperature", s.temperature},
                       {"top_k", s.top_k},
                       {"top_p", s.top_p},
                       {"min_p", s.min_p},
                       {"repeat_penalty", s.repeat_penalty}};
  reply->send(json_response({{"default_generation_settings", {{"n_ctx", model_.context()}, {"params", params}}},
                             {"total_slots", options_.slots},
                             {"model_alias", model_.name()},
                             {"chat_template", model_.chat_template().source()},
                             {"build_info", options_.build}}));
}

void Router::metrics(const HttpRequest&, const Reply& reply) {
  reply->send({.type = "text/plain; version=0.0.4", .body = metrics_text(backend_.load(), backend_.counts(), counts_)});
}

void Router::chat_completions(const HttpRequest& request, const Reply& reply) {
  Json body;
  ApiRequest understood;
  auto problem = parse_object(request.body, body);
  if (!problem) problem = read_chat_completion(body, model_, new_stamp(), understood);
  generate(std::move(problem), std::move(understood), reply);
}

void Router::completions(const HttpRequest& request, const Reply& reply) {
  Json body;
  ApiRequest understood;
  auto problem = parse_object(request.body, body);
  if (!problem) problem = read_completion(body, model_, new_stamp(), understood);
  generate(std::move(problem), std::move(understood), reply);
}

void Router::tokenize(const HttpRequest& request, const Reply& reply) {
  Json body;
  if (auto problem = parse_object(request.body, body)) return fail(reply, *problem);
  Fields fields(body);
  const std::string content = fields.text("content", "");
  const bool add_special = fields.flag("add_special", false), parse_special = fields.flag("parse_special", true),
             with_pieces = fields.flag("with_pieces", false);
  if (fields.problem()) return fail(reply, *fields.problem());
  Json tokens = Json::array();
  for (int32_t id : model_.tokenizer().encode(content, parse_special, add_special)) {
    if (with_pieces)
      tokens.push_back({{"id", id}, {"piece", std::string(model_.tokenizer().piece(id))}});
    else
      tokens.push_back(id);
  }
  reply->send(json_response({{"tokens", tokens}}));
}

void Router::detokenize(const HttpRequest& request, const Reply& reply) {
  Json body;
  std::vector<int32_t> ids;
  auto problem = parse_object(request.body, body);
  if (!problem) problem = read_ids("tokens", body.value("tokens", Json()), model_, ids);
  if (problem) return fail(reply, *problem);
  reply->send(json_response({{"content", model_.tokenizer().decode(ids)}}));
}

void Router::apply_template(const HttpRequest& request, const Reply& reply) {
  Json body;
  Chat chat;
  auto problem = parse_object(request.body, body);
  if (!problem) problem = read_chat(body, chat);
  if (problem) return fail(reply, *problem);
  const auto prompt = model_.chat_template().render(chat);
  if (!prompt) return fail(reply, {.message = plain_message(prompt.error()), .param = "messages"});
  reply->send(json_response({{"prompt", prompt->bytes()}}));
}

void Router::embeddings(const HttpRequest&, const Reply& reply) {
  fail(reply, {.status = 501, .message = "embeddings: this server generates text and has none"});
}

}  // namespace smelt
