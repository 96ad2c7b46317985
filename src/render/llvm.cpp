#include "render/llvm.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/ensure.h"
#include "codegen/instruction_views.h"
#include "codegen/program_verify.h"
#include "render/llvm_function.h"
#include "render/llvm_matrix.h"
#include "render/llvm_ops.h"

namespace smelt {
namespace {

constexpr int64_t kNearBytes = 2 << 10;  // from a read to a hint

std::string number(int64_t value) { return std::to_string(value); }

class CpuRenderer : public FunctionRenderer {
 public:
  CpuRenderer(const Program& program, const Machine& machine)
      : FunctionRenderer(program, machine), tiles_(program, machine) {}

  std::string render() {
    render_body();
    if (tiles_.used()) {
      tiles_.configure(out_);
      TileRegisters::release(out_);
    }
    return module();
  }

 private:
  IrValue machine_instruction(int position, const Instruction& x) override {
    switch (x.kind) {
      case Inst::Symbol: return symbol(x.arg.i);
      case Inst::Part: return part(part_value(x));
      case Inst::Buffer: return {.text = buffer(x.arg.i)};
      case Inst::Scratch: return {.text = scratch(x.arg.i)};
      case Inst::Load: return load(x);
      case Inst::Prefetch: prefetch(x); return {};
      case Inst::Store: store(x); return {};
      case Inst::MatrixDot: matrix_dot(position, x); return {};
      case Inst::MatrixItem: return matrix_row(x);
      default: ENSURE(false, "a worker of a CPU has one thread");
    }
    return {};
  }

  // --- arguments: loaded once, at the start of the function

  std::string argument(const std::string& name, const std::string& array, const std::string& type, int64_t index) {
    if (loaded_.insert(name).second) {
      out_.entry_line(name + ".at = getelementptr inbounds " + type + ", ptr %" + array + ", i64 " + number(index));
      out_.entry_line(name + " = load " + type + ", ptr " + name + ".at, align 8, !invariant.load !0");
    }
    return name;
  }

  IrValue symbol(int64_t index) {
    return {.text = argument("%symbol." + number(index), "symbols", "i64", index), .dtype = DType::I64};
  }
  std::string buffer(int64_t index) { return argument("%buffer." + number(index), "buffers", "ptr", index); }

  static IrValue part(PartValue value) {
    return {.text = value == PartValue::Index   ? "%part"
                    : value == PartValue::Count ? "%parts"
                                                : "%begins",
            .dtype = DType::I64,
            .non_negative = true};
  }

  std::string scratch(int64_t offset) {
    if (offset == 0) return "%scratch";
    return out_.emit("getelementptr inbounds i8, ptr %scratch, i64 " + number(offset));
  }

  // --- memory

  // Follows a memory instruction: how it may be reordered.
  std::string access(const Instruction& x) const {
    int buffer = buffer_of(x);
    if (buffer < 0) return ", align 1";
    bool invariant = x.kind == Inst::Load && !is_of_stream(x) && !is_stored(buffer);
    return ", align 1" + metadata_.access(buffer) + (invariant ? ", !invariant.load !0" : "");
  }

  // Of a load or store. Lanes are widened one by one, where they meet a pointer.
  IrValue offset_of(const Instruction& x) {
    const IrValue& offset = value(AccessView(x).offset);
    const bool is_narrow_vector = offset.lanes > 1 && offset.dtype == DType::I32;
    return is_narrow_vector ? offset : render_cast(out_, offset, DType::I64, machine_);
  }

  std::string address(const std::string& pointer, const std::string& offset, DType dtype = DType::I64) {
    return out_.emit("getelementptr inbounds i8, ptr " + pointer + ", " + ir_type(dtype, 1) + " " + offset);
  }

  std::string lane_of(const IrValue& x, int lane) {
    return out_.emit("extractelement " + ir_type(x.dtype, x.lanes) + " " + x.text + ", i64 " + number(lane));
  }

  IrValue load(const Instruction& x) {
    const IrValue offset = offset_of(x);
    if (offset.lanes > 1) return gather(x, offset);
    std::string at = address(value(AccessView(x).pointer).text, offset.text);
    // LLVM moves loads for the sake of registers, by some lines, which costs a third of the speed of a stream:
    // measured 25 instead of 34 GB/s a core. Volatile ones stay.
    return from_memory(x, out_.emit(std::string(is_of_stream(x) ? "load volatile " : "load ") +
                                    ir_memory_type(x.dtype, x.lanes) + ", ptr " + at + access(x)));
  }

