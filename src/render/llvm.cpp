#include "render/llvm.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/ensure.h"
#include "codegen/program_verify.h"
#include "render/llvm_matrix.h"
#include "render/llvm_ops.h"
#include "render/llvm_writer.h"

namespace smelt {
namespace {

// Numbered metadata at the end of the module: !0 is empty, !1 the domain of the alias scopes, then
// one scope a buffer.
class Metadata {
 public:
  explicit Metadata(int buffers) : buffers_(buffers) {
    add("!{}");
    add("distinct !{!1}");
    for (int buffer = 0; buffer < buffers; ++buffer)
      add("distinct !{!" + std::to_string(2 + buffer) + ", !1}");
    for (int buffer = 0; buffer < buffers; ++buffer)
      only_.push_back(add(scopes([&](int b) { return b == buffer; })));
    for (int buffer = 0; buffer < buffers; ++buffer)
      others_.push_back(add(scopes([&](int b) { return b != buffer; })));
  }

  // What to append to a load or store of this buffer.
  std::string access(int buffer) const {
    return ", !alias.scope " + only_[static_cast<size_t>(buffer)] + ", !noalias " +
           others_[static_cast<size_t>(buffer)];
  }

  // What to append to the backward branch of a loop: the loop has been unrolled and vectorised as
  // wanted.
  std::string loop() {
    if (hints_.empty())
      for (const char* hint :
           {"!{!\"llvm.loop.unroll.disable\"}", "!{!\"llvm.loop.vectorize.enable\", i1 false}",
            "!{!\"llvm.loop.mustprogress\"}"})
        hints_ += ", " + add(hint);
    std::string self = "!" + std::to_string(lines_.size());
    add("distinct !{" + self + hints_ + "}");
    return ", !llvm.loop " + self;
  }

  std::string text() const {
    std::string text;
    for (size_t i = 0; i < lines_.size(); ++i)
      text += "!" + std::to_string(i) + " = " + lines_[i] + "\n";
    return text;
  }

 private:
  std::string add(const std::string& line) {
    lines_.push_back(line);
    return "!" + std::to_string(lines_.size() - 1);
  }
  template <class Wanted>
  std::string scopes(Wanted wanted) const {
    std::string text;
    for (int buffer = 0; buffer < buffers_; ++buffer)
      if (wanted(buffer)) text += (text.empty() ? "!" : ", !") + std::to_string(2 + buffer);
    return "!{" + text + "}";
  }

  int buffers_;
  std::vector<std::string> lines_, only_, others_;
  std::string hints_;
};

std::string number(int64_t value) { return std::to_string(value); }

class Renderer {
 public:
  Renderer(const Program& program, const LlvmOptions& options)
      : program_(program),
        options_(options),
        metadata_(program.buffers),
        tiles_(program, options),
        values_(program.code.size()) {
    for (const Instruction& instruction : program.code)
      if (instruction.kind == Inst::Store) stored_.insert(buffer_of(instruction));
  }

  std::string render() {
    if (program_.scratch_bytes > 0)
      out_.entry_line("%scratch = alloca [" + number(program_.scratch_bytes) + " x i8], align 64");
    for (size_t i = 0; i < program_.code.size(); ++i) {
      out_.set_position(static_cast<int>(i));
      instruction(static_cast<int>(i), program_.code[i]);
    }
    if (tiles_.used()) {
      tiles_.configure(out_);
      TileRegisters::release(out_);
    }
    return module();
  }

 private:
  // --- one instruction

  void instruction(int position, const Instruction& x) {
    IrValue& result = values_[static_cast<size_t>(position)];
    switch (x.kind) {
      case Inst::Value: result = render_value(out_, x, operands(x), options_); break;
      case Inst::Symbol: result = symbol(x.arg.i); break;
      case Inst::Part: result = part(x.arg.i); break;
      case Inst::LaneIndex: result = lane_index(x); break;
      case Inst::Buffer: result.text = buffer(x.arg.i); break;
      case Inst::Scratch: result.text = scratch(x.arg.i); break;
      case Inst::Load: result = load(x); break;
      case Inst::Prefetch: prefetch(x); break;
      case Inst::Store: store(x); break;
      case Inst::LaneReduce:
        result = render_lane_reduce(out_, x.op, value(x.src[0]), options_);
        break;
      case Inst::MatrixDot: matrix_dot(position, x); break;
      case Inst::MatrixRow: result = matrix_row(x); break;
      case Inst::Loop: result = begin_loop(position, x); break;
      case Inst::EndLoop: end_loop(x.src[0]); break;
      case Inst::Acc: result = accumulator(position, x); break;
      case Inst::AccGet: result = get(x); break;
      case Inst::AccSet: set(x); break;
    }
  }

