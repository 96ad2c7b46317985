#include "render/llvm_matrix.h"

#include <algorithm>

#include "base/ensure.h"
#include "codegen/instruction_views.h"
#include "render/llvm_dot.h"
#include "render/llvm_ops.h"

namespace smelt {
namespace {

constexpr size_t kTiles = 8;  // registers of AMX
constexpr int kRoleOfA = 0, kRoleOfB = 1, kRoleOfSums = 2;

std::string number(int64_t value) { return std::to_string(value); }

std::string address(LlvmWriter& out, const std::string& pointer, int64_t offset) {
  if (offset == 0) return pointer;
  return out.emit("getelementptr i8, ptr " + pointer + ", i64 " + number(offset));
}

// Instructions on tiles are assembly, which names its registers: LLVM's intrinsics take numbers, too, but its scheduler
// then renames registers to break dependences (seen with LLVM 19 for Zen 4), and the others have no shape.
std::string instruction(const std::string& text, const std::string& operands, const std::string& values) {
  return "call void asm sideeffect \"" + text + "\", \"" + operands + "~{memory}\"(" + values + ")";
}

std::string tile(int number) { return "%tmm" + std::to_string(number); }

std::string row_operands(const std::string& at, int64_t stride) { return "ptr " + at + ", i64 " + number(stride); }

void load_tile(LlvmWriter& out, int to, const std::string& at, int64_t stride) {
  out.line(instruction("tileloadd ($0,$1,1), " + tile(to), "r,r,", row_operands(at, stride)));
}

void store_tile(LlvmWriter& out, int from, const std::string& at, int64_t stride) {
  out.line(instruction("tilestored " + tile(from) + ", ($0,$1,1)", "r,r,", row_operands(at, stride)));
}

// The bytes that ldtilecfg reads: the palette, 15 bytes of zero, bytes of a row of 16 tiles (2 bytes each), rows.
std::string config_array(const std::vector<std::pair<int64_t, int64_t>>& rows_and_bytes) {
  std::array<int64_t, 64> config{1};
  for (size_t i = 0; i < rows_and_bytes.size(); ++i) {
    config[48 + i] = rows_and_bytes[i].first;
    config[16 + 2 * i] = rows_and_bytes[i].second;
  }
  std::string text;
  for (int64_t byte : config) text += (text.empty() ? "i8 " : ", i8 ") + number(byte);
  return "[64 x i8] [" + text + "]";
}

}  // namespace

TileRegisters::TileRegisters(const Program& program, const Machine& machine) {
  if (const MatrixUnit* unit = unit_for_bytes(machine); unit && unit->loads_operands) bytes_ = *unit;
  if (const MatrixUnit* unit = unit_for_halves(machine); unit && unit->loads_operands) halves_ = *unit;
  for (const Instruction& x : program.code) {
    if (x.kind != Inst::MatrixDot) continue;
    const MatrixShape shape = matrix_shape(x);
    if (words_of(shape) == 0) continue;
    std::vector<Tile> more = tiles_;
    for (const Tile& t : tiles_of(shape))
      if (std::find(more.begin(), more.end(), t) == more.end()) more.push_back(t);
    if (more.size() <= kTiles) tiles_ = std::move(more);
  }
}

// 0: the shape does not go into tiles.
int64_t TileRegisters::words_of(const MatrixShape& shape) const {
  const std::optional<MatrixUnit>& unit = shape.of_halves ? halves_ : bytes_;
  if (!unit || shape.n > unit->n || shape.m > unit->m) return 0;
  const int64_t at_once = unit->k * size_of(unit->a) / kBytesOfWord;
  if (shape.words() <= at_once) return shape.words();
  return shape.words() % at_once == 0 ? at_once : 0;
}

std::vector<TileRegisters::Tile> TileRegisters::tiles_of(const MatrixShape& shape) const {
  const int64_t words = words_of(shape);
  std::vector<Tile> tiles{Tile{kRoleOfA, shape.m, 4 * words}, Tile{kRoleOfB, words, 4 * shape.n}};
  for (int64_t block = 0; block < shape.blocks; ++block)
    tiles.push_back({kRoleOfSums + static_cast<int>(block), shape.m, 4 * shape.n});
  return tiles;
}

std::optional<int> TileRegisters::find(const Tile& tile) const {
  const auto found = std::find(tiles_.begin(), tiles_.end(), tile);
  if (found == tiles_.end()) return std::nullopt;
  return static_cast<int>(found - tiles_.begin());
}

std::optional<TileRegisters::Product> TileRegisters::of(const MatrixShape& shape) const {
  if (!used() || words_of(shape) == 0) return std::nullopt;
  std::vector<int> numbers;
  for (const Tile& tile : tiles_of(shape)) {
    const auto number = find(tile);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return Product{.c = {numbers.begin() + 2, numbers.end()}, .a = numbers[0], .b = numbers[1], .words = words_of(shape)};
}

void TileRegisters::configure(LlvmWriter& out) const {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const Tile& t : tiles_) shapes.emplace_back(t.rows, t.bytes);
  out.entry_line(instruction("ldtilecfg ($0)", "r,", "ptr " + out.constant_array(config_array(shapes))));
}

void TileRegisters::release(LlvmWriter& out) { out.line(instruction("tilerelease", "", "")); }

namespace {

constexpr int64_t kStepsWrittenOut = 4;  // of a product; more are a loop, whose sums are in the unit as well

std::string product_of_tiles(const MatrixShape& shape) {
  return shape.of_halves ? "tdpbf16ps " : shape.a_is_signed ? "tdpbsud " : "tdpbusd ";
}

// Into the second-level cache.
void ask_for_rows(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                  const std::string& a) {
  if (shape.a_ahead == 0 || 4 * tiles.words < kMatrixRowBytes) return;
  out.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)");
  for (int64_t row = 0; row < shape.m; ++row)
    out.line("call void @llvm.prefetch.p0(ptr " + address(out, a, shape.a_ahead + row * shape.a_stride) +
             ", i32 0, i32 2, i32 1)");
}

void render_step(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                 const MatrixOperands& operands) {
  ask_for_rows(out, tiles, shape, operands.a);
  load_tile(out, tiles.a, operands.a, shape.a_stride);
  int64_t block = 0;
  for (int c : tiles.c) {
    load_tile(out, tiles.b, address(out, operands.b, block++ * shape.block_stride), shape.b_stride);
    out.line(instruction(product_of_tiles(shape) + tile(tiles.b) + ", " + tile(tiles.a) + ", " + tile(c), "", ""));
  }
}

// `body` of each number below `count`.
template <class F>
void render_loop(LlvmWriter& out, const std::string& name, int64_t count, const F& body) {
  const std::string counter = name + ".step", block = counter.substr(1);
  out.entry_line(counter + " = alloca i64, align 8");
  out.line("store i64 0, ptr " + counter + ", align 8");
  out.line("br label %" + block + ".loop");
  out.label(block + ".loop");
  const std::string step = out.emit("load i64, ptr " + counter + ", align 8");
  body(step);
  const std::string next = out.emit("add i64 " + step + ", 1");
  out.line("store i64 " + next + ", ptr " + counter + ", align 8");
  const std::string more = out.emit("icmp ult i64 " + next + ", " + number(count));
  out.line("br i1 " + more + ", label %" + block + ".loop, label %" + block + ".end");
  out.label(block + ".end");
}

void render_loop_of_steps(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                          const MatrixOperands& operands, const std::string& name) {
  render_loop(out, name, shape.words() / tiles.words, [&](const std::string& step) {
    const auto moved = [&](const std::string& pointer, int64_t bytes) {
      const std::string at = out.emit("mul i64 " + step + ", " + number(bytes));
      return out.emit("getelementptr i8, ptr " + pointer + ", i64 " + at);
    };
    render_step(out, tiles, shape,
                {moved(operands.a, 4 * tiles.words), moved(operands.b, tiles.words * shape.b_stride)});
  });
}

}  // namespace

