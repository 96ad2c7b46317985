// `smelt devices`: what kernels can run on here, with the bandwidth that was measured a moment ago.
#include "runtime/devices.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "app/command.h"
#include "app/text_of.h"
#include "base/progress.h"
#include "runtime/bandwidth.h"
#include "runtime/machines.h"

namespace smelt {
namespace {

// What the compiler has been told of it beyond its name; nothing where nothing was measured.
std::string known_text(const Machine& machine) {
  if (machine.processor_bandwidth <= 0) return "";
  const std::string streams = std::to_string(machine.streams) + (machine.streams == 1 ? " stream" : " streams");
  return text_of("%-8s", "") + "kernels are made for " + streams + " of reads at once" +
         (machine.stream_ahead_bytes ? text_of(" with hints %.0f KB ahead, ", machine.stream_ahead_bytes / 1024.0)
                                     : ", ") +
         text_of("%.0f GB/s of one ", machine.processor_bandwidth * 1e-9) +
         (machine.has_threads() ? "multiprocessor, " : "core, ") +
         text_of("%.2f us for a barrier\n", machine.barrier_seconds * 1e6);
}

// "cuda:0  NVIDIA H200        132 multiprocessors  150 GB, 149 GB free  4310 GB/s"
Result<std::string> line_of(const std::string& name) {
  SMELT_TRY(device, open_device({.name = name}));
  const uint64_t free = device->available_memory();
  SMELT_TRY(bandwidth, measure_bandwidth(*device));
  const bool has_threads = device->machine().has_threads();
  std::string line = text_of("%-8s", device->name().c_str()) + text_of("%-28s", device->title().c_str()) +
                     text_of("%4d ", device->workers()) + text_of("%-16s", has_threads ? "multiprocessors" : "threads");
  line += text_of("%10s free", bytes_text(free).c_str()) + text_of("%8.0f GB/s", bandwidth * 1e-9);
  return line + "\n" + known_text(device->machine());
}

Result<int> list_devices(bool measure) {
  if (measure) SMELT_CHECK(measure_host_again());
  const FoundDevices found = find_devices();
  for (const std::string& name : found.names) {
    const auto line = line_of(name);
    if (!line && name == "cpu") return line.error();
    std::fputs(line ? line->c_str() : (name + "  " + line.error().message + "\n").c_str(), stdout);
  }
  if (!found.note.empty()) std::fprintf(stderr, "smelt: %s\n", found.note.c_str());
  return 0;
}

}  // namespace

Action declare_devices(CLI::App& app) {
  const auto measure = std::make_shared<bool>(false);
  app.add_flag("--measure", *measure,
               "measure again what kernels of the processor are made for, as after a change of the machine that its "
               "name does not tell; it is kept in the cache folder");
  return [measure] { return list_devices(*measure); };
}

}  // namespace smelt