  const IrValue& value(int position) const { return values_[static_cast<size_t>(position)]; }
  const Instruction& code(int position) const {
    return program_.code[static_cast<size_t>(position)];
  }

  std::vector<IrValue> operands(const Instruction& x) const {
    std::vector<IrValue> result;
    for (int src : x.src) result.push_back(value(src));
    return result;
  }

  // --- arguments: loaded once, at the start of the function

  std::string argument(const std::string& name, const std::string& array, const std::string& type,
                       int64_t index) {
    if (loaded_.insert(name).second) {
      out_.entry_line(name + ".at = getelementptr inbounds " + type + ", ptr %" + array + ", i64 " +
                      number(index));
      out_.entry_line(name + " = load " + type + ", ptr " + name +
                      ".at, align 8, !invariant.load !0");
    }
    return name;
  }

  IrValue symbol(int64_t index) {
    return {.text = argument("%symbol." + number(index), "symbols", "i64", index),
            .dtype = DType::I64};
  }
  std::string buffer(int64_t index) {
    return argument("%buffer." + number(index), "buffers", "ptr", index);
  }

  static IrValue part(int64_t which) {
    return {.text = which == 0 ? "%part" : "%parts", .dtype = DType::I64, .non_negative = true};
  }

  std::string scratch(int64_t offset) {
    if (offset == 0) return "%scratch";
    return out_.emit("getelementptr inbounds i8, ptr %scratch, i64 " + number(offset));
  }

  IrValue lane_index(const Instruction& x) {
    if (x.lanes == 1) return ir_int(0, x.dtype);
    std::string element = ir_type(x.dtype, 1), text = "<";
    for (int lane = 0; lane < x.lanes; ++lane)
      text += (lane ? ", " : "") + element + " " + number(lane);
    return {.text = text + ">",
            .dtype = x.dtype,
            .lanes = x.lanes,
            .is_constant = true,
            .non_negative = true};
  }

  // --- memory

  // The argument that a Load or Store refers to; -1 for scratch memory.
  int buffer_of(const Instruction& x) const {
    const Instruction& pointer = code(x.src[0]);
    return pointer.kind == Inst::Buffer ? static_cast<int>(pointer.arg.i) : -1;
  }

  // Follows a memory instruction: how it may be reordered.
  std::string access(const Instruction& x) const {
    int buffer = buffer_of(x);
    if (buffer < 0) return ", align 1";
    bool invariant = x.kind == Inst::Load && !x.arg.i && !stored_.contains(buffer);
    return ", align 1" + metadata_.access(buffer) + (invariant ? ", !invariant.load !0" : "");
  }

  std::string address(const std::string& pointer, const std::string& offset) {
    return out_.emit("getelementptr inbounds i8, ptr " + pointer + ", i64 " + offset);
  }

  std::string lane_of(const IrValue& x, int lane) {
    return out_.emit("extractelement " + ir_type(x.dtype, x.lanes) + " " + x.text + ", i64 " +
                     number(lane));
  }

  IrValue from_memory(const Instruction& x, const std::string& loaded) {
    IrValue result{.text = loaded, .dtype = x.dtype, .lanes = x.lanes};
    if (x.dtype != DType::Bool) return result;
    result.dtype = DType::U8;
    return render_cast(out_, result, DType::Bool, options_);
  }

  IrValue load(const Instruction& x) {
    IrValue offset = render_cast(out_, value(x.src[1]), DType::I64, options_);
    if (offset.lanes > 1) return gather(x, offset);
    std::string at = address(value(x.src[0]).text, offset.text);
    // LLVM moves loads for the sake of registers, by some lines, which costs a third of the speed of a stream:
    // measured 25 instead of 34 GB/s a core. Volatile ones stay.
    return from_memory(x, out_.emit(std::string(x.arg.i ? "load volatile " : "load ") +
                                    ir_memory_type(x.dtype, x.lanes) + ", ptr " + at + access(x)));
  }

