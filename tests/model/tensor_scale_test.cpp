// Tensors that scale others as a whole.
#include <doctest/doctest.h>

#include <cstring>

#include "graph/eval.h"
#include "model/block.h"
#include "support/gguf_writer.h"

using namespace smelt;
using smelt::test::GgufWriter;

namespace {

template <class T>
std::string raw(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

// Experts 0 and 1 are [[1, 2], [3, 4]] and [[5, 6], [7, 8]], and so is no expert but one matrix the first of them.
GgufWriter two_experts() {
  GgufWriter w;
  w.tensor("one.weight", {2, 2}, GgufType::F32, raw<float>({1, 2, 3, 4}));
  w.tensor("some_exps.weight", {2, 2, 2}, GgufType::F32, raw<float>({1, 2, 3, 4, 5, 6, 7, 8}));
  return w;
}
const std::vector<TensorShape> kShapes = {{"one.weight", {2}, 2}, {"some_exps.weight", {2, 2}, 2}};

// x = (1, 10) times the matrix, or times expert 1.
std::vector<double> product_of(const GgufWriter& writer, bool expert) {
  const std::vector<std::byte> bytes = writer.bytes();
  const GgufFile file = GgufFile::open_memory(bytes).take();
  REQUIRE(check_tensors(file, "", kShapes).ok());
  Slots slots;
  const Weights weights(file, "", kShapes, slots, {});
  const std::vector<float> x = {1, 10};
  const std::vector<int32_t> chosen = {1};
  const int slot = slots.add(Bound::HiddenIn), rows = slots.add(Bound::Rows);
  const Activations in{param(slot, DType::F32, {1, 2}, "x"), {}, {}};
  const Tensor y = expert ? weights.product(in, "some_exps.weight", param(rows, DType::I32, {1}, "chosen"))
                          : weights.product(in, "one.weight");
  EvalInputs inputs{.buffers = {{slot, std::as_bytes(std::span(x))}, {rows, std::as_bytes(std::span(chosen))}}};
  const Segment segment = std::move(slots).finish({output(rows + 1, y)});
  for (size_t i = 0; i < segment.slots.size(); ++i)
    if (segment.slots[i].kind == Bound::Weight) {
      const GgufTensor* tensor = file.find(segment.slots[i].name);
      REQUIRE(tensor);
      inputs.buffers[static_cast<int64_t>(i)] = {tensor->data, tensor->bytes};
    }
  return eval(y.ref(), inputs).value.values;
}

}  // namespace

TEST_CASE("a tensor of one number scales a matrix, one of a number for each expert scales experts") {
  GgufWriter w = two_experts();
  CHECK(product_of(w, false) == std::vector<double>{21, 43});
  CHECK(product_of(w, true) == std::vector<double>{65, 87});
  w.tensor("one.scale", {1}, GgufType::F32, raw<float>({0.5}));
  w.tensor("some_exps.scale", {2}, GgufType::F32, raw<float>({3, 2}));
  CHECK(product_of(w, false) == std::vector<double>{10.5, 21.5});
  CHECK(product_of(w, true) == std::vector<double>{130, 174});
}

TEST_CASE("a scale of another size or type is refused by name") {
  for (const auto& [name, numbers, type] :
       {std::tuple{"one.scale", 2, GgufType::F32}, std::tuple{"some_exps.scale", 1, GgufType::F32},
        std::tuple{"one.scale", 1, GgufType::F16}}) {
    GgufWriter w = two_experts();
    w.tensor(name, {static_cast<uint64_t>(numbers)}, type);
    const std::vector<std::byte> bytes = w.bytes();
    const GgufFile file = GgufFile::open_memory(bytes).take();
    const Status status = check_tensors(file, "", kShapes);
    REQUIRE(!status.ok());
    CHECK(status.error().message.find(name) != std::string::npos);
  }
}
