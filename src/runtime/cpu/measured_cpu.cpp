#include "runtime/cpu/measured_cpu.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <vector>

#include "base/clock.h"
#include "base/dirs.h"
#include "base/file.h"
#include "base/from_chars.h"
#include "base/hex.h"
#include "runtime/available_memory.h"
#include "runtime/cpu/barrier_time.h"
#include "runtime/cpu/hint_reader.h"
#include "runtime/cpu/read_bandwidth.h"
#include "runtime/cpu/stream_reader.h"
#include "runtime/cpu/workers.h"
#include "runtime/memory.h"
#include "runtime/target.h"

namespace smelt {
namespace {

constexpr std::string_view kFormat = "smelt machine 3";
constexpr double kClearly = 0.94;     // of the time: a smaller gain may be chance,
constexpr double kNoSlower = 1.03;    // and so may a smaller loss
constexpr int kRuns = 8;              // of each half
constexpr double kMostSeconds = 0.3;  // of all runs; the first of each number always happen
constexpr size_t kFewestBytes = size_t{64} << 20, kMostBytes = size_t{512} << 20;
constexpr uint64_t kLargestFile = 4096;

// Of two digits: what is measured twice on the same machine is mostly the same.
double rounded(double value) {
  if (!(value > 0)) return 0;
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return std::strtod(text, nullptr);
}

// More than the caches hold, and no more than a quarter of what is there.
size_t bytes_to_read() {
  const CpuTarget& host = host_target();
  const auto caches = static_cast<size_t>(host.l3_bytes + host.cores * host.l2_bytes);
  const size_t most = std::clamp<size_t>(available_memory() / 4, kFewestBytes, kMostBytes);
  return std::clamp(2 * caches, kFewestBytes, most) / kStreamUnit * kStreamUnit;
}

// One run of a kernel by all workers.
double seconds_of(Workers& workers, KernelEntry entry, const void* const* buffers) {
  const CpuLaunch launch[] = {{entry, buffers}};
  int64_t times[2];
  workers.run(launch, nullptr, {.times_ns = times});
  return static_cast<double>(std::max<int64_t>(1, times[1] - times[0])) * 1e-9;
}

// In turns, so that what disturbs one number disturbs all.
std::vector<ReadTimes> time_reads(Workers& workers, const void* const* buffers, std::vector<ReadTimes> times,
                                  const std::function<KernelEntry(size_t)>& entry) {
  for (ReadTimes& t : times) t.seconds = {1e9, 1e9};
  const auto start = Clock::now();
  for (int run = 0; run < 2 * kRuns && (run < 4 || seconds_since(start) < kMostSeconds); ++run)
    for (size_t i = 0; i < times.size(); ++i) {
      double& best = times[i].seconds[run % 2];
      best = std::min(best, seconds_of(workers, entry(i), buffers));
    }
  return times;
}

// What base/machines.def says of a processor of this name: found with kernels, which gain more than plain reads show.
const Machine& known_machine(const std::string& cpu) {
  static const Machine unknown;
  for (const Machine& m : known_machines())
    if (m.target == cpu) return m;
  return unknown;
}

int64_t measured_ahead(Workers& workers, const void* const* buffers, int64_t expected) {
  std::vector<ReadTimes> times;
  for (const HintReader& reader : hint_readers()) times.push_back({reader.ahead});
  return fastest_number(time_reads(workers, buffers, times, [](size_t i) { return hint_readers()[i].entry; }),
                        expected);
}

int64_t measured_streams(Workers& workers, const void* const* buffers, int64_t expected) {
  std::vector<ReadTimes> times;
  for (const StreamReader& reader : stream_readers()) times.push_back({reader.streams});
  return fastest_number(time_reads(workers, buffers, times, [](size_t i) { return stream_readers()[i].entry; }),
                        expected);
}

// What one stream with hints gains, several streams lost where both were tried with kernels (Zen 5), unless a processor
// is known to gain by both.
void measure_reads(Workers& workers, const void* const* buffers, MeasuredCpu& out) {
  constexpr int64_t kAheadOfStreams = 2 << 10;
  const Machine& known = known_machine(host_target().cpu);
  out.stream_ahead_bytes = measured_ahead(workers, buffers, known.stream_ahead_bytes);
  if (out.stream_ahead_bytes == 0 || known.streams > 1) out.streams = measured_streams(workers, buffers, known.streams);
  if (out.streams > 1) out.stream_ahead_bytes = kAheadOfStreams;
}

double best_rate(Workers& workers, const void* const* buffers, size_t bytes) {
  double best = 1e9;
  for (int run = 0; run < 4; ++run) best = std::min(best, seconds_of(workers, memory_reading_kernel(), buffers));
  return static_cast<double>(bytes) / best;
}

// The value of a line "name : value" of /proc/cpuinfo; empty where there is none.
std::string cpuinfo(std::string_view name) {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

// A file for each machine: a home folder may be shared by several.
std::string file_of(const std::string& folder, std::string_view identity) {
  return folder + "/machine-" + hex(XXH3_64bits(identity.data(), identity.size())) + ".txt";
}

template <class T>
bool read_number(std::string_view& text, std::string_view name, T& out) {
  if (!text.starts_with(name)) return false;
  text.remove_prefix(name.size());
  const auto [end, problem] = from_chars(text.data(), text.data() + text.size(), out);
  const auto length = static_cast<size_t>(end - text.data());
  if (problem != std::errc() || length == text.size() || *end != '\n') return false;
  text.remove_prefix(length + 1);
  return true;
}

}  // namespace

void MeasuredCpu::apply_to(Machine& machine) const {
  machine.streams = streams;
  machine.stream_ahead_bytes = stream_ahead_bytes;
  machine.processor_bandwidth = processor_bandwidth;
  machine.bandwidth = bandwidth;
  machine.barrier_seconds = machine.launch_seconds = barrier_seconds;
}

int64_t fastest_number(const std::vector<ReadTimes>& times, int64_t expected) {
  const ReadTimes *first = &times[0], *best = first;
  for (const ReadTimes& t : times)
    if (t.number == expected && t.seconds[0] < kNoSlower * first->seconds[0] &&
        t.seconds[1] < kNoSlower * first->seconds[1])
      best = &t;
  for (const ReadTimes& t : times)
    if (t.seconds[0] < kClearly * best->seconds[0] && t.seconds[1] < kClearly * best->seconds[1]) best = &t;
  return best->number;
}

MeasuredCpu measure_cpu() {
  Workers workers(host_target().cores), one(1);
  MeasuredCpu out{.barrier_seconds = rounded(seconds_of_barrier(workers))};
  const size_t bytes = bytes_to_read();
  Result<Buffer> buffer = Buffer::allocate(bytes);
  if (!buffer) return out;
  const void* buffers[] = {buffer->data(), buffer->data() + bytes};
  seconds_of(workers, memory_touching_kernel(), buffers);
  measure_reads(workers, buffers, out);
  out.bandwidth = rounded(best_rate(workers, buffers, bytes));
  const size_t fewest = std::min(bytes, kFewestBytes);  // whole units of it may be less
  const void* part[] = {buffer->data(), buffer->data() + fewest};
  out.processor_bandwidth = std::min(out.bandwidth, rounded(best_rate(one, part, fewest)));
  return out;
}

std::string cpu_identity() {
  const CpuTarget& host = host_target();
  std::string text = host.cpu + ", " + cpuinfo("model name") + ", microcode " + cpuinfo("microcode") + ", " +
                     std::to_string(host.cores) + " cores";
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string format_measured(const MeasuredCpu& m, std::string_view identity) {
  char numbers[200];
  std::snprintf(numbers, sizeof numbers,
                "streams %" PRId64 "\nstream_ahead_bytes %" PRId64
                "\nprocessor_bandwidth %.1e\nbandwidth %.1e\nbarrier_seconds %.1e\n",
                m.streams, m.stream_ahead_bytes, m.processor_bandwidth, m.bandwidth, m.barrier_seconds);
  return std::string(kFormat) + '\n' + std::string(identity) + '\n' + numbers;
}

std::optional<MeasuredCpu> parse_measured(std::string_view text, std::string_view identity) {
  for (const std::string_view line : {kFormat, identity}) {
    if (!text.starts_with(line) || text.substr(line.size(), 1) != "\n") return std::nullopt;
    text.remove_prefix(line.size() + 1);
  }
  MeasuredCpu m;
  const bool is_whole = read_number(text, "streams ", m.streams) &&
                        read_number(text, "stream_ahead_bytes ", m.stream_ahead_bytes) &&
                        read_number(text, "processor_bandwidth ", m.processor_bandwidth) &&
                        read_number(text, "bandwidth ", m.bandwidth) &&
                        read_number(text, "barrier_seconds ", m.barrier_seconds) && text.empty();
  const auto streams = stream_readers();
  const auto hints = hint_readers();
  const bool is_known =
      std::any_of(streams.begin(), streams.end(), [&](const auto& r) { return r.streams == m.streams; }) &&
      std::any_of(hints.begin(), hints.end(), [&](const auto& r) { return r.ahead == m.stream_ahead_bytes; });
  const auto is_rate = [](double x) { return x >= 0 && x < 1e15; };  // no NaN
  if (!is_whole || !is_known || !is_rate(m.bandwidth) || !is_rate(m.processor_bandwidth) || !is_rate(m.barrier_seconds))
    return std::nullopt;
  return m;
}

MeasuredCpu kept_or_measured(const std::string& folder, const std::string& identity,
                             const std::function<MeasuredCpu()>& measure) {
  if (folder.empty()) return {};
  const std::string path = file_of(folder, identity);
  if (const auto text = read_file(path, kLargestFile))
    if (const auto kept = parse_measured(*text, identity)) return *kept;
  const MeasuredCpu measured = measure();
  // What cannot be kept would be another one at each start.
  return publish_file(path, format_measured(measured, identity)) ? measured : MeasuredCpu{};
}

const MeasuredCpu& measured_cpu() {
  static const MeasuredCpu measured = [] {
    const Result<std::string> folder = cache_folder();
    return kept_or_measured(folder ? *folder : "", cpu_identity(), measure_cpu);
  }();
  return measured;
}

Status measure_cpu_again() {
  SMELT_TRY(folder, cache_folder());
  if (folder.empty()) return Error{"[cache] SMELT_CACHE: off, so what is measured cannot be kept; set it to a folder"};
  const std::string identity = cpu_identity();
  return publish_file(file_of(folder, identity), format_measured(measure_cpu(), identity));
}

}  // namespace smelt
