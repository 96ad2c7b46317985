#include "codegen/packed_bytes.h"

#include <optional>
#include <unordered_map>

#include "graph/operands.h"
#include "graph/rules_algebra.h"
#include "graph/views.h"

namespace smelt {
namespace {

constexpr int64_t kEven = 0x00FF00FF;  // bytes 0 and 2 of a word
constexpr int64_t kEach = 0x01010101;  // times a byte: that byte four times

Ref word(int64_t value) { return constant(value, DType::U32); }
Ref repeated(int64_t byte) { return word((byte & 255) * kEach); }

Ref shifted(Op op, Ref x, Ref by) { return is_const(by, 0) ? x : simplify(binary(op, x, cast(by, DType::U32))); }

// The operands of a node, if it is of this op.
std::optional<BinaryView> binary_of(Ref n, Op op) { return n->op == op ? std::optional(BinaryView(n)) : std::nullopt; }

// The byte that a wider integer was made of; null if it was not.
Ref byte_within(Ref n) { return n->op == Op::Cast && operand_of(n)->dtype == DType::U8 ? operand_of(n) : Ref(); }

// Shifts move bits into the neighbouring byte: these are cut off unless they are known to be zero.
class Packer {
 public:
  explicit Packer(Ref range) : range_(range) {}

  Ref pack(Ref n) {
    if (auto it = done_.find(n.get()); it != done_.end()) return it->second;
    return done_[n.get()] = compute(n);
  }

 private:
  Ref compute(Ref n) {
    if (!is_byte(n->dtype)) return Ref();
    if (!depends_on(n, range_)) return same_for_all(n);
    switch (n->op) {
      case Op::Load: return load(n);
      case Op::And: return with_mask(n);
      case Op::Or:
      case Op::Xor: return both(n);
      case Op::Mul: return product(n);
      case Op::Shr: return shift_right(n);
      case Op::Shl: return shift_left(n);
      case Op::Where: return choice(n);
      case Op::Bitcast: return pack(operand_of(n));
      case Op::Cast: return is_byte(operand_of(n)->dtype) ? pack(operand_of(n)) : narrowed(n);
      case Op::Lut: return look_up(n);
      default: return Ref();
    }
  }

  Ref same_for_all(Ref n) {
    if (const auto value = const_int(n)) return repeated(*value);
    return cast(n->dtype == DType::I8 ? bitcast(n, DType::U8) : n, DType::U32) * word(kEach);
  }

  Ref load(Ref n) {
    const auto [buffer, offset] = LoadView(n);
    if (stride(offset, range_) != 1) return Ref();
    return make_load(DType::U32, buffer, substitute(offset, {{range_, constant(0)}}));
  }

  Ref both(Ref n) {
    const Ref x = pack(BinaryView(n).x), y = pack(BinaryView(n).y);
    return x && y ? binary(n->op, x, y) : Ref();
  }

  // The mask of a field makes that of the shift that brought it down superfluous.
  Ref with_mask(Ref n) {
    const auto [field, mask] = BinaryView(n);
    const auto bits = const_int(mask);
    const auto shift = binary_of(field, Op::Shr);
    if (!bits || !shift || field->dtype != DType::U8) return both(n);
    const Ref by = shift->y;
    if (by->min < 0 || by->max >= 8 || depends_on(by, range_) || (*bits & 255) > 255 >> by->max) return both(n);
    const Ref x = pack(shift->x);
    return x ? binary(Op::And, shifted(Op::Shr, x, by), repeated(*bits)) : Ref();
  }

  Ref shift_right(Ref n) {
    const Ref x = pack(BinaryView(n).x), by = BinaryView(n).y;
    const auto amount = const_int(by);
    if (!x || !amount || n->dtype != DType::U8) return Ref();
    return *amount == 0 ? x : binary(Op::And, shifted(Op::Shr, x, by), repeated(255 >> *amount));
  }

  Ref shift_left(Ref n) {
    const auto [bytes, by] = BinaryView(n);
    const Ref x = pack(bytes);
    if (!x || n->dtype != DType::U8 || depends_on(by, range_) || by->min < 0 || by->max > 7) return Ref();
    const Ref moved = shifted(Op::Shl, x, by);
    if (bytes->max << by->max <= 255) return moved;
    const auto amount = const_int(by);
    return amount ? binary(Op::And, moved, repeated(255 << *amount)) : Ref();
  }

