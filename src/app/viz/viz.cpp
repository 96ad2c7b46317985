// `smelt viz`: records what a model becomes and what its runs cost, and shows it.
#include <fcntl.h>
#include <spawn.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "app/checks.h"
#include "app/command.h"
#include "app/sources.h"
#include "app/viz/live.h"
#include "app/viz/load.h"
#include "app/viz/page.h"
#include "app/viz/print.h"
#include "app/viz/recording.h"
#include "base/output_file.h"
#include "server/http_server.h"

extern char** environ;

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExplanation =
    "Records the compiler's steps and the times of some tokens and a prompt, and opens a page that shows them: model,\n"
    "rewrites, schedule, kernels, timeline. It answers on this machine alone, until Ctrl-C.\n"
    "\nExamples:\n"
    "  smelt viz                              the model inside the program\n"
    "  smelt viz -m model.gguf --out a.html   one file to look at anywhere, without a server\n"
    "  smelt viz --json before.json           save a recording; smelt viz before.json opens it again\n"
    "  smelt viz before.json after.json       two of them side by side\n"
    "  smelt viz kernels/                     what DUMP=kernels left of kernels; with --machine, for another one\n"
    "  smelt viz tried.json                   what smelt tune --json tried.json has tried\n"
    "  smelt viz --machine h100 --synthetic glm-4.7-flash:q4_0   what another machine would get, estimated\n"
    "  smelt viz --print kernel --kernel sum_256   a view as text\n"
    "\ndocs/visualiser.md tells what each view shows.\n";

struct VizFlags {
  ProfiledFlags model;
  std::vector<std::string> files;  // recordings to open instead of making one
  std::string out, json;           // where the page or the recording goes; empty: nowhere
  PrintOptions print;
  int port = 0;
  bool no_browser = false;
};

// The user's browser, where there is one that opens by itself.
void open_browser(const std::string& url) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  for (int fd : {0, 1, 2}) ::posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  std::string program = "xdg-open", argument = url;
  char* arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  (void)::posix_spawnp(&child, program.c_str(), &actions, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&actions);
}

Result<int> serve_page(const VizFlags& flags, const LivePage& live) {
  SMELT_TRY(server,
            HttpServer::listen("127.0.0.1", flags.port, [&](HttpRequest request, std::shared_ptr<HttpReply> reply) {
              reply->send(answer_to(request, live));
            }));
  const std::string url = "http://127.0.0.1:" + std::to_string(server->port()) + "/";
  server->drain_on_signals([] {});
  std::fprintf(stderr, "smelt: the page is at %s until Ctrl-C\n", url.c_str());
  if (!flags.no_browser) open_browser(url);
  return server->run() ? 0 : kExitInterrupted;
}

struct Shown {
  std::vector<Json> recordings;
  ProfiledModel model;  // of the recording, if it was made just now and ran
};

Result<Shown> shown_by(const VizFlags& flags) {
  Shown out;
  if (!flags.files.empty()) {
    SMELT_TRY(recordings, load_recordings(flags.files, flags.model.machine.empty() ? "host" : flags.model.machine));
    out.recordings = std::move(recordings);
    return out;
  }
  SMELT_TRY(recording, record_model(flags.model, out.model));
  out.recordings.push_back(std::move(recording));
  return out;
}

Result<int> serve(const VizFlags& flags, const Shown& shown) {
  LivePage live;
  std::optional<WhatIf> what_if;
  if (shown.model.session) {
    live.token = new_token();
    live.what_if = &what_if.emplace(*shown.model.session, flags.model.engine, flags.model.prompt_tokens);
  }
  live.page = page_with(shown.recordings, live.token);
  return serve_page(flags, live);
}

Result<std::optional<OutputFile>> place_for(const std::string& path) {
  if (path.empty()) return std::optional<OutputFile>();
  SMELT_TRY(file, OutputFile::open(path));
  return std::optional<OutputFile>(std::move(file));
}

Status check_outputs(const VizFlags& flags, const std::vector<std::string>& sources) {
  for (const std::string& output : {flags.json, flags.out}) SMELT_CHECK(check_is_no_source("viz", output, sources));
  return {};
}

// What the command line names, which is known before the work.
std::vector<std::string> named_by(const VizFlags& flags) {
  std::vector<std::string> sources = flags.files;
  sources.push_back(flags.model.engine.model);
  return sources;
}

Result<int> viz(const VizFlags& flags) {
  SMELT_TRY(out, place_for(flags.out));
  SMELT_TRY(json, place_for(flags.json));
  SMELT_CHECK(check_outputs(flags, named_by(flags)));
  SMELT_TRY(shown, shown_by(flags));
  if (shown.model.opened.file) SMELT_CHECK(check_outputs(flags, files_of(*shown.model.opened.file)));
  const std::vector<Json>& recordings = shown.recordings;
  if (json) SMELT_CHECK(json->write(recordings[0].dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"));
  if (out) SMELT_CHECK(out->write(page_with(recordings)));
  if (!flags.print.view.empty()) {
    SMELT_TRY(text, print_view(recordings, flags.print));
    std::fputs(text.c_str(), stdout);
    return 0;
  }
  return out || json ? Result<int>(0) : serve(flags, shown);
}

}  // namespace

Action declare_viz(CLI::App& app) {
  const auto flags = std::make_shared<VizFlags>();
  flags->model.prompt_tokens = 64;
  flags->model.repetitions = 2;
  declare_profiled(app, flags->model);
  app.add_option("files", flags->files,
                 "recordings to open in place of a model; also of `smelt profile --json` and `--trace`, of `smelt tune "
                 "--json`; a "
                 "folder of DUMP or a kernel of it")
      ->type_name("FILE");
  app.add_option("--out", flags->out, "write the page, with all it shows, into one HTML file")->type_name("FILE.html");
  app.add_option("--json", flags->json, "save the recording; -: to standard output")->type_name("FILE");
  app.add_option("--print", flags->print.view,
                 "a view as text: model, rewrites, schedule, kernel, timeline, search or compare")
      ->type_name("VIEW")
      ->check(one_of({"model", "rewrites", "schedule", "kernel", "timeline", "search", "compare"}));
  app.add_option("--kernel", flags->print.kernel, "with --print: kernels with this in their names")->type_name("NAME");
  app.add_option("--top", flags->print.top, "with --print: rows of a table; 0: all")->type_name("N");
  app.add_option("--port", flags->port, "the port of the page; 0: a free one")
      ->type_name("N")
      ->check(whole_number(0, 65535));
  app.add_flag("--no-browser", flags->no_browser, "only print the address");
  app.footer(kExplanation);
  return [flags] { return viz(*flags); };
}

}  // namespace smelt
