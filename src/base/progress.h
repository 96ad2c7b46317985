// Progress: a bar on stderr for work that takes its time.
//
// Of bytes the bar shows the pace and the time left. On a terminal the bar appears once the work has lasted a second
// and is cleared at the end; elsewhere one line at the end says what was done and how long it took, if that was over a
// second. Cheap enough to call per item, from any thread.
//   Progress progress("compiling", kernels.size());
//   for (auto& kernel : kernels) { compile(kernel); progress.add(1); }
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace smelt {

bool stderr_is_terminal();
bool stderr_has_colour();  // a terminal, and NO_COLOR is not set

// Where progress is shown and whose time it goes by; tests put in their own.
struct Console {
  bool terminal = false;
  bool colour = false;
  int columns = 80;
  std::function<double()> seconds;
  std::function<void(std::string_view)> write;
};
Console stderr_console();

// Of parts, thousandths or whatever else, only their share of the total is shown: "43 %".
enum class ProgressUnit { items, bytes, parts };

class Progress {
 public:
  // total 0: unknown, only the count is shown.
  Progress(std::string label, uint64_t total, ProgressUnit unit = ProgressUnit::items);
  Progress(std::string label, uint64_t total, ProgressUnit unit, Console console);
  ~Progress();  // finishes
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(uint64_t amount);
  void set(uint64_t done);
  void begin_at(uint64_t done);  // so much was there before: it does not count for the pace
  void hide();                   // clears the bar until the next change, so that a line can be printed
  void finish();                 // clears the bar, or writes the one line; a second call does nothing

 private:
  void draw(double now);
  std::string pace(uint64_t done, double elapsed) const;
  std::string bar(uint64_t done, double elapsed) const;
  std::string amount_text(uint64_t done) const;
  std::string done_text(uint64_t done, const char* of) const;

  const std::string label_;
  const uint64_t total_;
  const ProgressUnit unit_;
  const Console console_;
  const double start_;
  std::atomic<uint64_t> done_ = 0;
  std::atomic<uint64_t> before_ = 0;
  std::atomic<double> next_draw_;
  std::mutex drawing_;
  bool visible_ = false;
  bool finished_ = false;
};

// "17.2 GB", "512 B": decimal units, as the rest of the program prints them.
std::string bytes_text(uint64_t bytes);

}  // namespace smelt
