// Fills docs/pipeline.md: one small quantised matrix-vector product after every stage of the compiler, and one as
// models have it.
//
//   pipeline_doc FILE            writes the stages into the file
//   pipeline_doc --check FILE    exits with 1 if that would change it
//
// The file holds the prose. A line `<!-- stage: NAME -->` says what the code block behind it shows. The targets are
// fixed ones, so the result is the same on every machine.
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
#include "graph/views.h"
#include "model/layout_choice.h"
#include "model/product.h"
#include "render/llvm.h"
#include "runtime/llvm/compile.h"
#include "runtime/target.h"
#include "schedule/schedule.h"

namespace smelt {
namespace {

using Stages = std::map<std::string, std::string>;  // name to text

constexpr const char* kTarget = "x86-64-v3";
constexpr const char* kOptions =
    "group(r1.11,8) unroll(r1.10,2) unroll(r1.01,2) task(o1)";  // what the heuristic chooses is larger, and changes

// out [1, 32] = x [1, 64] times w [32, 64], w of 64 blocks Q4_0
Ref example() {
  const Tensor x = param(0, DType::F32, {1, 64}, "x");
  const Tensor w = weight(1, GgufType::Q4_0, {32}, 64, "w");
  return sink({output(2, linear(x, w))});
}

// The same product as models have it: activations of 8 bits, and rows of the weight interleaved by the lanes of the
// machine.
constexpr const char* kModelTarget = "znver4";
constexpr int64_t kModelRows = 64, kModelColumns = 256;

Ref example_of_models(int lanes) {
  const WeightLayout layout = default_layout(GgufType::Q4_0, kModelRows, lanes);
  const Tensor x = param(0, DType::F32, {1, kModelColumns}, "x");
  const Tensor w = raw_weight(1, GgufType::Q4_0, {kModelRows}, kModelColumns, "w", layout);
  return sink({output(2, product(quantise_activations(x), w, GgufType::Q4_0, layout))});
}

std::string_view word_of(RangeKind kind) {
  switch (kind) {
    case RangeKind::Loop: return "loop";
    case RangeKind::Task: return "task";
    case RangeKind::Lane: return "lanes";
    case RangeKind::Unroll: return "unroll";
    case RangeKind::Reduce: return "reduce";
    case RangeKind::Partial: return "partial sums";
    case RangeKind::Byte: return "bytes of a word";
    case RangeKind::MatrixRow: return "rows of a matrix";
    case RangeKind::Tile: return "tile";
    case RangeKind::Chunk: return "chunks of a tile";
    case RangeKind::Sweep: return "sweeps";
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
    text += std::string(word_of(kind_of(r))) + " " + to_infix(r) + " < " + to_infix(RangeView(r).size) + "\n";
  for (Ref s : stores) {
    const StoreView store(s);
    text += wrapped(to_infix(store.buffer) + "[" + to_infix(store.offset) + "] = " + to_infix(store.value));
  }
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

// The innermost loop of a program around the last line that has `what`.
std::string loop_with(const std::string& program, std::string_view what) {
  const std::vector<std::string> lines = lines_of(program);
  size_t found = lines.size() - 1;
  while (found > 0 && lines[found].find(what) == std::string::npos) --found;
  size_t begin = found, end = found;
  while (begin > 0 && lines[begin].find(" = loop ") == std::string::npos) --begin;
  const size_t indent = lines[begin].find('%');
  while (end < lines.size() && lines[end].find("end ") != indent) ++end;
  std::string text;
  for (size_t i = begin; i <= end && i < lines.size(); ++i) text += lines[i].substr(indent) + "\n";
  return text;
}

void add_stages_of_models(Stages& stages) {
  const CpuTarget target = named_target(kModelTarget).take();
  const Machine machine = machine_of(target);
  const Schedule schedule = make_schedule(example_of_models(machine.lanes()));
  stages["models: schedule"] = summary(schedule);
  const Ref tree = schedule.kernels.back().tree;
  stages["models: product"] = readable(tree->src.back()->src);
  CodegenRequest request{.tree = tree, .name = "product", .machine = machine};
  request.observe = [&](const char* pass, const Refs& stores) {
    stages[std::string("models: after ") + pass] = readable(stores);  // of the last nest
  };
  const CodegenResult result = generate(request);
  for (const std::vector<Opt>& opts : result.opts)
    stages["models: options"] += (opts.empty() ? "none" : to_string(opts)) + "\n";
  stages["models: program"] = loop_with(print(result.program), " dot4 ");
  const Source source{render_llvm(result.program, machine), result.program.name};
  stages["models: assembly"] = block_with(assembly(source, target), "{1to16}, %zmm", "\tj");
}

Stages make_stages() {
  Stages stages;
  add_stages_of_models(stages);
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
  CodegenRequest request{.tree = tree, .name = "matvec", .machine = machine_of(target), .opts = {opts}};
  request.observe = [&](const char* pass, const Refs& stores) {
    stages[std::string("after ") + pass] = readable(stores);
  };
  const Program program = generate(request).program;
  stages["program"] = print(program);
  const Source source{render_llvm(program, machine_of(target)), program.name};
  stages["llvm"] = block_with(source.text, "@llvm.fma", "  br ");
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
    const std::string name = lines[i].substr(kBegin.size(), lines[i].size() - kBegin.size() - kEnd.size());
    const auto stage = stages.find(name);
    if (stage == stages.end()) return Error{"[pipeline_doc] stage " + name + ": there is none of that name"};
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
                 ": the compiler's output has changed; run build/pipeline_doc docs/pipeline.md and review it"};
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
