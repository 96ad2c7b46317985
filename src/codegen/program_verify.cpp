#include "codegen/program_verify.h"

#include <algorithm>
#include <cctype>

#include "codegen/instruction_views.h"
#include "codegen/program_text.h"

namespace smelt {
namespace {

bool is_pointer(Inst kind) { return kind == Inst::Buffer || kind == Inst::Scratch; }

// Each check returns what is wrong, or "".
class Verifier {
 public:
  explicit Verifier(const Program& program) : program_(program) {}

  std::string run() {
    if (!is_name(program_.name)) return "name '" + program_.name + "' is not an identifier";
    if (program_.threads != 1 && (program_.threads < kWarp || program_.threads % kWarp != 0))
      return "a block of " + std::to_string(program_.threads) + " threads is not one of whole warps";
    for (size_t i = 0; i < program_.code.size(); ++i) {
      const Instruction& x = program_.code[i];
      std::string problem = check(static_cast<int>(i), x);
      if (!problem.empty()) return print_instruction(program_, static_cast<int>(i)) + ": " + problem;
      enter(static_cast<int>(i), x);
    }
    return open_.empty() ? "" : "loop %" + std::to_string(open_.back()) + " has no end";
  }

 private:
  static bool is_name(const std::string& name) {
    auto is_letter = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
    return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
           std::all_of(name.begin(), name.end(), is_letter);
  }

  const Instruction& code(int position) const { return program_.code[static_cast<size_t>(position)]; }
  DType dtype(const Instruction& x, size_t src) const { return code(x.src[src]).dtype; }
  int lanes(const Instruction& x, size_t src) const { return code(x.src[src]).lanes; }

  // --- where values may be used

  // A value lives until the loop that it was made in ends; a loop's index lives in that loop.
  void enter(int position, const Instruction& x) {
    if (x.kind == Inst::EndLoop) open_.pop_back();
    if (x.kind == Inst::Loop) open_.push_back(position);
    scope_.push_back(open_.empty() ? -1 : open_.back());
  }

  // How many threads run the open loops; 0: all.
  int64_t threads_here() const {
    int64_t threads = 0;
    for (int loop : open_) threads = std::max(threads, LoopView(code(loop)).threads);
    return threads;
  }

  bool in_scope(int position) const {
    int scope = scope_[static_cast<size_t>(position)];
    return scope < 0 || std::find(open_.begin(), open_.end(), scope) != open_.end();
  }

  std::string check_operands(int position, const Instruction& x) const {
    for (int src : x.src) {
      std::string name = "%" + std::to_string(src);
      if (src < 0 || src >= position) return name + " is not an earlier instruction";
      if (!has_value(code(src).kind)) return name + " has no value";
      if (x.kind != Inst::EndLoop && !in_scope(src)) return name + " belongs to a loop that has ended";
    }
    return "";
  }

  // --- one instruction

  std::string check(int position, const Instruction& x) const {
    if (x.lanes < 1) return "lanes must be positive";
    if (x.lanes > 1 && is_block()) return "the values of threads are scalars";
    std::string problem = check_operands(position, x);
    if (problem.empty()) problem = check_count(x);
    if (problem.empty()) problem = check_kinds(x);
    return problem.empty() ? check_kind(x) : problem;
  }

  bool is_block() const { return program_.threads > 1; }

  static int operand_count(const Instruction& x) {
    switch (x.kind) {
      case Inst::Value: return arity_of(x.op);
      case Inst::Symbol:
      case Inst::Part:
      case Inst::LaneIndex:
      case Inst::ThreadIndex:
      case Inst::Buffer:
      case Inst::Await:
      case Inst::CopyGroup:
      case Inst::CopyWait:
      case Inst::Barrier:
      case Inst::Scratch: return 0;
      case Inst::LaneReduce:
      case Inst::Shuffle:
      case Inst::WarpItem:
      case Inst::MatrixItem:
      case Inst::EndLoop:
      case Inst::Acc:
      case Inst::AccGet: return 1;
      case Inst::Load:
      case Inst::Prefetch:
      case Inst::Fetch:
      case Inst::Loop:
      case Inst::AccSet: return 2;
      case Inst::Store: return 3;
      case Inst::Copy: return 4;
      case Inst::BulkCopy: return 6;
      case Inst::SignalInit: return 2;
      case Inst::SignalWait: return 3;
      case Inst::MatrixDot: return is_in_fragments(x) ? static_cast<int>(x.src.size()) : 4;  // those are counted below
    }
    return -1;
  }

