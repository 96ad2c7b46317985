#include "runtime/llvm/ptx.h"

#include <doctest/doctest.h>

#include "runtime/cuda/memory_reader.h"

using namespace smelt;

TEST_CASE("a kernel becomes PTX for every architecture, without a GPU and without a toolkit") {
  const Source reader = cuda_memory_reader(132);
  for (const char* architecture : {"sm_75", "sm_80", "sm_90", "sm_90a"}) {
    const std::string ptx = compile_ptx(reader, architecture);
    CAPTURE(ptx);
    CHECK(ptx.find(std::string(".target ") + architecture + "\n") != std::string::npos);
    CHECK(ptx.find(".visible .entry read_memory(") != std::string::npos);
    CHECK(ptx.find(".reqntid 512, 1, 1") != std::string::npos);
    // As wide as a load can be, four of them before the first is used.
    const size_t first = ptx.find("ld.global.v4"), used = ptx.find("xor.b32");
    REQUIRE(first != std::string::npos);
    int before_use = 0;
    for (size_t at = first; at < used; at = ptx.find("ld.global.v4", at + 1)) ++before_use;
    CHECK(before_use == 4);
  }
}

TEST_CASE("on-chip memory of the launch may be declared, other memory not") {
  const Source uses_shared = {.text = R"(@smem = external addrspace(3) global [0 x i8], align 16
define ptx_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %symbols) {
  %x = load float, ptr addrspace(3) @smem
  store float %x, ptr addrspace(1) %out
  ret void
}
)",
                              .entry = "k",
                              .shape = {.buffers = 1, .threads = 32, .tasks = 1, .shared_bytes = 4}};
  CHECK(compile_ptx(uses_shared, "sm_90").find(".extern .shared .align 16 .b8 smem[]") != std::string::npos);
}

TEST_CASE("what a launch does not write is read by lines") {
  const Source copies = {.text = R"(define ptx_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out) {
  %x = load float, ptr addrspace(1) %in, align 4, !invariant.load !0
  %y = load float, ptr addrspace(1) %out, align 4
  %sum = fadd float %x, %y
  store float %sum, ptr addrspace(1) %out
  ret void
}
!0 = !{}
)",
                         .entry = "k",
                         .shape = {.buffers = 1, .threads = 32, .tasks = 1}};
  for (const char* architecture : {"sm_75", "sm_90a"}) {
    const std::string ptx = compile_ptx(copies, architecture);
    CAPTURE(ptx);
    const size_t of_line = ptx.find("ld.global.nc.L2::128B.");
    CHECK(of_line != std::string::npos);
    CHECK(ptx.find("L2::128B", of_line + 20) == std::string::npos);
  }
}

TEST_CASE("a GPU gets PTX of the newest architecture that it takes") {
  CHECK(ptx_architecture(7, 0) == "");
  CHECK(ptx_architecture(7, 5) == "sm_75");
  CHECK(ptx_architecture(8, 0) == "sm_80");
  CHECK(ptx_architecture(8, 7) == "sm_86");
  CHECK(ptx_architecture(9, 0) == "sm_90a");
  CHECK(ptx_architecture(10, 0) == "sm_90");
  CHECK(ptx_architecture(12, 0) == "sm_90");
}
