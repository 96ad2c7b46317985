// The commands of the program: one file each, one line each in the table of cli.cpp.
//
// A command declares its options on a CLI::App and returns the action that runs once they are parsed. An action returns
// the exit code; an Error is printed as `smelt: MESSAGE` and exits 1. Answers go to stdout, everything else to stderr.
#pragma once

#include <functional>

#include "base/result.h"

namespace CLI {
class App;  // <CLI/CLI.hpp> is slow to compile; only those who declare options include it
}

namespace smelt {

using Action = std::function<Result<int>()>;

Action declare_run(CLI::App& app);
Action declare_chat(CLI::App& app);
Action declare_serve(CLI::App& app);
Action declare_template(CLI::App& app);
Action declare_tokenize(CLI::App& app);
Action declare_detokenize(CLI::App& app);
Action declare_inspect(CLI::App& app);
Action declare_logits(CLI::App& app);
Action declare_perplexity(CLI::App& app);
Action declare_imatrix(CLI::App& app);
Action declare_quantize(CLI::App& app);
Action declare_bench(CLI::App& app);
Action declare_profile(CLI::App& app);
Action declare_viz(CLI::App& app);
Action declare_tune(CLI::App& app);
Action declare_replay(CLI::App& app);
Action declare_devices(CLI::App& app);
Action declare_machines(CLI::App& app);
Action declare_pull(CLI::App& app);
Action declare_list(CLI::App& app);
Action declare_show(CLI::App& app);
Action declare_rm(CLI::App& app);
Action declare_cache(CLI::App& app);
Action declare_completion(CLI::App& app);

constexpr int kExitWorld = 1;          // a file, a model, a device is not as it should be
constexpr int kExitUsage = 2;          // the command line is wrong
constexpr int kExitInterrupted = 130;  // Ctrl-C

}  // namespace smelt