  std::string check_count(const Instruction& x) const {
    int wanted = operand_count(x);
    if (static_cast<int>(x.src.size()) == wanted) return "";
    const bool takes_predicate = x.kind == Inst::Store || x.kind == Inst::Copy || x.kind == Inst::BulkCopy ||
                                 x.kind == Inst::Fetch || x.kind == Inst::SignalInit || x.kind == Inst::Await;
    if (takes_predicate && static_cast<int>(x.src.size()) == wanted + 1 && is_block()) return "";
    return std::to_string(wanted) + " operands are wanted";
  }

  // Pointers, accumulators and products of matrices are not values: each has its one place.
  std::string check_kinds(const Instruction& x) const {
    for (size_t i = 0; i < x.src.size(); ++i) {
      Inst kind = code(x.src[i]).kind;
      bool wants_pointer =
          ((x.kind == Inst::Load || x.kind == Inst::Prefetch || x.kind == Inst::Fetch || x.kind == Inst::Store) &&
           i == 0) ||
          (x.kind == Inst::Copy && (i == 0 || i == 2)) || (x.kind == Inst::BulkCopy && i % 2 == 0 && i < 6) ||
          ((x.kind == Inst::SignalInit || x.kind == Inst::SignalWait) && i == 0) ||
          (x.kind == Inst::MatrixDot && is_address_of_product(x, i));
      bool wants_acc = (x.kind == Inst::AccGet || x.kind == Inst::AccSet) && i == 0;
      if (is_pointer(kind) != wants_pointer) return wants_pointer ? "no pointer" : "a pointer is not a value";
      if ((kind == Inst::Acc) != wants_acc) return wants_acc ? "no accumulator" : "an accumulator is read by get";
      if ((kind == Inst::MatrixDot) != (x.kind == Inst::MatrixItem))
        return x.kind == Inst::MatrixItem ? "no product of matrices" : "a product of matrices is read by item";
    }
    return "";
  }

  static bool is_address_of_product(const Instruction& x, size_t i) {
    return is_matrix_shape(x.arg.list) ? is_address_of_matrix(matrix_shape(x), i) : i % 2 == 0;  // it has no shape yet
  }

  std::string check_kind(const Instruction& x) const {
    switch (x.kind) {
      case Inst::Value: return check_value(x);
      case Inst::Symbol: return within(x.arg.i, static_cast<int64_t>(program_.symbols.size()), "symbols");
      case Inst::Part: return check_part(x);
      case Inst::LaneIndex: return is_int(x.dtype) ? "" : "not an integer";
      case Inst::ThreadIndex: return is_index(x.dtype) ? in_block() : "the index of a thread is i64 or i32";
      case Inst::Buffer: return within(x.arg.i, program_.buffers, "buffers");
      case Inst::Scratch: return within(x.arg.i, program_.scratch_bytes, "scratch bytes");
      case Inst::Load: return check_offset(x);
      case Inst::Prefetch: return dtype(x, 1) == DType::I64 && lanes(x, 1) == 1 ? "" : "one i64 offset is wanted";
      case Inst::Fetch: return check_fetch(x);
      case Inst::Await: return check_await(x);
      case Inst::Copy: return check_copy(x);
      case Inst::BulkCopy: return check_bulk_copy(x);
      case Inst::SignalInit: return check_signal_init(x);
      case Inst::SignalWait:
        return is_index(dtype(x, 2)) && lanes(x, 2) == 1 ? check_signal(x, 0) : "the number of a round is wanted";
      case Inst::CopyGroup: return in_block();
      case Inst::CopyWait: return groups_left(x) >= 0 ? in_block() : "a number of groups is wanted";
      case Inst::Store: return check_store(x);
      case Inst::LaneReduce: return check_lane_reduce(x);
      case Inst::Shuffle:
      case Inst::WarpItem: return check_shuffle(x);
      case Inst::Barrier:
        return threads_waiting(x) == threads_here() ? in_block() : "it waits for threads that do not come here";
      case Inst::MatrixDot: return check_matrix_dot(x);
      case Inst::MatrixItem: return check_matrix_item(x);
      case Inst::Loop: return check_loop(x);
      case Inst::EndLoop: return !open_.empty() && x.src[0] == open_.back() ? "" : "not the innermost loop";
      case Inst::Acc: return same(x, x, 0);
      case Inst::AccGet: return lanes(x, 0) == x.lanes ? same(x, x, 0) : "the accumulator has other lanes";
      case Inst::AccSet: return same(code(x.src[0]), x, 1);
    }
    return "";
  }

