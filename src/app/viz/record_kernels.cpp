#include "app/viz/record_kernels.h"

#include <map>
#include <tuple>

#include "app/plan_name.h"
#include "app/profile_totals.h"
#include "app/profile_words.h"
#include "engine/model_passes.h"
#include "graph/rewrite.h"
#include "graph/tensor.h"
#include "graph/text.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr size_t kMostRules = 300;  // different ones of a pass that are kept
constexpr const char* kFirstPass = "bound masks";

// Rules as they fire, between two passes.
class RuleLog {
 public:
  explicit RuleLog(Tables& tables)
      : tables_(tables), watch_([this](const Rule& rule, Ref before, Ref after) { add(rule, before, after); }) {}

  // What has fired since the last call, as [rule, before, after, times], and how often in all.
  void put_into(Json& pass) {
    Json rules = Json::array();
    for (const auto& [rule, before, after] : order_)
      rules.push_back({tables_.strings.number(rule), tables_.nodes.number(before), tables_.nodes.number(after),
                       times_.at({rule, before.get(), after.get()})});
    pass["rules"] = std::move(rules);
    pass["fired"] = fired_;
    order_.clear();
    times_.clear();
    fired_ = 0;
    watch_.forget();
  }

 private:
  void add(const Rule& rule, Ref before, Ref after) {
    ++fired_;
    const auto [at, is_new] = times_.try_emplace({rule.name, before.get(), after.get()}, 0);
    if (is_new && order_.size() < kMostRules) order_.emplace_back(rule.name, before, after);
    ++at->second;
  }

  Tables& tables_;
  std::vector<std::tuple<std::string, Ref, Ref>> order_;
  std::map<std::tuple<std::string, const Node*, const Node*>, int> times_;
  int64_t fired_ = 0;
  RewriteWatch watch_;
};

CodegenRequest request_of(const KernelDescription& kernel) {
  return {.tree = kernel.tree,
          .name = kernel.name,
          .machine = kernel.machine,
          .symbols = PassSymbols::names(kernel.machine.token_tile)};
}

Json opts_json(const KernelOpts& opts) {
  Json out = Json::array();
  for (const auto& nest : opts) out.push_back(to_string(nest));
  return out;
}

// What the heuristic tries for each nest, as [nest, option, why not]. `chosen`: what it takes.
Json options_tried(const KernelDescription& kernel, Tables& tables, KernelOpts& chosen) {
  Json tried = Json::array();
  int nest = -1;
  CodegenRequest request = request_of(kernel);
  request.observe = [&](const char* pass, const Refs&) { nest += std::string_view(pass) == kFirstPass; };
  request.observe_options = [&](const Opt& opt, const std::string& why_not) {
    tried.push_back({nest, tables.strings.number(to_string(opt)), tables.strings.number(why_not)});
  };
  chosen = generate(request).opts;
  return tried;
}

Json passes_of(const KernelDescription& kernel, Tables& tables) {
  Json passes = Json::array();
  int nest = -1;
  RuleLog rules(tables);
  CodegenRequest request = request_of(kernel);
  request.opts = kernel.opts;
  request.observe = [&](const char* name, const Refs& stores) {
    nest += std::string_view(name) == kFirstPass;
    Json pass = {{"nest", nest}, {"name", name}, {"roots", tables.nodes.numbers(stores)}};
    rules.put_into(pass);
    put_fault(sink(stores), phase_behind(name), tables, pass);
    passes.push_back(std::move(pass));
  };
  generate(request);
  return passes;
}

Json record_kernel(const KernelSet& kernels, int number, Tables& tables) {
  const KernelDescription kernel = kernels.kernel(number);
  KernelOpts chosen;
  Json out = {{"name", kernel.name}, {"tree", tables.nodes.number(kernel.tree)}};
  out["tried"] = options_tried(kernel, tables, chosen);
  out["options"] = opts_json(kernel.opts);
  if (to_string(chosen) != to_string(kernel.opts)) out["heuristic"] = opts_json(chosen);
  out["passes"] = passes_of(kernel, tables);
  out.update(record_texts(kernels.listing(number, true), kernel.machine));
  return out;
}

const char* name_of(std::optional<Where> where) {
  if (!where) return "again";
  switch (*where) {
    case Where::Memory: return "memory";
    case Where::OnChip: return "chip";
    case Where::InTile: return "tile";
  }
  return "";
}

Json slots_json(const std::vector<LaunchBuffer>& slots) {
  Json out = Json::array();
  for (const LaunchBuffer& slot : slots) {
    Json item = {{"name", slot.name}, {"bytes", slot.bytes}};
    if (slot.is_weight) item["format"] = slot.format;
    out.push_back(std::move(item));
  }
  return out;
}

