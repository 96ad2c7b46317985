#include "render/nvptx.h"

#include "base/block_clock.h"
#include "base/ensure.h"
#include "codegen/instruction_views.h"
#include "codegen/known_multiples.h"
#include "codegen/program_verify.h"
#include "graph/matrix_shape.h"
#include "render/addresses.h"
#include "render/early_values.h"
#include "render/llvm_function.h"
#include "render/llvm_ops.h"
#include "render/special_registers.h"
#include "render/warp_reductions.h"

namespace smelt {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

// The instructions that a thread of any NVIDIA GPU has.
const Machine& machine_of_threads() {
  static const Machine machine{.parallelism = Parallelism::Threads,
                               .isa = Isa::Nvidia,
                               .byte_dot = ByteDot::Dp4a,
                               .byte_dot_bytes = 4,
                               .shuffle_bytes = 0};
  return machine;
}

class BlockRenderer : public FunctionRenderer {
 public:
  explicit BlockRenderer(const Program& program)
      : FunctionRenderer(program, machine_of_threads()),
        early_(program, bounds_, machine_, out_),
        warp_(program),
        multiples_(known_multiples(program)) {}

  std::string render() {
    if (!awaits(program_)) begin();
    render_body();
    for (const char* name : {"tid.x", "ctaid.x"}) special_function(out_, name);  // of the clocks
    std::string text = preamble();
    if (program_.scratch_bytes > 0)
      text += "@scratch = external addrspace(3) global [0 x i8], align " + number(kBufferAlign) + "\n";
    text += "define ptx_kernel void @" + program_.name + "(" + parameters() + ") #0 {\n";
    text += out_.entry() + "  br label %begin\nbegin:\n" + out_.body() + kBlockClockEnd + "}\n";
    text += "attributes #0 = { mustprogress nounwind convergent }\n";
    return text + metadata_.text();
  }

 private:
  IrValue machine_instruction(int position, const Instruction& x) override {
    switch (x.kind) {
      case Inst::Symbol: return launch_value(out_, x.arg.i);
      case Inst::Part:
      case Inst::ThreadIndex: return special_register(out_, program_, x);
      case Inst::Buffer: return {.text = "%buffer." + number(x.arg.i)};
      case Inst::Scratch: return {.text = scratch(x.arg.i)};
      case Inst::Load: return load(position, x);
      case Inst::Prefetch: return {};  // other threads compute while these wait
      case Inst::Fetch: fetch(position, x); return {};
      case Inst::Await: await(position, x); return {};
      case Inst::Store: store(position, x); return {};
      case Inst::Copy: copy(position, x); return {};
      case Inst::CopyGroup: copy_group(); return {};
      case Inst::CopyWait: copy_wait(groups_left(x)); return {};
      case Inst::BulkCopy: bulk_copy(position, x); return {};
      case Inst::SignalInit: signal_init(position, x); return {};
      case Inst::SignalWait: signal_wait(x); return {};
      case Inst::Shuffle: return warp_.is_step(position) ? IrValue{} : shuffle(x, "bfly");
      case Inst::WarpItem: return shuffle(x, "idx");
      case Inst::Barrier: barrier(x); return {};
      case Inst::MatrixDot: return matrix_dot(x);
      case Inst::MatrixItem: return matrix_item(x);
      default: ENSURE(false, "threads have no such instruction");
    }
    return {};
  }

  IrValue elementwise(int position, const Instruction& x) override {
    const auto early = early_.find(position);
    if (early) return *early;
    if (warp_.is_step(position)) return {};
    if (const WarpReduction* whole = warp_.find(position)) return reduced_by_warp(*whole);
    return is_rounded_down(x) ? rounded_down(x) : FunctionRenderer::elementwise(position, x);
  }

  // cast(floor(x)) to an integer, by one instruction: floor() alone is another one of the same slow unit.
  bool is_rounded_down(const Instruction& x) const {
    if (x.kind != Inst::Value || x.op != Op::Cast || !is_int(x.dtype) || size_of(x.dtype) > size_of(DType::I32))
      return false;
    const Instruction& from = code(only_operand(x));
    return from.kind == Inst::Value && from.op == Op::Floor && from.dtype == DType::F32;
  }
  IrValue rounded_down(const Instruction& x) {
    const std::string function = "@llvm.nvvm.f2i.rm";
    out_.declare("declare i32 " + function + "(float)");
    const IrValue from = value(only_operand(code(only_operand(x))));
    const IrValue whole = out_.emit(DType::I32, 1, "call i32 " + function + "(float " + from.text + ")");
    return render_cast(out_, whole, x.dtype, machine_);
  }

