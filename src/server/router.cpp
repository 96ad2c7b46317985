#include "server/router.h"

#include <algorithm>
#include <ctime>
#include <random>
#include <variant>

#include "server/chat_completion.h"
#include "server/completion.h"
#include "server/exchange.h"
#include "server/json_reply.h"
#include "server/messages.h"
#include "server/page.h"
#include "server/responses.h"
#include "server/settings.h"
#include "server/text_routes.h"

namespace smelt {
namespace {

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

Stamp new_stamp() {
  static constexpr char kDigits[] = "abcdefghijklmnopqrstuvwxyz0123456789";
  std::random_device random;
  std::string id;
  while (id.size() < 20) id += kDigits[random() % (sizeof kDigits - 1)];
  return {.id = id, .created = std::time(nullptr)};
}

// The ways to answer: a request for text becomes generations; a question about texts becomes JSON; the rest is what the
// server says of itself.
using ReadRequest = std::optional<ApiError> (*)(const Json& body, const ServedModel& model, const Stamp& stamp,
                                                ApiRequest& understood);
using Ask = std::optional<ApiError> (*)(const Json& body, const ServedModel& model, Json& answer);

// A path of the table that ends with "*" stands for all that begin so.
bool is_path(std::string_view pattern, std::string_view path) {
  return pattern.ends_with('*') ? path.starts_with(pattern.substr(0, pattern.size() - 1)) : path == pattern;
}

}  // namespace

struct Router::Route {
  using Tell = HttpResponse (Router::*)(const HttpRequest& request);
  const char* method;
  const char* path;
  std::variant<ReadRequest, Ask, Tell> answer;
  const ApiForm& form = kOpenAi;
  bool is_open = false;  // to those without a key
};

const std::vector<Router::Route>& Router::routes() {
  static const std::vector<Route> routes = {
      {"POST", "/v1/chat/completions", read_chat_completion},
      {"POST", "/chat/completions", read_chat_completion},
      {"POST", "/v1/completions", read_completion},
      {"POST", "/completions", read_completion},
      {"POST", "/v1/responses", read_responses, kResponses},
      {"POST", "/v1/messages", read_messages, kAnthropic},
      {"POST", "/v1/messages/count_tokens", count_message_tokens, kAnthropic},
      {"POST", "/tokenize", tokenize},
      {"POST", "/detokenize", detokenize},
      {"POST", "/apply-template", apply_template},
      {"POST", "/v1/embeddings", &Router::embeddings},
      {"POST", "/embeddings", &Router::embeddings},
      {"GET", "/v1/models", &Router::models},
      {"GET", "/models", &Router::models},
      {"GET", "/v1/models/*", &Router::one_model},
      {"GET", "/props", &Router::props},
      {"GET", "/metrics", &Router::metrics},
      {"GET", "/slots", &Router::slots},
      {"GET", "/health", &Router::health, kOpenAi, true},
      {"GET", "/v1/health", &Router::health, kOpenAi, true},
  };
  return routes;
}

Router::Router(const ServedModel& model, Backend& backend, RouterOptions options, Post post)
    : model_(model),
      backend_(backend),
      options_(std::move(options)),
      access_{options_.api_keys, options_.host},
      host_{backend, std::move(post), [this](const GenerationEnd& end) { count(end); }},
      started_(std::time(nullptr)) {}

Router::~Router() = default;

void Router::refuse_while_loading(const std::shared_ptr<HttpReply>& reply) {
  fail(*reply, kOpenAi, {.status = 503, .message = "the model is being loaded; try again in a moment"});
}

void Router::handle(HttpRequest request, std::shared_ptr<HttpReply> reply) {
  ++counts_.requests;
  const ApiForm* form = nullptr;  // of the path, if there is such a path
  for (const Route& route : routes()) {
    if (!is_path(route.path, request.path)) continue;
    form = &route.form;
    if (route.method == request.method) return answer(route, request, reply);
  }
  if (const PageFile* file = page_file(request.path)) {
    if (const auto problem = why_refused(access_, request, true)) return fail(*reply, kOpenAi, *problem);
    if (request.method == "GET")
      return reply->send({.type = file->type, .body = std::string(file->bytes), .headers = page_headers()});
    form = &kOpenAi;
  }
  if (form) return fail(*reply, *form, {.status = 405, .message = request.method + ": not the method of this path"});
  fail(*reply, kOpenAi, {.status = 404, .message = request.path + ": there is no such path"});
}

void Router::answer(const Route& route, const HttpRequest& request, const Reply& reply) {
  if (const auto problem = why_refused(access_, request, route.is_open)) return fail(*reply, route.form, *problem);
  if (const auto* tell = std::get_if<Route::Tell>(&route.answer)) return reply->send((this->**tell)(request));
  Json body, answered;
  ApiRequest understood;
  const auto* ask = std::get_if<Ask>(&route.answer);
  auto problem = parse_object(request.body, body);
  if (!problem)
    problem = ask ? (*ask)(body, model_, answered)
                  : std::get<ReadRequest>(route.answer)(body, model_, new_stamp(), understood);
  for (GenerationRequest& generation : understood.generations)
    generation.cache_owner = number_of_key(access_, request).value_or(0);
  if (!ask) return generate(std::move(problem), route.form, std::move(understood), reply);
  if (problem) return fail(*reply, route.form, *problem);
  reply->send(json_response(answered));
}

void Router::generate(std::optional<ApiError> problem, const ApiForm& form, ApiRequest request, const Reply& reply) {
  if (!problem) problem = unavailable();
  if (!problem) {
    const Status started = Exchange::start(host_, form, std::move(request), reply);
    if (started) return;
    problem = ApiError{.status = 429, .message = plain_message(started.error())};
  }
  ++counts_.refused;
  fail(*reply, form, *problem);
}

void Router::count(const GenerationEnd& end) {
  switch (end.reason) {
    case Finish::Stop: ++counts_.stopped; break;
    case Finish::Length: ++counts_.cut; break;
    case Finish::Cancelled: ++counts_.cancelled; break;
    case Finish::Failed: ++counts_.failed; break;
  }
}

// --- what the server says of itself

// Why no text is to be had, if so.
std::optional<ApiError> Router::unavailable() const {
  if (is_draining_) return ApiError{.status = 503, .message = "the server ends and takes no requests"};
  const std::string failure = backend_.load().failure;
  if (failure.empty()) return std::nullopt;
  return ApiError{.status = 503, .message = plain_message({failure})};
}

HttpResponse Router::health(const HttpRequest&) {
  if (const auto problem = unavailable()) return error_response(kOpenAi, *problem);
  return json_response({{"status", "ok"}});
}

// With what OpenAI's and Anthropic's clients look for.
Json Router::model_json() const {
  return {{"id", model_.name()},
          {"object", "model"},
          {"type", "model"},
          {"display_name", model_.name()},
          {"created", started_},
          {"owned_by", "smelt"},
          {"meta", {{"n_ctx", model_.context()}, {"n_vocab", model_.tokenizer().size()}}}};
}

HttpResponse Router::models(const HttpRequest&) {
  return json_response({{"object", "list"},
                        {"data", Json::array({model_json()})},
                        {"has_more", false},
                        {"first_id", model_.name()},
                        {"last_id", model_.name()}});
}

HttpResponse Router::one_model(const HttpRequest& request) {
  const std::string name =
      percent_decoded(std::string_view(request.path).substr(std::string_view("/v1/models/").size()));
  if (name == model_.name()) return json_response(model_json());
  return error_response(kOpenAi, {.status = 404,
                                  .message = "model: there is no " + name + "; this server has " + model_.name(),
                                  .param = "model",
                                  .code = "model_not_found"});
}

HttpResponse Router::props(const HttpRequest&) {
  const SamplerOptions& s = model_.sampling();
  const Json params = {{"temperature", s.temperature},
                       {"top_k", s.top_k},
                       {"top_p", s.top_p},
                       {"min_p", s.min_p},
                       {"repeat_penalty", s.repeat_penalty}};
  return json_response({{"default_generation_settings", {{"n_ctx", model_.context()}, {"params", params}}},
                        {"total_slots", options_.slots},
                        {"model_alias", model_.name()},
                        {"chat_template", model_.chat_template().source()},
                        {"build_info", options_.build}});
}

HttpResponse Router::metrics(const HttpRequest&) {
  return {.type = "text/plain; version=0.0.4", .body = metrics_text(backend_.load(), backend_.counts(), counts_)};
}

// As many as there may be; those that run come first.
HttpResponse Router::slots(const HttpRequest&) {
  const std::vector<BackendSlot> running = backend_.slots();
  Json slots = Json::array();
  for (size_t i = 0; i < std::max(running.size(), static_cast<size_t>(options_.slots)); ++i) {
    Json slot = {{"id", i}, {"n_ctx", model_.context()}, {"is_processing", i < running.size()}};
    if (i < running.size()) {
      const BackendSlot& r = running[i];
      slot["id_task"] = r.request;
      slot["n_prompt_tokens"] = r.prompt_tokens;
      slot["n_prompt_tokens_cache"] = r.cached_tokens;
      slot["n_past"] = r.context_tokens;
      slot["next_token"] = Json::array({{{"n_decoded", r.tokens}}});
    }
    slots.push_back(std::move(slot));
  }
  return json_response(slots);
}

HttpResponse Router::embeddings(const HttpRequest&) {
  return error_response(kOpenAi, {.status = 501, .message = "embeddings: this server generates text and has none"});
}

}  // namespace smelt
