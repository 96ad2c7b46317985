#include "model/packed_block.h"

#include <algorithm>
#include <numeric>

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
  Places(GgufType type, int piece) : type_(type), piece_(piece) {}

  std::vector<PackedField> assign(const UseOrder& order) {
    for (std::string_view name : order.once) {
      PackedField p{.field = field(name), .begin = end_};
      p.piece = piece_of(p.bytes(), piece_);
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
    p.piece = piece_of(p.bytes() / sections_, piece_);
    used_ += p.bytes() / sections_;
    list_.push_back(p);
  }

  void add_pair(const BlockField& more, const BlockField& fewer) {
    PackedField a{.field = more, .sections = sections_, .pairs_at = used_}, b = a;
    b.field = fewer, b.is_second = true;
    a.piece = b.piece = piece_of(std::gcd(a.bytes(), b.bytes()) / sections_, piece_);
    ENSURE(a.pieces() % b.pieces() == 0, "fields that do not go together");
    a.pairs = b.pairs = b.pieces();
    a.rest_at = used_ + 2 * b.bytes() / sections_;
    used_ += (a.bytes() + b.bytes()) / sections_;
    list_.insert(list_.end(), {a, b});
  }

  GgufType type_;
  int piece_;
  int end_ = 0;   // of what is there once
  int used_ = 0;  // of a section
  int sections_ = 1;
  std::vector<PackedField> list_;
};

// Of the two orders, with pieces of 4 and of 16 bytes.
struct KnownFields {
  explicit KnownFields(GgufType type)
      : of_use{Places(type, 4).assign(use_order(type)), Places(type, 16).assign(use_order(type))},
        of_file{Places(type, 4).assign(in_order_of_file(type)), Places(type, 16).assign(in_order_of_file(type))} {}
  const std::vector<PackedField> of_use[2], of_file[2];
};

}  // namespace

const std::vector<PackedField>& packed_fields(GgufType type, FieldOrder order, int piece) {
  ENSURE(piece == 4 || piece == 16, "pieces of " + std::to_string(piece) + " bytes");
  const int wide = piece == 16;
  switch (static_cast<uint32_t>(type)) {
#define QUANT(name, fields)                                                     \
  case static_cast<uint32_t>(GgufType::name): {                                 \
    static const KnownFields known(GgufType::name);                             \
    return order == FieldOrder::Use ? known.of_use[wide] : known.of_file[wide]; \
  }
#include "gguf/quants.def"
#undef QUANT
  }
  ENSURE(false, "no layout for " + std::string(name_of(type)));
}

bool has_order_of_use(GgufType type) { return use_order(type) != in_order_of_file(type); }

}  // namespace smelt
