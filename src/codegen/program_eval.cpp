#include "codegen/program_eval.h"

#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "base/access_log.h"
#include "base/ensure.h"
#include "codegen/instruction_views.h"
#include "codegen/known_bounds.h"
#include "codegen/program_text.h"
#include "codegen/program_verify.h"
#include "graph/matrix_sum.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

// One lane of a value. What an undefined operation made may exist as long as nothing depends on it.
struct Lane {
  Scalar value;
  bool defined = true;
};

// A value in all lanes of a worker, or in all threads of a block; one if it is the same in all.
using Lanes = std::vector<Lane>;

// Rows of one matrix, columns of another.
using Words = std::vector<std::vector<uint32_t>>;

class Evaluator {
 public:
  Evaluator(const Program& program, std::span<const ByteSpan> buffers, std::span<const int64_t> symbols, int64_t part,
            int64_t parts, const EvalOptions& options)
      : program_(program),
        buffers_(buffers),
        symbols_(symbols),
        part_{part, parts, 1},
        options_(options),
        bounds_(known_bounds(program)),
        values_(program.code.size()),
        nodes_(program.code.size()),
        functions_(program.code.size()),
        ends_(program.code.size()),
        running_(program.code.size()),
        scratch_(static_cast<size_t>(program.scratch_bytes)),
        scratch_written_(scratch_.size()) {
    std::vector<size_t> running = {threads()};  // in the loops around, outermost first
    for (size_t i = 0; i < program.code.size(); ++i) {
      const Instruction& x = program.code[i];
      if (x.kind == Inst::EndLoop) running.pop_back();
      running_[i] = running.back();
      if (x.kind == Inst::Loop)
        running.push_back(is_loop_of_some(x) ? static_cast<size_t>(LoopView(x).threads) : running.back());
      if (x.kind == Inst::Value) nodes_[i] = node_of(x);
      if (x.kind == Inst::LaneReduce) nodes_[i] = combine_node(x);
      if (!nodes_[i].src.empty()) functions_[i] = scalar_function(nodes_[i]);
      if (x.kind == Inst::Store) stored_.insert(memory_of(x).number);
      if (x.kind == Inst::Copy || x.kind == Inst::BulkCopy) stored_.insert(memory_of(x, 2).number);
      if (x.kind == Inst::EndLoop) ends_[static_cast<size_t>(only_operand(x))] = i;
    }
  }

  Status run() {
    for (pc_ = 0; pc_ < program_.code.size(); ++pc_) {
      const size_t at = pc_;
      std::string problem = step(program_.code[pc_]);
      if (problem.empty()) problem = outside_of_bounds(at);
      if (problem.empty()) problem = byte_above_greatest(at);
      if (!problem.empty())
        return Error{"[eval] " + program_.name + ": " + print_instruction(program_, static_cast<int>(at)) + ": " +
                     problem};
    }
    return {};
  }

 private:
  // Where a value is not what known_bounds() says of it, so that narrow indices may have wrapped.
  std::string outside_of_bounds(size_t at) const {
    const Instruction& x = program_.code[at];
    const bool is_value = x.kind == Inst::Value || x.kind == Inst::Symbol || x.kind == Inst::Part;
    if (!is_value || is_float(x.dtype)) return "";
    for (const Lane& lane : values_[at])
      if (lane.defined && (lane.value.i < bounds_[at].min || lane.value.i > bounds_[at].max))
        return "it is " + std::to_string(lane.value.i) + ", and should lie within " + std::to_string(bounds_[at].min) +
               " and " + std::to_string(bounds_[at].max);
    return "";
  }

  // A sum of products has room for bytes as it says that they are, not for greater ones.
  std::string byte_above_greatest(size_t at) const {
    const Instruction& x = program_.code[at];
    if (x.kind != Inst::Value || x.op != Op::Dot4 || x.arg.i == 0) return "";
    for (const Lane& word : values_[static_cast<size_t>(x.src[1])])
      for (int byte = 0; word.defined && byte < 4; ++byte)
        if (const int64_t value = word.value.i >> 8 * byte & 255; value > x.arg.i)
          return "a byte of " + std::to_string(value) + ", and none is above " + std::to_string(x.arg.i);
    return "";
  }

  // --- elementwise ops: the definitions of scalar_math.h, applied to each lane

  DType working(DType dtype) const { return dtype == DType::F32 && !options_.round_f32 ? DType::F64 : dtype; }

