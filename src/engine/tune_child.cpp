#include "engine/tune_child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>

#include "base/from_chars.h"
#include "base/system_calls.h"
#include "engine/tuned_options.h"

namespace smelt {
namespace {

constexpr const char *kError = "error ", *kText = "text ";

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(fd, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return;
    text.remove_prefix(static_cast<size_t>(put));
  }
}

std::string read_all(int fd) {
  std::string text;
  char piece[4096];
  while (true) {
    const ssize_t got = ::read(fd, piece, sizeof piece);
    if (got < 0 && errno == EINTR) continue;  // Ctrl-C: the child will tell what it has
    if (got <= 0) return text;
    text.append(piece, static_cast<size_t>(got));
  }
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

// Lines of a name, a space and a value.
class Fields {
 public:
  explicit Fields(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size()), space = std::min(text.find(' '), end);
      const std::string name(text.substr(0, space));
      const std::string value(text.substr(std::min(space + 1, end), end - std::min(space + 1, end)));
      if (name == "wrong")
        wrong.push_back(value);
      else if (name == "trial")
        trials.push_back(value);
      else
        values_[name] = value;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  template <class T>
  bool read(const char* name, T& out) const {
    const auto found = values_.find(name);
    if (found == values_.end()) return false;
    const std::string& text = found->second;
    const auto [p, error] = from_chars(text.data(), text.data() + text.size(), out);
    return error == std::errc() && p == text.data() + text.size();
  }

  std::string_view text(const char* name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? std::string_view() : found->second;
  }

  std::vector<std::string> wrong, trials;

 private:
  std::map<std::string, std::string> values_;
};

// The line of a trial: numbers, options and the problem, with tabs between them.
std::string format_trial(const TuneTrial& t) {
  char numbers[200];
  std::snprintf(numbers, sizeof numbers, "%d\t%d\t%.6g\t%.6g\t%.6g\t", t.parent, t.generation, t.estimate_us, t.ratio,
                t.last_ratio);
  return numbers + t.options + "\t" + t.problem;
}

std::optional<TuneTrial> parse_trial(const std::string& line) {
  TuneTrial t;
  int length = 0;
  const int fields = std::sscanf(line.c_str(), "%d\t%d\t%lg\t%lg\t%lg%n", &t.parent, &t.generation, &t.estimate_us,
                                 &t.ratio, &t.last_ratio, &length);
  const size_t options = static_cast<size_t>(length) + 1, problem = line.find('\t', options);
  if (fields != 5 || problem == std::string::npos) return std::nullopt;
  t.options = line.substr(options, problem - options);
  t.problem = line.substr(problem + 1);
  return t;
}

}  // namespace

std::string format_outcome(const TuneOutcome& o) {
  char numbers[400];
  std::snprintf(numbers, sizeof numbers,
                "before_us %.6g\nafter_us %.6g\nfloor_us %.6g\nprogram %llu\nkernel %llu\nimproved %d\n"
                "interrupted %d\nwinner %d\nconsidered %d\nhopeless %d\ncompiled %d\nwrongs %d\njudged %zu\n",
                o.before_us, o.after_us, o.floor_us, static_cast<unsigned long long>(o.program),
                static_cast<unsigned long long>(o.kernel), o.improved, o.interrupted, o.winner, o.counts.considered,
                o.counts.hopeless, o.counts.compiled, o.counts.wrong, o.judged_elements);
  std::string text = numbers;
  text += "before " + to_string(o.before) + "\nafter " + to_string(o.after) + "\n";
  for (const std::string& wrong : o.wrong) text += "wrong " + wrong + "\n";
  for (const TuneTrial& trial : o.trials) text += "trial " + format_trial(trial) + "\n";
  return text + "end \n";
}

Result<TuneOutcome> parse_outcome(std::string_view text) {
  if (!text.ends_with("end \n")) return Error{"[tune] the search ended before it could tell"};
  const Fields fields(text);
  TuneOutcome o;
  int improved = 0, interrupted = 0;
  const bool ok = fields.read("before_us", o.before_us) && fields.read("after_us", o.after_us) &&
                  fields.read("floor_us", o.floor_us) && fields.read("program", o.program) &&
                  fields.read("kernel", o.kernel) && fields.read("improved", improved) &&
                  fields.read("interrupted", interrupted) && fields.read("winner", o.winner) &&
                  fields.read("considered", o.counts.considered) && fields.read("hopeless", o.counts.hopeless) &&
                  fields.read("compiled", o.counts.compiled) && fields.read("wrongs", o.counts.wrong) &&
                  fields.read("judged", o.judged_elements);
  if (!ok) return Error{"[tune] the search told something else"};
  SMELT_TRY(before, parse_kernel_opts(fields.text("before")));
  SMELT_TRY(after, parse_kernel_opts(fields.text("after")));
  o.before = std::move(before);
  o.after = std::move(after);
  o.improved = improved != 0;
  o.interrupted = interrupted != 0;
  o.wrong = fields.wrong;
  for (const std::string& line : fields.trials) {
    const auto trial = parse_trial(line);
    if (!trial) return Error{"[tune] the search told something else"};
    o.trials.push_back(*trial);
  }
  return o;
}

Result<std::string> text_from_child(const std::function<Result<std::string>()>& work) {
  int ends[2];
  if (::pipe(ends) != 0) return work();
  std::fflush(nullptr);  // or the child would write it again
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) {
    ::close(ends[0]);
    ::close(ends[1]);
    return work();
  }
  if (child == 0) {
    // A search that nobody waits for would go on for minutes.
    end_with_parent();
    if (::getppid() != parent) ::_exit(1);
    ::close(ends[0]);
    const Result<std::string> found = work();
    write_all(ends[1], found ? kText + *found : kError + found.error().message);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text = read_all(ends[0]);
  ::close(ends[0]);
  const int status = wait_for(child);
  if (WIFSIGNALED(status))
    return Error{std::string("[tune] the search was ended by ") + ::strsignal(WTERMSIG(status)) +
                 "; the kernel stays as it is"};
  if (text.starts_with(kError)) return Error{text.substr(std::strlen(kError))};
  if (!text.starts_with(kText)) return Error{"[tune] the search ended before it could tell"};
  return text.substr(std::strlen(kText));
}

Result<TuneOutcome> in_child(const std::function<Result<TuneOutcome>()>& search) {
  SMELT_TRY(text, text_from_child([&]() -> Result<std::string> {
              SMELT_TRY(outcome, search());
              return format_outcome(outcome);
            }));
  return parse_outcome(text);
}

}  // namespace smelt
