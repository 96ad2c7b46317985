#include "render/msl.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>

#include "base/ensure.h"
#include "codegen/instruction_views.h"
#include "codegen/known_bounds.h"
#include "codegen/known_multiples.h"
#include "codegen/program_verify.h"
#include "render/addresses.h"
#include "render/msl_matrix.h"
#include "render/msl_ops.h"
#include "render/simd_reductions.h"
#include "render/wide_loads.h"

namespace smelt {
namespace {

constexpr int64_t kMostLoadBytes = 16;                 // of one instruction
constexpr int64_t kMostKnownBytes = int64_t{1} << 40;  // bounds beyond that are those of an index that is loaded
constexpr size_t kMostExpressionText = 90;             // longer ones get a name

std::string number(int64_t value) { return std::to_string(value); }

// A value that has no line of its own yet: one other instruction uses it.
struct Pending {
  int position = 0;
  std::set<int> accs;  // accumulators that it reads
};

// Which buffers are read and written, as what, and how far.
struct BufferUse {
  bool is_read = false, is_written = false;
  std::set<std::string> types;
  int64_t element_bytes = 0;  // of the last one
  int64_t bytes = 0;          // 0: not known

  std::string name(int64_t index) const { return (!is_written ? "in" : !is_read ? "out" : "inout") + number(index); }
};

class KernelRenderer {
 public:
  explicit KernelRenderer(const Program& program)
      : program_(program),
        bounds_(known_bounds(program)),
        multiples_(known_multiples(program)),
        wide_(wide_loads(program, multiples_, kMostLoadBytes)),
        reductions_(simd_reductions(program)),
        values_(program.code.size()),
        uses_(program.code.size()),
        varies_(program.code.size()),
        buffers_(static_cast<size_t>(program.buffers)) {
    for (size_t i = 0; i < program.code.size(); ++i) note(i, program.code[i]);
    count_uses();
  }

  std::string render() {
    for (size_t i = 0; i < program_.code.size(); ++i) instruction(static_cast<int>(i), program_.code[i]);
    return "#include <metal_stdlib>\nusing namespace metal;\n\n" + preamble_.text() + signature() + body_ + "}\n";
  }

 private:
  const Instruction& code(int position) const { return program_.code[static_cast<size_t>(position)]; }
  const MslExpr& value(int position) const { return values_[static_cast<size_t>(position)]; }

  // --- what is known before

  void note(size_t position, const Instruction& x) {
    const auto varies = [&](int src) { return varies_[static_cast<size_t>(src)]; };
    varies_[position] = x.kind == Inst::ThreadIndex || x.kind == Inst::Shuffle || x.kind == Inst::WarpItem ||
                        x.kind == Inst::AccGet || x.kind == Inst::MatrixItem ||
                        std::any_of(x.src.begin(), x.src.end(), varies);
    if (x.kind == Inst::Load || x.kind == Inst::Store) note_access(x);
    if (x.kind == Inst::Loop) open_.push_back(static_cast<int>(position));
    if (x.kind == Inst::EndLoop) open_.pop_back();
    if (x.kind != Inst::Barrier || threads_waiting(x) == 0) return;
    for (int loop : open_)
      if (is_loop_of_some(code(loop))) barriers_of_some_.insert(loop);
  }

  // How often values become part of other text. What leads to no store is not counted, and not rendered.
  void count_uses() {
    for (size_t i = program_.code.size(); i-- > 0;)
      if (!has_value(program_.code[i].kind) || uses_[i] > 0)
        for (int src : sources_of(static_cast<int>(i))) ++uses_[static_cast<size_t>(src)];
  }
  static bool has_value(Inst kind) {
    return kind != Inst::Store && kind != Inst::Loop && kind != Inst::EndLoop && kind != Inst::Barrier &&
           kind != Inst::AccSet && kind != Inst::Acc;
  }

