#include "model/packed_block.h"

#include <algorithm>

#include "base/ensure.h"

namespace smelt {
namespace {

using Names = std::vector<std::string_view>;

// The order of use as the formula of a format has it (block_groups.cpp).
struct UseOrder {
  Names once;        // what is needed from the first element on
  int sections = 1;  // then, for each of so many equal parts of the elements:
  Names each;        // the scales of the part,
  Names together;    // and fields whose words alternate: the low bits of elements, the high bits of more elements

  bool operator==(const UseOrder&) const = default;
};

UseOrder in_order_of_file(GgufType type) {
  UseOrder order;
  for (const BlockField& field : block_fields(type)) order.once.push_back(field.name);
  return order;
}

UseOrder use_order(GgufType type) {
  switch (type) {
    case GgufType::Q2_K: return {{"d", "dmin"}, 2, {"scales", "qs"}, {}};
    case GgufType::Q3_K: return {{"d", "scales"}, 1, {}, {"qs", "hmask"}};
    case GgufType::Q5_K: return {{"d", "dmin", "scales"}, 1, {}, {"qs", "qh"}};
    case GgufType::Q6_K: return {{"d"}, 2, {"scales"}, {"ql", "qh"}};
    case GgufType::TQ1_0: return {{"d", "qs", "qh"}, 1, {}, {}};
    case GgufType::TQ2_0: return {{"d", "qs"}, 1, {}, {}};
    case GgufType::IQ2_XS: return {{"d", "scales", "qs"}, 1, {}, {}};
    case GgufType::IQ2_S: return {{"d", "scales", "index_high"}, 8, {"signs", "qs"}, {}};
    case GgufType::IQ3_XXS: return {{"d"}, 8, {"signs", "qs"}, {}};
    case GgufType::IQ3_S: return {{"d", "scales", "index_high"}, 8, {"signs", "qs"}, {}};
    case GgufType::IQ1_S: return {{"d"}, 4, {"qh", "qs"}, {}};
    case GgufType::IQ1_M: return {{"scales"}, 4, {"qh", "qs"}, {}};
    default: return in_order_of_file(type);
  }
}

class Places {
 public:
  explicit Places(GgufType type) : type_(type) {}

  std::vector<PackedField> assign(const UseOrder& order) {
    for (std::string_view name : order.once) {
      PackedField p{.field = field(name), .begin = end_};
      end_ += p.stride = p.bytes();
      list_.push_back(p);
    }
    const size_t first = list_.size();
    sections_ = order.sections;
    for (std::string_view name : order.each) add_to_section(field(name));
    if (!order.together.empty()) add_pair(field(order.together[0]), field(order.together[1]));
    for (size_t i = first; i < list_.size(); ++i) list_[i].begin = end_, list_[i].stride = used_;
    ENSURE(end_ + sections_ * used_ == static_cast<int>(info_of(type_).bytes),
           "a field is not in the order of use of " + std::string(name_of(type_)));
    return std::move(list_);
  }

 private:
  const BlockField& field(std::string_view name) const {
    const auto& fields = block_fields(type_);
    const auto it = std::find_if(fields.begin(), fields.end(), [&](const BlockField& f) { return f.name == name; });
    ENSURE(it != fields.end(), "no such field in " + std::string(name_of(type_)));
    return *it;
  }

  void add_to_section(const BlockField& field) {
    PackedField p{.field = field, .sections = sections_, .rest_at = used_};
    used_ += p.bytes() / sections_;
    list_.push_back(p);
  }

  void add_pair(const BlockField& more, const BlockField& fewer) {
    PackedField a{.field = more, .sections = sections_, .pairs_at = used_}, b = a;
    b.field = fewer, b.is_second = true;
    ENSURE(a.pieces() % b.pieces() == 0 && piece_bytes(more) == piece_bytes(fewer), "fields that do not go together");
    a.pairs = b.pairs = b.pieces();
    a.rest_at = used_ + 2 * b.bytes() / sections_;
    used_ += (a.bytes() + b.bytes()) / sections_;
    list_.insert(list_.end(), {a, b});
  }

  GgufType type_;
  int end_ = 0;   // of what is there once
  int used_ = 0;  // of a section
  int sections_ = 1;
  std::vector<PackedField> list_;
};

}  // namespace

const std::vector<PackedField>& packed_fields(GgufType type, FieldOrder order) {
  switch (static_cast<uint32_t>(type)) {
#define QUANT(name, fields)                                                                      \
  case static_cast<uint32_t>(GgufType::name): {                                                  \
    static const auto of_use = Places(GgufType::name).assign(use_order(GgufType::name));         \
    static const auto of_file = Places(GgufType::name).assign(in_order_of_file(GgufType::name)); \
    return order == FieldOrder::Use ? of_use : of_file;                                          \
  }
#include "gguf/quants.def"
#undef QUANT
  }
  ENSURE(false, "no layout for " + std::string(name_of(type)));
}

bool has_order_of_use(GgufType type) { return use_order(type) != in_order_of_file(type); }

}  // namespace smelt