  // --- arguments

  std::string parameters() const {
    std::string text;
    for (int i = 0; i < program_.buffers; ++i)
      text += "ptr addrspace(1) noalias " + std::string(is_stored(i) ? "" : "readonly ") + "align " +
              number(kBufferAlign) + " %buffer." + number(i) + ", ";
    return text + "ptr addrspace(1) noalias readonly align 8 %symbols, " + kBlockClockParameter;
  }

  IrValue thread() { return special_register(out_, program_, {.kind = Inst::ThreadIndex, .dtype = DType::I32}); }

  std::string scratch(int64_t offset) {
    if (offset == 0) return "@scratch";
    return out_.emit("getelementptr inbounds i8, ptr addrspace(3) @scratch, i64 " + number(offset));
  }

  // --- memory

  // What is constant in an offset is added last: loads of neighbours then begin with the same address, and LLVM makes
  // one of them.
  std::string address(int pointer, int at_offset) {
    const auto [varying, constant] = split_offset(program_, at_offset);
    const IrValue& offset = value(varying);
    const std::string space = code(pointer).kind == Inst::Scratch ? "ptr addrspace(3) " : "ptr addrspace(1) ";
    const std::string at = out_.emit("getelementptr i8, " + space + value(pointer).text + ", " +
                                     ir_type(offset.dtype, 1) + " " + offset.text);
    return space + (constant == 0 ? at : out_.emit("getelementptr i8, " + space + at + ", i64 " + number(constant)));
  }
  std::string address(const Instruction& x) { return address(AccessView(x).pointer, AccessView(x).offset); }

  std::string access(const Instruction& x) const {
    const bool invariant = x.kind == Inst::Load && buffer_of(x) >= 0 && !is_stored(buffer_of(x));
    // As wide as its address is known to be aligned: anything else is taken apart.
    return ", align " + number(alignment_of(program_, x, multiples_)) + (invariant ? ", !invariant.load !0" : "");
  }

  IrValue load(int position, const Instruction& x) {
    if (const auto early = early_.find(position)) return *early;
    const std::string at = address(x);
    return from_memory(x, out_.emit("load " + ir_memory_type(x.dtype, 1) + ", " + at + access(x)));
  }

  void store(int position, const Instruction& x) {
    const StoreInstView view(x);
    IrValue stored = value(view.value);
    if (x.dtype == DType::Bool) stored = render_cast(out_, stored, DType::U8, machine_);
    where(view.predicate, "store." + number(position), [&] {
      const std::string at = address(x);
      out_.line("store " + ir_memory_type(x.dtype, 1) + " " + stored.text + ", " + at + access(x));
    });
  }

  // Lines that only threads run for which the predicate holds; -1: all do.
  template <typename Lines>
  void where(int predicate, const std::string& name, Lines lines) {
    if (predicate < 0) return lines();
    branch(predicate, name, name + ".end");
    lines_of(name, lines);
  }
  // The same for which it does not.
  template <typename Lines>
  void unless(int predicate, const std::string& name, Lines lines) {
    if (predicate < 0) return lines();
    branch(predicate, name + ".end", name);
    lines_of(name, lines);
  }
  void branch(int predicate, const std::string& to, const std::string& else_to) {
    out_.line("br i1 " + value(predicate).text + ", label %" + to + ", label %" + else_to);
  }
  template <typename Lines>
  void lines_of(const std::string& name, Lines lines) {
    out_.label(name);
    lines();
    out_.line("br label %" + name + ".end");
    out_.label(name + ".end");
  }

  // Past the first-level cache: other threads find the bytes on chip.
  void copy(int position, const Instruction& x) {
    const CopyView view(x);
    const std::string function = "@llvm.nvvm.cp.async.cg.shared.global.16";
    out_.declare("declare void " + function + "(ptr addrspace(3), ptr addrspace(1))");
    where(view.predicate, "copy." + number(position), [&] {
      const std::string to = address(view.to, view.to_offset), from = address(view.from, view.from_offset);
      out_.line("call void " + function + "(" + to + ", " + from + ")");
    });
  }
  void copy_group() {
    out_.declare("declare void @llvm.nvvm.cp.async.commit.group()");
    out_.line("call void @llvm.nvvm.cp.async.commit.group()");
  }
  void copy_wait(int64_t left) {
    out_.declare("declare void @llvm.nvvm.cp.async.wait.group(i32)");
    out_.line("call void @llvm.nvvm.cp.async.wait.group(i32 " + number(left) + ")");
  }

