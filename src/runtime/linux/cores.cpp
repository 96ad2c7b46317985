#include "runtime/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

#include "runtime/memory_nodes.h"

namespace smelt {
namespace {

// CPUs that the calling thread may run on; none where the system does not say.
std::vector<int> cpus_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  const auto count = static_cast<size_t>(CPU_COUNT(&set));
  for (int cpu = 0; cpus.size() < count; ++cpu)
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  return cpus;
}

void pin_to_any(pthread_t thread, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  ::pthread_setaffinity_np(thread, sizeof set, &set);
}

// As a text: "0,8".
std::string siblings_of(int cpu) {
  std::string siblings;
  std::ifstream("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list") >> siblings;
  return siblings;
}

}  // namespace

std::vector<int> core_cpus() {
  std::vector<int> cpus;
  std::set<std::string> seen;  // of two hardware threads of a core the first counts
  for (int cpu : cpus_of_thread()) {
    std::string siblings = siblings_of(cpu);
    if (siblings.empty() || seen.insert(std::move(siblings)).second) cpus.push_back(cpu);
  }
  std::ranges::stable_sort(cpus, {}, node_of_cpu);
  return cpus;
}

void pin_to(pthread_t thread, int cpu) { pin_to_any(thread, {cpu}); }

PinnedHere::PinnedHere(int cpu) {
  if (cpu < 0) return;
  before_ = cpus_of_thread();
  if (!before_.empty()) pin_to(::pthread_self(), cpu);
}

PinnedHere::~PinnedHere() {
  if (!before_.empty()) pin_to_any(::pthread_self(), before_);
}

}  // namespace smelt
