#include "runtime/cores.h"

#include <sys/sysctl.h>

#include <numeric>

namespace smelt {
namespace {

int number_of(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return ::sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

}  // namespace

std::vector<int> core_cpus() {
  int cores = number_of("hw.perflevel0.physicalcpu");
  if (cores == 0) cores = number_of("hw.physicalcpu");
  std::vector<int> cpus(static_cast<size_t>(cores));
  std::iota(cpus.begin(), cpus.end(), 0);
  return cpus;
}

void pin_to(pthread_t, int) {}

PinnedHere::PinnedHere(int) {}
PinnedHere::~PinnedHere() = default;

}  // namespace smelt
