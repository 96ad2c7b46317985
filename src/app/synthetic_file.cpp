#include "app/synthetic_file.h"

#include "app/synthetic_vocabulary.h"

namespace smelt {
namespace {

// The pairs that turn by the place in time, in height and in width: a third each, 11, 11 and 10 of the makers' 32. In
// a text these places are one. Other programs refuse files of Qwen 3.5 that do not say it.
std::vector<int32_t> rotary_sections(int64_t pairs) {
  const auto part = [&](int64_t more) { return static_cast<int32_t>((pairs + more) / 3); };
  return {part(2), part(1), part(0), 0};
}

// Keys of a model, under its architecture.
class Metadata : public KeyWriter {
 public:
  Metadata(NewMetadata& out, std::string prefix) : out_(out), prefix_(std::move(prefix)) {}
  void number(const std::string& key, int64_t value) override {
    out_.number(prefix_ + key, static_cast<uint32_t>(value));
    if (key == "rope.dimension_count" && prefix_.starts_with("qwen35"))
      out_.numbers(prefix_ + "rope.dimension_sections", rotary_sections(value / 2));
  }
  void real(const std::string& key, double value) override { out_.real(prefix_ + key, static_cast<float>(value)); }
  void flag(const std::string& key, bool value) override { out_.flag(prefix_ + key, value); }
  void text(const std::string& key, const std::string& value) override { out_.text(prefix_ + key, value); }

 private:
  NewMetadata& out_;
  std::string prefix_;
};

NewMetadata metadata_of(const SyntheticSpec& spec, uint64_t alignment) {
  const std::string& architecture = spec.model->numbers().architecture;
  NewMetadata out;
  out.text("general.architecture", architecture);
  out.text("general.name", spec.name + " (random weights)");
  out.number("general.alignment", static_cast<uint32_t>(alignment));
  Metadata keys(out, architecture + ".");
  spec.model->write_keys(keys);
  write_synthetic_vocabulary(spec.model->numbers().vocabulary, out);
  return out;
}

}  // namespace

NewHead synthetic_file(const SyntheticSpec& spec, const std::vector<SyntheticTensor>& tensors, uint64_t alignment) {
  std::vector<NewTensor> table;
  for (const SyntheticTensor& t : tensors) table.push_back({t.name, t.dims, t.type, t.bytes});
  return new_head(metadata_of(spec, alignment), table, alignment);
}

}  // namespace smelt
