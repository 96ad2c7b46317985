#include "engine/dump.h"

#include <stdlib.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/line_diff.h"
#include "base/options.h"
#include "codegen/program_text.h"
#include "graph/node_count.h"
#include "graph/text.h"

namespace smelt {
namespace {

void print_block(const std::string& title, const std::string& text) {
  std::fprintf(stderr, "--- %s\n%s\n", title.c_str(), text.c_str());
}

std::string opts_text(const KernelOpts& opts) {
  std::string text;
  for (const auto& nest : opts) text += to_string(nest) + "\n";
  return text;
}

// Dumping is a help: when it fails, that is said and the work goes on.
void leave(const std::string& kernel, const char* suffix, const std::string& text) {
  if (!dumps(kernel)) return;
  const std::string& folder = options().dump;
  Status s = make_folders(folder);
  if (s) s = publish_file(folder + "/" + kernel + suffix, text);
  if (!s) std::fprintf(stderr, "smelt: %s\n", s.error().message.c_str());
}

}  // namespace

void debug_schedule(const Schedule& schedule) {
  if (!debug(2)) return;
  const NodeCount all = node_count();
  print_block("schedule of " + std::to_string(schedule.kernels.size()) + " kernels, arena " +
                  std::to_string(schedule.arena_bytes) + " bytes; so far " + std::to_string(all.nodes) + " nodes, " +
                  std::to_string(all.bytes) + " bytes",
              summary(schedule));
}

PassObserver debug_passes(const std::string& kernel) {
  if (!debug(5, kernel)) return {};
  const auto before = std::make_shared<std::string>();
  return [kernel, before](const char* pass, const Refs& stores) {
    std::string after = print(make(Op::Sink, DType::Void, stores));
    print_block(kernel + " after " + pass, before->empty() ? after : line_diff(*before, after));
    *before = std::move(after);
  };
}

void debug_kernel(Ref tree, const CodegenResult& result) {
  const std::string& name = result.program.name;
  if (debug(3, name)) print_block(name, print(tree) + "options:\n" + opts_text(result.opts));
  if (debug(4, name)) print_block(name + " program", print(result.program));
  leave(name, ".ir", print(tree));
  leave(name, ".opts", opts_text(result.opts));
  leave(name, ".program", print(result.program));
}

std::string leave_for_replay(Ref tree, const std::string& name, const KernelOpts& opts) {
  std::string folder = options().dump;
  if (folder.empty()) {
    folder = (std::filesystem::temp_directory_path() / "smelt-failure-XXXXXX").string();
    if (!::mkdtemp(folder.data())) return "";
  }
  const std::string path = folder + "/" + name;
  if (!make_folders(folder) || !publish_file(path + ".ir", print(tree))) return "";
  if (!opts.empty() && !publish_file(path + ".opts", opts_text(opts))) return "";
  return "this kernel is left for a report; `smelt replay " + path + ".ir` repeats it";
}

void debug_source(const std::string& name, const std::string& source) {
  if (debug(4, name)) print_block(name + " source", source);
  leave(name, ".ll", source);
}

}  // namespace smelt
