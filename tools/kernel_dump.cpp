// kernel_dump: what the compiler makes of a fixed set of models, without weights and without running anything.
//
//   kernel_dump --list                   the configurations: model/activations/machine
//   kernel_dump CONFIGURATION            a line for each kernel and each plan of it: name, options, hashes of its texts
//   kernel_dump CONFIGURATION NAME       the texts of one of these lines
//
// tools/kernel_diff compares two commits by it. The plans are those of the engine (engine/model_plans.h), for machines
// that need not be here, up to the text of their kernels. The kernels' own names have a hash of the tree, which says
// nothing beside the tree itself, so here a kernel is called by what it stores and its turn among those that store
// alike: "decode/sum_2048#3".
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>

#include "app/embedded.h"
#include "app/synthetic_file.h"
#include "base/hex.h"
#include "engine/model_plans.h"
#include "graph/text.h"
#include "runtime/machines.h"
#include "runtime/null/null_device.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr int64_t kBatch = 8;  // generated tokens side by side, and rows whose logits are wanted

struct Activations {
  const char* name;
  bool quantise;
  DType cache_type;
  bool repack = true;
};
constexpr Activations kActivations[] = {{"q8", true, DType::U8}, {"f32", false, DType::F32}};
// What only small models are compiled with.
constexpr Activations kMoreActivations[] = {{"q8-in-place", true, DType::F16, false}};

const std::vector<std::string> kSmallModels = {"embedded", "tiny-lite:q4_k_m", "tiny-lite:q4_0"};
const std::vector<std::string> kLargeModels = {"glm-4.7-flash:q4_0", "glm-4.7-flash:q4_k_m", "deepseek-v2-lite:q4_0",
                                               "deepseek-v2-lite:q4_k_m"};

// Processors as LLVM calls them, and GPUs as base/machines.def does.
const std::string kNoAmx = "-without-amx";  // behind the name of a processor
const std::vector<std::string> kMachines = {"x86-64-v3",   "znver4", "sapphirerapids", "sapphirerapids" + kNoAmx,
                                            "neoverse-v1", "h100",   "m3-max"};

struct Configuration {
  std::string name;
  std::string model;
  Activations activations;
  std::string machine;
};

std::vector<Configuration> configurations() {
  std::vector<Configuration> out;
  const auto add = [&](const std::vector<std::string>& models, std::span<const Activations> kinds) {
    for (const std::string& model : models)
      for (const Activations& a : kinds)
        for (const std::string& machine : kMachines)
          out.push_back({model + "/" + a.name + "/" + machine, model, a, machine});
  };
  add(kLargeModels, kActivations);  // these take longest, so they come first
  add(kSmallModels, kActivations);
  add(kSmallModels, kMoreActivations);
  return out;
}

Result<std::unique_ptr<Device>> open_machine(std::string name) {
  const std::vector<std::string> known = machine_names();
  if (std::find(known.begin(), known.end(), name) != known.end()) return open_null_device(name);
  const bool amx = !name.ends_with(kNoAmx);
  if (!amx) name.resize(name.size() - kNoAmx.size());
  SMELT_TRY(target, named_target(name));
  target.amx_int8 &= amx;
  target.cores = 1;
  return std::unique_ptr<Device>(std::make_unique<NullDevice>(machine_of(target), target));
}

// The header of a model, with addresses where its tensors would be.
Result<GgufFile> open_model(const std::string& name) {
  if (name == "embedded") return GgufFile::open_memory(embedded_model(), name);
  SMELT_TRY(spec, parse_synthetic(name));
  const NewHead file = synthetic_file(spec, tensors_of(spec), 4096);
  const size_t size = file.bytes.size() + file.data_bytes;
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return Error{"[kernel_dump] " + name + ": the system refuses the addresses of its tensors"};
  std::memcpy(memory, file.bytes.data(), file.bytes.size());
  return GgufFile::open_memory({static_cast<const std::byte*>(memory), size}, name);
}

std::string hash_of(const std::string& text) { return hex(XXH3_64bits(text.data(), text.size())); }

// One line of a dump: a kernel, or a plan, whose text is its launches and the places of what passes between them.
struct Entry {
  std::string name;
  std::string options;
  std::vector<std::pair<const char*, std::string>> texts;
};

std::string plan_text(const Compiler& compiler, const Pass& pass, const std::vector<std::string>& names) {
  std::string text;
  for (int number : pass.compiled) {
    const CompiledSegment& segment = compiler.segment(number);
    text += "segment, arena of " + std::to_string(segment.schedule.arena_bytes) + " bytes\n";
    for (const TempBuffer& t : segment.schedule.temps)
      text += "  temp " + std::to_string(t.bytes) + " bytes at " + std::to_string(t.offset) + "\n";
    for (size_t i = 0; i < segment.kernels.size(); ++i) {
      text += "  level " + std::to_string(segment.schedule.kernels[i].level) + " " +
              names[static_cast<size_t>(segment.kernels[i])];
      for (Ref buffer : segment.schedule.kernels[i].buffers)
        text += (buffer->op == Op::Temp ? " temp" : " slot") + std::to_string(buffer->arg.i);
      text += "\n";
    }
  }
  return text;
}