  Ref choice(Ref n) {
    const WhereView w(n);
    if (depends_on(w.condition, range_)) return Ref();
    const Ref x = pack(w.yes), y = pack(w.no);
    return x && y ? where(w.condition, x, y) : Ref();
  }

  Ref look_up(Ref n) {
    const Ref index = pack(operand_of(n));
    if (!index || operand_of(n)->dtype != DType::U8) return Ref();
    return make(Op::Lut4, DType::U32, {index}, {.list = n->arg.list});
  }

  Ref narrowed(Ref n) {
    if (const Ref bits = one_bit_each(n)) return bits;
    if (const Ref fields = fields_of_bytes(n)) return fields;
    if (const Ref scaled = high_of_sum(n)) return scaled;
    return high_of_product(n);
  }

  // A field of byte r of a word becomes byte r:  cast(and(shr(x, base + 8 r), mask), u8)
  Ref fields_of_bytes(Ref n) {
    const auto field = binary_of(operand_of(n), Op::And);
    const auto shift = field ? binary_of(field->x, Op::Shr) : std::nullopt;
    if (!shift || field->x->dtype != DType::U32) return Ref();
    const auto mask = const_int(field->y);
    const auto [x, at] = *shift;
    if (!mask || *mask > 255 || depends_on(x, range_) || at->op != Op::Cast || stride(operand_of(at), range_) != 8)
      return Ref();
    const Ref base = substitute(operand_of(at), {{range_, constant(0)}});
    if (base->min < 0 || base->max > 7 || *mask > 255 >> base->max) return Ref();
    return binary(Op::And, shifted(Op::Shr, x, simplify(base)), repeated(*mask));
  }

  // Bytes times a number of all: its low byte, or the high one. Every other byte has room for both.
  Ref product(Ref n) {
    const Ref x = pack(BinaryView(n).x), factor = BinaryView(n).y;
    if (!x || n->dtype != DType::U8 || depends_on(factor, range_)) return Ref();
    const Products p = products(x, cast(factor, DType::U32));
    return binary(Op::Or, masked(p.even, kEven), binary(Op::Shl, masked(p.odd, kEven), word(8)));
  }

  // Of cast(shr(x, 8), u8) the 16 bits of x; null if it is something else.
  static Ref halves_of(Ref n) {
    const Ref high = operand_of(n);
    const auto shift = binary_of(high, Op::Shr);
    return shift && high->dtype == DType::U16 && is_const(shift->y, 8) ? shift->x : Ref();
  }

  // cast(shr(cast(x, u16) * factor, 8), u8)
  Ref high_of_product(Ref n) {
    const Ref halves = halves_of(n);
    const auto whole = halves ? binary_of(halves, Op::Mul) : std::nullopt;
    const Ref byte = whole ? byte_within(whole->x) : Ref();
    if (!byte) return Ref();
    const Ref factor = whole->y, x = pack(byte);
    if (!x || depends_on(factor, range_) || factor->min < 0 || factor->max > 256) return Ref();
    const Products p = products(x, cast(factor, DType::U32));
    return binary(Op::Or, masked(binary(Op::Shr, p.even, word(8)), kEven), masked(p.odd, kEven << 8));
  }

  // cast(shr(cast(x, u16) * factor + base, 8), u8), where 16 bits wrap
  Ref high_of_sum(Ref n) {
    const Ref halves = halves_of(n);
    const auto sum = halves ? binary_of(halves, Op::Add) : std::nullopt;
    const auto product = sum ? binary_of(sum->x, Op::Mul) : std::nullopt;
    const Ref byte = product ? byte_within(product->x) : Ref();
    if (!byte || depends_on(product->y, range_) || depends_on(sum->y, range_)) return Ref();
    const Ref x = pack(byte);
    if (!x) return Ref();
    const auto twice = [&](Ref number) { return cast(number, DType::U32) * word(0x00010001); };
    const Ref factor = twice(product->y), base = twice(sum->y);
    const auto scaled = [&](Ref bytes) { return make(Op::Mad16, DType::U32, {masked(bytes, kEven), factor, base}); };
    return binary(Op::Or, masked(binary(Op::Shr, scaled(x), word(8)), kEven),
                  masked(scaled(binary(Op::Shr, x, word(8))), kEven << 8));
  }