  Node node_of(const Instruction& x) const {
    bool keeps_bits = x.op == Op::Bitcast;  // there the size of the dtype matters
    auto type = [&](DType dtype) { return keeps_bits ? dtype : working(dtype); };
    Node node{.op = x.op, .dtype = type(x.dtype), .arg = x.arg};
    for (int src : x.src) {
      DType dtype = type(program_.code[static_cast<size_t>(src)].dtype);
      node.src.push_back(is_float(dtype) ? constant_f(0, dtype) : constant(0, dtype));
    }
    return node;
  }

  Node combine_node(const Instruction& x) const {
    DType dtype = working(x.dtype);
    Ref operand = is_float(dtype) ? constant_f(0, dtype) : constant(0, dtype);
    return {.op = x.op == Op::ReduceMax ? Op::Max : Op::Add, .dtype = dtype, .src = {operand, operand}};
  }

  // To the operands of an instruction, of which there are as many as nodes_ says.
  Lane apply(size_t at, const Lane* const* operands) const {
    const Node& node = nodes_[at];
    if (node.op == Op::Where) {
      if (!operands[0]->defined) return {.defined = false};
      return operands[0]->value.i ? *operands[1] : *operands[2];
    }
    const Scalar* values[3];
    for (size_t i = 0; i < node.src.size(); ++i) {
      if (!operands[i]->defined) return {.defined = false};
      values[i] = &operands[i]->value;
    }
    Lane result;
    result.defined = functions_[at](node, values, &result.value);
    return result;
  }

  static const Lane& lane_of(const Lanes& lanes, size_t i) { return lanes.size() == 1 ? lanes[0] : lanes[i]; }

  // Threads go step by step together, so a value that differs among them is one of as many lanes.
  size_t width(const Instruction& x) const {
    size_t width = static_cast<size_t>(x.lanes);
    for (size_t k = 0; k < x.src.size(); ++k) width = std::max(width, operand(x, k).size());
    return width;
  }

  std::string value(const Instruction& x) {
    Lanes& result = fresh(width(x));
    if (x.op == Op::Const) {
      Scalar constant =
          is_float(x.dtype) ? Scalar{.f = round_to(x.arg.f, x.dtype)} : Scalar{.i = wrap(x.arg.i, x.dtype)};
      result.assign(result.size(), Lane{constant});
      return "";
    }
    // A division by zero stops the machine even where nobody uses the quotient.
    const bool divides = (x.op == Op::Div || x.op == Op::Mod) && !is_float(x.dtype);
    for (size_t i = 0; i < result.size(); ++i) {
      const Lane* operands[3];
      for (size_t k = 0; k < x.src.size(); ++k) operands[k] = &lane_of(operand(x, k), i);
      if (divides && operands[1]->defined && operands[1]->value.i <= 0)
        return "divides by a number that is not positive";
      result[i] = apply(pc_, operands);
    }
    return "";
  }

  std::string shuffle(const Instruction& x) {
    const Lanes& from = value_at(only_operand(x));
    Lanes& result = fresh(threads());
    for (size_t i = 0; i < result.size(); ++i) {
      const auto number = static_cast<size_t>(x.arg.i);
      const size_t other = x.kind == Inst::Shuffle ? i ^ number : i / kWarp * kWarp + number;
      result[i] = other < running() ? lane_of(from, other) : Lane{.value = {}, .defined = false};
    }
    return "";
  }

  // In the order of render/llvm_ops.h: halves, then the lanes that were left over.
  std::string lane_reduce(const Instruction& x) {
    Lanes rest = value_at(only_operand(x)), odd;
    auto combine = [&](Lane a, Lane b) {
      const Lane* pair[3] = {&a, &b};
      return apply(pc_, pair);
    };
    while (rest.size() > 1) {
      if (rest.size() % 2) odd.push_back(rest.back());
      size_t half = rest.size() / 2;
      for (size_t i = 0; i < half; ++i) rest[i] = combine(rest[i], rest[half + i]);
      rest.resize(half);
    }
    for (const Lane& lane : odd) rest[0] = combine(rest[0], lane);
    values_[pc_] = rest;
    return "";
  }

  // --- memory

  struct Memory {
    ByteSpan bytes;
    int64_t base = 0;  // of the pointer within `bytes`
    std::string name;
    size_t number = 0;  // of the buffer; scratch comes first
    bool is_scratch = false;
  };

