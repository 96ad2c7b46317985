#include "engine/tune_judge.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "graph/rules_algebra.h"
#include "graph/views.h"
#include "schedule/schedule.h"

namespace smelt {
namespace {

constexpr double kMeanAgreement = 2e-4;    // few terms do
constexpr double kOperationsJudged = 2e6;  // of the elements that the interpreter computes
constexpr double kLocalOperations = 3e7;   // of on-chip buffers, which it computes in full
constexpr double kFewestElements = 16, kMostElements = 2048;
constexpr int kOtherParts = 3;

bool loads(Ref tree, int64_t buffer) {
  const Refs nodes = toposort(tree);
  return std::any_of(nodes.begin(), nodes.end(), [&](Ref n) {
    return n->op == Op::Load && LoadView(n).buffer->op == Op::Param && number_of_buffer(LoadView(n).buffer) == buffer;
  });
}

Ref with_symbols(Ref tree, const SymbolValues& symbols) {
  Replacements values;
  for (Ref n : toposort(tree))
    if (n->op == Op::Var) values[n] = constant(symbols.at(n->arg.name));
  return values.empty() ? tree : substitute(tree, values);
}

bool has_load(Ref expr) {
  const Refs nodes = toposort(expr);
  return std::any_of(nodes.begin(), nodes.end(), [](Ref n) { return n->op == Op::Load; });
}

Scalar read(const std::byte* at, DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(size_of(dtype)));
  return from_bits(bits, dtype);
}

// A step of 8 bits, up or down.
bool is_next_step(DType dtype, Scalar a, Scalar b) { return size_of(dtype) == 1 && std::abs(a.i - b.i) <= 1; }

Refs stores_to_memory(Ref tree) {
  Refs out;
  for (Ref nest : tree->src)
    for (Ref store : nest->src)
      if (StoreView(store).buffer->op == Op::Param) out.push_back(store);
  return out;
}

}  // namespace

Result<TuneJudge> TuneJudge::make(const TuneSite& site, const Executable* base, Device& device) {
  TuneJudge judge(site, device);
  judge.rounds_ = rounds_floats(site.tree);
  judge.agreement_ = tolerance(judge.rounds_);
  judge.find_regions();
  SMELT_CHECK(site.prepare());
  SMELT_CHECK(judge.ask_interpreter());
  SMELT_CHECK(judge.poison());
  SMELT_CHECK(judge.run(base, site.launches[0]));
  if (const std::string problem = judge.compare_elements(); !problem.empty())
    return Error{"[tune] " + site.name + ": without tuning it disagrees with the interpreter: " + problem};
  for (Region& region : judge.regions_) {
    const std::span<const std::byte> now = judge.region_now(region);
    region.reference.assign(now.begin(), now.end());
    if (!is_float(region.dtype)) continue;
    for (int64_t i = 0; i + size_of(region.dtype) <= region.bytes; i += size_of(region.dtype))
      if (const double x = std::abs(read(now.data() + i, region.dtype).f); std::isfinite(x))
        region.scale = std::max(region.scale, 1 + x);
  }
  return judge;
}

// Stores whose addresses depend on values in memory (rows of the cache) are left to the interpreter's elements.
void TuneJudge::find_regions() {
  for (Ref node : stores_to_memory(with_symbols(site_->tree, site_->symbol_values()))) {
    const StoreView store(node);
    const int64_t buffer = number_of_buffer(store.buffer);
    outputs_.insert(buffer);
    in_place_ |= loads(site_->tree, buffer);
    const Ref offset = store.offset;
    if (has_load(offset)) continue;
    const DType dtype = store.value->dtype;
    const int64_t limit = site_->buffers[static_cast<size_t>(buffer)].bytes;
    const int64_t first = std::max<int64_t>(offset->min, 0), end = std::min(offset->max + size_of(dtype), limit);
    if (first < end) regions_.push_back({buffer, first, end - first, dtype, {}, 1});
  }
}

Status TuneJudge::ask_interpreter() {
  const SymbolValues symbols = site_->symbol_values();
  Refs local, other;
  for (Ref nest : site_->tree->src) (is_local_nest(nest) ? local : other).push_back(nest);
  const auto operations = [&](const Refs& nests) {
    return nests.empty() ? 0 : cost_of(smelt::make(Op::Sink, DType::Void, nests), symbols).operations();
  };
  if (operations(local) > kLocalOperations)
    return Error{"[tune] " + site_->name + ": too much work for the interpreter to judge"};
  double stored = 0;
  for (Ref store : stores_to_memory(with_symbols(site_->tree, symbols))) {
    double elements = 1;
    for (Ref range : StoreView(store).ranges) elements *= static_cast<double>(RangeView(range).size->max);
    stored += elements;
  }
  const double each = operations(other) / std::max(stored, 1.0);
  const double count = kOperationsJudged / std::max(each, 1.0);
  const auto buffers = static_cast<int64_t>(site_->buffers.size());
  for (int64_t i = 0; i < buffers; ++i) SMELT_CHECK(memory_.refresh(i));
  SMELT_TRY(expected, evaluate_kernel({.tree = site_->tree,
                                       .buffers = memory_.all(),
                                       .variables = symbols,
                                       .elements_per_store =
                                           static_cast<int64_t>(std::clamp(count, kFewestElements, kMostElements))}));
  expected_ = std::move(expected);
  for (int64_t i = 0; i < buffers; ++i)
    if (!outputs_.contains(i)) memory_.forget(i);
  return {};
}

