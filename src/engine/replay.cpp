#include "engine/replay.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <unordered_map>

#include "base/file.h"
#include "codegen/kernel_eval.h"
#include "codegen/program_text.h"
#include "engine/kernel_builder.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "runtime/devices.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

constexpr int64_t kGreatestVariable = 4;  // symbolic sizes stay small
constexpr int64_t kGreatestIndex = 63;    // so do row numbers: 0, 1, .. 63, 0, ..
constexpr int64_t kGreatestMemory = int64_t{16} << 30;
constexpr int64_t kTermsJudged = 400'000;  // what the interpreter does in a few seconds
constexpr size_t kSpare = 64;              // bytes behind a buffer that a vector may touch

Error bad(const std::string& path, const std::string& what) {
  return Error{"[replay] " + path + ": " + what + "; give a NAME.ir that DUMP=dir wrote"};
}

struct Dump {
  std::string name;
  Ref tree;
  KernelOpts opts;  // empty: chosen anew
};

Result<KernelOpts> read_opts(const std::string& path, Ref tree, const Machine& machine) {
  SMELT_TRY(text, read_file(path));
  KernelOpts opts;
  size_t begin = 0;
  for (Ref nest : tree->src) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    SMELT_TRY(mine, parse_opts(std::string_view(text).substr(std::min(begin, end), end - std::min(begin, end))));
    Refs stores = prepare_nest(nest, machine);
    for (const Opt& opt : mine) {
      OptResult result = try_opt(stores, opt, lane_rules(machine));
      if (!result)
        return Error{"[replay] " + path + ": " + result.why_not + "; correct that option or remove the file"};
      stores = std::move(result.stores);
    }
    opts.push_back(std::move(mine));
    begin = end + 1;
  }
  return opts;
}

bool is_nests_of_stores(Ref tree) {
  return tree->op == Op::Sink && !tree->src.empty() && std::all_of(tree->src.begin(), tree->src.end(), [](Ref nest) {
           return nest->op == Op::Sink && !nest->src.empty() &&
                  std::all_of(nest->src.begin(), nest->src.end(), [](Ref store) { return store->op == Op::Store; });
         });
}

Result<Dump> read_dump(const std::string& path, const Machine& machine) {
  const std::filesystem::path file(path);
  if (file.extension() != ".ir") return bad(path, "it does not end in .ir");
  SMELT_TRY(text, read_file(path));
  const auto parsed = parse(text);
  if (!parsed) return bad(path, parsed.error().message);
  const Ref tree = *parsed;
  if (Status s = verify_kernel(tree, file.stem().string(), machine); !s) return bad(path, s.error().message);
  if (!is_nests_of_stores(tree)) return bad(path, "it is not a kernel");
  Dump dump{.name = file.stem().string(), .tree = tree};
  const std::string beside = std::filesystem::path(file).replace_extension(".opts").string();
  if (std::filesystem::exists(beside)) {
    SMELT_TRY(opts, read_opts(beside, tree, machine));
    dump.opts = std::move(opts);
  }
  return dump;
}

// --- inputs

Refs loads_below(Ref n) {
  Refs loads;
  for (Ref x : toposort(n))
    if (x->op == Op::Load) loads.push_back(x);
  return loads;
}

// What a kernel's inputs must be like for every load to lie inside.
class Inputs {
 public:
  explicit Inputs(Ref tree) : tree_(tree) {
    for (Ref n : toposort(tree)) {
      if (n->op == Op::Var)
        variables_[n->arg.name] = std::clamp(kGreatestVariable, n->min, n->max),
        replaced_[n] = constant(variables_[n->arg.name]);
      if (n->op == Op::Load) types_[buffer_of(n)].insert(n->dtype);
      if (n->op == Op::Store && StoreView(n).buffer->op == Op::Local) local_stores_.push_back(n);
      if (n->op == Op::Load) mark_indices(LoadView(n).offset);
      if (n->op == Op::Store) mark_indices(StoreView(n).offset);
      if (n->op == Op::Range) mark_indices(RangeView(n).size);
    }
    for (Ref n : toposort(tree))
      if (n->op == Op::Load && LoadView(n).buffer->op == Op::Local && !loads_below(LoadView(n).offset).empty())
        while (greatest_index_ > 0 &&
               greatest(LoadView(n).offset) + size_of(n->dtype) > local_bytes(LoadView(n).buffer))
          greatest_index_ /= 2;
    for (Ref n : toposort(tree)) {
      if (n->op == Op::Load) count_bytes(LoadView(n).buffer, LoadView(n).offset, n->dtype);
      if (n->op == Op::Store) count_bytes(StoreView(n).buffer, StoreView(n).offset, StoreView(n).value->dtype);
    }
  }