  Memory memory_of(const Instruction& x, size_t pointer_operand = 0) {
    const Instruction& pointer = program_.code[static_cast<size_t>(x.src[pointer_operand])];
    if (pointer.kind == Inst::Scratch) return {scratch_, pointer.arg.i, "scratch", 0, true};
    const auto number = static_cast<size_t>(pointer.arg.i);
    return {buffers_[number], 0, "buffer " + std::to_string(number), number + 1};
  }

  // What happens to these bytes, in a block: by one thread, or where all do the same by all of them.
  std::string log_read(const Memory& memory, size_t at, size_t size, size_t thread, size_t width) {
    if (!is_block() || !stored_.contains(memory.number)) return "";
    const std::string problem =
        log_.read(memory.number, at, size, width == 1 ? AccessLog::kAll : static_cast<int>(thread));
    return problem.empty() ? "" : memory.name + ": " + problem;
  }
  std::string log_write(const Memory& memory, size_t at, size_t size, size_t thread) {
    if (!is_block()) return "";
    const std::string problem = log_.write(memory.number, at, size, static_cast<int>(thread));
    return problem.empty() ? "" : memory.name + ": " + problem;
  }

  // Where lane i of a load or store begins in `memory`; the problem if it is not all inside.
  std::string locate(const Instruction& x, const Memory& memory, size_t i, size_t* at) {
    const Lanes& offsets = value_at(AccessView(x).offset);
    const Lane& offset = lane_of(offsets, i);
    if (!offset.defined) return "the offset is undefined";
    int64_t size = size_of(x.dtype), begin = memory.base + offset.value.i;
    if (offsets.size() == 1 && !is_block()) begin += static_cast<int64_t>(i) * size;
    auto limit = static_cast<int64_t>(memory.bytes.size());
    if (begin < 0 || begin > limit - size)
      return "lane " + std::to_string(i) + " at byte " + std::to_string(begin) + " is outside of " + memory.name +
             ", which has " + std::to_string(limit) + " bytes";
    *at = static_cast<size_t>(begin);
    return "";
  }

  bool was_written(size_t at, size_t size) const {
    for (size_t i = at; i < at + size; ++i)
      if (!scratch_written_[i]) return false;
    return true;
  }

  std::string load(const Instruction& x) {
    Memory memory = memory_of(x);
    Lanes& result = fresh(width(x));
    auto size = static_cast<size_t>(size_of(x.dtype));
    for (size_t i = 0, at = 0; i < result.size(); ++i) {
      if (is_block() && i >= running()) {
        result[i].defined = false;
        continue;
      }
      if (std::string problem = locate(x, memory, i, &at); !problem.empty()) return problem;
      if (memory.is_scratch && !was_written(at, size)) {
        if (unwritten_.empty()) unwritten_ = ": scratch byte " + std::to_string(at) + " is read before it is written";
        result[i] = {.value = {}, .defined = false};
        continue;
      }
      if (std::string problem = log_read(memory, at, size, i, result.size()); !problem.empty()) return problem;
      uint64_t bits = 0;
      std::memcpy(&bits, memory.bytes.data() + at, size);
      result[i] = {from_bits(bits, x.dtype)};
    }
    return "";
  }

  std::string fetch(const Instruction& x) {
    const Memory memory = memory_of(x);
    for (size_t i = 0; i < running(); ++i) {
      if (x.src.size() > 2) {
        const Lane& asks = lane_of(value_at(x.src[2]), i);
        if (!asks.defined) return "which threads ask is undefined";
        if (!asks.value.i) continue;
      }
      const Lane& offset = lane_of(value_at(AccessView(x).offset), i);
      if (!offset.defined) return "the offset is undefined";
      const int64_t at = offset.value.i;
      if (at % kFetchUnit) return "byte " + std::to_string(at) + " is no multiple of " + std::to_string(kFetchUnit);
      if (at < 0 || at + x.arg.i > static_cast<int64_t>(memory.bytes.size()))
        return "bytes " + std::to_string(at) + " to " + std::to_string(at + x.arg.i) + " are fetched of a buffer of " +
               std::to_string(memory.bytes.size());
    }
    return "";
  }