  // The place in shared memory that assembly wants.
  std::string shared_place(int pointer, int offset) {
    return out_.emit("ptrtoint " + address(pointer, offset) + " to i32");
  }
  void assembly(const std::string& text, const std::string& constraints, const std::string& operands) {
    out_.line("call void asm sideeffect \"" + text + "\", \"" + constraints + ",~{memory}\"(" + operands + ")");
  }

  // Each copy says itself how many bytes its signal is to wait for.
  void bulk_copy(int position, const Instruction& x) {
    const BulkCopyView view(x);
    where(view.predicate, "copy." + number(position), [&] {
      const std::string signal = shared_place(view.signal, view.signal_offset),
                        to = shared_place(view.to, view.to_offset),
                        from = out_.emit("ptrtoint " + address(view.from, view.from_offset) + " to i64");
      assembly("mbarrier.arrive.expect_tx.shared.b64 _, [$0], " + number(view.bytes) + ";", "r", "i32 " + signal);
      assembly("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], " + number(view.bytes) +
                   ", [$2];",
               "r,l,r", "i32 " + to + ", i64 " + from + ", i32 " + signal);
    });
  }

  void signal_init(int position, const Instruction& x) {
    const std::string name = "signal." + number(position), mine = thread().text;
    where(x.src.size() > 2 ? x.src[2] : -1, name + ".wanted", [&] {
      if (is_behind_await(position))  // what threads have done before
        out_.line("call void asm sideeffect \"fence.proxy.async.shared::cta;\", \"~{memory}\"()");
      const std::string is_first = out_.emit("icmp eq i32 " + mine + ", 0");
      out_.line("br i1 " + is_first + ", label %" + name + ", label %" + name + ".end");
      out_.label(name);
      assembly("mbarrier.init.shared.b64 [$0], " + number(x.arg.i) + "; fence.mbarrier_init.release.cluster;", "r",
               "i32 " + shared_place(AccessView(x).pointer, AccessView(x).offset));
      out_.line("br label %" + name + ".end");
      out_.label(name + ".end");
    });
  }

  bool is_behind_await(int position) const {
    return !awaits(program_) || std::any_of(program_.code.begin(), program_.code.begin() + position,
                                            [](const Instruction& x) { return x.kind == Inst::Await; });
  }

  // Rounds of a signal have even and odd phases.
  void signal_wait(const Instruction& x) {
    const SignalWaitView view(x);
    const IrValue& round = value(view.round);
    const std::string phase = out_.emit("and " + ir_type(round.dtype, 1) + " " + round.text + ", 1"),
                      narrow = round.dtype == DType::I32 ? phase : out_.emit("trunc i64 " + phase + " to i32");
    assembly("{ .reg .pred done; again: mbarrier.try_wait.parity.shared.b64 done, [$0], $1; @!done bra again; }", "r,r",
             "i32 " + shared_place(view.pointer, view.offset) + ", i32 " + narrow);
  }

  // A pointer to global memory is its address there.
  void fetch(int position, const Instruction& x) {
    const std::string name = "fetch." + number(position);
    std::string asks;
    if (x.src.size() > 2)
      asks = value(x.src[2]).text;
    else
      asks = out_.emit("icmp eq i32 " + thread().text + ", 0");
    out_.line("br i1 " + asks + ", label %" + name + ", label %" + name + ".end");
    out_.label(name);
    const std::string at = out_.emit("ptrtoint " + address(x) + " to i64");
    out_.line("call void asm sideeffect \"cp.async.bulk.prefetch.L2.global [$0], $1;\", \"l,r\"(i64 " + at + ", i32 " +
              number(x.arg.i) + ")");
    out_.line("br label %" + name + ".end");
    out_.label(name + ".end");
  }

  // --- other launches

  // The next launch may begin when all blocks of this one are here, or when they have waited: where some come later,
  // blocks that wait would be in their way.
  void await(int position, const Instruction& x) {
    early_.find_all();
    out_.text(kBlockClockFind);
    touch_arguments();
    if (is_eager(x)) launch_control("launch_dependents");
    launch_control("wait");
    if (!is_eager(x))
      unless(keeps_next_back(x), "await." + number(position), [&] { launch_control("launch_dependents"); });
    out_.text(kBlockClockBegin);
  }
  void begin() {
    out_.set_position(static_cast<int>(program_.code.size()));  // of no instruction
    early_.find_all();
    out_.text(std::string(kBlockClockFind) + kBlockClockBegin);
  }