  static bool is_index(DType dtype) { return dtype == DType::I64 || dtype == DType::I32; }
  static std::string within(int64_t index, int64_t count, const std::string& what) {
    return index >= 0 && index < count ? "" : "there are " + std::to_string(count) + " " + what;
  }

  // Operand `src` of `user` is a value for `wanted`: its dtype, and its lanes or one.
  std::string same(const Instruction& wanted, const Instruction& user, size_t src) const {
    if (dtype(user, src) != wanted.dtype) return operand(user, src) + " has another dtype";
    return fits(wanted, user, src);
  }
  std::string fits(const Instruction& wanted, const Instruction& user, size_t src) const {
    int count = lanes(user, src);
    return count == 1 || count == wanted.lanes ? "" : operand(user, src) + " has " + std::to_string(count) + " lanes";
  }
  static std::string operand(const Instruction& x, size_t src) { return "operand %" + std::to_string(x.src[src]); }

  std::string check_offset(const Instruction& x) const {
    if (x.dtype == DType::Void) return "no dtype";
    return is_int(dtype(x, 1)) ? fits(x, x, 1) : operand(x, 1) + " is not an integer";
  }
  std::string check_part(const Instruction& x) const {
    const std::string problem = within(x.arg.i, kPartValues, "part values");
    if (!problem.empty() || !is_block() || part_value(x) != PartValue::Begins) return problem;
    return "no block begins with a part";
  }
  std::string check_fetch(const Instruction& x) const {
    if (code(x.src[0]).kind != Inst::Buffer) return "only what lies in memory is fetched";
    if (x.src.size() > 2 && dtype(x, 2) != DType::Bool) return operand(x, 2) + " is not a bool";
    return x.arg.i > 0 && x.arg.i % kFetchUnit == 0 ? "" : "a multiple of " + std::to_string(kFetchUnit) + " is wanted";
  }
  // Nothing was read, stored or passed on yet, which others might still be at. What no launch writes may be on its way
  // to on-chip memory.
  std::string check_await(const Instruction& await) const {
    if (!await.src.empty() && dtype(await, 0) != DType::Bool) return operand(await, 0) + " is not a bool";
    for (size_t i = 0; i < scope_.size(); ++i) {
      const Instruction& x = program_.code[i];
      const auto is_given = [&](int pointer) { return !code(pointer).arg.list.empty(); };
      const bool is_load = x.kind == Inst::Load && !is_given(AccessView(x).pointer),
                 is_early = x.kind == Inst::Fetch || x.kind == Inst::SignalInit || x.kind == Inst::Barrier ||
                            (x.kind == Inst::Copy && is_given(CopyView(x).from)) ||
                            (x.kind == Inst::BulkCopy && is_given(BulkCopyView(x).from));
      if (!has_value(x.kind) ? !is_early : is_load || x.kind == Inst::Loop) return "something has been done before it";
    }
    return in_block();
  }
  std::string check_copy(const Instruction& x) const {
    const CopyView view(x);
    if (code(view.from).kind != Inst::Buffer || code(view.to).kind != Inst::Scratch)
      return "only from memory to scratch memory";
    for (size_t offset : {1, 3})
      if (!is_index(dtype(x, offset))) return operand(x, offset) + " is no index";
    if (view.predicate >= 0 && dtype(x, 4) != DType::Bool) return operand(x, 4) + " is not a bool";
    return in_block();
  }
  std::string check_bulk_copy(const Instruction& x) const {
    const BulkCopyView view(x);
    if (code(view.from).kind != Inst::Buffer || code(view.to).kind != Inst::Scratch)
      return "only from memory to scratch memory";
    if (view.bytes <= 0 || view.bytes % kCopyBytes) return "a multiple of " + std::to_string(kCopyBytes) + " is wanted";
    for (size_t offset : {1, 3})
      if (!is_index(dtype(x, offset))) return operand(x, offset) + " is no index";
    if (view.predicate >= 0 && dtype(x, 6) != DType::Bool) return operand(x, 6) + " is not a bool";
    return check_signal(x, 4);
  }
  std::string check_signal_init(const Instruction& x) const {
    if (x.arg.i <= 0) return "a number of copies is wanted";
    if (x.src.size() > 2 && dtype(x, 2) != DType::Bool) return operand(x, 2) + " is not a bool";
    return check_signal(x, 0);
  }
  // Operand `src` leads to a signal.
  std::string check_signal(const Instruction& x, size_t src) const {
    if (code(x.src[src]).kind != Inst::Scratch) return "signals are in scratch memory";
    return is_index(dtype(x, src + 1)) ? in_block() : operand(x, src + 1) + " is no index";
  }
  std::string check_store(const Instruction& x) const {
    if (x.src.size() == 4 && dtype(x, 3) != DType::Bool) return operand(x, 3) + " is not a bool";
    std::string problem = check_offset(x);
    return problem.empty() ? same(x, x, 2) : problem;
  }
  std::string in_block() const { return is_block() ? "" : "a worker has one thread"; }
  std::string check_shuffle(const Instruction& x) const {
    const int64_t least = x.kind == Inst::Shuffle ? 1 : 0;
    if (x.arg.i < least || x.arg.i >= kWarp) return "a warp has " + std::to_string(kWarp) + " threads";
    if (size_of(x.dtype) != 4) return "values of 4 bytes are wanted";
    return dtype(x, 0) == x.dtype ? in_block() : operand(x, 0) + " has another dtype";
  }
  std::string check_lane_reduce(const Instruction& x) const {
    if (x.op != Op::ReduceSum && x.op != Op::ReduceMax) return "not a reduction of lanes";
    if (x.dtype == DType::Bool) return "arithmetic on bool";
    return dtype(x, 0) == x.dtype && x.lanes == 1 ? "" : "the result is one lane of the operand's dtype";
  }
  static bool is_in_fragments(const Instruction& product) {
    return is_matrix_shape(product.arg.list) && matrix_shape(product).in_fragments;
  }

