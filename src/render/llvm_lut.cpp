#include "render/llvm_lut.h"

#include <algorithm>

#include "base/ensure.h"
#include "graph/scalar_math.h"
#include "render/llvm_ops.h"

namespace smelt {
namespace {

// result[i] = table[index[i]] for the bytes of a register, within each 16 of them; index < 16.
struct ByteShuffle {
  int bytes;
  std::string function;
};

std::optional<ByteShuffle> byte_shuffle(int lanes, const Machine& machine) {
  if (lanes == 1) return std::nullopt;
  if (machine.isa == Isa::Arm) return ByteShuffle{16, "@llvm.aarch64.neon.tbl1.v16i8"};
  if (machine.shuffle_bytes < 16) return std::nullopt;
  if (lanes > 32 && machine.shuffle_bytes >= 64) return ByteShuffle{64, "@llvm.x86.avx512.pshuf.b.512"};
  if (lanes > 16 && machine.shuffle_bytes >= 32) return ByteShuffle{32, "@llvm.x86.avx2.pshuf.b"};
  return ByteShuffle{16, "@llvm.x86.ssse3.pshuf.b.128"};
}

// The byte dtype that holds every entry of a table short enough for a shuffle.
std::optional<DType> byte_dtype(std::span<const int64_t> table) {
  if (table.empty() || table.size() > 16) return std::nullopt;
  auto [lowest, highest] = std::minmax_element(table.begin(), table.end());
  for (DType dtype : {DType::I8, DType::U8})
    if (*lowest >= lowest_int(dtype) && *highest <= highest_int(dtype)) return dtype;
  return std::nullopt;
}

// The 16 entries, once for every 16 bytes of the register.
std::string register_of_table(std::span<const int64_t> table, int bytes) {
  std::string text = "<";
  for (int i = 0; i < bytes; ++i) {
    size_t entry = static_cast<size_t>(i % 16);
    text += (i ? ", i8 " : "i8 ") + std::to_string(entry < table.size() ? table[entry] : 0);
  }
  return text + ">";
}

// Lanes [begin, begin + count) of x; those beyond its end are whatever.
std::string slice(LlvmWriter& out, const std::string& x, int lanes, int begin, int count) {
  if (begin == 0 && count == lanes) return x;
  std::vector<int> mask;
  for (int i = 0; i < count; ++i) mask.push_back(std::min(begin + i, lanes - 1));
  std::string type = ir_type(DType::I8, lanes);
  return out.emit("shufflevector " + type + " " + x + ", " + type + " poison, " + shuffle_mask(mask));
}

// Joins two vectors of equal width.
std::string join(LlvmWriter& out, const std::string& x, const std::string& y, int lanes) {
  std::vector<int> mask;
  for (int i = 0; i < 2 * lanes; ++i) mask.push_back(i);
  std::string type = ir_type(DType::I8, lanes);
  return out.emit("shufflevector " + type + " " + x + ", " + type + " " + y + ", " + shuffle_mask(mask));
}

IrValue shuffled(LlvmWriter& out, std::span<const int64_t> table, const IrValue& index, const ByteShuffle& shuffle) {
  std::string type = ir_type(DType::I8, shuffle.bytes);
  out.declare("declare " + type + " " + shuffle.function + "(" + type + ", " + type + ")");
  std::string entries = register_of_table(table, shuffle.bytes);
  std::vector<std::string> parts;
  for (int begin = 0; begin < index.lanes; begin += shuffle.bytes) {
    std::string part = slice(out, index.text, index.lanes, begin, shuffle.bytes);
    parts.push_back(out.emit("call " + type + " " + shuffle.function + "(" + type + " " + entries + ", " + type + " " +
                             part + ")"));
  }
  int lanes = shuffle.bytes;
  for (; parts.size() > 1; lanes *= 2) {
    std::vector<std::string> joined;
    for (size_t i = 0; i < parts.size(); i += 2)
      joined.push_back(join(out, parts[i], parts[std::min(i + 1, parts.size() - 1)], lanes));
    parts = std::move(joined);
  }
  return {.text = slice(out, parts[0], lanes, 0, index.lanes), .dtype = DType::I8, .lanes = index.lanes};
}

// Entries first .. first + 63 of a table of bytes, as a register.
std::string part_of_table(std::span<const int64_t> table, size_t first) {
  std::string text = "<";
  for (size_t i = 0; i < 64; ++i)
    text += (i ? ", i8 " : "i8 ") + std::to_string(first + i < table.size() ? table[first + i] & 255 : 0);
  return text + ">";
}

// Whether every 64 entries are the first ones once more: then six bits of an index choose among them.
bool is_one_register(std::span<const int64_t> table) {
  return table.size() > 64 && table.size() % 64 == 0 && std::equal(table.begin() + 64, table.end(), table.begin());
}

IrValue picked_from_one(LlvmWriter& out, std::span<const int64_t> table, const IrValue& index) {
  const std::string type = ir_type(DType::I8, 64), function = "@llvm.x86.avx512.permvar.qi.512";
  out.declare("declare " + type + " " + function + "(" + type + ", " + type + ")");
  return out.emit(DType::U8, 64,
                  "call " + type + " " + function + "(" + type + " " + part_of_table(table, 0) + ", " + type + " " +
                      index.text + ")");
}

// Look-ups of 64 bytes at once, in tables of 128 and 256: a pair of registers holds 128 entries, and the highest bit of
// an index chooses the pair.
IrValue picked_from_pairs(LlvmWriter& out, std::span<const int64_t> table, const IrValue& index) {
  const std::string type = ir_type(DType::I8, 64), function = "@llvm.x86.avx512.vpermi2var.qi.512";
  out.declare("declare " + type + " " + function + "(" + type + ", " + type + ", " + type + ")");
  const auto from_pair = [&](size_t first) {
    return out.emit("call " + type + " " + function + "(" + type + " " + part_of_table(table, first) + ", " + type +
                    " " + index.text + ", " + type + " " + part_of_table(table, first + 64) + ")");
  };
  std::string entries = from_pair(0);
  if (table.size() > 128) {
    const std::string is_upper = out.emit("icmp slt " + type + " " + index.text + ", zeroinitializer");
    entries =
        out.emit("select <64 x i1> " + is_upper + ", " + type + " " + from_pair(128) + ", " + type + " " + entries);
  }
  return {.text = entries, .dtype = DType::U8, .lanes = 64};
}

std::string table_literal(std::span<const int64_t> table, DType dtype) {
  std::string element = ir_memory_type(dtype, 1);
  std::string text = "[" + std::to_string(table.size()) + " x " + element + "] [";
  for (size_t i = 0; i < table.size(); ++i) {
    IrValue entry = is_float(dtype) ? ir_float(static_cast<double>(table[i]), dtype) : ir_int(table[i], dtype);
    text += (i ? ", " : "") + element + " " + entry.text;
  }
  return text + "]";
}

std::string load_entry(LlvmWriter& out, const std::string& table, const std::string& index, DType dtype) {
  std::string element = ir_memory_type(dtype, 1);
  std::string address = out.emit("getelementptr inbounds " + element + ", ptr " + table + ", i64 " + index);
  return out.emit("load " + element + ", ptr " + address + ", align " + std::to_string(size_of(dtype)));
}

// All lanes at once: one instruction on processors that have one, else LLVM takes it apart.
IrValue gathered(LlvmWriter& out, const std::string& table, const IrValue& index, DType dtype, const Machine& machine) {
  const IrValue narrow = render_cast(out, index, DType::I32, machine);
  const std::string count = std::to_string(index.lanes), type = ir_type(dtype, index.lanes),
                    pointers = "<" + count + " x ptr>", mask = "<" + count + " x i1>",
                    function = "@llvm.masked.gather.v" + count + ir_type(DType::I32, 1) + ".v" + count + "p0";
  out.declare("declare " + type + " " + function + "(" + pointers + ", i32, " + mask + ", " + type + ")");
  const std::string at = out.emit("getelementptr inbounds " + ir_type(dtype, 1) + ", ptr " + table + ", " +
                                  ir_type(DType::I32, index.lanes) + " " + narrow.text);
  std::string all;
  for (int lane = 0; lane < index.lanes; ++lane) all += lane ? ", i1 true" : "i1 true";
  return out.emit(dtype, index.lanes,
                  "call " + type + " " + function + "(" + pointers + " " + at + ", i32 4, " + mask + " <" + all +
                      ">, " + type + " poison)");
}

IrValue loaded(LlvmWriter& out, std::span<const int64_t> table, const IrValue& index, DType dtype,
               const Machine& machine) {
  std::string name = out.constant_array(table_literal(table, dtype));
  if (index.lanes > 1 && (dtype == DType::U32 || dtype == DType::I32))
    return gathered(out, name, index, dtype, machine);
  IrValue wide = render_cast(out, index, DType::I64, machine);
  if (index.lanes == 1) return {.text = load_entry(out, name, wide.text, dtype), .dtype = dtype, .lanes = 1};
  std::string type = ir_type(dtype, index.lanes), result = "poison";
  for (int lane = 0; lane < index.lanes; ++lane) {
    std::string position = ", i64 " + std::to_string(lane);
    std::string at = out.emit("extractelement " + ir_type(DType::I64, index.lanes) + " " + wide.text + position);
    std::string entry = load_entry(out, name, at, dtype);
    result = out.emit("insertelement " + type + " " + result + ", " + ir_type(dtype, 1) + " " + entry + position);
  }
  return {.text = result, .dtype = dtype, .lanes = index.lanes};
}

// Four entries of a table, as a constant word.
std::string word_of_table(std::span<const int64_t> table, size_t first) {
  uint32_t word = 0;
  for (size_t i = 0; i < 4 && first + i < table.size(); ++i)
    word |= static_cast<uint32_t>(table[first + i] & 0xff) << (8 * i);
  return std::to_string(word);
}

// Bytes of two words, chosen by the lower four nibbles of `which`: 0 to 3 of the first, 4 to 7 of the second.
std::string permuted(LlvmWriter& out, const std::string& first, const std::string& second, const std::string& which) {
  const std::string function = "@llvm.nvvm.prmt";
  out.declare("declare i32 " + function + "(i32, i32, i32)");
  return out.emit("call i32 " + function + "(i32 " + first + ", i32 " + second + ", i32 " + which + ")");
}

// Look-ups of the four bytes of a word by permutations of bytes: the indices as nibbles side by side, entries of both
// halves of the table, then for each byte that of its half.
IrValue permuted_lut4(LlvmWriter& out, std::span<const int64_t> table, const IrValue& x) {
  const std::string shifted = out.emit("lshr i32 " + x.text + ", 4"),
                    pairs = out.emit("or i32 " + x.text + ", " + shifted),
                    nibbles = permuted(out, pairs, "0", std::to_string(0x4420)),
                    low = out.emit("and i32 " + nibbles + ", " + std::to_string(0x7777));
  const auto half = [&](size_t first) {
    return permuted(out, word_of_table(table, first), word_of_table(table, first + 4), low);
  };
  if (table.size() <= 8) return {.text = half(0), .dtype = DType::U32, .lanes = 1};
  const std::string lower = half(0), upper = half(8), moved = out.emit("lshr i32 " + nibbles + ", 1"),
                    is_upper = out.emit("and i32 " + moved + ", " + std::to_string(0x4444)),
                    which = out.emit("or i32 " + is_upper + ", " + std::to_string(0x3210));
  return {.text = permuted(out, lower, upper, which), .dtype = DType::U32, .lanes = 1};
}

}  // namespace

IrValue render_lut(LlvmWriter& out, std::span<const int64_t> table, const IrValue& index, DType dtype,
                   const Machine& machine) {
  ENSURE(dtype != DType::Bool, "a table of bool");
  std::optional<ByteShuffle> shuffle = byte_shuffle(index.lanes, machine);
  std::optional<DType> byte = byte_dtype(table);
  if (shuffle && byte) {
    IrValue entry = shuffled(out, table, render_cast(out, index, DType::U8, machine), *shuffle);
    entry.dtype = *byte;
    return render_cast(out, entry, dtype, machine);
  }
  return loaded(out, table, index, dtype, machine);
}

IrValue render_lut4(LlvmWriter& out, std::span<const int64_t> table, const IrValue& x, const Machine& machine) {
  if (machine.isa == Isa::Nvidia && x.lanes == 1 && table.size() <= 16) return permuted_lut4(out, table, x);
  const int bytes = 4 * x.lanes;
  const IrValue index{
      .text = out.emit("bitcast " + ir_type(x.dtype, x.lanes) + " " + x.text + " to " + ir_type(DType::U8, bytes)),
      .dtype = DType::U8,
      .lanes = bytes};
  const bool in_pairs = machine.table_bytes >= 128 && bytes == 64 && table.size() > 16 && table.size() <= 256;
  const IrValue entries = !in_pairs                ? render_lut(out, table, index, DType::U8, machine)
                          : is_one_register(table) ? picked_from_one(out, table, index)
                                                   : picked_from_pairs(out, table, index);
  return out.emit(DType::U32, x.lanes,
                  "bitcast " + ir_type(DType::U8, bytes) + " " + entries.text + " to " + ir_type(DType::U32, x.lanes));
}

}  // namespace smelt