  struct Products {
    Ref even, odd;  // 16 bits each
  };
  static Products products(Ref x, Ref factor) {
    return {masked(x, kEven) * factor, masked(binary(Op::Shr, x, word(8)), kEven) * factor};
  }
  static Ref masked(Ref x, int64_t mask) { return binary(Op::And, x, word(mask)); }

  // Bit r of a wide integer becomes byte r:  cast(and(shr(x, base + r), 1), u8)
  // The product has bit i of the nibble at i + 7 k, so at 8 k bit k, and no two terms meet.
  Ref one_bit_each(Ref n) {
    const auto bit = binary_of(operand_of(n), Op::And);
    const auto shift = bit && is_const(bit->y, 1) ? binary_of(bit->x, Op::Shr) : std::nullopt;
    if (!shift) return Ref();
    const auto [x, at] = *shift;
    if (depends_on(x, range_) || at->op != Op::Cast || stride(operand_of(at), range_) != 1) return Ref();
    const Ref base = substitute(operand_of(at), {{range_, constant(0)}});
    const Ref low = simplify(binary(Op::Shr, cast(x, DType::U32), cast(base, DType::U32)));
    return binary(Op::And, binary(Op::And, low, word(15)) * word(0x00204081), word(kEach));
  }

  Ref range_;
  std::unordered_map<const Node*, Ref> done_;
};

// The byte that was cast to I32, if its values lie in the range of `dtype`.
Ref byte_of(Ref x, DType dtype) {
  if (x->op == Op::Const) {
    const bool fits = dtype == DType::U8 ? x->arg.i >= 0 && x->arg.i < 256 : x->arg.i >= -128 && x->arg.i < 128;
    return fits ? constant(x->arg.i, dtype) : Ref();
  }
  if (x->op != Op::Cast) return Ref();
  const Ref byte = operand_of(x);
  if (byte->dtype == dtype) return byte;
  const bool small = byte->min >= 0 && byte->max < 128;
  if (is_byte(byte->dtype)) return small ? bitcast(byte, dtype) : Ref();
  const bool fits = is_int(byte->dtype) && byte->min >= 0 && byte->max <= (dtype == DType::U8 ? 255 : 127);
  return fits ? make(Op::Cast, dtype, {byte}) : Ref();
}

Ref dot_of(Ref unsigned_side, Ref signed_side, Ref range) {
  const Ref u = byte_of(unsigned_side, DType::U8), s = byte_of(signed_side, DType::I8);
  if (!u || !s) return Ref();
  Packer packer(range);
  const Ref x = packer.pack(u), y = packer.pack(s);
  if (!x || !y) return Ref();
  return make(Op::Dot4, DType::I32, {constant(0, DType::I32), x, y}, {.i = u->max});
}

}  // namespace

Ref packed_bytes(Ref byte, Ref range) { return is_const(RangeView(range).size, 4) ? Packer(range).pack(byte) : Ref(); }

bool is_rounded(Ref byte) { return byte->op == Op::Cast && is_byte(byte->dtype) && is_float(operand_of(byte)->dtype); }

Ref word_to_store(Ref byte, Ref range) {
  if (!is_const(RangeView(range).size, 4) || !is_rounded(byte)) return packed_bytes(byte, range);
  Ref all;
  for (int64_t i = 0; i < 4; ++i) {
    const Ref own = substitute(byte, {{range, constant(i, range->dtype)}});
    const Ref bits = cast(own->dtype == DType::I8 ? bitcast(own, DType::U8) : own, DType::U32);
    all = i == 0 ? bits : binary(Op::Or, all, binary(Op::Shl, bits, word(8 * i)));
  }
  return all;
}

Ref packed_dot(Ref term, Ref range) {
  if (term->dtype != DType::I32 || !is_const(RangeView(range).size, 4)) return Ref();
  if (term->op != Op::Mul) return dot_of(constant(1, DType::I32), term, range);  // a plain sum
  const auto [x, y] = BinaryView(term);
  if (const Ref dot = dot_of(x, y, range)) return dot;
  return dot_of(y, x, range);
}

}  // namespace smelt
