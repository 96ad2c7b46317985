#include "render/llvm_dot.h"

#include <algorithm>
#include <vector>

#include "base/ensure.h"

namespace smelt {
namespace {

std::string vector_of(int count, int bits) { return "<" + std::to_string(count) + " x i" + std::to_string(bits) + ">"; }

std::string splat(int count, int bits, int64_t value) {
  std::string text = "<";
  for (int i = 0; i < count; ++i) text += (i ? ", i" : "i") + std::to_string(bits) + " " + std::to_string(value);
  return text + ">";
}

// Registers of `bytes` bytes, given and returned by the names of <bytes / 4 x i32> values.
class DotWriter {
 public:
  DotWriter(LlvmWriter& out, int bytes, int64_t greatest) : out_(out), bytes_(bytes), greatest_(greatest) {}

  std::string vnni(const std::string& sum, const std::string& x, const std::string& y) {
    return call("@llvm.x86.avx512.vpdpbusd." + std::to_string(8 * bytes_), words(),
                {{words(), sum}, {words(), x}, {words(), y}});
  }

  // pmaddubsw adds pairs of products in 16 bits, which two bytes below 128 times signed bytes just fit; others go in
  // halves.
  std::string madd(const std::string& sum, const std::string& x, const std::string& y) {
    if (greatest_ < 128) return sum_of_pairs(sum, added_pairs("", x, y));
    const std::string signed_bytes = as_bytes(y);
    const std::string low = and_(x, 0x0f0f0f0f), high = and_(shift(x, 4), 0x0f0f0f0f);
    const std::string first = add(sum, pairs(madd_bytes(as_bytes(low), signed_bytes), 1));
    return add(first, pairs(madd_bytes(as_bytes(high), signed_bytes), 16));
  }

  // The same with bytes as numbers of 16 bits, the even ones and the odd ones: two products in place of four, and three
  // instructions for y, which pay where several sums share them.
  std::string madd_halves(const std::string& sum, const std::string& x, const std::string& y) {
    if (greatest_ < 128) return madd(sum, x, y);
    const std::string left = as_halves(x), right = as_halves(y), even = as_halves(and_(x, 0x00ff00ff));
    const std::string first = add(sum, pairs(even, by_8("ashr", by_8("shl", right))));
    return add(first, pairs(by_8("lshr", left), by_8("ashr", right)));
  }

  std::string added_pairs(const std::string& pairs, const std::string& x, const std::string& y) {
    const std::string more = madd_bytes(as_bytes(x), as_bytes(y));
    return pairs.empty() ? more : out_.emit("add " + halves() + " " + pairs + ", " + more);
  }
  std::string sum_of_pairs(const std::string& sum, const std::string& added) { return add(sum, pairs(added, 1)); }

  std::string usdot(const std::string& sum, const std::string& x, const std::string& y) {
    return neon("usdot", sum, as_bytes(x), as_bytes(y));
  }

  // Both sides are signed: bytes from 128 on lose 128 first, and the sum of the others 128 times is added.
  std::string sdot(const std::string& sum, const std::string& x, const std::string& y) {
    const std::string other = as_bytes(y);
    if (greatest_ < 128) return neon("sdot", sum, as_bytes(x), other);
    const std::string flipped = out_.emit("xor " + words() + " " + x + ", " + splat(bytes_ / 4, 32, -2139062144));
    const std::string near = neon("sdot", sum, as_bytes(flipped), other);
    const std::string total = neon("sdot", splat(bytes_ / 4, 32, 0), splat(bytes_, 8, 1), other);
    return add(near, out_.emit("shl " + words() + " " + total + ", " + splat(bytes_ / 4, 32, 7)));
  }

 private:
  struct Typed {
    std::string type, value;
  };

  std::string words() const { return vector_of(bytes_ / 4, 32); }
  std::string halves() const { return vector_of(bytes_ / 2, 16); }
  std::string chars() const { return vector_of(bytes_, 8); }

  std::string call(const std::string& function, const std::string& type, const std::vector<Typed>& operands) {
    std::string types, values;
    for (const Typed& o : operands) {
      types += (types.empty() ? "" : ", ") + o.type;
      values += (values.empty() ? "" : ", ") + o.type + " " + o.value;
    }
    out_.declare("declare " + type + " " + function + "(" + types + ")");
    return out_.emit("call " + type + " " + function + "(" + values + ")");
  }