// A segment is scheduled once more, for the same schedule.
class SegmentRecord {
 public:
  SegmentRecord(const PlanSegment& segment, const Machine& machine, Tables& tables) : tables_(tables), rules_(tables) {
    const Schedule schedule = make_schedule(segment.root, machine, observer());
    Refs trees;
    for (const Kernel& k : schedule.kernels) trees.push_back(k.tree);
    add_pass("kernels", sink(trees));
    for (Ref tree : trees) put_fault(tree, Phase::Kernel, tables_, passes_.back());
    Json temps = Json::array();
    for (size_t i = 0; i < schedule.temps.size(); ++i) temps.push_back(temp_json(schedule, static_cast<int64_t>(i)));
    Json levels = Json::array();
    for (const Kernel& k : schedule.kernels) levels.push_back(k.level);
    out_ = {{"stage", segment.stage},       {"slots", slots_json(segment.slots)}, {"kernels", segment.kernels},
            {"levels", std::move(levels)},  {"arena", schedule.arena_bytes},      {"temps", std::move(temps)},
            {"passes", std::move(passes_)}, {"places", std::move(places_)},       {"items", std::move(items_)}};
  }

  Json take() { return std::move(out_); }

 private:
  ScheduleObserver observer() {
    return {.begin = [this] { passes_ = places_ = items_ = Json::array(); },
            .pass =
                [this](const char* pass, Ref graph) {
                  add_pass(pass, graph);
                  put_fault(graph, Phase::Tensor, tables_, passes_.back());
                },
            .place =
                [this](const PlaceDecision& d) {
                  places_.push_back({tables_.nodes.number(d.tensor), tables_.strings.number(name_of(d.where)),
                                     tables_.strings.number(d.why)});
                },
            .item =
                [this](Ref tensor, Ref buffer, int kernel) {
                  items_.push_back({tables_.nodes.number(tensor),
                                    tables_.strings.number(buffer ? to_infix(buffer) : std::string()), kernel});
                }};
  }

  void add_pass(const char* name, Ref graph) {
    Json pass = {{"nest", 0}, {"name", name}, {"roots", {tables_.nodes.number(graph)}}};
    rules_.put_into(pass);
    passes_.push_back(std::move(pass));
  }

  // [offset, bytes, first kernel, last kernel]
  static Json temp_json(const Schedule& schedule, int64_t number) {
    int first = -1, last = -1;
    for (size_t k = 0; k < schedule.kernels.size(); ++k)
      for (Ref b : schedule.kernels[k].buffers)
        if (b->op == Op::Temp && number_of_buffer(b) == number) {
          if (first < 0) first = static_cast<int>(k);
          last = static_cast<int>(k);
        }
    const TempBuffer& temp = schedule.temps[static_cast<size_t>(number)];
    return {temp.offset, temp.bytes, std::max(first, 0), std::max(last, 0)};
  }

  Tables& tables_;
  RuleLog rules_;
  Json passes_ = Json::array(), places_ = Json::array(), items_ = Json::array(), out_;
};

}  // namespace

void put_fault(Ref root, Phase phase, Tables& tables, Json& pass) {
  const auto fault = fault_in(root, phase);
  if (!fault || pass.contains("fault")) return;
  pass["fault"] = fault->message;
  pass["fault_node"] = tables.nodes.number(fault->node);
}

Json record_texts(const KernelListing& listing, const Machine& machine) {
  Json out = {{"program", print(listing.program)},
              {"source", listing.source.text},
              {"assembly", listing.assembly.text},
              {"source_language", machine.isa == Isa::Apple ? "MSL" : "LLVM IR"},
              {"assembly_language", machine.isa == Isa::Nvidia ? "PTX" : "assembly"}};
  if (!listing.assembly.lines.empty()) out["assembly_lines"] = listing.assembly.lines;
  return out;
}

Json record_kernels(const KernelSet& kernels, Tables& tables, const RecordHooks& hooks) {
  Json out = Json::array();
  const int count = kernels.kernel_count();
  for (int i = 0; i < count && !(hooks.cancel && *hooks.cancel); ++i) {
    out.push_back(record_kernel(kernels, i, tables));
    if (hooks.progress) hooks.progress(i + 1, count);
  }
  return out;
}

Json record_segments(const KernelSet& kernels, Tables& tables, Json& plans) {
  Json out = Json::array();
  std::map<int, int> known;  // number of a segment: where it is in `out`
  for (PlanKind kind : kPlanKinds) {
    const std::vector<PlanLaunch> launches = kernels.launches(kind);
    if (launches.empty()) continue;  // the last one, where a machine has no other plan for long contexts
    Json recorded = Json::array();
    const std::vector<std::string> stages = stages_of(launches);
    size_t launch = 0;
    for (const PlanSegment& segment : kernels.segments(kind)) {
      const auto [at, is_new] = known.try_emplace(segment.number, static_cast<int>(out.size()));
      if (is_new) {
        out.push_back(SegmentRecord(segment, kernels.kernel(0).machine, tables).take());
        Json& buffers = out.back()["buffers"] = Json::array();
        for (size_t k = 0; k < segment.kernels.size(); ++k) buffers.push_back(slots_json(launches[launch + k].buffers));
      }
      for (size_t k = 0; k < segment.kernels.size(); ++k, ++launch)
        recorded.push_back({segment.kernels[k], at->second, static_cast<int>(k), segment.layer,
                            tables.strings.number(stages[launch]),
                            tables.strings.number(lines_in_words(launches[launch]))});
    }
    plans.push_back({{"name", plan_name(kind)}, {"launches", std::move(recorded)}});
  }
  return out;
}

}  // namespace smelt