Entry kernel_entry(const Compiler& compiler, int number, const std::string& name) {
  Program program = compiler.program(number);
  program.name = "kernel";  // whatever its turn
  const CompiledKernel& kernel = compiler.kernel(number);
  return {name,
          to_string(kernel.opts),
          {{"tree", print(kernel.tree)}, {"program", print(program)}, {"source", compiler.source(program).text}}};
}

Result<std::vector<Entry>> dump(const Configuration& configuration) {
  SMELT_TRY(file, open_model(configuration.model));
  SMELT_TRY(device, open_machine(configuration.machine));
  const Activations& a = configuration.activations;
  SMELT_TRY(plans, ModelPlans::make(file, *device,
                                    {.cache_type = a.cache_type,
                                     .quantise_activations = a.quantise,
                                     .chooses_tokens = device->machine().has_threads(),
                                     .repack = a.repack,
                                     .use_tuned = false}));
  const ModelPasses& passes = plans->passes();
  // What a server has besides; these add their kernels to the others.
  const Pass batch = passes.decode(nullptr, kBatch), wide_head = passes.head(kBatch);

  const Compiler& compiler = plans->compiler();
  std::vector<std::string> names(static_cast<size_t>(compiler.kernel_count()));  // of kernels, by number
  std::vector<int> order;                                                        // in which plans want them
  std::map<std::string, int> turns;
  std::vector<Entry> entries;
  const auto add = [&](const std::string& kind, const Pass& pass) {
    for (int segment : pass.compiled)
      for (int number : compiler.segment(segment).kernels) {
        std::string& name = names[static_cast<size_t>(number)];
        if (!name.empty()) continue;
        const std::string& own = compiler.kernel(number).name;
        name = kind + "/" + own.substr(0, own.rfind('_'));
        name += "#" + std::to_string(++turns[name]);
        order.push_back(number);
      }
    entries.push_back({kind, "", {{"launches", plan_text(compiler, pass, names)}}});
  };
  const auto add_both = [&](const std::string& kind, const DecodePasses& passes) {
    add(kind, passes.pass);
    if (passes.of_long) add(kind + " of a long context", *passes.of_long);
    if (passes.of_wide) add(kind + " of the longest contexts", *passes.of_wide);
  };
  add_both("decode", plans->generated().front());
  add("batch", batch);
  add("prompt", plans->prompt());
  add("head of 1", plans->head());
  add("head of " + std::to_string(kBatch), wide_head);
  for (const ChoiceKind kind : {ChoiceKind::Greedy, ChoiceKind::Drawn})
    for (const DecodePasses& passes : plans->choosing(kind))
      add_both(kind == ChoiceKind::Greedy ? "greedy" : "drawn", passes);

  for (int number : order) entries.push_back(kernel_entry(compiler, number, names[static_cast<size_t>(number)]));
  return entries;
}

Result<int> run(const std::string& wanted, const std::string& name) {
  for (const Configuration& configuration : configurations()) {
    if (configuration.name != wanted) continue;
    SMELT_TRY(entries, dump(configuration));
    bool found = name.empty();
    for (const Entry& e : entries) {
      if (name.empty()) {
        std::printf("%s\t%s\t%s", wanted.c_str(), e.name.c_str(), e.options.c_str());
        for (const auto& [what, text] : e.texts) std::printf("\t%s %s", what, hash_of(text).c_str());
        std::printf("\n");
      } else if (e.name == name) {
        found = true;
        std::printf("options %s\n", e.options.c_str());
        for (const auto& [what, text] : e.texts) std::printf("--- %s\n%s", what, text.c_str());
      }
    }
    return found ? 0 : Result<int>(Error{"[kernel_dump] " + name + ": " + wanted + " has no kernel of that name"});
  }
  return Error{"[kernel_dump] " + wanted + ": not a configuration; `kernel_dump --list` prints them"};
}

}  // namespace
}  // namespace smelt

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--list") {
    for (const auto& configuration : smelt::configurations()) std::printf("%s\n", configuration.name.c_str());
    return 0;
  }
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: kernel_dump --list | CONFIGURATION [NAME]\n");
    return 2;
  }
  const auto result = smelt::run(argv[1], argc == 3 ? argv[2] : "");
  if (!result) std::fprintf(stderr, "%s\n", result.error().message.c_str());
  return result ? *result : 1;
}
