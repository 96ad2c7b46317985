// ModelRunner: a model's segments run by the interpreter, one after another, with every buffer that
// a slot asks for.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <span>
#include <vector>

#include "graph/eval.h"
#include "model/model.h"
#include "support/compare_logits.h"

namespace smelt::test {

class ModelRunner {
 public:
  static constexpr int64_t kStates = 8;

  // What one run appends: equal lengths, padded to the shape's T.
  struct Step {
    std::vector<int32_t> tokens, positions, tables, rows;
    std::map<std::string, int64_t> variables;
    std::vector<int32_t> states_in = {}, states_out = {};
  };

  ModelRunner(const GgufFile& file, const Model& model, std::vector<int32_t> pages, int64_t cache_pages,
              DType cache_type = DType::F32)
      : file_(file),
        model_(model),
        pages_(std::move(pages)),
        cache_rows_(cache_pages * kPageSize),
        type_(cache_type),
        layers_(model.numbers().layers) {
    const int64_t context = static_cast<int64_t>(pages_.size()) * kPageSize;
    for (const PositionTable& table : model.position_tables()) tables_[table.name] = table.rows(context);
    caches_.resize(layers_);
    for (int64_t layer = 0; layer < layers_; ++layer) {
      for (const CachePart& part : model.cache_parts(type_, layer))
        caches_[layer][part.name].resize(cache_rows_ * part.row_bytes);
      for (const StatePart& part : model.state_parts(layer)) caches_[layer][part.name].resize(kStates * part.width * 4);
    }
  }

  ModelShape shape() const {
    ModelShape s;
    s.context = static_cast<int64_t>(pages_.size()) * kPageSize;
    s.cache_rows = cache_rows_;
    s.local_rows = cache_rows_;
    s.page_entries = static_cast<int64_t>(pages_.size());
    s.cache_type = type_;
    s.states = kStates;
    return s;
  }

  // Logits of step.rows, one row after another.
  std::vector<double> run(const ModelShape& shape, const Step& step) {
    run(model_.embed(file_, shape), "", -1, step);
    for (int64_t layer = 0; layer < layers_; ++layer)
      run(model_.block(file_, shape, layer), layer_prefix(layer), layer, step);
    return run(model_.head(file_, shape), "", -1, step);
  }

 private:
  template <class T>
  static std::span<const std::byte> bytes(const std::vector<T>& v) {
    return std::as_bytes(std::span(v));
  }

  std::span<const std::byte> buffer(const SlotBinding& slot, const std::string& prefix, int64_t layer,
                                    const Step& step) {
    switch (slot.kind) {
      case Bound::Weight: {
        const GgufTensor* tensor = file_.find(prefix + slot.name);
        REQUIRE_MESSAGE(tensor, (prefix + slot.name));
        return {tensor->data, tensor->bytes};
      }
      case Bound::Tokens: return bytes(step.tokens);
      case Bound::Positions: return bytes(step.positions);
      case Bound::Tables: return bytes(step.tables);
      case Bound::Pages:
      case Bound::LocalPages: return bytes(pages_);
      case Bound::Cache:
      case Bound::State: return caches_[layer].at(slot.name);
      case Bound::StatesIn: return bytes(step.states_in);
      case Bound::StatesOut: return bytes(step.states_out);
      case Bound::PositionTable: return bytes(tables_.at(slot.name));
      case Bound::HiddenIn: return bytes(hidden_);
      case Bound::Rows: return bytes(step.rows);
      case Bound::HiddenOut:
      case Bound::InputSums:
      case Bound::Logits:
      case Bound::Choices:
      case Bound::Chosen: break;
    }
    return {};
  }

  // The values of the segment's output, which become the hidden state.
  std::vector<double> run(const Segment& segment, const std::string& prefix, int64_t layer, const Step& step) {
    EvalInputs inputs{.variables = step.variables};
    for (size_t i = 0; i < segment.slots.size(); ++i) inputs.buffers[i] = buffer(segment.slots[i], prefix, layer, step);
    EvalResult result = eval(segment.root, inputs);
    for (auto& [slot, written] : result.written) caches_[layer].at(segment.slots[slot].name) = std::move(written);
    REQUIRE(result.outputs.size() == 1);
    const std::vector<double>& values = result.outputs.begin()->second.values;
    hidden_.assign(values.begin(), values.end());
    return values;
  }

  const GgufFile& file_;
  const Model& model_;
  std::vector<int32_t> pages_;
  int64_t cache_rows_;
  DType type_;
  int64_t layers_;
  std::map<std::string, std::vector<float>> tables_;
  std::vector<std::map<std::string, std::vector<std::byte>>> caches_;  // by layer and part, states included
  std::vector<float> hidden_;
};

}  // namespace smelt::test