  bool is_dropped(int position) const {
    const Inst kind = code(position).kind;
    const bool is_pointer = kind == Inst::Buffer || kind == Inst::Scratch;
    return has_value(kind) && !is_pointer && uses_[static_cast<size_t>(position)] == 0;
  }

  // The values that the text of an instruction has in it.
  std::vector<int> sources_of(int position) const {
    const Instruction& x = code(position);
    const SimdReduction& reduction = reductions_.results[static_cast<size_t>(position)];
    if (reduction.value >= 0) return {reduction.value};
    if (x.kind == Inst::Store) {
      const StoreInstView store(x);
      std::vector<int> sources{store.value};
      if (store.predicate >= 0) sources.push_back(store.predicate);
      sources.push_back(split_offset(program_, store.offset).varying);
      return sources;
    }
    if (x.kind == Inst::EndLoop) return {};
    if (x.kind != Inst::Load) return x.src;
    const bool is_loaded_before = wide_[static_cast<size_t>(position)].first != position;
    if (is_loaded_before) return {wide_[static_cast<size_t>(position)].first};
    return {split_offset(program_, AccessView(x).offset).varying};
  }

  void note_access(const Instruction& x) {
    const AccessView at(x);
    if (code(at.pointer).kind != Inst::Buffer) return;
    BufferUse& use = buffers_[static_cast<size_t>(code(at.pointer).arg.i)];
    (x.kind == Inst::Load ? use.is_read : use.is_written) = true;
    use.types.insert(msl_memory_type(x.dtype));
    use.element_bytes = size_of(x.dtype);
    const Bounds& bounds = bounds_[static_cast<size_t>(at.offset)];
    use.bytes = std::max(use.bytes, bounds.max > INT64_MAX / 2 ? INT64_MAX : bounds.max + size_of(x.dtype));
  }

  // --- the text around the instructions

  std::string signature() const {
    std::string text = "struct " + program_.name + "_buffers {\n";
    for (int64_t i = 0; i < program_.buffers; ++i)
      text += "  " + declaration(i) + ";  //" + description(buffers_[static_cast<size_t>(i)]) + "\n";
    text += "};\n\nkernel void " + program_.name + "(\n    constant " + program_.name +
            "_buffers& buffers [[buffer(0)]],\n    constant long* symbols [[buffer(1)]],\n";
    if (program_.scratch_bytes > 0)
      text += "    threadgroup uchar* scratch [[threadgroup(0)]],  // " + number(program_.scratch_bytes) + " bytes\n";
    text +=
        "    uint thread_index [[thread_position_in_threadgroup]],\n"
        "    uint part_index [[threadgroup_position_in_grid]],\n"
        "    uint part_count [[threadgroups_per_grid]]) {\n";
    for (int64_t i = 0; i < program_.buffers; ++i)
      text += "  " + declaration(i) + " = buffers." + buffers_[static_cast<size_t>(i)].name(i) + ";\n";
    if (uses_threads_) text += "  const int thread = int(thread_index);  // of " + number(program_.threads) + "\n";
    return text;
  }

  std::string declaration(int64_t buffer) const {
    const BufferUse& use = buffers_[static_cast<size_t>(buffer)];
    return "device " + std::string(use.is_written ? "" : "const ") + "uchar* " + use.name(buffer);
  }

  // "float [at most 256]", or, of a block format, "half, uchar: at most 1152 bytes". Equal kernels of several layers
  // have one text, so it names no tensor; `smelt profile --kernel` lists those.
  static std::string description(const BufferUse& use) {
    std::string text;
    for (const std::string& type : use.types) text += (text.empty() ? " " : ", ") + type;
    if (text.empty()) return " not used";
    if (use.bytes == 0 || use.bytes > kMostKnownBytes) return text;
    if (use.types.size() > 1) return text + ": at most " + number(use.bytes) + " bytes";
    return text + " [at most " + number(use.bytes / use.element_bytes) + "]";
  }

  void line(const std::string& text) { body_ += std::string(2 * depth_, ' ') + text + "\n"; }