  const std::map<std::string, int64_t>& variables() const { return variables_; }

  int64_t total_bytes() const {
    int64_t total = 0;
    for (const auto& [i, bytes] : bytes_) total += bytes > kGreatestMemory ? kGreatestMemory : bytes;
    return total;
  }

  // By Param number, each followed by kSpare bytes.
  std::vector<std::vector<std::byte>> random(uint64_t seed) const {
    std::vector<std::vector<std::byte>> buffers(bytes_.empty() ? 0 : static_cast<size_t>(bytes_.rbegin()->first) + 1);
    std::mt19937_64 rng(seed);
    for (const auto& [i, bytes] : bytes_) {
      buffers[static_cast<size_t>(i)].resize(static_cast<size_t>(bytes) + kSpare);
      fill(buffers[static_cast<size_t>(i)], i, rng);
    }
    return buffers;
  }

  // Terms that one value is made of, those of reductions in reductions included.
  int64_t terms_of(Ref n) {
    if (auto it = terms_.find(n); it != terms_.end()) return it->second;
    int64_t terms = 1;
    for (Ref s : n->src) terms = std::max(terms, terms_of(s));
    if (is_reduce(n->op))
      for (Ref r : ReduceView(n).ranges) terms *= std::clamp<int64_t>(greatest(RangeView(r).size), 1, kTermsJudged);
    return terms_[n] = std::min(terms, kTermsJudged);
  }

 private:
  static std::pair<Op, int64_t> buffer_of(Ref load) {
    const Ref buffer = LoadView(load).buffer;
    return {buffer->op, number_of_buffer(buffer)};
  }

  void count_bytes(Ref buffer, Ref offset, DType dtype) {
    if (buffer->op != Op::Param) return;
    int64_t& bytes = bytes_[number_of_buffer(buffer)];
    bytes = std::max(bytes, greatest(offset) + size_of(dtype));
  }

  void mark_indices(Ref expr) {
    for (Ref load : loads_below(expr)) indices_.insert(buffer_of(load));
  }

  // The greatest value of an index expression with such numbers. What a kernel computed itself (ids
  // of a top-k) may be as large as that allows.
  int64_t greatest(Ref expr) {
    Replacements by = replaced_;
    for (Ref n : toposort(expr)) {
      if (n->op == Op::TopKLane)
        by[n] = constant(greatest(RangeView(ReduceView(topk_of(n)).ranges[0]).size) - 1, n->dtype);
      if (n->op == Op::Cast && is_int(n->dtype) && operand_of(n)->dtype == DType::Bool) by[n] = constant(1, n->dtype);
      if (n->op == Op::ReduceSum && is_int(n->dtype)) by[n] = constant(greatest_sum(n), n->dtype);
      if (n->op == Op::Load)
        by[n] = is_float(n->dtype)
                    ? constant_f(0, n->dtype)
                    : constant(LoadView(n).buffer->op == Op::Local ? greatest_local(n) : greatest_index_, n->dtype);
    }
    return substitute(expr, by)->max;
  }

  // As of a rank, or of an index that is chosen by one.
  int64_t greatest_sum(Ref sum) {
    double most = static_cast<double>(std::max<int64_t>(0, greatest(ReduceView(sum).values[0])));
    for (Ref r : ReduceView(sum).ranges) most *= static_cast<double>(std::max<int64_t>(1, greatest(RangeView(r).size)));
    return static_cast<int64_t>(std::min(most, static_cast<double>(INT32_MAX)));
  }

  int64_t greatest_local(Ref load) {
    int64_t most = 0;
    for (Ref store : local_stores_)
      if (StoreView(store).buffer == LoadView(load).buffer) most = std::max(most, greatest(StoreView(store).value));
    return most;
  }

