#include "runtime/metal/plan.h"

#include <algorithm>
#include <set>

#include "base/ensure.h"

namespace smelt {
namespace {

constexpr size_t kAddressAlign = 64;  // of what a kernel finds its buffers' addresses in

size_t address_bytes(const LaunchShape& shape) {
  const size_t bytes = static_cast<size_t>(shape.buffers) * sizeof(uint64_t);
  return (bytes + kAddressAlign - 1) / kAddressAlign * kAddressAlign;
}

const MetalExecutable& kernel_of(const Launch& l) { return static_cast<const MetalExecutable&>(*l.kernel); }

// The dispatches of a plan, the addresses that they read, and the memory that those are of.
struct Encoding {
  std::vector<MetalDispatch> dispatches;
  std::set<MetalBuffer> resident;
};

Status add(Encoding& encoding, const Launch& l, const MetalBuffers& buffers, const MetalMemory& addresses, size_t at,
           MetalBuffer symbols) {
  const MetalExecutable& kernel = kernel_of(l);
  for (size_t b = 0; b < static_cast<size_t>(kernel.shape.buffers); ++b) {
    const auto place = buffers.find(l.buffers[b]);
    if (!place)
      return Error{"[metal] kernel " + kernel.name + ": its buffer " + std::to_string(b) +
                   " is no memory that the GPU sees"};
    encoding.resident.insert(place->buffer);
    const auto bytes = std::as_bytes(std::span(&place->gpu, 1));
    std::copy(bytes.begin(), bytes.end(), addresses.host + at + b * sizeof(uint64_t));
  }
  encoding.dispatches.push_back({.pipeline = kernel.pipeline,
                                 .addresses = addresses.buffer,
                                 .addresses_offset = at,
                                 .symbols = symbols,
                                 .threadgroups = l.parts > 0 ? static_cast<uint32_t>(l.parts) : kernel.threadgroups,
                                 .threads = static_cast<uint32_t>(kernel.shape.threads),
                                 .threadgroup_bytes = static_cast<uint32_t>(kernel.shape.shared_bytes)});
  return {};
}

}  // namespace

Result<std::unique_ptr<MetalPlan>> MetalPlan::capture(MetalGpu& gpu, const MetalBuffers& buffers, MetalQueue& queue,
                                                      const MetalMemory& symbols, std::span<const Launch> launches) {
  std::unique_ptr<MetalPlan> plan(new MetalPlan(gpu, queue));
  plan->launches_ = launches.size();
  if (launches.empty()) return plan;
  size_t bytes = 0;
  for (const Launch& l : launches) bytes += address_bytes(kernel_of(l).shape);
  SMELT_TRY(addresses, gpu.allocate(std::max<size_t>(bytes, 1), "the addresses of a plan"));
  plan->addresses_ = addresses;
  Encoding encoding;
  encoding.resident = {addresses.buffer, symbols.buffer};
  size_t at = 0;
  for (const Launch& l : launches) {
    SMELT_CHECK(add(encoding, l, buffers, addresses, at, symbols.buffer));
    at += address_bytes(kernel_of(l).shape);
  }
  const std::vector<MetalBuffer> resident(encoding.resident.begin(), encoding.resident.end());
  const std::span<const MetalDispatch> all = encoding.dispatches;
  for (size_t first = 0; first < all.size(); first += gpu.most_dispatches()) {
    const size_t count = std::min(gpu.most_dispatches(), all.size() - first);
    SMELT_TRY(commands, gpu.encode(all.subspan(first, count), resident));
    plan->commands_.push_back(commands);
  }
  return plan;
}

MetalPlan::~MetalPlan() {
  (void)queue_.wait(last_run_);
  for (MetalCommands commands : commands_) gpu_.release(commands);
  if (addresses_.buffer) gpu_.release(addresses_.buffer);
}

Result<uint64_t> MetalPlan::start() const {
  SMELT_TRY(run, queue_.start(commands_));
  return last_run_ = run;
}

Status MetalPlan::run_timed(std::span<int64_t> times_ns) const {
  ENSURE(times_ns.size() == launches_ + 1, "one time more than launches");
  times_ns[0] = 0;
  size_t done = 0;
  for (MetalCommands commands : commands_) {
    SMELT_TRY(times, gpu_.run_timed(commands));
    const std::vector<int64_t> ends = nanoseconds_of(times);
    for (size_t i = 1; i < ends.size(); ++i) times_ns[done + i] = times_ns[done] + ends[i];
    done += ends.size() - 1;
  }
  return {};
}

// Between the two times at which both clocks were read they go evenly.
std::vector<int64_t> nanoseconds_of(const MetalTimes& times) {
  const auto ticks = static_cast<double>(times.after.gpu_ticks - times.before.gpu_ticks);
  const auto host = static_cast<double>(times.after.host_ns - times.before.host_ns);
  const double per_tick = ticks > 0 ? host / ticks : 1;
  std::vector<int64_t> out = {0};
  for (const MetalTimes::Span& d : times.dispatches)
    out.push_back(static_cast<int64_t>(static_cast<double>(d.end - times.dispatches[0].begin) * per_tick));
  return out;
}

}  // namespace smelt
