#include "codegen/program_text.h"

#include <charconv>

#include "codegen/instruction_views.h"
#include "graph/constants.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

std::string value_name(int position) { return "%" + std::to_string(position); }

std::string_view word_of(Inst kind) {
  switch (kind) {
    case Inst::Value: return "value";
    case Inst::Symbol: return "symbol";
    case Inst::Part: return "part";
    case Inst::LaneIndex: return "lane_index";
    case Inst::ThreadIndex: return "thread_index";
    case Inst::Buffer: return "buffer";
    case Inst::Scratch: return "scratch";
    case Inst::Load: return "load";
    case Inst::Prefetch: return "prefetch";
    case Inst::Fetch: return "fetch";
    case Inst::Await: return "await";
    case Inst::Store: return "store";
    case Inst::Copy: return "copy";
    case Inst::CopyGroup: return "copy_group";
    case Inst::CopyWait: return "copy_wait";
    case Inst::BulkCopy: return "bulk_copy";
    case Inst::SignalInit: return "signal_init";
    case Inst::SignalWait: return "signal_wait";
    case Inst::LaneReduce: return "lanes";
    case Inst::Shuffle: return "shuffle";
    case Inst::WarpItem: return "warp_item";
    case Inst::Barrier: return "barrier";
    case Inst::MatrixDot: return "matrix_dot";
    case Inst::MatrixItem: return "item";
    case Inst::Loop: return "loop";
    case Inst::EndLoop: return "end";
    case Inst::Acc: return "acc";
    case Inst::AccGet: return "get";
    case Inst::AccSet: return "set";
  }
  return "?";
}

// The shortest digits that give the same number back.
std::string float_text(double value, DType dtype) {
  char text[40];
  char* end = dtype == DType::F64 ? std::to_chars(text, text + sizeof text, value).ptr
                                  : std::to_chars(text, text + sizeof text, static_cast<float>(value)).ptr;
  return std::string(text, end);
}

std::string list_text(const std::vector<int64_t>& list) {
  std::string text = "[";
  for (size_t i = 0; i < list.size(); ++i) text += (i ? " " : "") + std::to_string(list[i]);
  return text + "]";
}

// As units are named, with the signs of the elements; in memory with the distances of rows.
std::string matrix_text(const Instruction& x) {
  if (!is_matrix_shape(x.arg.list)) return list_text(x.arg.list);
  const MatrixShape s = matrix_shape(x);
  const auto text = [](int64_t n) { return std::to_string(n); };
  const std::string shape = "m" + text(s.m) + "n" + text(s.n) + "k" + text(s.k) + " ";
  if (s.of_warpgroup()) return shape + "halves " + list_text({s.b_stride});
  if (s.of_halves) return shape + "halves " + list_text({s.a_stride, s.b_stride, s.blocks, s.block_stride, s.a_ahead});
  return shape + (s.a_is_signed ? "su" : "us") + (s.in_fragments ? "" : " " + list_text({s.a_stride, s.b_stride}));
}

std::string symbol_text(const Program& program, int64_t index) {
  bool known = index >= 0 && index < static_cast<int64_t>(program.symbols.size());
  return known ? program.symbols[static_cast<size_t>(index)] : "#" + std::to_string(index);
}

std::string part_text(PartValue value) {
  switch (value) {
    case PartValue::Index: return "index";
    case PartValue::Count: return "count";
    case PartValue::Begins: return "begins";
  }
  return "?";
}

std::string threads_text(int64_t threads) { return threads > 0 ? "threads " + std::to_string(threads) : ""; }

// What an instruction says besides its operands.
std::string argument_text(const Program& program, const Instruction& x) {
  switch (x.kind) {
    case Inst::Symbol: return symbol_text(program, x.arg.i);
    case Inst::Part: return part_text(part_value(x));
    case Inst::Buffer:
    case Inst::MatrixItem:
    case Inst::Scratch: return std::to_string(x.arg.i);
    case Inst::MatrixDot: return matrix_text(x);
    case Inst::Shuffle: return "xor " + std::to_string(x.arg.i);
    case Inst::WarpItem: return "of " + std::to_string(x.arg.i);
    case Inst::Loop: return threads_text(LoopView(x).threads);
    case Inst::Barrier: return threads_text(threads_waiting(x)) + (shows_unit(x) ? " shows unit" : "");
    case Inst::Load: return is_of_stream(x) ? "stream" : "";
    case Inst::Prefetch: return x.arg.i ? "ahead " + std::to_string(x.arg.i) : "";
    case Inst::Await: return is_eager(x) ? "eager" : "";
    case Inst::BulkCopy:
    case Inst::Fetch: return std::to_string(x.arg.i) + " bytes";
    case Inst::SignalInit: return std::to_string(x.arg.i) + " copies";
    case Inst::CopyWait: return std::to_string(groups_left(x)) + " left";
    case Inst::Value:
      if (x.op == Op::Lut || x.op == Op::Lut4) return list_text(x.arg.list);
      if (x.op == Op::ScaledHalves) return x.arg.i == kSignedBytes ? "signed" : "less " + std::to_string(x.arg.i);
      if (x.op != Op::Const) return "";
      return is_float(x.dtype) ? float_text(x.arg.f, x.dtype) : std::to_string(x.arg.i);
    default: return "";
  }
}

std::string type_text(const Instruction& x) {
  if (x.dtype == DType::Void) return "";
  return " " + std::string(name_of(x.dtype)) + (x.lanes == 1 ? "" : "x" + std::to_string(x.lanes));
}

}  // namespace

std::string print_instruction(const Program& program, int position) {
  const Instruction& x = program.code[static_cast<size_t>(position)];
  std::string text = has_value(x.kind) ? value_name(position) + " = " : "";
  bool names_op = x.kind == Inst::Value || x.kind == Inst::LaneReduce;
  text += names_op ? name_of(x.op) : word_of(x.kind);
  text += type_text(x);
  for (int src : x.src) text += " " + value_name(src);
  std::string argument = argument_text(program, x);
  return argument.empty() ? text : text + " " + argument;
}

bool awaits(const Program& program) {
  return std::any_of(program.code.begin(), program.code.end(),
                     [](const Instruction& x) { return x.kind == Inst::Await; });
}

std::string print(const Program& program) {
  std::string text = "program " + program.name + " buffers=" + std::to_string(program.buffers);
  if (!program.symbols.empty()) {
    text += " symbols=";
    for (size_t i = 0; i < program.symbols.size(); ++i) text += (i ? "," : "") + program.symbols[i];
  }
  if (program.scratch_bytes > 0) text += " scratch=" + std::to_string(program.scratch_bytes);
  if (program.threads > 1) text += " threads=" + std::to_string(program.threads);
  if (program.blocks > 0) text += " blocks=" + std::to_string(program.blocks);
  text += "\n";
  size_t depth = 1;
  for (size_t i = 0; i < program.code.size(); ++i) {
    Inst kind = program.code[i].kind;
    if (kind == Inst::EndLoop && depth > 1) --depth;
    text += std::string(2 * depth, ' ') + print_instruction(program, static_cast<int>(i)) + "\n";
    if (kind == Inst::Loop) ++depth;
  }
  return text;
}

}  // namespace smelt