  void fill(std::vector<std::byte>& buffer, int64_t i, std::mt19937_64& rng) const {
    const auto it = types_.find({Op::Param, i});
    if (it == types_.end()) return;
    const std::set<DType>& types = it->second;
    if (indices_.contains({Op::Param, i})) {
      const auto size = static_cast<size_t>(size_of(*types.begin()));
      for (size_t at = 0; at < buffer.size(); at += size)
        buffer[at] = std::byte(at / size % static_cast<size_t>(greatest_index_ + 1));
      return;
    }
    if (types.size() == 1 && *types.begin() == DType::F32)
      for (size_t at = 0; at + 4 <= buffer.size(); at += 4) {
        const auto x = static_cast<float>(static_cast<double>(rng() >> 11) * 0x1p-52 - 1);
        std::memcpy(buffer.data() + at, &x, 4);
      }
    else if (types.size() == 1 && (*types.begin() == DType::I32 || *types.begin() == DType::I64))
      for (size_t at = 0; at < buffer.size(); at += static_cast<size_t>(size_of(*types.begin())))
        buffer[at] = std::byte(rng() & 255);
    else  // raw blocks: without this bit their scales are below 2, whatever float they are
      for (std::byte& b : buffer) b = std::byte(rng() & 0xbf);
  }

  Ref tree_;
  std::map<std::string, int64_t> variables_;
  Replacements replaced_;
  std::map<std::pair<Op, int64_t>, std::set<DType>> types_;
  std::set<std::pair<Op, int64_t>> indices_;
  int64_t greatest_index_ = kGreatestIndex;  // that every buffer on chip has an element for
  Refs local_stores_;
  std::unordered_map<Ref, int64_t, RefHash> terms_;
  std::map<int64_t, int64_t> bytes_;
};

std::vector<std::span<const std::byte>> without_spare(const std::vector<std::vector<std::byte>>& buffers) {
  std::vector<std::span<const std::byte>> out;
  for (const auto& b : buffers) out.push_back(std::span(b).first(b.empty() ? 0 : b.size() - kSpare));
  return out;
}

// --- running

// The buffers of a kernel in the memory of a device.
class PlacedBuffers {
 public:
  static Result<PlacedBuffers> place(Device& device, const std::vector<std::vector<std::byte>>& buffers) {
    PlacedBuffers placed;
    for (const auto& bytes : buffers) {
      SMELT_TRY(memory, DeviceMemory::allocate(device, bytes.size(), "a kernel's buffers"));
      SMELT_CHECK(device.upload(memory.data(), bytes));
      placed.pointers_.push_back(memory.data());
      placed.memory_.push_back(std::move(memory));
    }
    return placed;
  }

  const void* const* pointers() const { return pointers_.data(); }

  Result<std::vector<std::vector<std::byte>>> read(Device& device) const {
    std::vector<std::vector<std::byte>> buffers;
    for (const DeviceMemory& memory : memory_) {
      buffers.emplace_back(memory.size());
      SMELT_CHECK(device.read_back(buffers.back(), memory.data()));
    }
    return buffers;
  }

 private:
  std::vector<DeviceMemory> memory_;
  std::vector<const void*> pointers_;
};

// Seconds of one run: the best of as many as fit a fifth of a second.
Result<double> best_seconds(Device& device, const CapturedPlan& plan, std::span<const int64_t> symbols) {
  double best = 1e9, total = 0;
  for (int i = 0; i < 1000 && (i < 2 || total < 0.2); ++i) {
    int64_t times[2];
    SMELT_CHECK(device.run(plan, symbols, {.times_ns = times}));
    const double seconds = static_cast<double>(times[1] - times[0]) * 1e-9;
    best = std::min(best, seconds), total += seconds;
  }
  return best;
}

std::string line(const char* format, auto... values) {
  char text[240];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// --- texts

std::string name_and_options(const Dump& dump, const CodegenResult& code) {
  std::string text = "kernel   " + dump.name + "\n";
  for (size_t i = 0; i < code.opts.size(); ++i)
    text += line("nest %-4zu", i) + (code.opts[i].empty() ? "no options" : to_string(code.opts[i])) + "\n";
  return text;
}

std::string forms_of(const Dump& dump, const Program& program, const KernelBuilder& builder) {
  return "--- tree\n" + print(dump.tree) + "\n--- program\n" + print(program) + "\n--- source\n" +
         builder.source(program).text;
}

}  // namespace

