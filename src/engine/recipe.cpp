#include "engine/recipe.h"

#include "base/build_id.h"
#include "base/options.h"
#include "engine/tuned_options.h"
#include "graph/text.h"

namespace smelt {
namespace {

bool shows_passes() {
  const Options& o = options();
  return o.verify || o.noopt || o.debug >= 3 || !o.dump.empty();
}

std::string text_of(const Machine& m) {
  std::string out = "machine";
  for (int64_t n : {int64_t{m.lanes}, int64_t{m.registers}, int64_t{m.tasks}, m.cache_bytes,
                    int64_t{m.byte_matrices}})
    out += ' ' + std::to_string(n);
  return out;
}

}  // namespace

std::string recipe_question(const CodegenRequest& request, const std::string& tuned) {
  if (build_id().empty() || shows_passes()) return "";
  std::string text =
      "program " + build_id() + "\nname " + request.name + '\n' + text_of(request.machine);
  text += "\nsymbols";
  for (const std::string& s : request.symbols) text += ' ' + s;
  return text + "\ntuned " + tuned + '\n' + print(request.tree);
}

std::string format_recipe(const Recipe& recipe) {
  return to_string(recipe.opts) + '\n' + recipe.source_key;
}

std::optional<Recipe> parse_recipe(const std::string& text, size_t nests) {
  const size_t line = text.find('\n');
  if (line == std::string::npos) return std::nullopt;
  auto opts = parse_kernel_opts(std::string_view(text).substr(0, line));
  if (!opts || opts->size() != nests) return std::nullopt;
  return Recipe{opts.take(), text.substr(line + 1)};
}

}  // namespace smelt
