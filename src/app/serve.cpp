// `smelt serve`: a model for other programs, over HTTP.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "app/checks.h"
#include "app/command.h"
#include "app/engine_flags.h"
#include "app/failures.h"
#include "app/sampling_flags.h"
#include "base/file.h"
#include "base/file_watch.h"
#include "base/thread.h"
#include "base/thread_name.h"
#include "runtime/bandwidth.h"
#include "runtime/devices.h"
#include "server/engine_backend.h"
#include "server/http_server.h"
#include "server/preparation.h"
#include "server/router.h"

namespace smelt {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  smelt serve                                   the small model inside the program, at http://127.0.0.1:8080\n"
    "  smelt serve -m model.gguf --port 9000         another model and port\n"
    "  smelt serve --host 0.0.0.0 --api-key-file keys.txt   for other machines, for those who have a key\n"
    "\nA web page is at /, OpenAI's API at /v1; docs/serving.md has all of it. Ctrl-C lets the answers under way end,\n"
    "a second one ends at once.\n";

struct ServeFlags {
  EngineFlags engine;
  std::string host = "127.0.0.1";
  int port = 8080;
  std::vector<std::string> keys;
  std::optional<std::string> key_file, template_file, alias, tls_key, tls_certificate;
  int64_t parallel = 8, cache_tokens = 0;
  BackendOptions backend;
  SamplingFlags sampling;  // of requests that do not say it, as what follows
  std::optional<int64_t> length;
  std::optional<std::string> variables;
};

// A server and the thread that runs it, so that it answers while the model is being loaded.
class RunningServer {
 public:
  explicit RunningServer(std::unique_ptr<HttpServer> server)
      : server_(std::move(server)), thread_([this] {
          name_thread("smelt-http");
          all_answered_ = server_->run();
        }) {}
  ~RunningServer() {
    server_->stop();
    if (thread_.joinable()) thread_.join();
  }

  HttpServer& operator*() { return *server_; }
  HttpServer* operator->() { return server_.get(); }
  // True: every answer was given.
  bool wait() {
    thread_.join();
    return all_answered_;
  }

 private:
  std::unique_ptr<HttpServer> server_;
  bool all_answered_ = false;
  Thread thread_;
};

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" ||
         (host.starts_with("127.") && host.find_first_not_of("0123456789.") == std::string::npos);
}

// A key on each line of the file, besides those of the command line.
Result<std::vector<std::string>> read_keys(const ServeFlags& flags) {
  std::vector<std::string> keys = flags.keys;
  if (flags.key_file) {
    SMELT_TRY(text, read_file(*flags.key_file));
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      std::string key = text.substr(at, end - at);
      while (key.ends_with('\r') || key.ends_with(' ')) key.pop_back();
      if (!key.empty()) keys.push_back(std::move(key));
      at = end + 1;
    }
    if (keys.empty()) return Error{"[serve] " + *flags.key_file + ": has no key; write one on a line"};
  }
  if (keys.empty() && !is_loopback(flags.host))
    return Error{"[serve] --host " + flags.host +
                 ": other machines can reach that; give an --api-key or an --api-key-file, or leave out --host"};
  return keys;
}

std::string name_of_model(const ServeFlags& flags) {
  if (flags.alias) return *flags.alias;
  return flags.engine.model.empty() ? "tiny-glm" : std::filesystem::path(flags.engine.model).stem().string();
}

// What requests are taken to say where they do not.
Status use_usual(const ServeFlags& flags, const Tokenizer& tokenizer, ServedModel& model) {
  SMELT_TRY(sampling, sampling_of(flags.sampling, model.sampling(), tokenizer));
  const bool has_seed = flags.sampling.seed.value_or(-1) >= 0;
  model.use_sampling(sampling, has_seed ? std::optional(sampling.seed) : std::nullopt);
  if (flags.length) model.use_length(*flags.length);
  if (flags.variables) model.use_variables(nlohmann::ordered_json::parse(*flags.variables));
  return {};
}

Result<std::optional<HttpTls>> tls_of(const ServeFlags& flags) {
  if (flags.tls_key.has_value() != flags.tls_certificate.has_value())
    return Error{"[serve] TLS wants both: --ssl-key-file and --ssl-cert-file"};
  if (!flags.tls_key) return std::optional<HttpTls>();
  return std::optional(HttpTls{*flags.tls_certificate, *flags.tls_key});
}

