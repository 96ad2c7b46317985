#include "graph/text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <unordered_map>

#include "base/from_chars.h"
#include "graph/scalar_math.h"

namespace smelt {
namespace {

// --- printing

// A scalar constant that stands where it is used.
bool stands_inline(Ref node) {
  return node->op == Op::Const && node->shape.empty() && node->arg.list.empty() && node->arg.name.empty() &&
         node->dtype != DType::Void;
}

std::string float_text(double value) {
  char text[40];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

std::string constant_text(Ref node) {
  if (node->dtype == DType::I64) return std::to_string(node->arg.i);
  std::string number = is_float(node->dtype) ? float_text(node->arg.f) : std::to_string(node->arg.i);
  return number + ":" + std::string(name_of(node->dtype));
}

std::string in_quotes(std::string_view name) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string text = "\"";
  for (unsigned char c : name) {
    if (c == '"' || c == '\\') {
      text += '\\';
      text += static_cast<char>(c);
    } else if (c < 32 || c > 126) {
      text += "\\x";
      text += kHex[c >> 4];
      text += kHex[c & 15];
    } else {
      text += static_cast<char>(c);
    }
  }
  return text + "\"";
}

std::string joined(const std::vector<int64_t>& list) {
  std::string text;
  for (int64_t v : list) text += (text.empty() ? "" : ", ") + std::to_string(v);
  return text;
}

std::string arg_text(Ref node) {
  const Arg& arg = node->arg;
  std::string text;
  if (arg.i != 0 || (node->op == Op::Const && !is_float(node->dtype))) text += " i=" + std::to_string(arg.i);
  if (std::bit_cast<uint64_t>(arg.f) != 0) text += " f=" + float_text(arg.f);
  if (!arg.list.empty()) text += " list=[" + joined(arg.list) + "]";
  if (!arg.name.empty()) text += " name=" + in_quotes(arg.name);
  return text;
}

class Printer {
 public:
  std::string run(Ref root) {
    // Sources and dimensions before users, with an explicit stack: graphs are deep.
    std::vector<std::pair<Ref, size_t>> stack{{root, 0}};
    while (!stack.empty()) {
      auto [node, next] = stack.back();
      if (next == node->src.size() + node->shape.size()) {
        stack.pop_back();
        write(node);
        continue;
      }
      ++stack.back().second;
      Ref below = next < node->shape.size() ? node->shape[next] : node->src[next - node->shape.size()];
      if (!stands_inline(below) && !ids_.contains(below.get())) stack.push_back({below, 0});
    }
    return std::move(text_);
  }

 private:
  void write(Ref node) {
    if (ids_.contains(node.get())) return;
    size_t id = ids_.size();
    ids_[node.get()] = id;
    text_ +=
        "%" + std::to_string(id) + " = " + std::string(name_of(node->op)) + " " + std::string(name_of(node->dtype));
    if (!node->shape.empty()) {
      std::string dims;
      for (Ref d : node->shape) dims += (dims.empty() ? "" : ", ") + reference(d);
      text_ += " [" + dims + "]";
    }
    for (Ref s : node->src) text_ += " " + reference(s);
    text_ += arg_text(node) + "\n";
  }

  std::string reference(Ref node) const {
    return stands_inline(node) ? constant_text(node) : "%" + std::to_string(ids_.at(node.get()));
  }

  std::unordered_map<const Node*, size_t> ids_;
  std::string text_;
};

// --- parsing

constexpr size_t kMaxNodes = 1 << 20;
constexpr size_t kMaxList = 1 << 16;  // sources, entries of a list
constexpr size_t kMaxRank = 16;
constexpr int kMaxDepth = 20000;

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Ref> run() {
    Ref last;
    while (!text_.empty()) {
      next_line();
      skip_spaces();
      if (rest_.empty()) continue;
      last = node_line();
      if (!last) return Error{"[ir] line " + std::to_string(line_) + ": " + problem_};
    }
    if (!last) return Error{"[ir] the text has no nodes; write one node a line, such as %0 = const i64 i=1"};
    return last;
  }

