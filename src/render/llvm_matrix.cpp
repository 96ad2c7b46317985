#include "render/llvm_matrix.h"

#include <algorithm>

#include "base/ensure.h"
#include "codegen/instruction_views.h"
#include "render/llvm_dot.h"
#include "render/llvm_ops.h"

namespace smelt {
namespace {

constexpr size_t kTiles = 8;  // registers of AMX

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
  if (const MatrixUnit* unit = unit_for_bytes(machine); unit && unit->loads_operands) unit_ = *unit;
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
  if (!unit_ || shape.n > unit_->n || shape.m > unit_->m) return 0;
  const int64_t at_once = unit_->k / kBytesOfWord;
  if (shape.words() <= at_once) return shape.words();
  return shape.words() % at_once == 0 ? at_once : 0;
}

std::array<TileRegisters::Tile, 3> TileRegisters::tiles_of(const MatrixShape& shape) const {
  const int64_t words = words_of(shape);
  return {Tile{'c', shape.m, 4 * shape.n}, Tile{'a', shape.m, 4 * words}, Tile{'b', words, 4 * shape.n}};
}

std::optional<int> TileRegisters::find(const Tile& tile) const {
  const auto found = std::find(tiles_.begin(), tiles_.end(), tile);
  if (found == tiles_.end()) return std::nullopt;
  return static_cast<int>(found - tiles_.begin());
}

std::optional<TileRegisters::Product> TileRegisters::of(const MatrixShape& shape) const {
  if (!used() || words_of(shape) == 0) return std::nullopt;
  const auto tiles = tiles_of(shape);
  const auto c = find(tiles[0]), a = find(tiles[1]), b = find(tiles[2]);
  if (!c || !a || !b) return std::nullopt;
  return Product{*c, *a, *b, words_of(shape)};
}

void TileRegisters::configure(LlvmWriter& out) const {
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const Tile& t : tiles_) shapes.emplace_back(t.rows, t.bytes);
  out.entry_line(instruction("ldtilecfg ($0)", "r,", "ptr " + out.constant_array(config_array(shapes))));
}

void TileRegisters::release(LlvmWriter& out) { out.line(instruction("tilerelease", "", "")); }

namespace {

constexpr int64_t kStepsWrittenOut = 4;  // of a product; more are a loop, whose sums are in the unit as well

std::string product_of_tiles(const MatrixShape& shape) { return shape.a_is_signed ? "tdpbsud " : "tdpbusd "; }

void render_step(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                 const MatrixOperands& operands) {
  load_tile(out, tiles.b, operands.b, shape.b_stride);
  load_tile(out, tiles.a, operands.a, shape.a_stride);
  out.line(instruction(product_of_tiles(shape) + tile(tiles.b) + ", " + tile(tiles.a) + ", " + tile(tiles.c), "", ""));
}

void render_loop_of_steps(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                          const MatrixOperands& operands, const std::string& name) {
  const std::string counter = name + ".step", block = counter.substr(1);
  out.entry_line(counter + " = alloca i64, align 8");
  out.line("store i64 0, ptr " + counter + ", align 8");
  out.line("br label %" + block + ".loop");
  out.label(block + ".loop");
  const std::string step = out.emit("load i64, ptr " + counter + ", align 8");
  const auto moved = [&](const std::string& pointer, int64_t bytes) {
    const std::string at = out.emit("mul i64 " + step + ", " + number(bytes));
    return out.emit("getelementptr i8, ptr " + pointer + ", i64 " + at);
  };
  const std::string a = moved(operands.a, 4 * tiles.words), b = moved(operands.b, tiles.words * shape.b_stride);
  render_step(out, tiles, shape, {a, b});
  const std::string next = out.emit("add i64 " + step + ", 1");
  out.line("store i64 " + next + ", ptr " + counter + ", align 8");
  const std::string more = out.emit("icmp ult i64 " + next + ", " + number(shape.words() / tiles.words));
  out.line("br i1 " + more + ", label %" + block + ".loop, label %" + block + ".end");
  out.label(block + ".end");
}

}  // namespace

void render_tile_product(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                         const MatrixOperands& operands, const std::string& c) {
  out.line(instruction("tilezero " + tile(tiles.c), "", ""));
  if (shape.words() > kStepsWrittenOut * tiles.words)
    render_loop_of_steps(out, tiles, shape, operands, c);
  else
    for (int64_t word = 0; word < shape.words(); word += tiles.words)
      render_step(out, tiles, shape,
                  {address(out, operands.a, 4 * word), address(out, operands.b, word * shape.b_stride)});
  store_tile(out, tiles.c, c, kMatrixRowBytes);
}

std::vector<IrValue> render_row_sums(LlvmWriter& out, const MatrixShape& shape, const MatrixOperands& operands,
                                     const Machine& machine) {
  const int lanes = static_cast<int>(shape.n);
  const auto load = [&](const std::string& pointer, int64_t offset, int count) {
    return out.emit(DType::U32, count,
                    "load " + ir_type(DType::U32, count) + ", ptr " + address(out, pointer, offset) + ", align 1");
  };
  std::vector<IrValue> rows(static_cast<size_t>(shape.m), ir_int(0, DType::I32, lanes));
  for (int64_t k = 0; k < shape.words(); ++k) {
    const IrValue b = load(operands.b, k * shape.b_stride, lanes);
    for (size_t m = 0; m < rows.size(); ++m) {
      const int64_t at = static_cast<int64_t>(m) * shape.a_stride + 4 * k;
      const IrValue a = out.widen(load(operands.a, at, 1), lanes);
      rows[m] = shape.a_is_signed ? render_dot4(out, rows[m], b, a, shape.greatest, machine)
                                  : render_dot4(out, rows[m], a, b, shape.greatest, machine);
    }
  }
  return rows;
}

}  // namespace smelt