  std::string as_bytes(const std::string& x) { return out_.emit("bitcast " + words() + " " + x + " to " + chars()); }
  std::string add(const std::string& x, const std::string& y) {
    return out_.emit("add " + words() + " " + x + ", " + y);
  }
  std::string and_(const std::string& x, int64_t mask) {
    return out_.emit("and " + words() + " " + x + ", " + splat(bytes_ / 4, 32, mask));
  }
  std::string shift(const std::string& x, int by) {
    return out_.emit("lshr " + words() + " " + x + ", " + splat(bytes_ / 4, 32, by));
  }
  std::string madd_bytes(const std::string& x, const std::string& y) {
    const char* function = bytes_ == 64   ? "@llvm.x86.avx512.pmaddubs.w.512"
                           : bytes_ == 32 ? "@llvm.x86.avx2.pmadd.ub.sw"
                                          : "@llvm.x86.ssse3.pmadd.ub.sw.128";
    return call(function, halves(), {{chars(), x}, {chars(), y}});
  }
  std::string as_halves(const std::string& x) { return out_.emit("bitcast " + words() + " " + x + " to " + halves()); }
  std::string by_8(const std::string& shift, const std::string& x) {
    return out_.emit(shift + " " + halves() + " " + x + ", " + splat(bytes_ / 2, 16, 8));
  }
  std::string pairs(const std::string& x, int64_t factor) { return pairs(x, splat(bytes_ / 2, 16, factor)); }
  std::string pairs(const std::string& x, const std::string& y) {
    const char* function = bytes_ == 64   ? "@llvm.x86.avx512.pmaddw.d.512"
                           : bytes_ == 32 ? "@llvm.x86.avx2.pmadd.wd"
                                          : "@llvm.x86.sse2.pmadd.wd";
    return call(function, words(), {{halves(), x}, {halves(), y}});
  }
  std::string neon(const std::string& name, const std::string& sum, const std::string& x, const std::string& y) {
    return call("@llvm.aarch64.neon." + name + ".v4i32.v16i8", words(), {{words(), sum}, {chars(), x}, {chars(), y}});
  }

