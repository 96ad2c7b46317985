#include "engine/dump.h"

#include <cstdio>

#include "base/file.h"
#include "base/options.h"
#include "codegen/program_text.h"
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
void leave(const std::string& name, const std::string& text) {
  const std::string& folder = options().dump;
  if (folder.empty()) return;
  Status s = make_folders(folder);
  if (s) s = publish_file(folder + "/" + name, text);
  if (!s) std::fprintf(stderr, "smelt: %s\n", s.error().message.c_str());
}

}  // namespace

void debug_schedule(const Schedule& schedule) {
  if (!debug(2)) return;
  print_block("schedule of " + std::to_string(schedule.kernels.size()) + " kernels, arena " +
                  std::to_string(schedule.arena_bytes) + " bytes",
              summary(schedule));
}

PassObserver debug_passes(const std::string& kernel) {
  if (!debug(5, kernel)) return {};
  return [kernel](const char* pass, const Refs& stores) {
    print_block(kernel + " after " + pass, print(make(Op::Sink, DType::Void, stores)));
  };
}

void debug_kernel(Ref tree, const CodegenResult& result) {
  const std::string& name = result.program.name;
  if (debug(3, name)) print_block(name, print(tree) + "options:\n" + opts_text(result.opts));
  if (debug(4, name)) print_block(name + " program", print(result.program));
  leave(name + ".ir", print(tree));
  leave(name + ".opts", opts_text(result.opts));
  leave(name + ".program", print(result.program));
}

void debug_source(const std::string& name, const std::string& source) {
  if (debug(4, name)) print_block(name + " source", source);
  leave(name + ".ll", source);
}

}  // namespace smelt