  // Arguments lie in memory, and the first who reads one of a line waits for it: so one of each is read before the
  // wait. None of them is what it is compared with, as all are addresses; the branch keeps the assembler from moving
  // what was computed before to behind the wait.
  void touch_arguments() {
    constexpr int64_t kFirst = 0x210, kLine = 64;  // where the driver puts the first one on sm_90
    std::string all;
    int64_t line = -1;
    for (int64_t i = 0; i <= program_.buffers; ++i) {
      const int64_t at = (kFirst + 8 * i) / kLine;
      if (at == line) continue;
      line = at;
      const std::string name = i < program_.buffers ? "%buffer." + number(i) : "%symbols";
      const std::string address = out_.emit("ptrtoint ptr addrspace(1) " + name + " to i64"),
                        word = out_.emit("trunc i64 " + address + " to i32");
      all = all.empty() ? word : out_.emit("and i32 " + all + ", " + word);
    }
    out_.line("call void asm sideeffect \"{ .reg .pred none; setp.eq.u32 none, $0, -1; @none trap; }\", \"r\"(i32 " +
              all + ")");
  }

  void launch_control(const std::string& what) {
    out_.line("call void asm sideeffect \"griddepcontrol." + what + ";\", \"~{memory}\"()");
  }

  // --- other threads

  // `mode`: what arg.i says, bits in which a thread differs from its source, or the number of that.
  IrValue shuffle(const Instruction& x, const std::string& mode) {
    const std::string type = ir_type(x.dtype, 1), function = "@llvm.nvvm.shfl.sync." + mode + "." + suffix(x.dtype);
    out_.declare("declare " + type + " " + function + "(i32, " + type + ", i32, i32)");
    return out_.emit(x.dtype, 1,
                     "call " + type + " " + function + "(i32 -1, " + type + " " + value(only_operand(x)).text +
                         ", i32 " + number(x.arg.i) + ", i32 " + number(kWarp - 1) + ")");
  }

  // Of floats that have no sign, bits are ordered as they are.
  IrValue reduced_by_warp(const WarpReduction& whole) {
    const IrValue& x = value(whole.value);
    const bool is_of_bits = is_float(x.dtype);
    const std::string function = std::string("@llvm.nvvm.redux.sync.") + (whole.op == Op::ReduceSum ? "add"
                                                                          : is_of_bits              ? "umax"
                                                                                                    : "max");
    out_.declare("declare i32 " + function + "(i32, i32)");
    const std::string bits = is_of_bits ? out_.emit("bitcast float " + x.text + " to i32") : x.text,
                      all = out_.emit("call i32 " + function + "(i32 " + bits + ", i32 -1)");
    return {.text = is_of_bits ? out_.emit("bitcast i32 " + all + " to float") : all, .dtype = x.dtype};
  }
  static std::string suffix(DType dtype) { return is_float(dtype) ? "f32" : "i32"; }

  // --- the matrix unit of a warp

  // What a product gives: as many sums as a thread has.
  static std::string sums_type(const MatrixShape& shape) {
    const std::string sum = shape.of_halves ? "float" : "i32";
    std::string type = "{ " + sum;
    for (int64_t i = 1; i < shape.sums(); ++i) type += ", " + sum;
    return type + " }";
  }

  // The bits of a matrix descriptor but for the place: from the first eight halves of columns to the next ones, and
  // from eights of columns to the next ones, in pieces of 16 bytes; no swizzle.
  static std::string descriptor_bits(const MatrixShape& shape) {
    return number(kCoreBytes / kCoreRowBytes << 16 | shape.b_stride / kCoreRowBytes << 32);
  }

