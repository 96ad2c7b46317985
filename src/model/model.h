// Model: what the engine asks of a model, whatever its architecture.
//
// An architecture is one file (llama.cpp, deepseek2.cpp): how its keys are read and checked, its table of tensors, the
// cache that it wants, and the graph of a block, made of shared parts (rope.h, gqa.h, mla.h, experts.h). After
// read_model() every number is in a sane range and every tensor that a graph binds is there, with the right shape and a
// type that we compute with: nothing behind it checks the model again.
#pragma once

#include <memory>

#include "model/rope.h"
#include "model/segment.h"
#include "model/tensor_shape.h"

namespace smelt {

// The numbers that every model has.
struct Hyperparameters {
  std::string architecture = {};
  int64_t layers = 0;  // without those of a multi-token-prediction head
  int64_t vocabulary = 0;
  int64_t context = 0;  // positions that the model was made for
  int64_t hidden = 0;
  double epsilon = 0;        // of all RMS norms
  bool tied_output = false;  // token_embd in place of output
  double embedding_scale = 1;
  double logit_scale = 1;  // logits are divided by it
};

// A buffer of a layer's cache. A page of it, kPageSize positions, lies in one piece.
struct CachePart {
  std::string name;
  int64_t row_bytes = 0;  // that a position takes
  // A page is so many lines, each of which has as many bytes of every position, one behind the other. 0: of bytes that
  // stand for finite numbers whatever they are, in any order.
  int64_t lines = 1;
};

// A buffer of a layer's recurrent states, f32.
struct StatePart {
  std::string name;
  int64_t width = 0;  // elements of one state
};

class Model {
 public:
  virtual ~Model() = default;

  virtual const Hyperparameters& numbers() const = 0;
  virtual bool has_experts(int64_t layer) const = 0;  // in place of one feed-forward network

  // Tensors that segments bind.
  TensorShape embedding_tensor() const;
  std::vector<TensorShape> head_tensors() const;  // the norm, then the output matrix
  virtual std::vector<TensorShape> layer_tensors(int64_t layer) const = 0;

  virtual std::vector<PositionTable> position_tables() const = 0;
  virtual std::vector<CachePart> cache_parts(DType type, int64_t layer) const = 0;
  virtual int64_t heads_per_key() const = 0;  // that read the same keys: as many as any layer has
  // Positions that a token sees in a layer, its own included; 0: all. A cache with a window keeps only rows that
  // somebody may see, in pages of their own (Bound::LocalPages).
  virtual int64_t window(int64_t) const { return 0; }
  int64_t longest_window() const;  // 0: no layer has one
  // What a layer keeps of all tokens so far, where that is not its cache: a state of fixed size for each sequence.
  virtual std::vector<StatePart> state_parts(int64_t) const { return {}; }
  bool has_states() const;

  // Graphs. REQUIRES: `file` is the one that the model was read from.
  Segment embed(const GgufFile& file, const ModelShape& shape) const;
  virtual Segment block(const GgufFile& file, const ModelShape& shape, int64_t layer) const = 0;
  Segment head(const GgufFile& file, const ModelShape& shape) const;

  // All keys of a file of this model that read_model() would read, for files that are made up.
  virtual void write_keys(KeyWriter& out) const = 0;
};

// The model of a file, of any architecture that architectures.cpp lists.
Result<std::shared_ptr<const Model>> read_model(const GgufFile& file);

// For architectures: the common numbers, and whether the tensors are there.
Result<Hyperparameters> read_common(Keys& keys, const std::string& architecture);
Status check_tensors(const GgufFile& file, const Model& model);
void write_common(KeyWriter& out, const Hyperparameters& numbers);

}  // namespace smelt