  std::string check_matrix_dot(const Instruction& x) const {
    if (!is_matrix_shape(x.arg.list)) return "no shape";
    const MatrixShape shape = matrix_shape(x);
    if (x.dtype != (shape.of_halves ? DType::F32 : DType::I32)) return "sums are i32, of halves f32";
    if (shape.in_fragments) return check_words(x, shape);
    if (shape.n != x.lanes) return "no shape";
    for (size_t i : {1, 3})
      if (dtype(x, i) != DType::I64 || lanes(x, i) != 1) return "one i64 offset each is wanted";
    return "";
  }
  std::string check_words(const Instruction& x, const MatrixShape& shape) const {
    const auto count = static_cast<int64_t>(x.src.size()), words = shape.a_words() + shape.b_words();
    if (count != words && count != words + shape.sums()) return std::to_string(words) + " words are wanted";
    for (size_t i = 0; i < x.src.size(); ++i) {
      const auto at = static_cast<int64_t>(i);
      const bool is_column = shape.of_halves && at >= shape.a_words() && at < words;
      if (is_column ? at + 1 == words && !is_index(dtype(x, i)) : dtype(x, i) != (at < words ? DType::U32 : x.dtype))
        return operand(x, i) + " has another dtype";
    }
    if (!shape.of_halves) return in_block();
    const int64_t threads = threads_here() ? threads_here() : program_.threads;
    if (code(x.src[static_cast<size_t>(shape.a_words())]).kind != Inst::Scratch) return "its columns are not on chip";
    return threads % (kWarpgroupWarps * kWarp) == 0 ? in_block() : "four warps multiply together";
  }
  std::string check_matrix_item(const Instruction& x) const {
    const Instruction& product = code(x.src[0]);
    const MatrixShape shape = matrix_shape(product);
    if (x.dtype != product.dtype || x.lanes != product.lanes) return "the product has other elements";
    return within(x.arg.i, shape.items(), shape.in_fragments ? "sums" : "rows");
  }
  std::string check_loop(const Instruction& x) const {
    bool typed = is_index(x.dtype) && x.lanes == 1;
    for (size_t i = 0; i < 2; ++i) typed = typed && dtype(x, i) == x.dtype && lanes(x, i) == 1;
    if (!typed) return "the bounds and the index of a loop are single i64, or single i32";
    const int64_t threads = LoopView(x).threads;
    if (threads == 0) return "";
    const bool are_warps = threads > 0 && threads < program_.threads && threads % kWarp == 0;
    if (!are_warps) return "a loop is run by all threads, or by the first warps of them";
    return threads_here() ? "a loop of some threads is in another one" : "";
  }

