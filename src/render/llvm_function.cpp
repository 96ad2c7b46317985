#include "render/llvm_function.h"

#include <optional>

#include "codegen/instruction_views.h"
#include "render/llvm_ops.h"

namespace smelt {
namespace {

std::string number(int64_t value) { return std::to_string(value); }

}  // namespace

FunctionRenderer::FunctionRenderer(const Program& program, const Machine& machine)
    : program_(program),
      machine_(machine),
      bounds_(known_bounds(program, true)),
      metadata_(program.buffers),
      values_(program.code.size()),
      readers_(program.code.size()),
      dots_from_(program.code.size(), -1) {
  for (size_t i = 0; i < program.code.size(); ++i) {
    const Instruction& instruction = program.code[i];
    if (instruction.kind == Inst::Store) stored_.insert(buffer_of(instruction));
    for (int src : instruction.src) ++readers_[static_cast<size_t>(src)];
    if (instruction.op == Op::Dot4) dots_from_[static_cast<size_t>(instruction.src[0])] = static_cast<int>(i);
  }
}

void FunctionRenderer::render_body() {
  for (size_t i = 0; i < program_.code.size(); ++i) {
    out_.set_position(static_cast<int>(i));
    instruction(static_cast<int>(i), program_.code[i]);
  }
}

std::string FunctionRenderer::preamble() const {
  std::string text;
  for (size_t i = 0; i < out_.constants().size(); ++i)
    text += "@table." + number(static_cast<int64_t>(i)) + " = private unnamed_addr constant " + out_.constants()[i] +
            ", align 64\n";
  for (const std::string& declaration : out_.declarations()) text += declaration + "\n";
  return text;
}

void FunctionRenderer::instruction(int position, const Instruction& x) {
  IrValue& result = values_[static_cast<size_t>(position)];
  switch (x.kind) {
    case Inst::Value: result = elementwise(position, x); break;
    case Inst::LaneIndex: result = lane_index(x); break;
    case Inst::LaneReduce: result = render_lane_reduce(out_, x.op, value(only_operand(x)), machine_); break;
    case Inst::Loop: result = begin_loop(position, x); break;
    case Inst::EndLoop: end_loop(only_operand(x)); break;
    case Inst::Acc: result = accumulator(position, x); break;
    case Inst::AccGet: result = get(x); break;
    case Inst::AccSet: write(value(AccSetView(x).acc), value(AccSetView(x).value)); break;
    case Inst::Symbol:
    case Inst::Part:
    case Inst::ThreadIndex:
    case Inst::Buffer:
    case Inst::Scratch:
    case Inst::Load:
    case Inst::Prefetch:
    case Inst::Fetch:
    case Inst::Await:
    case Inst::Store:
    case Inst::Copy:
    case Inst::CopyGroup:
    case Inst::CopyWait:
    case Inst::BulkCopy:
    case Inst::SignalInit:
    case Inst::SignalWait:
    case Inst::Shuffle:
    case Inst::WarpItem:
    case Inst::Barrier:
    case Inst::MatrixDot:
    case Inst::MatrixItem: result = machine_instruction(position, x); break;
  }
}

IrValue FunctionRenderer::elementwise(int position, const Instruction& x) {
  if (x.op == Op::Dot4) return sum_of_products(position, x);
  IrValue result = render_value(out_, x, operands(x), machine_, never_wraps(x, program_, bounds_));
  if (is_signed_int(x.dtype) && bounds_[static_cast<size_t>(position)].min >= 0) result.non_negative = true;
  return result;
}

IrValue FunctionRenderer::sum_of_products(int position, const Instruction& x) {
  const auto before = open_.extract(x.src[0]);
  OpenSum open = before ? before.mapped() : OpenSum{.sum = widened(x, 0)};
  const IrValue left = widened(x, 1), right = widened(x, 2);
  const int64_t fit = pairs_that_fit(x.arg.i, x.lanes, machine_);
  if (fit <= 1) {
    const bool shares_y = readers_[static_cast<size_t>(x.src[2])] > 1;
    return render_dot4(out_, open.sum, left, right, x.arg.i, machine_, shares_y);
  }
  add_pairs(out_, open.more, left, right, machine_);
  if (open.more.count == fit || !goes_on(position)) return add_up(out_, open.sum, open.more, machine_);
  open_.insert({position, std::move(open)});
  return {};
}

// Whether another sum of such products starts from this one.
bool FunctionRenderer::goes_on(int position) const {
  const int next = dots_from_[static_cast<size_t>(position)];
  if (next < 0 || readers_[static_cast<size_t>(position)] > 1) return false;
  return code(next).lanes == code(position).lanes && code(next).arg.i == code(position).arg.i;
}

IrValue FunctionRenderer::widened(const Instruction& x, size_t operand) {
  return out_.widen(value(x.src[operand]), x.lanes);
}

std::vector<IrValue> FunctionRenderer::operands(const Instruction& x) const {
  std::vector<IrValue> result;
  for (int src : x.src) result.push_back(value(src));
  return result;
}

IrValue FunctionRenderer::lane_index(const Instruction& x) {
  if (x.lanes == 1) return ir_int(0, x.dtype);
  std::string element = ir_type(x.dtype, 1), text = "<";
  for (int lane = 0; lane < x.lanes; ++lane) text += (lane ? ", " : "") + element + " " + number(lane);
  return {.text = text + ">", .dtype = x.dtype, .lanes = x.lanes, .is_constant = true, .non_negative = true};
}

int FunctionRenderer::buffer_of(const Instruction& x) const {
  const Instruction& pointer = code(AccessView(x).pointer);
  return pointer.kind == Inst::Buffer ? static_cast<int>(pointer.arg.i) : -1;
}

IrValue FunctionRenderer::from_memory(const Instruction& x, const std::string& loaded) {
  IrValue result{.text = loaded, .dtype = x.dtype, .lanes = x.lanes};
  if (x.dtype != DType::Bool) return result;
  result.dtype = DType::U8;
  return render_cast(out_, result, DType::Bool, machine_);
}

// --- loops: the test stands at the end, where the optimiser wants it, and once before the first
// round

IrValue FunctionRenderer::begin_loop(int position, const Instruction& x) {
  const LoopView loop(x);
  std::string name = "loop." + number(position), begin = value(loop.begin).text, end = value(loop.end).text;
  const std::string type = ir_type(x.dtype, 1);
  const std::string mine = runs(x);
  if (always_runs(x) && mine.empty()) {
    out_.line("br label %" + name + ".enter");
  } else {
    std::string any = out_.emit("icmp slt " + type + " " + begin + ", " + end);
    if (!mine.empty()) any = out_.emit("and i1 " + any + ", " + mine);
    out_.line("br i1 " + any + ", label %" + name + ".enter, label %" + name + ".exit");
  }
  out_.label(name + ".enter");
  if (has_one_round(x, bounds_)) return ir_int(0, x.dtype);
  out_.line("br label %" + name);
  out_.label(name);
  out_.line("%i" + number(position) + " = phi " + type + " [ " + begin + ", %" + name + ".enter ], [ %i" +
            number(position) + ".next, %" + name + ".latch ]");
  return {.text = "%i" + number(position), .dtype = x.dtype, .non_negative = value(loop.begin).non_negative};
}

bool FunctionRenderer::always_runs(const Instruction& x) const {
  const LoopView loop(x);
  return bounds(loop.begin).max < bounds(loop.end).min;
}

void FunctionRenderer::end_loop(int position) {
  std::string name = "loop." + number(position), index = "%i" + number(position);
  const std::string type = ir_type(code(position).dtype, 1);
  if (has_one_round(code(position), bounds_)) {
    out_.line("br label %" + name + ".exit");
    return out_.label(name + ".exit");
  }
  out_.line("br label %" + name + ".latch");
  out_.label(name + ".latch");
  out_.line(index + ".next = add nsw " + type + " " + index + ", 1");
  std::string more = out_.emit("icmp slt " + type + " " + index + ".next, " + value(LoopView(code(position)).end).text);
  out_.line("br i1 " + more + ", label %" + name + ", label %" + name + ".exit" + metadata_.loop());
  out_.label(name + ".exit");
}

// --- accumulators: variables on the stack, which the optimiser turns into registers

IrValue FunctionRenderer::accumulator(int position, const Instruction& x) {
  IrValue result{.text = "%acc." + number(position), .dtype = x.dtype, .lanes = x.lanes};
  out_.entry_line(result.text + " = alloca " + ir_type(x.dtype, x.lanes));
  write(result, value(only_operand(x)));
  return result;
}

IrValue FunctionRenderer::get(const Instruction& x) {
  const IrValue& acc = value(only_operand(x));
  return out_.emit(acc.dtype, acc.lanes, "load " + ir_type(acc.dtype, acc.lanes) + ", ptr " + acc.text);
}

void FunctionRenderer::write(const IrValue& acc, const IrValue& x) {
  std::string wide = out_.widen(x, acc.lanes).text;
  out_.line("store " + ir_type(acc.dtype, acc.lanes) + " " + wide + ", ptr " + acc.text);
}

}  // namespace smelt