 private:
  struct Known {
    Ref node;
    int depth;
  };

  void next_line() {
    ++line_;
    size_t end = text_.find('\n');
    rest_ = text_.substr(0, end);
    text_.remove_prefix(end == std::string_view::npos ? text_.size() : end + 1);
  }

  // Notes what is wrong; the null Ref ends parsing.
  Ref fail(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
    return Ref();
  }
  bool failed() const { return !problem_.empty(); }

  void skip_spaces() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1);
    if (!rest_.empty() && rest_[0] == '#') rest_ = {};
  }

  bool accept(std::string_view token) {
    skip_spaces();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "' before '" + shortened(rest_) + "'");
  }

  static std::string shortened(std::string_view text) {
    std::string plain = in_quotes(text.substr(0, 24));
    return plain.substr(1, plain.size() - 2);
  }

  // Letters, digits and what numbers and names are made of.
  std::string_view word() {
    skip_spaces();
    size_t end = rest_.find_first_of(" \t\r,[]=\"#");
    std::string_view found = rest_.substr(0, end);
    rest_.remove_prefix(found.size());
    return found;
  }

  int64_t integer(std::string_view text) {
    int64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("'" + shortened(text) + "' is not an integer");
    return value;
  }

  double number(std::string_view text) {
    double value = 0;
    auto [end, error] = from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) fail("'" + shortened(text) + "' is not a number");
    return value;
  }

  DType dtype(std::string_view text) {
    auto found = dtype_from_name(text);
    if (!found) fail("'" + shortened(text) + "' is not a dtype; they are listed in dtypes.def");
    return found.value_or(DType::Void);
  }

  // A source or dimension: %id or a constant.
  Ref reference() {
    std::string_view text = word();
    if (text.starts_with('%')) {
      auto it = known_.find(integer(text.substr(1)));
      if (it == known_.end()) return fail("'" + shortened(text) + "' is not defined above");
      depth_ = std::max(depth_, it->second.depth + 1);
      return it->second.node;
    }
    size_t colon = text.find(':');
    DType type = colon == std::string_view::npos ? DType::I64 : dtype(text.substr(colon + 1));
    return constant_node(text.substr(0, colon), type);
  }

  Ref constant_node(std::string_view text, DType type) {
    if (type == DType::Void) return fail("a constant needs a dtype");
    if (is_float(type)) {
      double value = number(text);
      return failed() ? Ref() : constant_f(value, type);
    }
    int64_t value = integer(text);
    if (failed()) return Ref();
    if (wrap(value, type) != value) return fail(std::to_string(value) + " does not fit " + std::string(name_of(type)));
    return constant(value, type);
  }

  Ref node_line() {
    depth_ = 0;
    expect("%");
    int64_t id = integer(word());
    expect("=");
    std::string_view op_text = word();
    auto op = op_from_name(op_text);
    if (!failed() && !op) return fail("'" + shortened(op_text) + "' is not an op; they are listed in ops.def");
    if (failed()) return Ref();
    if (known_.contains(id)) return fail("%" + std::to_string(id) + " is defined twice");
    DType type = dtype(word());
    Shape shape = shape_list();
    Refs src = sources();
    Arg arg = argument();
    if (failed()) return Ref();
    Ref node = checked(*op, type, std::move(src), std::move(arg), std::move(shape));
    if (node) known_[id] = {node, depth_};
    return known_.size() > kMaxNodes ? fail("more than " + std::to_string(kMaxNodes) + " nodes") : node;
  }

  Shape shape_list() {
    Shape shape;
    if (!accept("[")) return shape;
    do {
      shape.push_back(reference());
      if (!failed() && (shape.back()->dtype != DType::I64 || !shape.back()->shape.empty()))
        fail("a dimension must be an i64 scalar");
      if (shape.size() > kMaxRank) fail("more than " + std::to_string(kMaxRank) + " axes");
    } while (!failed() && accept(","));
    expect("]");
    return shape;
  }

  Refs sources() {
    Refs src;
    while (!failed()) {
      skip_spaces();
      if (rest_.empty() || !starts_source()) break;
      src.push_back(reference());
      if (src.size() > kMaxList) fail("more than " + std::to_string(kMaxList) + " sources");
    }
    return src;
  }

  // A field reads key=value; everything else is a source.
  bool starts_source() const {
    size_t end = rest_.find_first_of(" \t\r=,[]\"#");
    return end == std::string_view::npos || rest_[end] != '=';
  }

  Arg argument() {
    Arg arg;
    while (!failed()) {
      skip_spaces();
      if (rest_.empty()) break;
      std::string_view key = word();
      expect("=");
      if (failed()) break;
      if (key == "i")
        arg.i = integer(word());
      else if (key == "f")
        arg.f = number(word());
      else if (key == "list")
        arg.list = integer_list();
      else if (key == "name")
        arg.name = quoted_name();
      else
        fail("'" + shortened(key) + "' is not a field; fields are i, f, list and name");
    }
    return arg;
  }

  std::vector<int64_t> integer_list() {
    std::vector<int64_t> list;
    expect("[");
    if (failed() || accept("]")) return list;
    do {
      list.push_back(integer(word()));
      if (list.size() > kMaxList) fail("a list of more than " + std::to_string(kMaxList) + " entries");
    } while (!failed() && accept(","));
    expect("]");
    return list;
  }

  static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  }

  std::string quoted_name() {
    std::string name;
    expect("\"");
    while (!failed()) {
      if (rest_.empty()) fail("a name is not closed with \"");
      if (failed()) break;
      char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '"') break;
      name += c == '\\' ? escaped() : c;
    }
    return name;
  }

  char escaped() {
    if (rest_.starts_with('"') || rest_.starts_with('\\')) {
      char c = rest_[0];
      rest_.remove_prefix(1);
      return c;
    }
    int high = rest_.size() >= 3 && rest_[0] == 'x' ? hex_digit(rest_[1]) : -1;
    int low = high >= 0 ? hex_digit(rest_[2]) : -1;
    if (low < 0) {
      fail("a name has an unknown escape; write \\\", \\\\ or \\x and two digits");
      return 0;
    }
    rest_.remove_prefix(3);
    return static_cast<char>(high * 16 + low);
  }

  // What make() takes for granted.
  Ref checked(Op op, DType type, Refs src, Arg arg, Shape shape) {
    std::string name(name_of(op));
    if (arity_of(op) >= 0 && src.size() != static_cast<size_t>(arity_of(op)))
      return fail(name + " takes " + std::to_string(arity_of(op)) + " sources, not " + std::to_string(src.size()));
    if (op == Op::Var && (arg.list.size() != 2 || arg.list[0] > arg.list[1])) return fail("var wants list=[min, max]");
    if (op == Op::Lut && arg.list.empty()) return fail("lut wants its table as list=[...]");
    if (op == Op::Const && type == DType::Void) return fail("a constant needs a dtype");
    if (op == Op::Const && !is_float(type) && wrap(arg.i, type) != arg.i)
      return fail(std::to_string(arg.i) + " does not fit " + std::string(name_of(type)));
    if (depth_ > kMaxDepth) return fail("the graph is more than " + std::to_string(kMaxDepth) + " nodes deep");
    return make(op, type, std::move(src), std::move(arg), std::move(shape));
  }

  std::string_view text_, rest_;
  int line_ = 0;
  int depth_ = 0;
  std::string problem_;
  std::unordered_map<int64_t, Known> known_;
};

}  // namespace

std::string print(Ref root) { return Printer().run(root); }

Result<Ref> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace smelt