void render_tile_product(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                         const MatrixOperands& operands, const std::string& c) {
  for (int sums : tiles.c) out.line(instruction("tilezero " + tile(sums), "", ""));
  if (shape.words() > kStepsWrittenOut * tiles.words)
    render_loop_of_steps(out, tiles, shape, operands, c);
  else
    for (int64_t word = 0; word < shape.words(); word += tiles.words)
      render_step(out, tiles, shape,
                  {address(out, operands.a, 4 * word), address(out, operands.b, word * shape.b_stride)});
  int64_t block = 0;
  for (int sums : tiles.c)
    store_tile(out, sums, address(out, c, kMatrixRowBytes * block++), shape.blocks * kMatrixRowBytes);
}

namespace {

IrValue load_words(LlvmWriter& out, const std::string& pointer, int count) {
  return out.emit(DType::U32, count, "load " + ir_type(DType::U32, count) + ", ptr " + pointer + ", align 1");
}

std::vector<IrValue> sums_of_bytes(LlvmWriter& out, const MatrixShape& shape, const MatrixOperands& operands,
                                   const Machine& machine) {
  const int lanes = static_cast<int>(shape.n);
  std::vector<IrValue> rows(static_cast<size_t>(shape.m), ir_int(0, DType::I32, lanes));
  for (int64_t k = 0; k < shape.words(); ++k) {
    const IrValue b = load_words(out, address(out, operands.b, k * shape.b_stride), lanes);
    for (size_t m = 0; m < rows.size(); ++m) {
      const int64_t at = static_cast<int64_t>(m) * shape.a_stride + 4 * k;
      const IrValue a = out.widen(load_words(out, address(out, operands.a, at), 1), lanes);
      rows[m] = shape.a_is_signed ? render_dot4(out, rows[m], b, a, shape.greatest, machine)
                                  : render_dot4(out, rows[m], a, b, shape.greatest, machine);
    }
  }
  return rows;
}

// A half of each word, as floats: the bits of a bf16 are the first ones of its f32.
IrValue halves_of_words(LlvmWriter& out, const IrValue& words, int which) {
  const std::string type = ir_type(words.dtype, words.lanes), bits = number(which == 0 ? 16 : 0xFFFF0000),
                    operand = words.lanes > 1 ? "splat (i32 " + bits + ")" : bits;
  const std::string high = out.emit((which == 0 ? "shl " : "and ") + type + " " + words.text + ", " + operand);
  return out.emit(DType::F32, words.lanes, "bitcast " + type + " " + high + " to " + ir_type(DType::F32, words.lanes));
}

// One word of all items: `sums` are where they are kept.
void add_words_of_halves(LlvmWriter& out, const MatrixShape& shape, const MatrixOperands& operands,
                         const std::vector<std::string>& sums) {
  const int lanes = static_cast<int>(shape.n);
  const std::string type = ir_type(DType::F32, lanes);
  for (int64_t block = 0; block < shape.blocks; ++block) {
    const IrValue b = load_words(out, address(out, operands.b, block * shape.block_stride), lanes);
    for (int64_t row = 0; row < shape.m; ++row) {
      const std::string& at = sums[static_cast<size_t>(row * shape.blocks + block)];
      const IrValue a = load_words(out, address(out, operands.a, row * shape.a_stride), 1);
      std::string sum = out.emit("load " + type + ", ptr " + at + ", align 64");
      for (int which : {0, 1}) {
        const IrValue x = out.widen(halves_of_words(out, a, which), lanes), y = halves_of_words(out, b, which);
        const std::string term = out.emit("fmul " + type + " " + x.text + ", " + y.text);
        sum = out.emit("fadd " + type + " " + sum + ", " + term);
      }
      out.line("store " + type + " " + sum + ", ptr " + at + ", align 64");
    }
  }
}

// Rows may be thousands of words: a loop goes over them.
std::vector<IrValue> sums_of_halves(LlvmWriter& out, const MatrixShape& shape, const MatrixOperands& operands,
                                    const std::string& name) {
  const int lanes = static_cast<int>(shape.n);
  const std::string type = ir_type(DType::F32, lanes);
  std::vector<std::string> sums;
  for (int64_t item = 0; item < shape.items(); ++item) {
    sums.push_back(name + ".sum" + number(item));
    out.entry_line(sums.back() + " = alloca " + type + ", align 64");
    out.line("store " + type + " zeroinitializer, ptr " + sums.back() + ", align 64");
  }
  render_loop(out, name, shape.words(), [&](const std::string& word) {
    const auto moved = [&](const std::string& pointer, int64_t bytes) {
      const std::string at = out.emit("mul i64 " + word + ", " + number(bytes));
      return out.emit("getelementptr i8, ptr " + pointer + ", i64 " + at);
    };
    add_words_of_halves(out, shape, {moved(operands.a, 4), moved(operands.b, shape.b_stride)}, sums);
  });
  std::vector<IrValue> items;
  for (const std::string& sum : sums)
    items.push_back(out.emit(DType::F32, lanes, "load " + type + ", ptr " + sum + ", align 64"));
  return items;
}

}  // namespace

std::vector<IrValue> render_row_sums(LlvmWriter& out, const MatrixShape& shape, const MatrixOperands& operands,
                                     const std::string& name, const Machine& machine) {
  return shape.of_halves ? sums_of_halves(out, shape, operands, name) : sums_of_bytes(out, shape, operands, machine);
}

}  // namespace smelt