Result<ReplayReport> replay_kernel(const std::string& path, const std::string& device_name) {
  SMELT_TRY(device, open_device({.name = device_name, .threads = 1, .use_cache = false}));
  SMELT_TRY(dump, read_dump(path, device->machine()));
  Inputs inputs(dump.tree);
  if (inputs.total_bytes() >= kGreatestMemory) return bad(path, "its buffers would take more than 16 GiB");

  std::vector<std::string> names;
  std::vector<int64_t> symbols;
  for (const auto& [name, value] : inputs.variables()) names.push_back(name), symbols.push_back(value);
  const KernelBuilder builder(*device, names);
  const CodegenResult code = generate(builder.request(dump.tree, dump.name, dump.opts));
  SMELT_TRY(kernel, builder.build(code.program));

  const std::vector<std::vector<std::byte>> before = inputs.random(1);
  SMELT_TRY(placed, PlacedBuffers::place(*device, before));
  const Launch launch{.kernel = kernel, .buffers = placed.pointers()};
  SMELT_TRY(plan, device->capture({&launch, 1}));
  SMELT_CHECK(device->run(*plan, symbols));
  SMELT_TRY(after, placed.read(*device));
  int64_t elements = kTermsJudged;
  for (Ref nest : dump.tree->src)
    for (Ref store : nest->src)
      elements = std::min(elements, std::max<int64_t>(16, kTermsJudged / inputs.terms_of(StoreView(store).value)));
  SMELT_TRY(expected, evaluate_kernel({.tree = dump.tree,
                                       .buffers = without_spare(before),
                                       .variables = inputs.variables(),
                                       .elements_per_store = elements}));
  const bool rounded = rounds_floats(dump.tree);
  const KernelDifference worst = difference(expected, without_spare(after), rounded);

  SMELT_TRY(seconds, best_seconds(*device, *plan, symbols));
  const auto bytes = static_cast<double>(inputs.total_bytes());
  ReplayReport report{.agrees = worst.worst <= tolerance(rounded)};
  report.source = forms_of(dump, code.program, builder);
  report.text = name_and_options(dump, code);
  for (const auto& [name, value] : inputs.variables())
    report.text += "symbol   " + name + " = " + std::to_string(value) + "\n";
  const char* where = is_processor(device->name()) ? "on one thread" : "there";
  report.text += line("time     %.2f us %s, %.2f MB of buffers, %.2f GB/s\n", seconds * 1e6, where, bytes * 1e-6,
                      bytes / seconds * 1e-9);
  report.text += line("judged   %zu elements, largest difference %.2g: %s\n", expected.size(), worst.worst,
                      report.agrees ? "agrees" : "differs");
  if (!report.agrees) report.text += "worst    " + worst.where + "\n";
  return report;
}

Result<DumpedKernel> read_dumped_kernel(const std::string& path, const Machine& machine) {
  SMELT_TRY(dump, read_dump(path, machine));
  DumpedKernel out{.name = dump.name, .tree = dump.tree, .opts = std::move(dump.opts), .symbols = {}};
  const Inputs inputs(dump.tree);
  for (const auto& [name, value] : inputs.variables()) out.symbols.push_back(name);
  return out;
}

Result<std::string> kernel_on_machine(const std::string& path, const std::string& machine) {
  SMELT_TRY(device, open_null_device(machine));
  SMELT_TRY(dump, read_dump(path, device->machine()));
  const Inputs inputs(dump.tree);
  std::vector<std::string> names;
  for (const auto& [name, value] : inputs.variables()) names.push_back(name);
  const KernelBuilder builder(*device, names);
  const CodegenResult code = generate(builder.request(dump.tree, dump.name, dump.opts));
  const Source source = builder.source(code.program);
  const std::string assembly = device->assembly(source);  // empty where nothing here makes any
  const std::string last = assembly.empty() ? "\n--- source\n" + source.text : "\n--- assembly\n" + assembly;
  return name_and_options(dump, code) + forms_of(dump, code.program, builder) + last;
}

}  // namespace smelt
