// Fills docs/pipeline.md: one small quantised matrix-vector product after every stage of the
// compiler.
//
//   pipeline_doc FILE            writes the stages into the file
//   pipeline_doc --check FILE    exits with 1 if that would change it
//
// The file holds the prose. A line `<!-- stage: NAME -->` says what the code block behind it shows.
// The target is a fixed one, so the result is the same on every machine.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "base/file.h"
#include "codegen/codegen.h"
#include "engine/compile.h"
#include "graph/rules_algebra.h"
#include "graph/tensor.h"
#include "graph/text.h"
#include "model/dequant.h"
#include "render/llvm.h"
#include "runtime/llvm_compile.h"
#include "runtime/target.h"
#include "schedule/schedule.h"

namespace smelt {
namespace {

using Stages = std::map<std::string, std::string>;  // name to text

constexpr const char* kTarget = "x86-64-v3";
constexpr const char* kOptions =
    "group(3,8) unroll(2,2) task(0)";  // what the heuristic chooses is larger, and changes

// out [1, 32] = x [1, 64] times w [32, 64], w of 64 blocks Q4_0
Ref example() {
  const Tensor x = param(0, DType::F32, {1, 64}, "x");
  const Tensor w = weight(1, GgufType::Q4_0, {32}, 64, "w");
  return sink({output(2, linear(x, w))});
}

std::string_view word_of(RangeKind kind) {
  switch (kind) {
    case RangeKind::Loop: return "loop";
    case RangeKind::Task: return "task";
    case RangeKind::Lane: return "lanes";
    case RangeKind::Unroll: return "unroll";
    case RangeKind::Reduce: return "reduce";
    case RangeKind::Packed: return "bytes of a word";
    case RangeKind::Row: return "rows of a matrix";
    case RangeKind::Tile: return "tile";
    case RangeKind::Step: return "steps of a tile";
    case RangeKind::Pass: return "passes over tasks";
  }
  return "";
}

// Breaks a line between words, so that it fits a page.
std::string wrapped(std::string line) {
  constexpr size_t kWidth = 110;
  std::string text;
  while (line.size() > kWidth) {
    const size_t space = line.rfind(' ', kWidth);
    if (space == std::string::npos || space < kWidth / 2) break;
    text += line.substr(0, space) + "\n";
    line = "    " + line.substr(space + 1);
  }
  return text + line + "\n";
}

// Stores as people write them: ranges with their sizes, then `buffer[offset] = value`.
std::string readable(const Refs& stores) {
  Refs ranges = ranges_of(make(Op::Sink, DType::Void, stores));
  std::stable_sort(ranges.begin(), ranges.end(),
                   [](Ref a, Ref b) { return range_order(a->arg.i) < range_order(b->arg.i); });
  std::string text;
  for (Ref r : ranges)
    text +=
        std::string(word_of(kind_of(r))) + " " + to_infix(r) + " < " + to_infix(r->src[0]) + "\n";
  for (Ref s : stores)
    text += wrapped(to_infix(s->src[0]) + "[" + to_infix(s->src[1]) + "] = " + to_infix(s->src[2]));
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// The lines around the first one that has `what`: from the label before it to the jump after it.
std::string block_with(const std::string& code, std::string_view what, std::string_view jump) {
  const std::vector<std::string> lines = lines_of(code);
  size_t found = 0;
  while (found < lines.size() && lines[found].find(what) == std::string::npos) ++found;
  size_t begin = found, end = found;
  while (begin > 0 && (lines[begin].empty() || lines[begin].back() != ':')) --begin;
  while (end < lines.size() && !lines[end].starts_with(jump)) ++end;
  std::string text;
  for (size_t i = begin; i <= end && i < lines.size(); ++i) text += lines[i] + "\n";
  return text;
}

Stages make_stages() {
  Stages stages;
  const Ref root = example();
  stages["graph"] = print(root);
  const Schedule schedule = make_schedule(root);
  stages["schedule"] = summary(schedule);
  const Ref tree = schedule.kernels[0].tree;
  stages["kernel"] = print(tree);
  stages["kernel, readable"] = readable(tree->src[0]->src);

  const CpuTarget target = named_target(kTarget).take();
  const std::vector<Opt> opts = parse_opts(kOptions).take();
  stages["options"] = to_string(opts) + "\n";
  CodegenRequest request{
      .tree = tree, .name = "matvec", .machine = machine_of(target), .opts = {opts}};
  request.observe = [&](const char* pass, const Refs& stores) {
    stages[std::string("after ") + pass] = readable(stores);
  };
  const Program program = generate(request).program;
  stages["program"] = print(program);
  const Source source{render_llvm(program, llvm_options(target)), program.name};
  stages["llvm"] = block_with(source.text, "fmul", "  br ");
  stages["assembly"] = block_with(assembly(source, target), "vfmadd", "\tj");
  return stages;
}

// The document with the code block behind each marker replaced.
Result<std::string> filled(const std::string& document, const Stages& stages) {
  std::string out;
  const std::vector<std::string> lines = lines_of(document);
  for (size_t i = 0; i < lines.size(); ++i) {
    out += lines[i] + "\n";
    constexpr std::string_view kBegin = "<!-- stage: ", kEnd = " -->";
    if (!lines[i].starts_with(kBegin) || !lines[i].ends_with(kEnd)) continue;
    const std::string name =
        lines[i].substr(kBegin.size(), lines[i].size() - kBegin.size() - kEnd.size());
    const auto stage = stages.find(name);
    if (stage == stages.end())
      return Error{"[pipeline_doc] stage " + name + ": there is none of that name"};
    if (i + 1 >= lines.size() || !lines[i + 1].starts_with("```"))
      return Error{"[pipeline_doc] stage " + name + ": a code block must follow"};
    out += lines[++i] + "\n" + stage->second + "```\n";
    while (++i < lines.size() && lines[i] != "```") {
    }
  }
  return out;
}

Result<int> run(const std::string& path, bool check) {
  SMELT_TRY(document, read_file(path));
  SMELT_TRY(text, filled(document, make_stages()));
  if (text == document) return 0;
  if (check)
    return Error{"[pipeline_doc] " + path +
                 ": the compiler's output has changed; run build/pipeline_doc docs/pipeline.md and "
                 "review it"};
  std::ofstream(path) << text;
  return 0;
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string(argv[1]) == "--check";
  if (argc != 2 && !check) {
    std::fprintf(stderr, "usage: pipeline_doc [--check] FILE\n");
    return 2;
  }
  const auto result = smelt::run(argv[argc - 1], check);
  if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return result ? *result : 1;
}
