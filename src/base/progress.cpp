#include "base/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "base/options.h"

namespace smelt {
namespace {

constexpr double kShowAfter = 1.0;  // seconds; shorter work stays silent
constexpr double kRedrawEvery = 0.1;
constexpr int kBarWidth = 24;
constexpr const char* kGreen = "\x1b[32m";
constexpr const char* kPlain = "\x1b[0m";
constexpr const char* kClearLine = "\r\x1b[K";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void write_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

int stderr_columns() {
  winsize size = {};
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string number(const char* format, double value) {
  char text[32];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

}  // namespace

bool stderr_is_terminal() { return ::isatty(STDERR_FILENO) == 1 && options().term != "dumb"; }
bool stderr_has_colour() { return stderr_is_terminal() && !options().no_color; }

Console stderr_console() {
  const bool terminal = stderr_is_terminal();
  return {.terminal = terminal,
          .colour = stderr_has_colour(),
          .columns = terminal ? stderr_columns() : 80,
          .seconds = steady_seconds,
          .write = write_stderr};
}

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1000;
  size_t unit = 0;
  for (; value >= 999.5 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return number(value < 9.995 ? "%.2f " : value < 99.95 ? "%.1f " : "%.0f ", value) + kUnits[unit];
}

Progress::Progress(std::string label, uint64_t total, ProgressUnit unit)
    : Progress(std::move(label), total, unit, stderr_console()) {}

Progress::Progress(std::string label, uint64_t total, ProgressUnit unit, Console console)
    : label_(std::move(label)),
      total_(total),
      unit_(unit),
      console_(std::move(console)),
      start_(console_.seconds()),
      next_draw_(start_ + kShowAfter) {}

Progress::~Progress() { finish(); }

void Progress::add(uint64_t amount) {
  done_.fetch_add(amount, std::memory_order_relaxed);
  const double now = console_.seconds();
  if (console_.terminal && now >= next_draw_.load(std::memory_order_relaxed)) draw(now);
}

void Progress::set(uint64_t done) {
  done_.store(done, std::memory_order_relaxed);
  add(0);
}

void Progress::begin_at(uint64_t done) {
  before_ = done;
  set(done);
}

void Progress::hide() {
  std::lock_guard lock(drawing_);
  if (std::exchange(visible_, false)) console_.write(kClearLine);
}

// Whoever finds another thread drawing goes on with its work.
void Progress::draw(double now) {
  std::unique_lock lock(drawing_, std::try_to_lock);
  if (!lock || finished_) return;
  next_draw_.store(now + kRedrawEvery, std::memory_order_relaxed);
  visible_ = true;
  console_.write(kClearLine + bar(done_.load(std::memory_order_relaxed), now - start_));
}

void Progress::finish() {
  std::unique_lock lock(drawing_);
  if (std::exchange(finished_, true)) return;
  const double elapsed = console_.seconds() - start_;
  if (visible_) console_.write(kClearLine);
  if (!console_.terminal && elapsed >= kShowAfter) {
    console_.write(label_ + ": " + done_text(done_.load(), " of ") + " in " + number("%.1f s\n", elapsed));
  }
}

std::string Progress::amount_text(uint64_t done) const {
  return unit_ == ProgressUnit::bytes ? bytes_text(done) : std::to_string(done);
}

// "83", "83/214", "39 %"; never more than the total.
std::string Progress::done_text(uint64_t done, const char* of) const {
  if (total_ == 0) return amount_text(done);
  done = std::min(done, total_);
  if (unit_ == ProgressUnit::parts)
    return number("%.0f %%", 100 * static_cast<double>(done) / static_cast<double>(total_));
  if (unit_ == ProgressUnit::bytes && done == total_) return amount_text(done);
  return amount_text(done) + of + amount_text(total_);
}

// "  48.1 MB/s, 31 s left"
std::string Progress::pace(uint64_t done, double elapsed) const {
  const double rate = elapsed > 0 ? static_cast<double>(done - std::min<uint64_t>(done, before_)) / elapsed : 0;
  std::string text = "  " + bytes_text(static_cast<uint64_t>(rate)) + "/s";
  if (rate < 1 || done >= total_) return text;
  const double left = static_cast<double>(total_ - done) / rate;
  if (left < 100) return text + number(", %.0f s left", left);
  return text + (left < 6000 ? number(", %.0f min left", left / 60) : number(", %.1f h left", left / 3600));
}

// "compiling [#########---------------] 83/214  3.1 s", never wider than the terminal, or clearing
// would leave a line.
std::string Progress::bar(uint64_t done, double elapsed) const {
  const std::string time = unit_ == ProgressUnit::bytes ? pace(done, elapsed) : number("  %.1f s", elapsed);
  const std::string label = label_.substr(0, static_cast<size_t>(std::max(1, console_.columns - 2)));
  if (total_ == 0) return (label_ + " " + done_text(done, "") + time).substr(0, std::max(1, console_.columns - 1));
  const std::string tail = " " + done_text(done, "/") + time;
  const int room = console_.columns - 1 - static_cast<int>(label.size() + 3 + tail.size());
  const int width = std::min(kBarWidth, room);
  if (width < 4) return (label + tail).substr(0, std::max(1, console_.columns - 1));
  const double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total_));
  const int filled = static_cast<int>(share * width);
  const std::string full(static_cast<size_t>(filled), '#');
  const std::string rest(static_cast<size_t>(width - filled), '-');
  return label + " [" + (console_.colour ? kGreen + full + kPlain : full) + rest + "]" + tail;
}

}  // namespace smelt
