// ModelRunner: a model's segments run by the interpreter, one after another, with every buffer that
// a slot asks for.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <vector>

#include "graph/eval.h"
#include "model/deepseek2.h"

namespace smelt::test {

class ModelRunner {
 public:
  // What one run appends: equal lengths, padded to the shape's T.
  struct Step {
    std::vector<int32_t> tokens, positions, tables, rows;
    std::map<std::string, int64_t> variables;
  };

  ModelRunner(const GgufFile& file, const Hyperparameters& model, std::vector<int32_t> pages,
              int64_t cache_pages, DType cache_type = DType::F32)
      : file_(file),
        model_(model),
        pages_(std::move(pages)),
        cache_rows_(cache_pages * kPageSize),
        type_(cache_type),
        angles_(rope_tables(model, static_cast<int64_t>(pages_.size()) * kPageSize)) {
    caches_.resize(model.layers,
                   std::vector<std::byte>(cache_rows_ * model.cache_width() * size_of(type_)));
    values_.resize(model.layers, std::vector<std::byte>(cache_rows_ * model.kv_lora));
    scales_.resize(model.layers, std::vector<std::byte>(cache_rows_ * sizeof(float)));
    key_scales_ = scales_;
  }

  ModelShape shape() const {
    ModelShape s;
    s.context = static_cast<int64_t>(pages_.size()) * kPageSize;
    s.cache_rows = cache_rows_;
    s.page_entries = static_cast<int64_t>(pages_.size());
    s.cache_type = type_;
    return s;
  }

  // Logits of step.rows, one row after another.
  std::vector<double> run(const ModelShape& shape, const Step& step) {
    run(embed_segment(file_, model_, shape), "", -1, step);
    for (int64_t layer = 0; layer < model_.layers; ++layer)
      run(block_segment(file_, model_, shape, layer), layer_prefix(layer), layer, step);
    return run(head_segment(file_, model_, shape), "", -1, step);
  }

 private:
  template <class T>
  static std::span<const std::byte> bytes(const std::vector<T>& v) {
    return std::as_bytes(std::span(v));
  }

  std::span<const std::byte> buffer(const SlotBinding& slot, const std::string& prefix,
                                    int64_t layer, const Step& step) {
    switch (slot.kind) {
      case Bound::Weight: {
        const GgufTensor* tensor = file_.find(prefix + slot.name);
        REQUIRE_MESSAGE(tensor, (prefix + slot.name));
        return {tensor->data, tensor->bytes};
      }
      case Bound::Tokens: return bytes(step.tokens);
      case Bound::Positions: return bytes(step.positions);
      case Bound::Tables: return bytes(step.tables);
      case Bound::Pages: return bytes(pages_);
      case Bound::Cache: return bytes(caches_[layer]);
      case Bound::CacheValues: return bytes(values_[layer]);
      case Bound::CacheScales: return bytes(scales_[layer]);
      case Bound::CacheKeyScales: return bytes(key_scales_[layer]);
      case Bound::RopeCos: return bytes(angles_.cos);
      case Bound::RopeSin: return bytes(angles_.sin);
      case Bound::HiddenIn: return bytes(hidden_);
      case Bound::Rows: return bytes(step.rows);
      case Bound::HiddenOut:
      case Bound::Logits: break;
    }
    return {};
  }

  // The values of the segment's output, which become the hidden state.
  std::vector<double> run(const Segment& segment, const std::string& prefix, int64_t layer,
                          const Step& step) {
    EvalInputs inputs{.variables = step.variables};
    int cache = -1, values_at = -1, scales = -1, key_scales = -1;
    for (size_t i = 0; i < segment.slots.size(); ++i) {
      inputs.buffers[i] = buffer(segment.slots[i], prefix, layer, step);
      if (segment.slots[i].kind == Bound::Cache) cache = static_cast<int>(i);
      if (segment.slots[i].kind == Bound::CacheValues) values_at = static_cast<int>(i);
      if (segment.slots[i].kind == Bound::CacheScales) scales = static_cast<int>(i);
      if (segment.slots[i].kind == Bound::CacheKeyScales) key_scales = static_cast<int>(i);
    }
    EvalResult result = eval(segment.root, inputs);
    if (cache >= 0) caches_[layer] = std::move(result.written.at(cache));
    if (values_at >= 0) values_[layer] = std::move(result.written.at(values_at));
    if (scales >= 0) scales_[layer] = std::move(result.written.at(scales));
    if (key_scales >= 0) key_scales_[layer] = std::move(result.written.at(key_scales));
    REQUIRE(result.outputs.size() == 1);
    const std::vector<double>& values = result.outputs.begin()->second.values;
    hidden_.assign(values.begin(), values.end());
    return values;
  }

  const GgufFile& file_;
  const Hyperparameters& model_;
  std::vector<int32_t> pages_;
  int64_t cache_rows_;
  DType type_;
  RopeTables angles_;
  std::vector<std::vector<std::byte>> caches_, values_, scales_, key_scales_;
  std::vector<float> hidden_;
};

}  // namespace smelt::test