  std::string store(const Instruction& x) {
    const StoreInstView view(x);
    Memory memory = memory_of(x);
    auto size = static_cast<size_t>(size_of(x.dtype));
    for (size_t i = 0, at = 0; i < (is_block() ? running() : static_cast<size_t>(x.lanes)); ++i) {
      if (view.predicate >= 0) {
        const Lane& predicate = lane_of(value_at(view.predicate), i);
        if (!predicate.defined) return "the predicate is undefined";
        if (!predicate.value.i) continue;
      }
      if (std::string problem = locate(x, memory, i, &at); !problem.empty()) return problem;
      if (std::string problem = log_write(memory, at, size, i); !problem.empty()) return problem;
      const Lane& lane = lane_of(value_at(view.value), i);
      if (!lane.defined) return "the value of lane " + std::to_string(i) + " is undefined" + unwritten_;
      uint64_t bits = to_bits(lane.value, x.dtype);
      std::memcpy(memory.bytes.data() + at, &bits, size);
      if (memory.is_scratch)
        std::fill_n(scratch_written_.begin() + static_cast<std::ptrdiff_t>(at), size, true);
      else if (options_.stored)
        options_.stored(static_cast<int64_t>(memory.number) - 1, static_cast<int64_t>(at), size_of(x.dtype));
    }
    return "";
  }

  // --- copies

  // What a thread has sent, until it has waited for it: nothing of it may be read before.
  struct Sent {
    size_t at, thread;
    std::byte bytes[kCopyBytes];
  };

  std::string copy(const Instruction& x) {
    const CopyView view(x);
    const Memory from = memory_of(x), to = memory_of(x, 2);
    for (size_t i = 0; i < running(); ++i) {
      if (view.predicate >= 0) {
        const Lane& predicate = lane_of(value_at(view.predicate), i);
        if (!predicate.defined) return "the predicate is undefined";
        if (!predicate.value.i) continue;
      }
      size_t source = 0;
      Sent sent{.thread = i};
      if (std::string problem = end_of_copy(from, lane_of(value_at(view.from_offset), i), &source); !problem.empty())
        return problem;
      if (std::string problem = end_of_copy(to, lane_of(value_at(view.to_offset), i), &sent.at); !problem.empty())
        return problem;
      if (std::string problem = log_read(from, source, kCopyBytes, i, threads()); !problem.empty()) return problem;
      if (std::string problem = log_write(to, sent.at, kCopyBytes, i); !problem.empty()) return problem;
      std::memcpy(sent.bytes, from.bytes.data() + source, kCopyBytes);
      std::fill_n(scratch_written_.begin() + static_cast<std::ptrdiff_t>(sent.at), kCopyBytes, false);
      open_group_.push_back(sent);
    }
    return "";
  }

  static std::string end_of_copy(const Memory& memory, const Lane& offset, size_t* at) {
    if (!offset.defined) return "the offset is undefined";
    const int64_t begin = memory.base + offset.value.i;
    if (begin % kCopyBytes) return "byte " + std::to_string(begin) + " is no multiple of " + std::to_string(kCopyBytes);
    if (begin < 0 || begin + kCopyBytes > static_cast<int64_t>(memory.bytes.size()))
      return "byte " + std::to_string(begin) + " is outside of " + memory.name;
    *at = static_cast<size_t>(begin);
    return "";
  }

  std::string close_group() {
    groups_.push_back(std::exchange(open_group_, {}));
    return "";
  }

  std::string wait_for_groups(size_t left) {
    for (; groups_.size() > left; groups_.pop_front())
      for (const Sent& sent : groups_.front()) {
        std::string problem = log_.write(0, sent.at, kCopyBytes, static_cast<int>(sent.thread));
        if (!problem.empty()) return "scratch: " + problem;
        std::memcpy(scratch_.data() + sent.at, sent.bytes, kCopyBytes);
        std::fill_n(scratch_written_.begin() + static_cast<std::ptrdiff_t>(sent.at), kCopyBytes, true);
      }
    return "";
  }

  // --- copies in bulk

  // A signal, and what was sent for its round.
  struct Signal {
    int64_t copies = 0, rounds = 0;  // of a round; that are over
    std::vector<std::pair<size_t, std::vector<std::byte>>> sent = {};
  };

  std::string find_signal(const Instruction& x, size_t k, size_t* at) {
    const Memory memory = memory_of(x, k);
    const Lane& offset = operand(x, k + 1)[0];
    if (!offset.defined) return "the offset of a signal is undefined";
    const int64_t begin = memory.base + offset.value.i;
    if (begin < 0 || begin % kSignalBytes || begin + kSignalBytes > static_cast<int64_t>(memory.bytes.size()))
      return "byte " + std::to_string(begin) + " is no place for a signal";
    *at = static_cast<size_t>(begin);
    return "";
  }

