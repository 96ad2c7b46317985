#include "server/router.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <random>
#include <variant>

#include "server/chat_completion.h"
#include "server/completion.h"
#include "server/exchange.h"
#include "server/json_reply.h"
#include "server/messages.h"
#include "server/page.h"
#include "server/preparation.h"
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
using Ask = std::optional<ApiError> (*)(const Json& body, const ServedModel& model, Json& answer,
                                        const std::atomic<bool>& cancel);

ApiError busy() { return {.status = 429, .message = "too many requests wait already; try again later"}; }

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

std::vector<std::pair<std::string, std::string>> Router::paths() {
  std::vector<std::pair<std::string, std::string>> paths;
  for (const Route& route : routes()) paths.emplace_back(route.method, route.path);
  return paths;
}

// A request whose answer is being prepared: what is asked, and what has become of it.
struct Router::Call {
  const Route& route;
  HttpRequest request;
  Reply reply;
  std::shared_ptr<std::atomic<bool>> cancel;  // the client has gone
  std::optional<ApiError> problem = {};
  ApiRequest understood = {};  // of a request for text
  HttpResponse answered = {};  // to a question
};

Router::Router(const ServedModel& model, Backend& backend, RouterOptions options, RouterThreads threads)
    : model_(model),
      backend_(backend),
      options_(std::move(options)),
      access_{options_.api_keys, options_.host},
      prepare_(std::move(threads.prepare)),
      host_{backend, std::move(threads.post), std::move(threads.post_soon),
            [this](const GenerationEnd& end) { count(end); }},
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
    if (route.method == request.method) return answer(route, std::move(request), reply);
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

void Router::answer(const Route& route, HttpRequest request, const Reply& reply) {
  if (const auto problem = why_refused(access_, request, route.is_open)) return fail(*reply, route.form, *problem);
  if (const auto* tell = std::get_if<Route::Tell>(&route.answer)) return reply->send((this->**tell)(request));
  prepare(route, std::move(request), reply);
}

// The last one to hold a call, and so its client, is the thread of the server. What is short is done before anybody
// could notice that its client has gone.
void Router::prepare(const Route& route, HttpRequest request, const Reply& reply) {
  const bool is_for_text = std::holds_alternative<ReadRequest>(route.answer);
  if (is_for_text && backend_.load().is_full) return refuse(route.form, busy(), reply);
  const size_t bytes = request.body.size();
  auto cancel = std::make_shared<std::atomic<bool>>(false);
  if (bytes > Preparation::kShortBytes) reply->when_gone([cancel] { *cancel = true; });
  auto call = std::make_shared<Call>(Call{route, std::move(request), reply, std::move(cancel)});
  const bool is_taken = prepare_(bytes, [this, call = std::move(call)]() mutable {
    if (!*call->cancel) understand(*call);
    host_.post([this, call = std::move(call)] { give(*call); });
  });
  if (!is_taken) refuse(route.form, busy(), reply);
}

// On the thread that prepares.
void Router::understand(Call& call) const {
  Json body, answered;
  call.problem = parse_object(call.request.body, body);
  if (call.problem) return;
  if (const auto* ask = std::get_if<Ask>(&call.route.answer)) {
    call.problem = (*ask)(body, model_, answered, *call.cancel);
    if (!call.problem && !*call.cancel) call.answered = json_response(answered);
  } else {
    call.problem = std::get<ReadRequest>(call.route.answer)(body, model_, new_stamp(), call.understood);
    for (GenerationRequest& generation : call.understood.generations)
      generation.cache_owner = number_of_key(access_, call.request).value_or(0);
  }
}

void Router::give(Call& call) {
  if (*call.cancel) return;
  if (std::holds_alternative<ReadRequest>(call.route.answer)) return generate(call);
  if (call.problem) return fail(*call.reply, call.route.form, *call.problem);
  call.reply->send(std::move(call.answered));
}

void Router::generate(Call& call) {
  auto problem = std::move(call.problem);
  if (!problem) problem = unavailable();
  if (!problem) {
    const Status started = Exchange::start(host_, call.route.form, std::move(call.understood), call.reply);
    if (started) return;
    problem = unavailable();  // since then
    if (!problem) problem = busy();
  }
  refuse(call.route.form, *problem, call.reply);
}

void Router::refuse(const ApiForm& form, const ApiError& error, const Reply& reply) {
  ++counts_.refused;
  fail(*reply, form, error);
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