  // --- values: those that are used once become part of what uses them

  std::string name_of_value(int position) const { return "v" + number(position); }

  void define(int position, const MslExpr& expr) {
    line("const " + msl_type(code(position).dtype) + " " + name_of_value(position) + " = " + expr.text + ";");
    values_[static_cast<size_t>(position)] = {name_of_value(position)};
  }

  void give(int position, const MslExpr& expr) {
    std::set<int> accs = take_sources(position);
    if (code(position).kind == Inst::AccGet) accs.insert(only_operand(code(position)));
    values_[static_cast<size_t>(position)] = expr;
    const bool is_name = expr.binding == MslBinding::Atom && expr.text.find('(') == std::string::npos;
    if (is_name && accs.empty()) return;
    if (uses_[static_cast<size_t>(position)] == 1 && expr.text.size() <= kMostExpressionText)
      pending_.push_back({position, std::move(accs)});
    else
      define(position, expr);
  }

  // They are part of the text of this instruction now. Returns the accumulators that they read.
  std::set<int> take_sources(int position) {
    const std::vector<int> sources = sources_of(position);
    std::set<int> accs;
    std::erase_if(pending_, [&](const Pending& p) {
      const bool is_source = std::find(sources.begin(), sources.end(), p.position) != sources.end();
      if (is_source) accs.insert(p.accs.begin(), p.accs.end());
      return is_source;
    });
    return accs;
  }

  void define_pending(const std::function<bool(const Pending&)>& wanted) {
    std::erase_if(pending_, [&](const Pending& p) {
      if (!wanted(p)) return false;
      define(p.position, value(p.position));
      return true;
    });
  }

  void elementwise(int position, const Instruction& x) {
    std::vector<MslOperand> operands;
    for (int src : x.src) {
      const Instruction& s = code(src);
      MslOperand operand{.expr = value(src), .dtype = s.dtype};
      operand.is_non_negative = is_int(s.dtype) && bounds_[static_cast<size_t>(src)].min >= 0;
      if (is_constant(s) && !is_float(s.dtype)) operand.constant = s.arg.i;
      operands.push_back(std::move(operand));
    }
    give(position, render_msl_value(x, operands, never_wraps(x, program_, bounds_), preamble_));
  }

  // --- one instruction

  void instruction(int position, const Instruction& x) {
    const auto at = static_cast<size_t>(position);
    if (is_dropped(position)) return;
    if (reductions_.results[at].value >= 0) return reduce(position, reductions_.results[at]);
    switch (x.kind) {
      case Inst::Value: return elementwise(position, x);
      case Inst::LaneIndex: return give(position, {msl_int(0, x.dtype)});
      case Inst::LaneReduce: return give(position, value(only_operand(x)));
      case Inst::Loop: return begin_loop(position, x);
      case Inst::EndLoop: return end_loop();
      case Inst::Acc: return accumulator(position, x);
      case Inst::AccGet: return give(position, value(only_operand(x)));
      case Inst::AccSet: return set(position, x);
      case Inst::Symbol: return symbol(position, x);
      case Inst::Part:
        return give(position, msl_cast(x.dtype, {part_value(x) == PartValue::Index ? "part_index" : "part_count"}));
      case Inst::ThreadIndex: return thread_index(position, x);
      case Inst::Buffer: values_[at] = {buffers_[static_cast<size_t>(x.arg.i)].name(x.arg.i)}; return;
      case Inst::Scratch: values_[at] = {"scratch" + (x.arg.i ? " + " + number(x.arg.i) : "")}; return;
      case Inst::Load: return load(position, x);
      case Inst::Fetch:
      case Inst::Await: ENSURE(false, "launches on this GPU do not overlap"); return;
      case Inst::Copy:
      case Inst::CopyGroup:
      case Inst::BulkCopy:
      case Inst::SignalInit:
      case Inst::SignalWait:
      case Inst::CopyWait: ENSURE(false, "this GPU copies nothing by itself"); return;
      case Inst::Prefetch: return;  // other threads compute while these wait
      case Inst::Store: return store(position, x);
      case Inst::Shuffle: return shuffle(position, x, "simd_shuffle_xor");
      case Inst::WarpItem: return shuffle(position, x, "simd_shuffle");
      case Inst::Barrier: return line("threadgroup_barrier(mem_flags::mem_threadgroup);");
      case Inst::MatrixDot: return matrix_dot(position, x);
      case Inst::MatrixItem: return give(position, {value(only_operand(x)).text + "." + "xyzw"[x.arg.i]});
    }
  }