  std::string signal_init(const Instruction& x) {
    size_t at = 0;
    if (std::string problem = find_signal(x, 0, &at); !problem.empty()) return problem;
    if (x.src.size() > 2) {
      const Lane& is_made = operand(x, 2)[0];
      if (!is_made.defined) return "whether there is a signal is undefined";
      if (!is_made.value.i) return "";
    }
    if (const auto old = signals_.find(at); old != signals_.end() && !old->second.sent.empty())
      return "copies are on their way to it";
    signals_[at] = {.copies = x.arg.i};
    return "";
  }

  std::string bulk_copy(const Instruction& x) {
    const BulkCopyView view(x);
    const Memory from = memory_of(x), to = memory_of(x, 2);
    const auto size = static_cast<size_t>(view.bytes);
    size_t at = 0;
    if (std::string problem = find_signal(x, 4, &at); !problem.empty()) return problem;
    Signal& signal = signals_[at];
    for (size_t i = 0; i < running(); ++i) {
      if (view.predicate >= 0) {
        const Lane& predicate = lane_of(value_at(view.predicate), i);
        if (!predicate.defined) return "the predicate is undefined";
        if (!predicate.value.i) continue;
      }
      size_t source = 0, target = 0;
      for (size_t end : {size_t{0}, size - kCopyBytes}) {  // both ends
        if (std::string problem = end_of_copy(from, moved(lane_of(value_at(view.from_offset), i), end), &source);
            !problem.empty())
          return problem;
        if (std::string problem = end_of_copy(to, moved(lane_of(value_at(view.to_offset), i), end), &target);
            !problem.empty())
          return problem;
      }
      source -= size - kCopyBytes, target -= size - kCopyBytes;
      if (std::string problem = log_read(from, source, size, i, threads()); !problem.empty()) return problem;
      if (std::string problem = log_write(to, target, size, i); !problem.empty()) return problem;
      const auto begin = from.bytes.begin() + static_cast<std::ptrdiff_t>(source);
      signal.sent.emplace_back(target, std::vector(begin, begin + static_cast<std::ptrdiff_t>(size)));
      std::fill_n(scratch_written_.begin() + static_cast<std::ptrdiff_t>(target), size, false);
    }
    return static_cast<int64_t>(signal.sent.size()) <= signal.copies ? "" : "it sends more than a round has";
  }

  static Lane moved(Lane offset, size_t bytes) {
    offset.value.i += static_cast<int64_t>(bytes);
    return offset;
  }

  std::string signal_wait(const Instruction& x) {
    size_t at = 0;
    if (std::string problem = find_signal(x, 0, &at); !problem.empty()) return problem;
    Signal& signal = signals_[at];
    const Lane& round = value_at(SignalWaitView(x).round)[0];
    if (!round.defined || round.value.i != signal.rounds) return "the rounds before it were not waited for";
    if (static_cast<int64_t>(signal.sent.size()) != signal.copies) return "it waits for copies that nobody sends";
    for (const auto& [target, bytes] : std::exchange(signal.sent, {})) {
      std::copy(bytes.begin(), bytes.end(), scratch_.begin() + static_cast<std::ptrdiff_t>(target));
      std::fill_n(scratch_written_.begin() + static_cast<std::ptrdiff_t>(target), bytes.size(), true);
      log_.show(memory_of(x).number, target, bytes.size());  // every thread waits
    }
    ++signal.rounds;
    return "";
  }

  // --- products of matrices

  // The word at `begin` bytes from where operand `k`, a pointer, and the offset behind it lead.
  std::string word(const Instruction& x, size_t k, int64_t begin, uint32_t* out) {
    const Memory memory = memory_of(x, k);
    const Lane& offset = operand(x, k + 1)[0];
    if (!offset.defined) return "an offset is undefined";
    const int64_t at = memory.base + offset.value.i + begin;
    if (at < 0 || at > static_cast<int64_t>(memory.bytes.size()) - 4)
      return "byte " + std::to_string(at) + " is outside of " + memory.name;
    if (memory.is_scratch && !was_written(static_cast<size_t>(at), 4))
      return "scratch byte " + std::to_string(at) + " is read before it is written";
    uint32_t bits = 0;
    std::memcpy(&bits, memory.bytes.data() + at, 4);
    *out = bits;
    return "";
  }

  std::string matrix_dot(const Instruction& x) {
    const MatrixShape shape = matrix_shape(x);
    if (shape.of_warpgroup()) return matrix_of_halves(x, shape);
    return shape.in_fragments ? matrix_in_fragments(x, shape) : matrix_in_memory(x, shape);
  }

