#include "runtime/target.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <set>
#include <string>

#include "base/ensure.h"
#include "runtime/cores.h"
#include "runtime/llvm/compile.h"

namespace smelt {
namespace {

// The fields that follow from the features that are there.
void fill_from_features(CpuTarget& target, const std::set<std::string>& features) {
  auto has = [&](const char* name) { return features.contains(name); };
  bool is_arm = target.triple.starts_with("aarch64");
  bool is_avx = has("avx");
  target.avx2 = has("avx2");
  target.avx512 = has("avx512f") && has("avx512bw") && has("avx512dq") && has("avx512vl");
  target.avx512_vnni = target.avx512 && has("avx512vnni");
  target.avx512_vbmi = target.avx512 && has("avx512vbmi");
  target.avx512_bf16 = target.avx512 && has("avx512bf16");
  target.avx_vnni = has("avxvnni");
  target.neon_dot = is_arm && has("dotprod");
  target.neon_i8mm = is_arm && has("i8mm");
  target.amx_int8 = has("amx-int8");
  target.amx_bf16 = has("amx-bf16");
  target.fma = is_arm || has("fma");
  target.f16_convert = is_arm || has("f16c");
  target.vector_bytes = target.avx512 ? 64 : is_avx ? 32 : 16;
  target.vector_registers = target.avx512 || is_arm ? 32 : 16;
}

// Linux grants the AMX tile registers on request only (they enlarge every signal frame), and may
// refuse.
bool request_amx() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr long kRequestPermission = 0x1023,
                 kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

// Later entries win, so what the system does not let us use is taken away at the end.
std::string without_amx(std::string features) {
  for (const char* name : {"amx-tile", "amx-int8", "amx-bf16", "amx-fp16", "amx-complex"})
    features += std::string(",-") + name;
  return features;
}

// The quota of a container, in whole cores; 0 if there is none. Spinning on more workers than that
// is a disaster.
int quota_cores() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double quota = 0, period = 0;
  if (!(file >> quota >> period) || period <= 0) return 0;  // "max 100000": no number, no quota
  return std::max(1, static_cast<int>(quota / period + 0.5));
}

int usable_cores() {
  int cores = static_cast<int>(core_cpus().size()), quota = quota_cores();
  return std::max(1, quota > 0 ? std::min(cores, quota) : cores);
}

// "64K" or "32M", as the kernel writes cache sizes; 0 if it is neither.
int64_t parse_size(const std::string& text) {
  int64_t value = 0;
  size_t i = 0;
  for (; i < text.size() && text[i] >= '0' && text[i] <= '9' && value < (1 << 24); ++i)
    value = value * 10 + (text[i] - '0');
  if (i == text.size()) return value;
  return text[i] == 'K' ? value << 10 : text[i] == 'M' ? value << 20 : 0;
}

std::string read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Level 1 is data only. What the system does not tell keeps the default of CpuTarget.
void fill_caches(CpuTarget& target) {
  std::array<int64_t, 4> bytes{};  // by level
  for (int i = 0; i < 8; ++i) {
    std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    int64_t level = parse_size(read_word(folder + "level"));
    if (level < 1 || level > 3 || read_word(folder + "type") == "Instruction") continue;
    bytes[level] = parse_size(read_word(folder + "size"));
    if (int64_t line = parse_size(read_word(folder + "coherency_line_size")); line > 0) target.line_bytes = line;
  }
  if (bytes[1] == 0) return;
  target.l1_bytes = bytes[1];
  if (bytes[2] > 0) target.l2_bytes = bytes[2];
  target.l3_bytes = bytes[3];
}

CpuTarget find_host() {
  LlvmHost host = with_elf(llvm_host());
  CpuTarget target{.triple = host.triple, .cpu = host.cpu, .features = host.features};
  auto features = llvm_features(target.triple, target.cpu, target.features);
  if (!features) {  // a CPU that is younger than LLVM: its features are known, its name is not
    target.cpu = "generic";
    features = llvm_features(target.triple, target.cpu, target.features);
  }
  ENSURE(features, "[target] LLVM does not know its own host " + target.triple);
  if (features->contains("amx-tile") && !request_amx()) {
    target.amx_refused = true;
    target.features = without_amx(target.features);
    features = llvm_features(target.triple, target.cpu, target.features);
  }
  fill_from_features(target, *features);
  target.cores = usable_cores();
  fill_caches(target);
  return target;
}

struct Named {
  std::string_view name, triple, cpu, features;
};
constexpr Named kNamed[] = {
    {"x86-64-v2", "x86_64-unknown-linux-gnu", "x86-64-v2", ""},
    {"x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", ""},
    {"x86-64-v4", "x86_64-unknown-linux-gnu", "x86-64-v4", ""},
    {"sapphirerapids", "x86_64-unknown-linux-gnu", "sapphirerapids", ""},
    {"znver4", "x86_64-unknown-linux-gnu", "znver4", ""},
    {"znver5", "x86_64-unknown-linux-gnu", "znver5", ""},
    {"alderlake", "x86_64-unknown-linux-gnu", "alderlake", ""},
    {"aarch64", "aarch64-unknown-linux-gnu", "generic", "+neon"},
    {"neoverse-n1", "aarch64-unknown-linux-gnu", "neoverse-n1", ""},
    {"neoverse-v1", "aarch64-unknown-linux-gnu", "neoverse-v1", "-sve"},
};

}  // namespace

const CpuTarget& host_target() {
  static const CpuTarget target = find_host();
  return target;
}

int thread_count(int threads) { return threads > 0 ? threads : host_target().cores; }

Result<CpuTarget> named_target(std::string_view name) {
  if (name == "host") return host_target();
  for (const Named& known : kNamed) {
    if (known.name != name) continue;
    CpuTarget target{
        .triple = std::string(known.triple), .cpu = std::string(known.cpu), .features = std::string(known.features)};
    auto features = llvm_features(target.triple, target.cpu, target.features);
    if (!features) return Error{"[target] " + target.cpu + ": this build of LLVM has no such CPU; use `host`"};
    fill_from_features(target, *features);
    return target;
  }
  std::string names = "host";
  for (const Named& known : kNamed) names += ", " + std::string(known.name);
  return Error{"[target] " + std::string(name) + ": not a known target; use one of " + names};
}

std::string missing_instructions(const CpuTarget& target) {
  const auto sentence = [](const char* missing, const char* used) {
    return "[target] this processor, or its system, has no " + std::string(missing) + ": kernels use " + used;
  };
  if (target.triple.starts_with("aarch64")) {
    if (!target.neon_dot) return sentence("dot products", "plain NEON, which is slower");
    if (!target.neon_i8mm) return sentence("i8mm", "NEON with dot products of signed bytes");
    return {};
  }
  if (!target.avx2) return sentence("AVX2", "SSE, vectors of a quarter of the width or less");
  if (!target.avx512)
    return sentence("AVX-512", target.avx_vnni ? "AVX2 with VNNI" : "AVX2, vectors of half the width");
  if (!target.avx512_vnni) return sentence("VNNI", "AVX-512 without dot products of bytes");
  if (target.amx_refused) return "[target] the system does not grant the tile registers of AMX: kernels use VNNI";
  return {};
}

}  // namespace smelt
