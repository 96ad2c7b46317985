// Which tensors get memory.
#include "schedule/placement.h"

#include <doctest/doctest.h>

#include "support/small_graphs.h"

using namespace smelt;
using namespace smelt::testing;

namespace {

enum class Place { None, Memory, OnChip };

Place place_of(Tensor tensor, Tensor result, const Machine& machine = {}) {
  const auto places = choose_places({.root = sink({output(9, result)})}, machine);
  const auto it = places.find(tensor.ref().get());
  if (it == places.end()) return Place::None;
  return it->second == Where::OnChip ? Place::OnChip : Place::Memory;
}

}  // namespace

TEST_CASE("movement and elementwise work are computed where they are used") {
  const Tensor x = input(0, {64, 64}), y = x * 2.0, z = permute(y, {1, 0});
  CHECK(place_of(y, z + 1.0) == Place::None);
  CHECK(place_of(z, z + 1.0) == Place::None);
}

TEST_CASE("an output is in memory") {
  const Tensor x = input(0, {64, 64}), y = silu(x);
  CHECK(place_of(y, y) == Place::Memory);
}

TEST_CASE("a dequantised weight is computed again rather than stored") {
  const Tensor w = q4_0(input(1, {64, 4, 18}, DType::U8));
  CHECK(place_of(w, linear(input(0, {1, 128}), w)) == Place::None);
  CHECK(place_of(w, linear(input(0, {64, 128}), w)) == Place::None);
}

TEST_CASE("an input of a product that is a reduction itself is stored: on chip if it is small") {
  const Tensor w = input(1, {256, 128});
  const Tensor one = linear(input(0, {1, 128}), input(2, {128, 128}));
  CHECK(place_of(one, linear(one, w)) == Place::OnChip);
  const Tensor many = linear(input(0, {256, 128}), input(2, {128, 128}));
  CHECK(place_of(many, linear(many, w)) == Place::Memory);
}

TEST_CASE("how much is small enough is up to the machine") {
  const Tensor one = linear(input(0, {1, 128}), input(2, {128, 128})), w = input(1, {256, 128});
  Machine small_memory, slow;
  small_memory.local_bytes = 256;
  slow.local_operations = 1000;
  CHECK(place_of(one, linear(one, w), small_memory) == Place::Memory);
  CHECK(place_of(one, linear(one, w), slow) == Place::Memory);
}

TEST_CASE("kernels of few operations make more for themselves than large ones") {
  const Tensor one = linear(input(0, {1, 128}), input(2, {128, 128}));
  Machine gpu;
  gpu.local_operations = 1000;
  gpu.small_kernel_operations = 1 << 16;
  gpu.small_kernel_local_operations = 1 << 16;
  const Tensor small = linear(one, input(1, {64, 128})), large = linear(one, input(3, {1024, 128}));
  CHECK(place_of(one, small, gpu) == Place::OnChip);
  CHECK(place_of(one, large, gpu) == Place::Memory);
  CHECK(place_of(one, unsqueeze(small, 0) + sum(large, -1), gpu) == Place::Memory);
}

TEST_CASE("what a small kernel makes for itself counts by tokens: each of its rows needs that of one") {
  Machine gpu;
  gpu.local_operations = 1000;
  gpu.small_kernel_operations = gpu.small_kernel_local_operations = 16 << 10;
  const auto place_of_tokens = [&](int64_t tokens) {
    const Tensor x = linear(input(0, {tokens, 32}), input(2, {32, 32}));  // 2048 operations a token
    return place_of(x, linear(x, input(1, {16, 32})), gpu);
  };
  CHECK(place_of_tokens(1) == Place::OnChip);
  CHECK(place_of_tokens(2) == Place::OnChip);
  CHECK(place_of_tokens(4) == Place::Memory);
}

TEST_CASE("a sum that is used once per element of its row is no tensor of its own") {
  const Tensor x = input(0, {64, 256});
  const Tensor mean = mean_square(x);
  CHECK(place_of(mean, x * unsqueeze(mean, 1)) == Place::None);
}
