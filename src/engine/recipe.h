// Recipes: what code generation made of a kernel's tree, remembered beside the machine code in the kernel cache, so
// that the next start of the same program generates nothing.
//
// The question is all that the answer depends on: tree, machine, symbols, tuned options, and the program itself (its
// build id), as other code may generate something else. The answer names the options and the machine code.
#pragma once

#include <optional>
#include <string>

#include "codegen/codegen.h"

namespace smelt {

struct Recipe {
  KernelOpts opts;
  std::string source_key;  // Device::key_of() the rendered source
};

// `tuned`: the line of the tuned entry that will be used, or empty. Empty where nothing can be remembered: a program
// without an identity, or switches that want to see the passes.
std::string recipe_question(const CodegenRequest& request, const std::string& tuned);

std::string format_recipe(const Recipe& recipe);
// Nothing where the text is no recipe for `nests` nests.
std::optional<Recipe> parse_recipe(const std::string& text, size_t nests);

}  // namespace smelt
