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

}  // namespace

std::string recipe_question(const CodegenRequest& request, const std::string& tuned) {
  if (build_id().empty() || shows_passes()) return "";
  std::string text = "program " + build_id() + "\nname " + request.name + '\n' + to_string(request.machine);
  text += "symbols";
  for (const std::string& s : request.symbols) text += ' ' + s;
  return text + "\ntuned " + tuned + '\n' + print(request.tree);
}

std::string format_recipe(const Recipe& recipe) { return to_string(recipe.opts) + '\n' + recipe.source_key; }

std::optional<Recipe> parse_recipe(const std::string& text, size_t nests) {
  const size_t line = text.find('\n');
  if (line == std::string::npos) return std::nullopt;
  auto opts = parse_kernel_opts(std::string_view(text).substr(0, line));
  if (!opts || opts->size() != nests) return std::nullopt;
  return Recipe{opts.take(), text.substr(line + 1)};
}

}  // namespace smelt
