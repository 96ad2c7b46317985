#include "app/profile_words.h"

#include <algorithm>
#include <vector>

namespace smelt {
namespace {

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

std::string short_name(std::string name) {
  for (const char* end : {".weight", ".bias"})
    if (name.ends_with(end)) name.resize(name.size() - std::char_traits<char>::length(end));
  return name;
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

void add_once(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

bool is_bookkeeping(const std::string& name) {
  static const char* const kNames[] = {"positions", "tables", "pages", "rows", "cos", "sin"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](const char* n) { return name == n; });
}

}  // namespace

std::string launch_in_words(const PlanLaunch& launch, Ref tree, const KernelCost& cost) {
  std::vector<std::string> matrices, inputs, outputs;
  bool has_norm = false;
  for (size_t i = 0; i < launch.buffers.size() && i < cost.buffers.size(); ++i) {
    const LaunchBuffer& buffer = launch.buffers[i];
    if (buffer.is_weight) {
      if (contains(buffer.name, "norm"))
        has_norm = true;
      else
        add_once(matrices, short_name(buffer.name) + (cost.buffers[i].gathered ? " (chosen rows)" : ""));
      continue;
    }
    if (cost.buffers[i].written > 0)
      add_once(outputs, buffer.name);
    else if (!is_bookkeeping(buffer.name))
      add_once(inputs, buffer.name);
  }
  std::string text = listed(matrices);
  if (!inputs.empty())
    text += (text.empty() ? "" : " of ") + std::string(has_norm ? "rms-normed " : "") + listed(inputs);
  if (!outputs.empty()) text += " -> " + listed(outputs);
  return text + " (" + operations_in_words(tree) + ")";
}

std::string lines_in_words(const PlanLaunch& launch) { return listed(launch.lines); }

std::string stage_of(const PlanLaunch& launch, const std::string& previous) {
  if (launch.stage != "block") return launch.stage;
  // A kernel that spans two parts belongs to the one with more weights: the later ones in this list.
  const std::pair<const char*, const char*> kParts[] = {{"cache", "attention"},
                                                        {"attn_", "attention"},
                                                        {"ffn_gate_inp", "router"},
                                                        {"_shexp", "shared expert"},
                                                        {"_exps", "experts"}};
  std::string stage;
  for (const auto& [part, name] : kParts)
    for (const LaunchBuffer& b : launch.buffers)
      if (contains(b.name, part) && !contains(b.name, "norm")) stage = name;
  if (!stage.empty()) return stage;
  for (const LaunchBuffer& b : launch.buffers)
    if (b.is_weight && b.name.starts_with("ffn_") && !contains(b.name, "norm")) return "dense ffn";
  return previous == "embed" ? "attention" : previous;
}

}  // namespace smelt
