// Byte loads that lie 4 apart in neighbouring lanes become one wide load that all four bytes of a word share.
//
//   cast(and(load u8 [base + lane * 4 + 1], 15), f32)
//   -> cast(and(shr(load i32 [base + lane * 4], 8), 15), f32)
//
// The arithmetic on the bytes is carried on in i32 lanes, where the value of each byte is the same number. Bytes that
// are put together from several words are put together for all four bytes at once, which neighbours then share.
#include <optional>
#include <unordered_map>

#include "codegen/opt.h"
#include "codegen/packed_bytes.h"
#include "codegen/passes.h"
#include "graph/operands.h"
#include "graph/rules_algebra.h"

namespace smelt {
namespace {

constexpr int64_t kWord = 4;
constexpr int64_t kAnyByte = 1;  // number of a range; ranges of kernels have greater ones

// The lane range along which an offset steps by a word, if there is one.
Ref word_lane(Ref offset) {
  for (Ref r : ranges_of(offset))
    if (kind_of(r) == RangeKind::Lane && stride(offset, r) == kWord) return r;
  return Ref();
}

class Widen {
 public:
  // The value of a byte expression as i32, or nothing if that does not pay or is not the same number.
  Ref wide(Ref n) {
    if (auto it = done_.find(n.get()); it != done_.end()) return it->second;
    return done_[n.get()] = compute(n);
  }

 private:
  Ref compute(Ref n) {
    if (n->op == Op::Load) return load(n);
    if (n->op == Op::Const) return constant(n->arg.i, DType::I32);
    if (!is_byte(n->dtype)) return Ref();
    switch (n->op) {
      case Op::And: return both(n);
      case Op::Or:
      case Op::Where: return together(n);
      case Op::Shr: return shift_right(n);
      case Op::Shl: return shift_left(n);
      case Op::Cast: return narrowed(n);
      default: return Ref();
    }
  }

  Ref together(Ref n) {
    if (const Ref byte = byte_of_word(n)) return byte;
    return n->op == Op::Or ? both(n) : choice(n);
  }

  // The byte of a word of four such bytes, if all that n is made of is the same byte of words.
  Ref byte_of_word(Ref n) {
    if (n->dtype != DType::U8) return Ref();
    std::optional<int64_t> byte;
    bool same = true;
    const Ref any = any_byte();
    const Ref of_any = rebuild(n, [&](Ref, Ref x) {
      if (x->op != Op::Load || !is_byte(x->dtype)) return x;
      const auto [buffer, offset] = LoadView(x);
      const auto which = word_lane(offset) ? const_int(simplify(offset % kWord)) : std::nullopt;
      same = same && which && (!byte || byte == which);
      if (!which) return x;
      byte = which;
      return make_load(x->dtype, buffer, simplify(offset - *which) + any);
    });
    const Ref word = same && byte ? packed_bytes(of_any, any) : Ref();
    return word ? byte_of(bitcast(word, DType::I32), *byte) : Ref();
  }

  // Stands for the bytes of a word while four are packed; it belongs to no loop.
  static Ref any_byte() { return make_range(kAnyByte, constant(kWord), RangeKind::Byte); }

  static Ref byte_of(Ref word, int64_t byte) {
    const Ref low = byte == 0 ? word : binary(Op::Shr, word, constant(8 * byte, DType::I32));
    return binary(Op::And, low, constant(255, DType::I32));
  }

  Ref load(Ref n) {
    const auto [buffer, offset] = LoadView(n);
    if (!is_byte(n->dtype) || !word_lane(offset)) return Ref();
    const auto byte = const_int(simplify(offset % kWord));
    if (!byte) return Ref();
    const Ref loaded = make_load(DType::U32, buffer, simplify(offset - *byte)), word = bitcast(loaded, DType::I32);
    if (n->dtype == DType::U8) return byte_of(word, *byte);
    const Ref high = *byte == 3 ? word : binary(Op::Shl, word, constant(24 - 8 * *byte, DType::I32));
    return binary(Op::Shr, high, constant(24, DType::I32));
  }

  Ref both(Ref n) {
    const BinaryView bytes(n);
    const Ref x = wide(bytes.x), y = wide(bytes.y);
    if (!x || !y) return Ref();
    // Masks of masks are one mask.
    if (n->op == Op::And && x->op == Op::And && is_const(BinaryView(x).y) && is_const(y))
      return binary(Op::And, BinaryView(x).x, constant(BinaryView(x).y->arg.i & y->arg.i, DType::I32));
    return binary(n->op, x, y);
  }

  // A cast that keeps the number.
  Ref narrowed(Ref n) {
    const Ref x = operand_of(n);
    if (!is_int(x->dtype) || x->min < n->min || x->max > n->max) return Ref();
    return is_byte(x->dtype) ? wide(x) : cast(x, DType::I32);
  }

  Ref choice(Ref n) {
    const WhereView choice(n);
    const Ref yes = wide(choice.yes), no = wide(choice.no);
    return yes && no ? where(choice.condition, yes, no) : Ref();
  }

  Ref shift_right(Ref n) {
    const auto [byte, places] = BinaryView(n);
    const Ref x = wide(byte);
    const auto by = const_int(places);
    if (!x) return Ref();
    if (!by) return n->dtype == DType::U8 ? binary(Op::Shr, x, cast(places, DType::I32)) : Ref();
    if (*by == 0) return x;
    if (x->op != Op::And || !is_const(BinaryView(x).y)) return binary(Op::Shr, x, constant(*by, DType::I32));
    // and(shr(w, a), m) >> b  ->  and(shr(w, a + b), m >> b)
    const auto [inner, mask] = BinaryView(x);
    const bool shifted = inner->op == Op::Shr && is_const(BinaryView(inner).y);
    const int64_t total = *by + (shifted ? BinaryView(inner).y->arg.i : 0);
    return binary(Op::And, binary(Op::Shr, shifted ? BinaryView(inner).x : inner, constant(total, DType::I32)),
                  constant(mask->arg.i >> *by, DType::I32));
  }

  // A byte drops the bits that leave it.
  Ref shift_left(Ref n) {
    const auto [byte, places] = BinaryView(n);
    const Ref x = wide(byte);
    const auto by = const_int(places);
    if (!x || n->dtype != DType::U8) return Ref();
    if (!by) return binary(Op::And, binary(Op::Shl, x, cast(places, DType::I32)), constant(255, DType::I32));
    if (*by == 0) return x;
    const Ref y = binary(Op::Shl, x, constant(*by, DType::I32));
    const bool fits = byte->max << *by <= 255;
    return fits ? y : binary(Op::And, y, constant(255, DType::I32));
  }

  std::unordered_map<const Node*, Ref> done_;
};

}  // namespace

Refs coalesce_loads(const Refs& stores) {
  Widen widen;
  Refs out;
  for (Ref s : stores)
    out.push_back(rebuild(s, [&](Ref, Ref n) {
      if (n->op != Op::Cast || !is_byte(operand_of(n)->dtype) || is_byte(n->dtype)) return n;
      const Ref wide = widen.wide(operand_of(n));
      return wide && !is_const(wide) ? cast(wide, n->dtype) : n;
    }));
  return out;
}

}  // namespace smelt