  // One load a lane: hardware gathers are no faster, and this serves every width.
  IrValue gather(const Instruction& x, const IrValue& offset) {
    std::string type = ir_memory_type(x.dtype, x.lanes), element = ir_memory_type(x.dtype, 1),
                result = "poison";
    for (int lane = 0; lane < x.lanes; ++lane) {
      std::string at = address(value(x.src[0]).text, lane_of(offset, lane));
      std::string loaded = out_.emit("load " + element + ", ptr " + at + access(x));
      result = out_.emit("insertelement " + type + " " + result + ", " + element + " " + loaded +
                         ", i64 " + number(lane));
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
    const std::string pointer = value(x.src[0]).text, offset = value(x.src[1]).text;
    const std::string at =
        x.arg.i ? plain(address(pointer, offset), number(x.arg.i)) : plain(pointer, offset);
    out_.line("call void @llvm.prefetch.p0(ptr " + at + ", i32 0, i32 2, i32 1)");
  }

  void store(const Instruction& x) {
    IrValue offset = render_cast(out_, value(x.src[1]), DType::I64, options_);
    IrValue stored = out_.widen(value(x.src[2]), x.lanes);
    if (x.dtype == DType::Bool) stored = render_cast(out_, stored, DType::U8, options_);
    if (offset.lanes > 1) return scatter(x, offset, stored);
    std::string at = address(value(x.src[0]).text, offset.text);
    out_.line("store " + ir_memory_type(x.dtype, x.lanes) + " " + stored.text + ", ptr " + at +
              access(x));
  }

  void scatter(const Instruction& x, const IrValue& offset, const IrValue& stored) {
    for (int lane = 0; lane < x.lanes; ++lane) {
      std::string at = address(value(x.src[0]).text, lane_of(offset, lane));
      out_.line("store " + ir_memory_type(x.dtype, 1) + " " + lane_of(stored, lane) + ", ptr " +
                at + access(x));
    }
  }

  // --- products of matrices

  void matrix_dot(int position, const Instruction& x) {
    const MatrixShape shape = matrix_shape(x.arg.list);
    const auto pointer = [&](size_t k) {
      return matrix_address(value(x.src[k]), value(x.src[k + 1]));
    };
    const MatrixOperands operands{pointer(0), pointer(2)};
    const auto tiles = tiles_.of(shape);
    if (!tiles) {
      rows_[position] = render_row_sums(out_, shape, operands, options_);
      return;
    }
    const std::string c = "%matrix." + number(position);
    out_.entry_line(c + " = alloca [" + number(64 * shape.rows) + " x i8], align 64");
    render_tile_product(out_, *tiles, shape, operands, c);
  }

  std::string matrix_address(const IrValue& pointer, const IrValue& offset) {
    return out_.emit("getelementptr inbounds i8, ptr " + pointer.text + ", i64 " + offset.text);
  }

  IrValue matrix_row(const Instruction& x) {
    if (const auto rows = rows_.find(x.src[0]); rows != rows_.end())
      return rows->second[static_cast<size_t>(x.arg.i)];
    const std::string at = address("%matrix." + number(x.src[0]), number(64 * x.arg.i));
    return out_.emit(x.dtype, x.lanes,
                     "load " + ir_type(x.dtype, x.lanes) + ", ptr " + at + ", align 64");
  }

  // --- loops: the test stands at the end, where the optimiser wants it, and once before the first
  // round

  IrValue begin_loop(int position, const Instruction& x) {
    std::string name = "loop." + number(position), begin = value(x.src[0]).text,
                end = value(x.src[1]).text;
    if (always_runs(x)) {
      out_.line("br label %" + name + ".enter");
    } else {
      std::string any = out_.emit("icmp slt i64 " + begin + ", " + end);
      out_.line("br i1 " + any + ", label %" + name + ".enter, label %" + name + ".exit");
    }
    out_.label(name + ".enter");
    out_.line("br label %" + name);
    out_.label(name);
    out_.line("%i" + number(position) + " = phi i64 [ " + begin + ", %" + name + ".enter ], [ %i" +
              number(position) + ".next, %" + name + ".latch ]");
    return {.text = "%i" + number(position),
            .dtype = DType::I64,
            .non_negative = value(x.src[0]).non_negative};
  }

  bool always_runs(const Instruction& x) const {
    std::optional<int64_t> begin = value(x.src[0]).integer, end = value(x.src[1]).integer;
    return begin && end && *begin < *end;
  }

  void end_loop(int position) {
    std::string name = "loop." + number(position), index = "%i" + number(position);
    out_.line("br label %" + name + ".latch");
    out_.label(name + ".latch");
    out_.line(index + ".next = add nsw i64 " + index + ", 1");
    std::string more =
        out_.emit("icmp slt i64 " + index + ".next, " + value(code(position).src[1]).text);
    out_.line("br i1 " + more + ", label %" + name + ", label %" + name + ".exit" +
              metadata_.loop());
    out_.label(name + ".exit");
  }

  // --- accumulators: variables on the stack, which the optimiser turns into registers

  IrValue accumulator(int position, const Instruction& x) {
    IrValue result{.text = "%acc." + number(position), .dtype = x.dtype, .lanes = x.lanes};
    out_.entry_line(result.text + " = alloca " + ir_type(x.dtype, x.lanes));
    write(result, value(x.src[0]));
    return result;
  }

  IrValue get(const Instruction& x) {
    const IrValue& acc = value(x.src[0]);
    return out_.emit(acc.dtype, acc.lanes,
                     "load " + ir_type(acc.dtype, acc.lanes) + ", ptr " + acc.text);
  }

  void set(const Instruction& x) { write(value(x.src[0]), value(x.src[1])); }

  void write(const IrValue& acc, const IrValue& x) {
    std::string wide = out_.widen(x, acc.lanes).text;
    out_.line("store " + ir_type(acc.dtype, acc.lanes) + " " + wide + ", ptr " + acc.text);
  }

  // --- the whole

  std::string module() const {
    std::string text;
    for (size_t i = 0; i < out_.constants().size(); ++i)
      text += "@table." + number(static_cast<int64_t>(i)) + " = private unnamed_addr constant " +
              out_.constants()[i] + ", align 64\n";
    for (const std::string& declaration : out_.declarations()) text += declaration + "\n";
    text += "define void @" + program_.name +
            "(ptr noalias nocapture readonly %buffers, ptr noalias nocapture readonly %symbols, "
            "i64 %part, i64 %parts) "
            "#0 {\n";
    text += out_.entry() + "  br label %body\nbody:\n" + out_.body() + "  ret void\n}\n";
    text +=
        "attributes #0 = { mustprogress nounwind \"no-trapping-math\"=\"true\" "
        "\"prefer-vector-width\"=\"" +
        number(options_.vector_bits) + "\" }\n";
    return text + metadata_.text();
  }

  const Program& program_;
  const LlvmOptions& options_;
  Metadata metadata_;
  TileRegisters tiles_;
  std::map<int, std::vector<IrValue>> rows_;  // by position: of products that are sums of words
  LlvmWriter out_;
  std::vector<IrValue> values_;   // by position
  std::set<int> stored_;          // buffers that are written to
  std::set<std::string> loaded_;  // arguments that the entry already loads
};

}  // namespace

namespace {

ByteDot dot_of(const CpuTarget& target, bool is_x86) {
  if (target.avx512_vnni || target.avx_vnni) return ByteDot::Vnni;
  if (is_x86 && (target.avx2 || target.vector_bytes == 16)) return ByteDot::Madd;
  if (target.neon_i8mm) return ByteDot::NeonI8mm;
  return target.neon_dot ? ByteDot::NeonDot : ByteDot::Plain;
}

}  // namespace

LlvmOptions llvm_options(const CpuTarget& target) {
  bool is_x86 = target.triple.starts_with("x86_64");
  bool is_arm = target.triple.starts_with("aarch64") || target.triple.starts_with("arm64");
  return {.pshufb_bytes = !is_x86         ? 0
                          : target.avx512 ? 64
                          : target.avx2   ? 32
                                          : 16,
          .neon = is_arm,
          .dot = dot_of(target, is_x86),
          .dot_bytes = is_x86 ? std::min(target.vector_bytes,
                                         target.avx512_vnni || !target.avx_vnni ? 64 : 32)
                              : 16,
          .amx_int8 = is_x86 && target.amx_int8 && !target.amx_refused,
          .f16_convert = target.f16_convert,
          .vector_bits = 8 * target.vector_bytes};
}

std::string render_llvm(const Program& program, const LlvmOptions& options) {
  std::string problem = problem_of(program);
  ENSURE(problem.empty(), "[render] " + program.name + ": " + problem);
  return Renderer(program, options).render();
}

}  // namespace smelt