  std::string matrix_in_memory(const Instruction& x, const MatrixShape& shape) {
    const auto words = static_cast<size_t>(shape.words());
    Words a(static_cast<size_t>(shape.m), std::vector<uint32_t>(words)),
        b(static_cast<size_t>(shape.blocks * shape.n), a[0]);
    for (int64_t k = 0; k < shape.words(); ++k) {
      const auto at = static_cast<size_t>(k);
      for (size_t m = 0; m < a.size(); ++m)
        if (std::string problem = word(x, 0, static_cast<int64_t>(m) * shape.a_stride + 4 * k, &a[m][at]);
            !problem.empty())
          return problem;
      for (size_t n = 0; n < b.size(); ++n) {
        const auto column = static_cast<int64_t>(n);
        const int64_t in_row = column / shape.n * shape.block_stride + column % shape.n * 4;
        if (std::string problem = word(x, 2, k * shape.b_stride + in_row, &b[n][at]); !problem.empty()) return problem;
      }
    }
    Lanes result;
    for (const auto& row : a)
      for (const auto& column : b) result.push_back({sum_in_memory(shape, row, column)});
    values_[pc_] = std::move(result);
    return "";
  }

  Scalar sum_in_memory(const MatrixShape& shape, std::span<const uint32_t> row, std::span<const uint32_t> column) {
    if (shape.of_halves) return {.f = round_to(sum_of_halves(0, row, column), working(DType::F32))};
    return {.i = matrix_sum(shape, 0, row, column)};
  }

  // Each warp by itself: what its threads have makes two matrices, and each gets the sums that are its own.
  std::string matrix_in_fragments(const Instruction& x, const MatrixShape& shape) {
    const auto a_words = static_cast<size_t>(shape.a_words()), b_words = static_cast<size_t>(shape.b_words()),
               sums = static_cast<size_t>(shape.sums()), row_blocks = static_cast<size_t>(shape.row_blocks()),
               words = static_cast<size_t>(shape.words());
    const bool adds = x.src.size() > a_words + b_words;
    Lanes result(threads() * sums);
    for (size_t warp = 0; warp < threads(); warp += kWarp) {
      Words a(static_cast<size_t>(shape.m), std::vector<uint32_t>(words)), b(static_cast<size_t>(shape.n), a[0]);
      std::vector<bool> a_is_known(a.size(), true), b_is_known(b.size(), true);
      const auto put = [&](const Lane& lane, std::vector<uint32_t>& to, size_t at, std::vector<bool>::reference known) {
        to[at] = static_cast<uint32_t>(lane.value.i);
        known = known && lane.defined;
      };
      for (size_t t = 0; t < kWarp; ++t) {
        const size_t group = t / kFragmentPlaces, place = t % kFragmentPlaces;
        for (size_t r = 0; r < a_words; ++r) {
          const size_t row = group + kFragmentGroups * (r % row_blocks);
          put(lane_of(operand(x, r), warp + t), a[row], place + kFragmentPlaces * (r / row_blocks), a_is_known[row]);
        }
        for (size_t r = 0; r < b_words; ++r)
          put(lane_of(operand(x, a_words + r), warp + t), b[group], place + kFragmentPlaces * r, b_is_known[group]);
      }
      for (size_t t = 0; t < kWarp; ++t)
        for (size_t r = 0; r < sums; ++r) {
          const size_t row = t / kFragmentPlaces + kFragmentGroups * (r / 2),
                       column = 2 * (t % kFragmentPlaces) + r % 2;
          Lane& sum = result[(warp + t) * sums + r];
          if (adds) sum = lane_of(operand(x, a_words + b_words + r), warp + t);
          sum.defined = sum.defined && a_is_known[row] && b_is_known[column];
          if (sum.defined) sum.value.i = matrix_sum(shape, sum.value.i, a[row], b[column]);
        }
    }
    values_[pc_] = std::move(result);
    return "";
  }

  // Columns of a product of halves, from on-chip memory.
  std::string columns_of_halves(const Instruction& x, const MatrixShape& shape, Words& b) {
    const auto pointer = static_cast<size_t>(shape.a_words());
    for (int64_t n = 0; n < shape.n; ++n)
      for (int64_t w = 0; w < shape.words(); ++w) {
        const int64_t at = n / kFragmentGroups * shape.b_stride + w / kFragmentPlaces * kCoreBytes +
                           n % kFragmentGroups * kCoreRowBytes + w % kFragmentPlaces * kBytesOfWord;
        if (std::string problem = word(x, pointer, at, &b[static_cast<size_t>(n)][static_cast<size_t>(w)]);
            !problem.empty())
          return problem;
      }
    return "";
  }