  void symbol(int position, const Instruction& x) {
    const std::string& name = program_.symbols[static_cast<size_t>(x.arg.i)];
    give(position, {"symbols[" + number(x.arg.i) + "] /* " + name + " */"});
  }

  void thread_index(int position, const Instruction& x) {
    uses_threads_ = true;
    values_[static_cast<size_t>(position)] = x.dtype == DType::I32 ? MslExpr{"thread"} : msl_cast(x.dtype, {"thread"});
  }

  // --- memory

  bool is_on_chip(const Instruction& x) const { return code(AccessView(x).pointer).kind == Inst::Scratch; }

  std::string pointer_type(const Instruction& x, const std::string& element) const {
    if (is_on_chip(x)) return "threadgroup " + std::string(x.kind == Inst::Load ? "const " : "") + element + "*";
    const bool is_const = !buffers_[static_cast<size_t>(code(AccessView(x).pointer).arg.i)].is_written;
    return "device " + std::string(is_const ? "const " : "") + element + "*";
  }

  // What is constant in an offset comes last, as one number.
  std::string address(const Instruction& x, int64_t further = 0) const {
    const AccessView view(x);
    SplitOffset at = split_offset(program_, view.offset);
    at.constant += further + (is_on_chip(x) ? code(view.pointer).arg.i : 0);
    std::string text = is_on_chip(x) ? "scratch" : value(view.pointer).text;
    if (is_constant(code(at.varying)))
      at.constant += code(at.varying).arg.i;
    else
      text += " + " + value(at.varying).in(MslBinding::Sum);
    if (at.constant != 0) text += (at.constant < 0 ? " - " : " + ") + number(std::abs(at.constant));
    return text.find(' ') == std::string::npos ? text : "(" + text + ")";
  }

  // An element whose address is less aligned than its size is made of parts.
  std::string unaligned(const Instruction& x, int64_t alignment) const {
    const int64_t parts = size_of(x.dtype) / alignment;
    const std::string part = alignment == 1 ? "uchar" : alignment == 2 ? "ushort" : "uint";
    const auto piece = [&](int64_t at, int64_t count) {
      const std::string vector = part + number(count);
      return vector + "(*(" + pointer_type(x, "packed_" + vector) + ")" + address(x, at) + ")";
    };
    const std::string type = "as_type<" + msl_memory_type(x.dtype) + ">(";
    if (parts <= 4) return type + piece(0, parts) + ")";
    return type + "uint2(as_type<uint>(" + piece(0, 4) + "), as_type<uint>(" + piece(4, 4) + ")))";
  }

  void load(int position, const Instruction& x) {
    const WideLoad& wide = wide_[static_cast<size_t>(position)];
    if (wide.count > 1) return load_part(position, x, wide);
    const int64_t alignment = alignment_of(program_, x, multiples_);
    MslExpr loaded =
        alignment < size_of(x.dtype)
            ? MslExpr{unaligned(x, alignment)}
            : MslExpr{"*(" + pointer_type(x, msl_memory_type(x.dtype)) + ")" + address(x), MslBinding::Unary};
    if (x.dtype == DType::Bool) loaded = msl_binary(loaded, "!=", {"0"}, MslBinding::Equality);
    if (is_guarded(x)) loaded = {mine() + " ? " + loaded.text + " : " + zero(x.dtype), MslBinding::Choice};
    take_sources(position);
    define(position, loaded);
  }

