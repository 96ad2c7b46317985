// What the matrices of a model were multiplied with, summed over the prompts that it has read: the numbers of an
// importance matrix (gguf/importance.h).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/device.h"

namespace smelt {

class InputSums {
 public:
  // A buffer of a slot that ModelShape::sums_inputs makes, by the names of what is in it: a matrix as the model names
  // it, "blk.3.ffn_up.weight", with ".in_sum2" or ".counts".
  struct Place {
    std::vector<std::string> names;
    int64_t elements = 0;
  };
  // REQUIRES: the device outlives them.
  static Result<InputSums> allocate(Device& device, std::vector<Place> places);

  // REQUIRES: it is the first name of one of them
  void* find(const std::string& name) const { return buffers_.at(by_name_.at(name)).begin; }

  // Adds what a run over so many tokens has left in the buffers.
  Status add_run(int64_t tokens);

  int64_t tokens() const { return tokens_; }
  std::map<std::string, std::vector<float>> totals() const;  // by all names

 private:
  struct Buffer {
    Place place;
    std::byte* begin = nullptr;
    std::vector<double> total;
  };

  Device* device_ = nullptr;
  DeviceMemory memory_;
  std::vector<Buffer> buffers_;
  std::map<std::string, size_t> by_name_;
  int64_t tokens_ = 0;
};

}  // namespace smelt
