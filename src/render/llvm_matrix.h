// Products of small matrices in memory (Inst::MatrixDot): by the tile registers of AMX, or as sums of words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "codegen/program.h"
#include "graph/matrix_shape.h"
#include "render/llvm.h"
#include "render/llvm_writer.h"

namespace smelt {

// The tile registers of a program. Their shapes are set once, when its function begins, and they are released when it
// ends: while they are in use every switch of threads saves and restores 8 KiB more.
class TileRegisters {
 public:
  // Tiles of a product, and how many words a single instruction takes. Of halves each block of `b` has sums of its own,
  // so that no instruction waits for the one before.
  struct Product {
    std::vector<int> c;
    int a, b;
    int64_t words;
  };

  TileRegisters(const Program& program, const Machine& machine);

  bool used() const { return !tiles_.empty(); }
  // Nothing where the target has no such instruction, or all registers have other shapes: sums of words then.
  std::optional<Product> of(const MatrixShape& shape) const;

  void configure(LlvmWriter& out) const;  // in the entry of the function
  static void release(LlvmWriter& out);   // at its end

 private:
  struct Tile {
    int role;  // operands of a product are different registers
    int64_t rows, bytes;
    bool operator==(const Tile&) const = default;
  };
  std::vector<Tile> tiles_of(const MatrixShape& shape) const;
  int64_t words_of(const MatrixShape& shape) const;
  std::optional<int> find(const Tile& tile) const;

  std::optional<MatrixUnit> bytes_, halves_;  // those that load their operands
  std::vector<Tile> tiles_;
};

// Pointers to the first bytes of both sides.
struct MatrixOperands {
  std::string a, b;
};

// By tiles: items end up one behind the other, kMatrixRowBytes each, in memory that `c` points to.
void render_tile_product(LlvmWriter& out, const TileRegisters::Product& tiles, const MatrixShape& shape,
                         const MatrixOperands& operands, const std::string& c);

// By sums of words, or of halves: one value of all lanes an item. `name`: of values, with a leading %.
std::vector<IrValue> render_row_sums(LlvmWriter& out, const MatrixShape& shape, const MatrixOperands& operands,
                                     const std::string& name, const Machine& machine);

}  // namespace smelt