  // --- elementwise ops

  std::string check_value(const Instruction& x) const {
    for (size_t i = 0; i < x.src.size(); ++i)
      if (std::string problem = fits(x, x, i); !problem.empty()) return problem;
    switch (x.op) {
      case Op::Const: return x.dtype == DType::Void ? "no dtype" : "";
      case Op::Cast: return x.dtype == DType::Void ? "no dtype" : "";
      case Op::Bitcast: return size_of(dtype(x, 0)) == size_of(x.dtype) ? "" : "sizes differ";
      case Op::Lut: return is_int(dtype(x, 0)) && !x.arg.list.empty() ? "" : "a table and an integer are wanted";
      case Op::Lut4:
        return x.dtype == DType::U32 && dtype(x, 0) == DType::U32 && !x.arg.list.empty()
                   ? ""
                   : "a table and words u32 are wanted";
      case Op::Where: return check_where(x);
      case Op::Dot4: return check_dot4(x);
      case Op::Mad16: return check_mad16(x);
      case Op::Halves:
      case Op::LessHalves:
      case Op::ScaledHalves: return check_halves(x);
      case Op::Fma: return check_fma(x);
      case Op::Lt:
      case Op::Eq: return x.dtype == DType::Bool && dtype(x, 0) == dtype(x, 1) ? "" : "compares like with like to bool";
      case Op::Shl:
      case Op::Shr: return check_shift(x);
      default: return check_arithmetic(x);
    }
  }

  std::string check_where(const Instruction& x) const {
    bool typed = dtype(x, 0) == DType::Bool && dtype(x, 1) == x.dtype && dtype(x, 2) == x.dtype;
    return typed ? "" : "a bool and two values of the result's dtype are wanted";
  }

  std::string check_mad16(const Instruction& x) const {
    bool are_words = x.dtype == DType::U32;
    for (size_t i = 0; i < 3; ++i) are_words = are_words && dtype(x, i) == DType::U32;
    return are_words ? "" : "words u32 are wanted";
  }

  std::string check_halves(const Instruction& x) const {
    const DType first = x.op == Op::Halves ? DType::F32 : DType::U32;
    const bool typed = x.dtype == DType::U32 && dtype(x, 0) == first && dtype(x, 1) == DType::F32;
    return typed ? "" : std::string(name_of(first)) + " and f32 are wanted, for a word u32";
  }

  std::string check_dot4(const Instruction& x) const {
    bool typed =
        x.dtype == DType::I32 && dtype(x, 0) == DType::I32 && dtype(x, 1) == DType::U32 && dtype(x, 2) == DType::U32;
    return typed ? "" : "an i32 and two words u32 are wanted";
  }

  std::string check_fma(const Instruction& x) const {
    const bool wide = x.dtype == DType::F32 || x.dtype == DType::F64;
    for (size_t i = 0; i < x.src.size(); ++i)
      if (dtype(x, i) != x.dtype) return operand(x, i) + " has another dtype";
    return wide ? "" : "f32 or f64 is wanted";
  }

  std::string check_shift(const Instruction& x) const {
    bool typed = is_int(x.dtype) && dtype(x, 0) == x.dtype && is_int(dtype(x, 1));
    return typed ? "" : "integers are wanted";
  }

  std::string check_arithmetic(const Instruction& x) const {
    if (!is_elementwise(x.op)) return "not an elementwise op";
    for (size_t i = 0; i < x.src.size(); ++i)
      if (dtype(x, i) != x.dtype) return operand(x, i) + " has another dtype";
    bool bits = x.op == Op::And || x.op == Op::Or || x.op == Op::Xor || x.op == Op::Not;
    bool floats = x.op == Op::Exp2 || x.op == Op::Log2 || x.op == Op::Sqrt || x.op == Op::Floor;
    if (bits) return is_float(x.dtype) ? "bitwise arithmetic on floats" : "";
    if (floats || x.op == Op::Mod) return is_float(x.dtype) == floats ? "" : "wrong dtype for this op";
    return x.dtype == DType::Bool ? "arithmetic on bool" : "";
  }

  const Program& program_;
  std::vector<int> scope_;  // by position: the innermost loop around it, -1 for none
  std::vector<int> open_;   // loops that have begun and not ended
};

}  // namespace

std::string problem_of(const Program& program) { return Verifier(program).run(); }

}  // namespace smelt
