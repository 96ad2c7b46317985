// Metadata of a module of LLVM IR: which buffers cannot overlap, what loops have behind them.
#pragma once

#include <string>
#include <vector>

namespace smelt {

// Numbered metadata at the end of the module: !0 is empty, !1 the domain of the alias scopes, then
// one scope a buffer.
class Metadata {
 public:
  explicit Metadata(int buffers) : buffers_(buffers) {
    add("!{}");
    add("distinct !{!1}");
    for (int buffer = 0; buffer < buffers; ++buffer) add("distinct !{!" + std::to_string(2 + buffer) + ", !1}");
    for (int buffer = 0; buffer < buffers; ++buffer) only_.push_back(add(scopes([&](int b) { return b == buffer; })));
    for (int buffer = 0; buffer < buffers; ++buffer) others_.push_back(add(scopes([&](int b) { return b != buffer; })));
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
      for (const char* hint : {"!{!\"llvm.loop.unroll.disable\"}", "!{!\"llvm.loop.vectorize.enable\", i1 false}",
                               "!{!\"llvm.loop.mustprogress\"}"})
        hints_ += ", " + add(hint);
    std::string self = "!" + std::to_string(lines_.size());
    add("distinct !{" + self + hints_ + "}");
    return ", !llvm.loop " + self;
  }

  std::string text() const {
    std::string text;
    for (size_t i = 0; i < lines_.size(); ++i) text += "!" + std::to_string(i) + " = " + lines_[i] + "\n";
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

}  // namespace smelt