std::span<const std::byte> TuneJudge::region_now(const Region& region) const {
  return memory_[region.buffer].subspan(static_cast<size_t>(region.first), static_cast<size_t>(region.bytes));
}

int64_t TuneJudge::bytes() const {
  int64_t bytes = 0;
  for (const Region& r : regions_) bytes += r.bytes;
  return bytes;
}

bool TuneJudge::is_in_a_region(const KernelElement& e) const {
  return std::any_of(regions_.begin(), regions_.end(), [&](const Region& r) {
    return r.buffer == e.buffer && r.first <= e.offset && e.offset + size_of(e.dtype) <= r.first + r.bytes;
  });
}

// Output of an earlier kernel must not pass for that of the next one.
Status TuneJudge::poison() {
  constexpr std::byte kPoison{0xff};
  if (in_place_) return {};
  for (const Region& r : regions_) SMELT_CHECK(memory_.fill(r.buffer, r.first, r.bytes, kPoison));
  for (const KernelElement& e : expected_)
    if (!is_in_a_region(e)) SMELT_CHECK(memory_.fill(e.buffer, e.offset, size_of(e.dtype), kPoison));
  return {};
}

Status TuneJudge::run(const Executable* kernel, const void* const* arguments, int parts) {
  const Launch launch{.kernel = kernel, .buffers = arguments, .parts = parts};
  SMELT_TRY(plan, device_->capture({&launch, 1}));
  SMELT_CHECK(device_->run(*plan, site_->symbols));
  for (int64_t buffer : outputs_) SMELT_CHECK(memory_.refresh(buffer));
  return {};
}

std::string TuneJudge::compare_elements() const {
  const KernelDifference d = difference(expected_, memory_.all(), rounds_);
  return d.worst <= agreement_ ? "" : d.where;
}

std::string TuneJudge::compare_region(const Region& region) const {
  const std::byte* at = region_now(region).data();
  if (std::memcmp(at, region.reference.data(), region.reference.size()) == 0) return "";
  const int64_t size = size_of(region.dtype);
  double differences = 0;
  for (int64_t i = 0; i + size <= region.bytes; i += size) {
    const Scalar got = read(at + i, region.dtype), wanted = read(region.reference.data() + i, region.dtype);
    if (std::memcmp(at + i, region.reference.data() + i, static_cast<size_t>(size)) == 0) continue;
    if (is_float(region.dtype)) differences += std::abs(got.f - wanted.f) / region.scale;
    const bool agrees = is_float(region.dtype) ? std::abs(got.f - wanted.f) <=
                                                     agreement_ * region.scale * (region.dtype == DType::F32 ? 1 : 64)
                                               : rounds_ && is_next_step(region.dtype, got, wanted);
    if (!agrees)
      return "buffer " + std::to_string(region.buffer) + ", byte " + std::to_string(region.first + i) + ": " +
             (is_float(region.dtype) ? std::to_string(got.f) + " and not " + std::to_string(wanted.f)
                                     : std::to_string(got.i) + " and not " + std::to_string(wanted.i));
  }
  const double mean = differences / static_cast<double>(std::max<int64_t>(region.bytes / size, 1));
  return mean <= kMeanAgreement ? "" : "buffer " + std::to_string(region.buffer) + " is off everywhere, by a little";
}

Result<std::string> TuneJudge::problem_with(const Executable* kernel, const void* const* arguments) {
  if (in_place_) SMELT_CHECK(site_->prepare());
  SMELT_CHECK(poison());
  SMELT_CHECK(run(kernel, arguments));
  std::string problem = compare_elements();
  for (size_t i = 0; i < regions_.size() && problem.empty(); ++i) problem = compare_region(regions_[i]);
  if (!problem.empty()) SMELT_CHECK(site_->prepare());
  return problem;
}

// What was stored at places that are known: regions, and the elements elsewhere.
std::vector<std::byte> TuneJudge::output() const {
  std::vector<std::byte> out;
  for (const Region& r : regions_) {
    const std::span<const std::byte> now = region_now(r);
    out.insert(out.end(), now.begin(), now.end());
  }
  for (const KernelElement& e : expected_) {
    const std::byte* at = memory_[e.buffer].data() + e.offset;
    out.insert(out.end(), at, at + size_of(e.dtype));
  }
  return out;
}

Result<bool> TuneJudge::is_steady(const Executable* kernel, const void* const* arguments) {
  if (in_place_) SMELT_CHECK(site_->prepare());
  SMELT_CHECK(run(kernel, arguments));
  const std::vector<std::byte> together = output();
  if (in_place_) SMELT_CHECK(site_->prepare());
  SMELT_CHECK(poison());
  SMELT_CHECK(run(kernel, arguments, kOtherParts));
  return output() == together;
}

}  // namespace smelt