  // All steps in one piece of assembly: nobody touches registers of the unit while it works. Sums are its first
  // registers, in and out, then the words of rows, then the descriptor, which moves on from step to step.
  IrValue warpgroup_product(const Instruction& x) {
    const MatrixShape shape = matrix_shape(x);
    const int64_t sums = shape.sums(), words = shape.a_words(), columns = 2 * sums + words;
    std::string constraints, operands, all;
    for (int64_t i = 0; i < sums; ++i) constraints += "=f,", all += (i ? ", $" : "$") + number(i);
    const auto pass = [&](const std::string& constraint, const std::string& operand) {
      constraints += constraint + ",", operands += (operands.empty() ? "" : ", ") + operand;
    };
    const auto at = static_cast<size_t>(words);
    const bool adds = static_cast<int64_t>(x.src.size()) > words + shape.b_words();
    for (int64_t i = 0; i < sums; ++i)
      pass(number(i), "float " + (adds ? value(x.src[at + 2 + static_cast<size_t>(i)]).text : "0.0"));
    for (size_t i = 0; i < at; ++i) pass("r", "i32 " + value(x.src[i]).text);
    const std::string place = shared_place(x.src[at], x.src[at + 1]), wide = out_.emit("zext i32 " + place + " to i64"),
                      pieces = out_.emit("lshr i64 " + wide + ", 4"),
                      bits = out_.emit("or i64 " + pieces + ", " + descriptor_bits(shape));
    pass("l", "i64 " + bits);
    std::string text = "{ .reg .b64 columns; mov.b64 columns, $" + number(columns) + "; wgmma.fence.sync.aligned; ";
    for (int64_t step = 0; step < shape.steps(); ++step) {
      std::string row;
      for (int64_t i = 0; i < 4; ++i) row += (i ? ", $" : "$") + number(2 * sums + 4 * step + i);
      if (step > 0) text += "add.s64 columns, columns, " + number(2 * kCoreBytes / kCoreRowBytes) + "; ";
      text += "wgmma.mma_async.sync.aligned.m64n" + number(shape.n) + "k16.f32.bf16.bf16 {" + all + "}, {" + row +
              "}, columns, 1, 1, 1, 0; ";
    }
    text += "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; ";
    return {.text = out_.emit("call " + sums_type(shape) + " asm sideeffect \"" + text + "}\", \"" + constraints +
                              "~{memory}\"(" + operands + ")"),
            .dtype = x.dtype};
  }

  IrValue matrix_dot(const Instruction& x) {
    const MatrixShape shape = matrix_shape(x);
    if (shape.of_halves) return warpgroup_product(x);
    const std::string function = "@llvm.nvvm.mma.m" + number(shape.m) + "n" + number(shape.n) + "k" + number(shape.k) +
                                 (shape.a_is_signed ? ".row.col.s8.u8" : ".row.col.u8.s8");
    std::string types, operands;
    const auto pass = [&](const std::string& operand) {
      types += types.empty() ? "i32" : ", i32";
      operands += (operands.empty() ? "i32 " : ", i32 ") + operand;
    };
    for (int word : x.src) pass(value(word).text);
    if (static_cast<int64_t>(x.src.size()) == shape.a_words() + shape.b_words())
      for (int64_t i = 0; i < shape.sums(); ++i) pass("0");
    out_.declare("declare " + sums_type(shape) + " " + function + "(" + types + ")");
    return {.text = out_.emit("call " + sums_type(shape) + " " + function + "(" + operands + ")"), .dtype = x.dtype};
  }

  IrValue matrix_item(const Instruction& x) {
    const MatrixShape shape = matrix_shape(code(only_operand(x)));
    return out_.emit(x.dtype, 1,
                     "extractvalue " + sums_type(shape) + " " + value(only_operand(x)).text + ", " + number(x.arg.i));
  }

  std::string runs(const Instruction& x) override {
    if (!is_loop_of_some(x)) return "";
    return out_.emit("icmp slt i32 " + thread().text + ", " + number(LoopView(x).threads));
  }

  // Some threads wait at a barrier of their own, as others may be at that of all.
  void barrier(const Instruction& x) {
    if (shows_unit(x)) out_.line("call void asm sideeffect \"fence.proxy.async.shared::cta;\", \"~{memory}\"()");
    const int64_t threads = threads_waiting(x);
    if (threads == kWarp) {
      out_.declare("declare void @llvm.nvvm.bar.warp.sync(i32)");
      return out_.line("call void @llvm.nvvm.bar.warp.sync(i32 -1)");
    }
    if (threads > 0) {
      out_.declare("declare void @llvm.nvvm.barrier(i32, i32)");
      return out_.line("call void @llvm.nvvm.barrier(i32 1, i32 " + number(threads) + ")");
    }
    out_.declare("declare void @llvm.nvvm.barrier0()");
    out_.line("call void @llvm.nvvm.barrier0()");
  }

  EarlyValues early_;
  const WarpReductions warp_;
  const std::vector<int64_t> multiples_;  // by position
};

}  // namespace

std::string render_nvptx(const Program& program) {
  std::string problem = problem_of(program);
  ENSURE(problem.empty(), "[render] " + program.name + ": " + problem);
  return BlockRenderer(program).render();
}

}  // namespace smelt