std::string url_of(const std::string& host, int port, bool is_secured) {
  const bool is_six = host.find(':') != std::string::npos;
  return (is_secured ? "https://" : "http://") + (is_six ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

std::vector<FileWatch::File> files_of(const GgufFile& model) {
  std::vector<FileWatch::File> files;
  for (const GgufFile::Shard& shard : model.shards())
    if (shard.is_mapped) files.push_back({shard.path, shard.bytes.size()});
  return files;
}

// The roof of generating, for the page's panel; 0 where it cannot be measured.
double bandwidth_of(const LoadedModel& model) {
  auto device = shared_device({.name = model.device().name(), .threads = model.options().threads});
  if (!device) return 0;
  constexpr size_t kBytes = size_t{512} << 20;  // within half a second
  const auto bandwidth = measure_bandwidth(**device, kBytes);
  return bandwidth ? *bandwidth : 0;
}

Result<int> serve(const ServeFlags& flags) {
  SMELT_TRY(keys, read_keys(flags));
  SMELT_TRY(tls, tls_of(flags));
  std::optional<std::string> template_source;
  if (flags.template_file) {
    SMELT_TRY(text, read_file(*flags.template_file));
    template_source = std::move(text);
  }
  std::unique_ptr<Router> router;  // of the thread of the server
  SMELT_TRY(listening, HttpServer::listen(
                           flags.host, flags.port,
                           [&](HttpRequest request, std::shared_ptr<HttpReply> reply) {
                             if (!router) return Router::refuse_while_loading(reply);
                             router->handle(std::move(request), std::move(reply));
                           },
                           {}, tls));
  RunningServer server(std::move(listening));
  SMELT_TRY(opened, open_engine(flags.engine, flags.parallel, flags.cache_tokens));
  SMELT_TRY(model, ServedModel::make(*opened.file, *opened.tokenizer, name_of_model(flags), opened.engine->context(),
                                     template_source));
  SMELT_CHECK(use_usual(flags, *opened.tokenizer, model));
  outlive_lost_files();
  FileWatch watch(files_of(*opened.file));
  BackendOptions backend_options = flags.backend;
  backend_options.bandwidth = bandwidth_of(opened.engine->loaded());
  backend_options.problem = [&] { return watch.problem(); };
  auto backend = std::make_unique<EngineBackend>(*opened.engine, *opened.tokenizer, backend_options,
                                                 std::move(opened.speculation));
  const RouterOptions options{.api_keys = std::move(keys),
                              .host = flags.host,
                              .build = "smelt " SMELT_VERSION,
                              .slots = static_cast<int>(flags.parallel)};
  auto preparation = std::make_unique<Preparation>();
  server->post([&] {
    const RouterThreads threads = {
        .post = [&](Router::Work work) { server->post(std::move(work)); },
        .post_soon = [&](Router::Work work) { server->post_soon(std::move(work)); },
        .prepare = [&](size_t bytes, Router::Work work) { return preparation->submit(bytes, std::move(work)); }};
    router = std::make_unique<Router>(model, *backend, options, threads);
    server->drain_on_signals([&] {
      std::fprintf(stderr, "smelt: ending once the answers under way are written; again to end at once\n");
      router->drain();
    });
    std::fprintf(stderr, "smelt: %s at %s, %lld requests at a time, a context of %lld tokens\n", model.name().c_str(),
                 url_of(flags.host, server->port(), tls.has_value()).c_str(), static_cast<long long>(flags.parallel),
                 static_cast<long long>(model.context()));
  });
  const bool all_answered = server.wait();
  preparation.reset();  // what these two still do goes through the router
  backend.reset();
  return all_answered ? 0 : kExitInterrupted;
}

}  // namespace

Action declare_serve(CLI::App& app) {
  const auto flags = std::make_shared<ServeFlags>();
  flags->engine.one_prompt_plan = true;
  declare_engine_and_device_flags(app, flags->engine);
  declare_draft_flags(app, flags->engine.draft);
  app.add_option("--host", flags->host, "the address to listen at; 0.0.0.0: all of this machine")->type_name("ADDRESS");
  app.add_option("--port", flags->port, "the port to listen at; 0: a free one")
      ->type_name("N")
      ->check(whole_number(0, 65535));
  app.add_option("--api-key", flags->keys, "who asks has to know this key, or one of several")
      ->type_name("KEY")
      ->check([](const std::string& key) { return std::string(key.empty() ? "the key is empty" : ""); })
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--api-key-file", flags->key_file, "a file with a key on each line")->type_name("FILE");
  app.add_option("--parallel", flags->parallel, "requests that are computed side by side; others wait")
      ->type_name("N")
      ->check(whole_number(1, 64));
  app.add_option("--cache-tokens", flags->cache_tokens,
                 "tokens in the cache, of all requests together; 0: so many that each may fill its context")
      ->type_name("N")
      ->check(whole_number(0, int64_t{1} << 40));
  app.add_flag(
      "--cold-prefix", flags->backend.cold_prefix,
      "reuse what was computed of prompts, not of answers, so that each answer is the one of a server that has "
      "just started");
  app.add_option("--ssl-key-file", flags->tls_key, "a private key in PEM: the server speaks TLS")->type_name("FILE");
  app.add_option("--ssl-cert-file", flags->tls_certificate, "its certificate in PEM, and those that vouch for it")
      ->type_name("FILE");
  app.add_option("--alias", flags->alias, "the name of the model to clients; without it, that of its file")
      ->type_name("NAME");
  app.add_option("--chat-template-file", flags->template_file, "a template in place of the model's own")
      ->type_name("FILE");
  app.add_option("--chat-template-kwargs", flags->variables,
                 "variables of the template of requests that do not say them, as in '{\"enable_thinking\": false}'")
      ->type_name("JSON")
      ->check([](const std::string& text) {
        return std::string(nlohmann::json::parse(text, nullptr, false).is_object() ? "" : "expected a JSON object");
      });
  app.add_option("-n,--predict", flags->length,
                 "tokens of an answer at most, of requests that do not say it; -1: until it ends")
      ->type_name("N")
      ->check(whole_number(-1, int64_t{1} << 30));
  declare_sampling_flags(app, flags->sampling, "as the maker of the model recommends; a request may say otherwise");
  app.footer(kExamples);
  return [flags] { return serve(*flags); };
}

}  // namespace smelt