  // Each four warps by themselves, as in fragments of bytes.
  std::string matrix_of_halves(const Instruction& x, const MatrixShape& shape) {
    const auto a_words = static_cast<size_t>(shape.a_words()), sums = static_cast<size_t>(shape.sums()),
               words = static_cast<size_t>(shape.words());
    const size_t before = a_words + static_cast<size_t>(shape.b_words()), group_size = kWarpgroupWarps * kWarp;
    const bool adds = x.src.size() > before;
    Words b(static_cast<size_t>(shape.n), std::vector<uint32_t>(words));
    if (std::string problem = columns_of_halves(x, shape, b); !problem.empty()) return problem;
    Lanes result(threads() * sums);
    for (size_t first = 0; first + group_size <= threads(); first += group_size) {
      Words a(static_cast<size_t>(shape.m), std::vector<uint32_t>(words));
      std::vector<bool> is_known(a.size(), true);
      const auto row_of = [](size_t thread, size_t block) {
        return thread / kWarp * 2 * kFragmentGroups + thread % kWarp / kFragmentPlaces + kFragmentGroups * block;
      };
      for (size_t t = 0; t < group_size; ++t)
        for (size_t r = 0; r < a_words; ++r) {
          const Lane& lane = lane_of(operand(x, r), first + t);
          const size_t row = row_of(t, r % 2);
          a[row][t % kFragmentPlaces + kFragmentPlaces * (r / 2)] = static_cast<uint32_t>(lane.value.i);
          is_known[row] = is_known[row] && lane.defined;
        }
      for (size_t t = 0; t < group_size; ++t)
        for (size_t r = 0; r < sums; ++r) {
          const size_t row = row_of(t, r / 2 % 2),
                       column = kFragmentGroups * (r / 4) + 2 * (t % kFragmentPlaces) + r % 2;
          Lane& sum = result[(first + t) * sums + r];
          if (adds) sum = lane_of(operand(x, before + r), first + t);
          sum.defined = sum.defined && is_known[row];
          if (sum.defined) sum.value.f = round_to(sum_of_halves(sum.value.f, a[row], b[column]), working(DType::F32));
        }
    }
    values_[pc_] = std::move(result);
    return "";
  }

  std::string matrix_item(const Instruction& x) {
    const Lanes product = value_at(only_operand(x));
    const MatrixShape shape = matrix_shape(program_.code[static_cast<size_t>(only_operand(x))]);
    const auto number = static_cast<size_t>(x.arg.i), items = static_cast<size_t>(shape.items());
    Lanes& result = fresh(shape.in_fragments ? threads() : static_cast<size_t>(x.lanes));
    for (size_t i = 0; i < result.size(); ++i)
      result[i] = product[shape.in_fragments ? i * items + number : number * result.size() + i];
    return "";
  }

  // --- loops and accumulators

  std::string begin_loop(const Instruction& x) {
    const LoopView loop(x);
    const Lane &begin = value_at(loop.begin)[0], &end = value_at(loop.end)[0];
    if (!begin.defined || !end.defined) return "a bound is undefined";
    for (int bound : {loop.begin, loop.end})
      for (size_t i = 1; i < std::min(value_at(bound).size(), running()); ++i)
        if (const Lane& other = value_at(bound)[i]; !other.defined || other.value.i != value_at(bound)[0].value.i)
          return "threads diverge: a bound differs among them";
    for (const Lane* bound : {&begin, &end})
      if (bound->value.i < loop.within.min || bound->value.i > loop.within.max)
        return "a bound is outside of what it is said to be within";
    values_[pc_] = {begin};
    if (begin.value.i >= end.value.i) pc_ = ends_[pc_];
    return "";
  }

  std::string end_loop(const Instruction& x) {
    const auto loop = static_cast<size_t>(only_operand(x));
    Scalar& index = values_[loop][0].value;
    if (++index.i < value_at(LoopView(program_.code[loop]).end)[0].value.i) pc_ = loop;
    return "";
  }

  std::string set(size_t acc, const Lanes& lanes) {
    Lanes& variable = values_[acc];
    variable.resize(std::max(static_cast<size_t>(program_.code[acc].lanes), lanes.size()));
    for (size_t i = 0; i < variable.size(); ++i) variable[i] = lane_of(lanes, i);
    return "";
  }