  // One load a lane: hardware gathers are no faster, and this serves every width.
  IrValue gather(const Instruction& x, const IrValue& offset) {
    std::string type = ir_memory_type(x.dtype, x.lanes), element = ir_memory_type(x.dtype, 1), result = "poison";
    for (int lane = 0; lane < x.lanes; ++lane) {
      std::string at = address(value(AccessView(x).pointer).text, lane_of(offset, lane), offset.dtype);
      std::string loaded = out_.emit("load " + element + ", ptr " + at + access(x));
      result =
          out_.emit("insertelement " + type + " " + result + ", " + element + " " + loaded + ", i64 " + number(lane));
    }
    return from_memory(x, result);
  }

  // Plain arithmetic on the address: it may leave the buffer. What lies ahead of a load is reached from the address of
  // the load: else LLVM keeps an address register for each hint.
  void prefetch(const Instruction& x) {
    out_.declare("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)");
    const auto plain = [&](const std::string& from, const std::string& bytes) {
      return out_.emit("getelementptr i8, ptr " + from + ", i64 " + bytes);
    };
    const AccessView access(x);
    const std::string pointer = value(access.pointer).text, offset = value(access.offset).text;
    const std::string at = x.arg.i ? plain(address(pointer, offset), number(x.arg.i)) : plain(pointer, offset);
    // What is read as soon as that goes into the first level; the rest would be pushed out of it, and goes into the
    // second.
    const char* level = x.arg.i > 0 && x.arg.i <= kNearBytes ? "3" : "2";
    out_.line("call void @llvm.prefetch.p0(ptr " + at + ", i32 0, i32 " + level + ", i32 1)");
  }

  void store(const Instruction& x) {
    IrValue stored = out_.widen(value(StoreInstView(x).value), x.lanes);
    if (x.dtype == DType::Bool) stored = render_cast(out_, stored, DType::U8, machine_);
    const IrValue offset = offset_of(x);
    if (offset.lanes > 1) return scatter(x, offset, stored);
    std::string at = address(value(AccessView(x).pointer).text, offset.text);
    out_.line("store " + ir_memory_type(x.dtype, x.lanes) + " " + stored.text + ", ptr " + at + access(x));
  }

  void scatter(const Instruction& x, const IrValue& offset, const IrValue& stored) {
    for (int lane = 0; lane < x.lanes; ++lane) {
      std::string at = address(value(AccessView(x).pointer).text, lane_of(offset, lane), offset.dtype);
      out_.line("store " + ir_memory_type(x.dtype, 1) + " " + lane_of(stored, lane) + ", ptr " + at + access(x));
    }
  }

  // --- products of matrices

  void matrix_dot(int position, const Instruction& x) {
    const MatrixShape shape = matrix_shape(x);
    const auto pointer = [&](size_t k) { return matrix_address(value(x.src[k]), value(x.src[k + 1])); };
    const MatrixOperands operands{pointer(0), pointer(2)};
    const auto tiles = tiles_.of(shape);
    const std::string c = "%matrix." + number(position);
    if (!tiles) {
      rows_[position] = render_row_sums(out_, shape, operands, c, machine_);
      return;
    }
    out_.entry_line(c + " = alloca [" + number(kMatrixRowBytes * shape.items()) + " x i8], align 64");
    render_tile_product(out_, *tiles, shape, operands, c);
  }

  std::string matrix_address(const IrValue& pointer, const IrValue& offset) {
    return out_.emit("getelementptr inbounds i8, ptr " + pointer.text + ", i64 " + offset.text);
  }

  IrValue matrix_row(const Instruction& x) {
    const int product = only_operand(x);
    if (const auto rows = rows_.find(product); rows != rows_.end()) return rows->second[static_cast<size_t>(x.arg.i)];
    const std::string at = address("%matrix." + number(product), number(kMatrixRowBytes * x.arg.i));
    return out_.emit(x.dtype, x.lanes, "load " + ir_type(x.dtype, x.lanes) + ", ptr " + at + ", align 64");
  }

  // --- the whole

  std::string module() const {
    std::string text = preamble();
    text += "define void @" + program_.name +
            "(ptr noalias nocapture readonly %buffers, ptr noalias nocapture readonly %symbols, "
            "i64 %part, i64 %parts, ptr noalias nocapture align 64 %scratch, i64 %begins) "
            "#0 {\n";
    text += out_.entry() + "  br label %body\nbody:\n" + out_.body() + "  ret void\n}\n";
    text +=
        "attributes #0 = { mustprogress nounwind \"no-trapping-math\"=\"true\" "
        "\"prefer-vector-width\"=\"" +
        number(8 * machine_.vector_bytes) + "\" }\n";
    return text + metadata_.text();
  }

  TileRegisters tiles_;
  std::map<int, std::vector<IrValue>> rows_;  // by position: of products that are sums of words
  std::set<std::string> loaded_;              // arguments that the entry already loads
};

}  // namespace

std::string render_llvm(const Program& program, const Machine& machine) {
  std::string problem = problem_of(program);
  ENSURE(problem.empty(), "[render] " + program.name + ": " + problem);
  return CpuRenderer(program, machine).render();
}

}  // namespace smelt