  void load_part(int position, const Instruction& x, const WideLoad& wide) {
    const std::string name = name_of_value(wide.first);
    if (wide.first == position) {
      const std::string type = msl_memory_type(x.dtype) + number(wide.count);
      const int64_t mine_at = split_offset(program_, AccessView(x).offset).constant;
      std::string text = "*(" + pointer_type(x, type) + ")" + address(x, wide_start(x, wide) - mine_at);
      if (is_guarded(x)) text = mine() + " ? " + text + " : " + type + "(0)";
      line("const " + type + " " + name + " = " + text + ";");
    }
    take_sources(position);
    const MslExpr element{name + "." + "xyzw"[wide.element]};
    values_[static_cast<size_t>(position)] =
        x.dtype == DType::Bool ? msl_binary(element, "!=", {"0"}, MslBinding::Equality) : element;
  }

  // A constant offset as a whole is counted by wide_loads().
  int64_t wide_start(const Instruction& x, const WideLoad& wide) const {
    const int varying = split_offset(program_, AccessView(x).offset).varying;
    return wide.constant - (is_constant(code(varying)) ? code(varying).arg.i : 0);
  }

  static std::string zero(DType dtype) { return is_float(dtype) ? msl_float(0, dtype) : msl_int(0, dtype); }

  void store(int position, const Instruction& x) {
    const StoreInstView view(x);
    MslExpr stored = value(view.value);
    if (x.dtype == DType::Bool) stored = msl_cast(DType::U8, stored);
    const std::string condition = join(is_guarded_store() ? mine() : "", view.predicate);
    const int64_t alignment = alignment_of(program_, x, multiples_), size = size_of(x.dtype);
    const std::string head = condition.empty() ? "" : "if (" + condition + ") ";
    take_sources(position);
    if (alignment >= size) {
      const std::string to = "*(" + pointer_type(x, msl_memory_type(x.dtype)) + ")" + address(x);
      return line(head + to + " = " + stored.text + ";");
    }
    store_unaligned(x, stored, alignment, head);
  }

  std::string join(const std::string& guard, int predicate) const {
    if (predicate < 0) return guard;
    return guard.empty() ? value(predicate).text : guard + " && " + value(predicate).in(MslBinding::Logic);
  }

  // Element by element of a vector of smaller ones.
  void store_unaligned(const Instruction& x, const MslExpr& stored, int64_t alignment, const std::string& head) {
    const int64_t parts = std::min<int64_t>(size_of(x.dtype) / alignment, 4), bytes = size_of(x.dtype) / parts;
    const std::string part = bytes == 1 ? "uchar" : bytes == 2 ? "ushort" : "uint";
    const std::string vector = part + number(parts), value = "as_type<" + vector + ">(" + stored.text + ")";
    if (bytes == alignment)
      return line(head + "*(" + pointer_type(x, "packed_" + vector) + ")" + address(x) + " = " + value + ";");
    const std::string name = "stored" + number(next_name_++), small = alignment == 1 ? "uchar2" : "ushort2";
    line("const " + vector + " " + name + " = " + value + ";");
    for (int64_t i = 0; i < parts; ++i)
      line(head + "*(" + pointer_type(x, "packed_" + small) + ")" + address(x, i * bytes) + " = as_type<" + small +
           ">(" + name + "." + "xyzw"[i] + ");");
  }

  // --- other threads

  void shuffle(int position, const Instruction& x, const std::string& function) {
    take_sources(position);
    define(position, {function + "(" + value(only_operand(x)).text + ", " + number(x.arg.i) + ")"});
  }

  void reduce(int position, const SimdReduction& reduction) {
    take_sources(position);
    const std::string function = reduction.op == Op::ReduceMax ? "simd_max(" : "simd_sum(";
    define(position, {function + value(reduction.value).text + ")"});
  }