  // --- one instruction

  const Lanes& value_at(int position) const { return values_[static_cast<size_t>(position)]; }
  const Lanes& operand(const Instruction& x, size_t k) const { return value_at(x.src[k]); }

  bool is_block() const { return program_.threads > 1; }
  size_t threads() const { return static_cast<size_t>(program_.threads); }
  size_t running() const { return running_[pc_]; }

  Lanes& fresh(size_t lanes) {
    values_[pc_].assign(lanes, Lane{});
    return values_[pc_];
  }
  std::string integer(int64_t value) {
    values_[pc_] = {Lane{{.i = value}}};
    return "";
  }
  std::string index(size_t lanes) {
    Lanes& result = fresh(lanes);
    for (size_t i = 0; i < result.size(); ++i) result[i].value.i = static_cast<int64_t>(i);
    return "";
  }

  std::string step(const Instruction& x) {
    switch (x.kind) {
      case Inst::Value: return value(x);
      case Inst::Symbol: return integer(symbols_[static_cast<size_t>(x.arg.i)]);
      case Inst::Part: return integer(part_[x.arg.i]);
      case Inst::LaneIndex: return index(static_cast<size_t>(x.lanes));
      case Inst::ThreadIndex: return index(threads());
      case Inst::Buffer:
      case Inst::Scratch: return "";
      case Inst::Load: return load(x);
      case Inst::Prefetch:
      case Inst::Await: return "";
      case Inst::Fetch: return fetch(x);
      case Inst::Store: return store(x);
      case Inst::Copy: return copy(x);
      case Inst::BulkCopy: return bulk_copy(x);
      case Inst::SignalInit: return signal_init(x);
      case Inst::SignalWait: return signal_wait(x);
      case Inst::CopyGroup: return close_group();
      case Inst::CopyWait: return wait_for_groups(static_cast<size_t>(groups_left(x)));
      case Inst::LaneReduce: return lane_reduce(x);
      case Inst::Shuffle:
      case Inst::WarpItem: return shuffle(x);
      case Inst::Barrier: log_.barrier(); return "";
      case Inst::MatrixDot: return matrix_dot(x);
      case Inst::MatrixItem: return matrix_item(x);
      case Inst::Loop: return begin_loop(x);
      case Inst::EndLoop: return end_loop(x);
      case Inst::Acc: return set(pc_, value_at(only_operand(x)));
      case Inst::AccGet: values_[pc_] = value_at(only_operand(x)); return "";
      case Inst::AccSet: return set(static_cast<size_t>(AccSetView(x).acc), value_at(AccSetView(x).value));
    }
    return "";
  }

  const Program& program_;
  std::span<const ByteSpan> buffers_;
  std::span<const int64_t> symbols_;
  int64_t part_[3];  // see Inst::Part: each begins with its own scratch memory
  const EvalOptions& options_;

  const std::vector<Bounds> bounds_;       // by position
  std::vector<Lanes> values_;              // by position; of an Acc its value now
  std::vector<Node> nodes_;                // by position: what to apply to each lane
  std::vector<ScalarFunction> functions_;  // of these
  std::vector<size_t> ends_;               // by position of a loop: its EndLoop
  std::vector<size_t> running_;            // by position: how many threads come here, the first ones
  std::vector<std::byte> scratch_;
  std::vector<bool> scratch_written_;
  std::string unwritten_;    // the first byte of it that was read before: nothing may depend on what was found
  std::set<size_t> stored_;  // memories that are written to, by number: what is only read meets nobody
  AccessLog log_;
  std::vector<Sent> open_group_;          // of copies
  std::deque<std::vector<Sent>> groups_;  // on their way
  std::map<size_t, Signal> signals_;      // by their place in scratch memory
  size_t pc_ = 0;
};

}  // namespace

Status evaluate(const Program& program, std::span<const ByteSpan> buffers, std::span<const int64_t> symbols,
                int64_t part, int64_t parts, const EvalOptions& options) {
  std::string problem = problem_of(program);
  ENSURE(problem.empty(), "[eval] " + program.name + ": " + problem);
  ENSURE(static_cast<int>(buffers.size()) == program.buffers, "[eval] " + program.name + ": number of buffers");
  ENSURE(symbols.size() == program.symbols.size(), "[eval] " + program.name + ": number of symbols");
  return Evaluator(program, buffers, symbols, part, parts, options).run();
}

}  // namespace smelt