  LlvmWriter& out_;
  int bytes_;
  int64_t greatest_;
};

std::string lanes_of(LlvmWriter& out, const IrValue& x, int begin, int count) {
  if (begin == 0 && count == x.lanes) return x.text;
  std::vector<int> mask;
  for (int i = 0; i < count; ++i) mask.push_back(begin + i);
  const std::string type = ir_type(x.dtype, x.lanes);
  return out.emit("shufflevector " + type + " " + x.text + ", " + type + " poison, " + shuffle_mask(mask));
}

std::string join(LlvmWriter& out, const std::string& x, const std::string& y, int lanes) {
  std::vector<int> mask;
  for (int i = 0; i < 2 * lanes; ++i) mask.push_back(i);
  const std::string type = vector_of(lanes, 32);
  return out.emit("shufflevector " + type + " " + x + ", " + type + " " + y + ", " + shuffle_mask(mask));
}

// One vector of all parts, each of `width` lanes. One part that is left over pairs with itself, which adds lanes at
// the end.
IrValue joined(LlvmWriter& out, std::vector<std::string> parts, int width, int lanes) {
  for (; parts.size() > 1; width *= 2) {
    std::vector<std::string> pairs;
    for (size_t i = 0; i < parts.size(); i += 2)
      pairs.push_back(join(out, parts[i], parts[std::min(i + 1, parts.size() - 1)], width));
    parts = std::move(pairs);
  }
  const IrValue all{.text = parts[0], .dtype = DType::I32, .lanes = width};
  return {.text = lanes_of(out, all, 0, lanes), .dtype = DType::I32, .lanes = lanes};
}

// By arithmetic on whole words, for targets and lane counts without such an instruction.
IrValue plain(LlvmWriter& out, const IrValue& sum, const IrValue& x, const IrValue& y) {
  const std::string type = ir_type(DType::I32, sum.lanes);
  const auto with = [&](const char* op, const std::string& value, int64_t by) {
    return out.emit(std::string(op) + " " + type + " " + value + ", " + ir_int(by, DType::I32, sum.lanes).text);
  };
  std::string total = sum.text;
  for (int byte = 0; byte < 4; ++byte) {
    const std::string left = with("and", with("lshr", x.text, 8 * byte), 255);
    const std::string right = with("ashr", with("shl", y.text, 24 - 8 * byte), 24);
    const std::string product = out.emit("mul " + type + " " + left + ", " + right);
    total = out.emit("add " + type + " " + total + ", " + product);
  }
  return {.text = total, .dtype = DType::I32, .lanes = sum.lanes};
}

IrValue dp4a(LlvmWriter& out, const IrValue& sum, const IrValue& x, const IrValue& y) {
  return out.emit(DType::I32, 1,
                  call_of_instruction("i32", "dp4a.u32.s32 $0, $1, $2, $3", "=r,r,r,r",
                                      "i32 " + x.text + ", i32 " + y.text + ", i32 " + sum.text));
}

std::string dot_of_register(DotWriter& writer, ByteDot dot, const std::string& sum, const std::string& x,
                            const std::string& y, bool shares_y) {
  switch (dot) {
    case ByteDot::Vnni: return writer.vnni(sum, x, y);
    case ByteDot::Madd: return shares_y ? writer.madd_halves(sum, x, y) : writer.madd(sum, x, y);
    case ByteDot::NeonI8mm: return writer.usdot(sum, x, y);
    case ByteDot::NeonDot: return writer.sdot(sum, x, y);
    case ByteDot::Dp4a:  // of other machines than those of this text
    case ByteDot::Plain: break;
  }
  ENSURE(false, "no register form of a plain dot");
}

// Bytes of the registers that a sum of so many lanes is cut into; below 16 if none is that small.
int register_bytes(int lanes, const Machine& machine) {
  int bytes = static_cast<int>(machine.byte_dot_bytes);
  while (bytes >= 16 && 4 * lanes % bytes != 0) bytes /= 2;
  return bytes;
}

}  // namespace

IrValue render_dot4(LlvmWriter& out, const IrValue& sum, const IrValue& x, const IrValue& y, int64_t greatest,
                    const Machine& machine, bool shares_y) {
  if (machine.byte_dot == ByteDot::Dp4a && sum.lanes == 1) return dp4a(out, sum, x, y);
  const int bytes = register_bytes(sum.lanes, machine);
  if (machine.byte_dot == ByteDot::Plain || bytes < 16) return plain(out, sum, x, y);
  DotWriter writer(out, bytes, greatest > 0 ? greatest : 255);
  const int lanes = bytes / 4;
  std::vector<std::string> parts;
  for (int begin = 0; begin < sum.lanes; begin += lanes)
    parts.push_back(dot_of_register(writer, machine.byte_dot, lanes_of(out, sum, begin, lanes),
                                    lanes_of(out, x, begin, lanes), lanes_of(out, y, begin, lanes), shares_y));
  return joined(out, std::move(parts), lanes, sum.lanes);
}

int64_t pairs_that_fit(int64_t greatest, int lanes, const Machine& machine) {
  if (machine.byte_dot != ByteDot::Madd || greatest <= 0 || register_bytes(lanes, machine) < 16) return 0;
  return 32768 / (2 * 128 * greatest);  // two products by -128
}

void add_pairs(LlvmWriter& out, PairSums& pairs, const IrValue& x, const IrValue& y, const Machine& machine) {
  const int bytes = register_bytes(x.lanes, machine), lanes = bytes / 4;
  DotWriter writer(out, bytes, 0);
  pairs.registers.resize(static_cast<size_t>(x.lanes / lanes));
  for (size_t i = 0; i < pairs.registers.size(); ++i) {
    const int begin = static_cast<int>(i) * lanes;
    pairs.registers[i] =
        writer.added_pairs(pairs.registers[i], lanes_of(out, x, begin, lanes), lanes_of(out, y, begin, lanes));
  }
  ++pairs.count;
}

IrValue add_up(LlvmWriter& out, const IrValue& sum, const PairSums& pairs, const Machine& machine) {
  const int bytes = register_bytes(sum.lanes, machine), lanes = bytes / 4;
  DotWriter writer(out, bytes, 0);
  std::vector<std::string> parts;
  for (size_t i = 0; i < pairs.registers.size(); ++i)
    parts.push_back(writer.sum_of_pairs(lanes_of(out, sum, static_cast<int>(i) * lanes, lanes), pairs.registers[i]));
  return joined(out, std::move(parts), lanes, sum.lanes);
}

}  // namespace smelt