  void matrix_dot(int position, const Instruction& x) {
    const MatrixShape shape = matrix_shape(x);
    const std::string function = msl_matrix_product(shape, preamble_), type = msl_sums_type(shape);
    const auto words = static_cast<size_t>(shape.a_words() + shape.b_words());
    std::string text, sums;
    for (size_t i = 0; i < x.src.size(); ++i)
      (i < words ? text : sums) += value(x.src[i]).text + (i < words || i + 1 < x.src.size() ? ", " : "");
    uses_threads_ = true;
    take_sources(position);
    line("const " + type + " " + name_of_value(position) + " = " + function + "(" + text + type + "(" +
         (sums.empty() ? "0" : sums) + "), thread);");
    values_[static_cast<size_t>(position)] = {name_of_value(position)};
  }

  // --- loops. One that only the first threads run is run by all where they wait in it, as all must come to a barrier:
  // then the others neither load nor store.

  bool is_guarded(const Instruction& x) const {
    return guard_ > 0 && varies_[static_cast<size_t>(AccessView(x).offset)];
  }
  bool is_guarded_store() const { return guard_ > 0; }
  std::string mine() const { return "thread < " + number(guard_); }

  void begin_loop(int position, const Instruction& x) {
    const LoopView loop(x);
    define_pending(
        [&](const Pending& p) { return !p.accs.empty() || (p.position != loop.begin && p.position != loop.end); });
    take_sources(position);
    const bool waits = barriers_of_some_.contains(position);
    if (loop.threads > 0) uses_threads_ = true;
    if (loop.threads > 0 && waits) guard_ = loop.threads;
    const std::string name = "i" + number(position), type = msl_type(x.dtype);
    const std::string head = loop.threads > 0 && !waits ? "if (thread < " + number(loop.threads) + ") " : "";
    line(head + "for (" + type + " " + name + " = " + value(loop.begin).text + "; " + name + " < " +
         value(loop.end).in(MslBinding::Order) + "; ++" + name + ") {");
    values_[static_cast<size_t>(position)] = {name};
    loops_.push_back(position);
    ++depth_;
  }

  void end_loop() {
    pending_.clear();  // of values that are used no more
    if (barriers_of_some_.contains(loops_.back())) guard_ = 0;
    loops_.pop_back();
    --depth_;
    line("}");
  }

  // --- accumulators

  void accumulator(int position, const Instruction& x) {
    take_sources(position);
    const std::string name = "acc" + number(position);
    line(msl_type(x.dtype) + " " + name + " = " + value(only_operand(x)).text + ";");
    values_[static_cast<size_t>(position)] = {name};
  }

  void set(int position, const Instruction& x) {
    const AccSetView view(x);
    take_sources(position);
    define_pending([&](const Pending& p) { return p.accs.contains(view.acc); });
    line((guard_ > 0 ? "if (" + mine() + ") " : "") + value(view.acc).text + " = " + value(view.value).text + ";");
  }

  const Program& program_;
  const std::vector<Bounds> bounds_;      // by position
  const std::vector<int64_t> multiples_;  // the same
  const std::vector<WideLoad> wide_;
  const SimdReductions reductions_;
  std::vector<MslExpr> values_;
  std::vector<int> uses_;
  std::vector<bool> varies_;  // whether threads may have different values
  std::vector<BufferUse> buffers_;
  std::set<int> barriers_of_some_;  // loops of the first threads in which they wait
  std::vector<int> open_, loops_;
  std::vector<Pending> pending_;
  MslPreamble preamble_;
  std::string body_;
  size_t depth_ = 1;
  int64_t guard_ = 0;  // how many threads run what all walk through; 0: all
  int next_name_ = 0;
  bool uses_threads_ = false;
};

}  // namespace

std::string render_msl(const Program& program) {
  const std::string problem = problem_of(program);
  ENSURE(problem.empty(), "[render] " + program.name + ": " + problem);
  return KernelRenderer(program).render();
}

}  // namespace smelt
