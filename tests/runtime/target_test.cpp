#include "runtime/target.h"

#include <doctest/doctest.h>

#include "runtime/cores.h"
#include "runtime/llvm/compile.h"

using namespace smelt;

TEST_CASE("the host has a vector width and registers that belong together") {
  const CpuTarget& host = host_target();
  CHECK(!host.triple.empty());
  CHECK(!host.cpu.empty());
  CHECK((host.vector_bytes == 16 || host.vector_bytes == 32 || host.vector_bytes == 64));
  CHECK(host.avx512 == (host.vector_bytes == 64));
  if (host.avx512) CHECK(host.vector_registers == 32);
  if (host.avx512) CHECK(host.avx2);
  CHECK(host.cores >= 1);
  CHECK(host.cores <= static_cast<int>(core_cpus().size()));
  CHECK(host.l1_bytes >= 16 << 10);
  CHECK(host.l2_bytes >= host.l1_bytes);
  CHECK(llvm_features(host.triple, host.cpu, host.features).has_value());
}

TEST_CASE("kernels for a Mac are ELF objects that leave its system's register alone") {
  const LlvmHost mac = with_elf({.triple = "arm64-apple-darwin24.1.0", .cpu = "apple-m3", .features = ""});
  CHECK(mac.triple == "aarch64-unknown-linux-gnu");
  const auto features = llvm_features(mac.triple, mac.cpu, mac.features);
  REQUIRE(features.has_value());
  CHECK(features->contains("dotprod"));
  CHECK(features->contains("reserve-x18"));
  const Source source{.text = "define void @f(ptr %a, ptr %b, i64 %c, i64 %d) {\n  ret void\n}\n", .entry = "f"};
  const CpuTarget target{.triple = mac.triple, .cpu = mac.cpu, .features = mac.features};
  CHECK(compile_object(source, "f", target, {}).substr(0, 4) ==
        "\x7f"
        "ELF");
  CHECK(with_elf({.triple = "x86_64-apple-darwin24.1.0", .cpu = "", .features = "+avx2"}).features == "+avx2");
  const LlvmHost here = llvm_host();
  CHECK(with_elf(here).triple == here.triple);
  CHECK(with_elf(here).features == here.features);
}

TEST_CASE("what a feature list takes away is not there") {
  auto with = llvm_features("x86_64-unknown-linux-gnu", "x86-64-v4", "");
  auto without = llvm_features("x86_64-unknown-linux-gnu", "x86-64-v4", "-avx512f");
  REQUIRE(with);
  REQUIRE(without);
  CHECK(with->contains("avx512bw"));
  CHECK_FALSE(without->contains("avx512bw"));  // it needs avx512f
  CHECK_FALSE(llvm_features("x86_64-unknown-linux-gnu", "no-such-cpu", "").has_value());
  CHECK_FALSE(llvm_features("no-such-arch", "generic", "").has_value());
}

TEST_CASE("targets can be named") {
  auto v3 = named_target("x86-64-v3");
  REQUIRE(v3);
  CHECK(v3->vector_bytes == 32);
  CHECK(v3->vector_registers == 16);
  CHECK(v3->fma);
  CHECK(v3->f16_convert);
  CHECK_FALSE(v3->avx512);

  auto v4 = named_target("x86-64-v4");
  REQUIRE(v4);
  CHECK(v4->avx512);
  CHECK_FALSE(v4->avx512_vnni);
  CHECK(named_target("znver4")->avx512_vnni);
  CHECK(named_target("sapphirerapids")->amx_int8);

  auto v2 = named_target("x86-64-v2");
  REQUIRE(v2);
  CHECK(v2->vector_bytes == 16);
  CHECK_FALSE(v2->fma);

  auto arm = named_target("aarch64");
  REQUIRE(arm);
  CHECK(arm->vector_bytes == 16);
  CHECK(arm->vector_registers == 32);

  CHECK(named_target("host")->cpu == host_target().cpu);
  auto unknown = named_target("z80");
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message ==
        "[target] z80: not a known target; use one of host, x86-64-v2, x86-64-v3, x86-64-v4, "
        "sapphirerapids, znver4, znver5, alderlake, aarch64, neoverse-n1, neoverse-v1");
}

TEST_CASE("a processor without the best instructions of its kind is told about in one sentence") {
  const auto missing = [](const char* name) { return missing_instructions(*named_target(name)); };
  CHECK(missing("x86-64-v2").starts_with("[target] this processor, or its system, has no AVX2: "));
  CHECK(missing("x86-64-v3").find("has no AVX-512: kernels use AVX2, ") != std::string::npos);
  CHECK(missing("x86-64-v4").find("has no VNNI: kernels use AVX-512 ") != std::string::npos);
  CHECK(missing("aarch64").find("kernels use plain NEON") != std::string::npos);
  CHECK(missing("znver4").empty());
  CHECK(missing("sapphirerapids").empty());
}
