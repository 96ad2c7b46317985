#include "base/progress.h"

#include <doctest/doctest.h>

#include <thread>
#include <vector>

using namespace smelt;

namespace {

// A console whose clock the test moves.
struct Screen {
  double now = 100;
  std::string text;
  Console console(bool terminal, int columns = 80) {
    return {.terminal = terminal,
            .colour = false,
            .columns = columns,
            .seconds = [this] { return now; },
            .write = [this](std::string_view s) { text += s; }};
  }
};

}  // namespace

TEST_CASE("work of less than a second shows nothing, on a terminal or not") {
  for (bool terminal : {false, true}) {
    Screen screen;
    {
      Progress progress("loading", 10, ProgressUnit::items, screen.console(terminal));
      screen.now += 0.9;
      progress.add(10);
    }
    CHECK(screen.text.empty());
  }
}

TEST_CASE("on a terminal the bar appears after a second and is cleared at the end") {
  Screen screen;
  Progress progress("compiling", 8, ProgressUnit::items, screen.console(true));
  screen.now += 1.5;
  progress.add(2);
  CHECK(screen.text == "\r\x1b[Kcompiling [######------------------] 2/8  1.5 s");
  progress.add(1);  // too soon to draw again
  screen.now += 0.5;
  screen.text.clear();
  progress.set(8);
  CHECK(screen.text == "\r\x1b[Kcompiling [########################] 8/8  2.0 s");
  screen.text.clear();
  progress.finish();
  CHECK(screen.text == "\r\x1b[K");
  progress.finish();
  CHECK(screen.text == "\r\x1b[K");
}

TEST_CASE("elsewhere long work gives one line at the end") {
  Screen screen;
  {
    Progress progress("loading", 4000000, ProgressUnit::bytes, screen.console(false));
    screen.now += 2.25;
    progress.add(4000000);
    CHECK(screen.text.empty());
  }
  CHECK(screen.text == "loading: 4.00 MB in 2.2 s\n");
}

TEST_CASE("the line at the end says how much of the work was done") {
  const auto line = [](uint64_t done, ProgressUnit unit) {
    Screen screen;
    Progress progress("work", 1000, unit, screen.console(false));
    screen.now += 2;
    progress.set(done);
    progress.finish();
    return screen.text;
  };
  CHECK(line(1000, ProgressUnit::items) == "work: 1000 of 1000 in 2.0 s\n");
  CHECK(line(10, ProgressUnit::items) == "work: 10 of 1000 in 2.0 s\n");
  CHECK(line(10, ProgressUnit::bytes) == "work: 10 B of 1.00 kB in 2.0 s\n");
  CHECK(line(431, ProgressUnit::parts) == "work: 43 % in 2.0 s\n");
}

TEST_CASE("of parts a bar shows their share") {
  Screen screen;
  Progress progress("packing", 200, ProgressUnit::parts, screen.console(true));
  screen.now += 1.5;
  progress.set(50);
  CHECK(screen.text == "\r\x1b[Kpacking [######------------------] 25 %  1.5 s");
}

TEST_CASE("a line never fills the width of the terminal, however narrow") {
  for (int columns = 1; columns < 100; ++columns) {
    for (uint64_t total : {uint64_t{0}, uint64_t{1000000}}) {
      Screen screen;
      Progress progress("a rather long label", total, ProgressUnit::items, screen.console(true, columns));
      screen.now += 3;
      progress.add(5000000);
      CAPTURE(columns);
      CHECK(screen.text.substr(4).size() <= static_cast<size_t>(std::max(1, columns - 1)));
    }
  }
}

TEST_CASE("threads may add at the same time") {
  Screen screen;
  Progress progress("compiling", 4000, ProgressUnit::items, screen.console(true));
  screen.now += 2;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) progress.add(1);
    });
  }
  for (auto& thread : threads) thread.join();
  screen.now += 1;
  progress.add(0);
  CHECK(screen.text.find("4000/4000") != std::string::npos);
}

TEST_CASE("byte counts have three digits and a decimal unit") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1000) == "1.00 kB");
  CHECK(bytes_text(9999) == "10.0 kB");
  CHECK(bytes_text(99960) == "100 kB");
  CHECK(bytes_text(999600) == "1.00 MB");
  CHECK(bytes_text(17216676192) == "17.2 GB");
  CHECK(bytes_text(UINT64_MAX) == "18.4 EB");
}
