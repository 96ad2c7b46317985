// Questions with several answers: files, and what a model makes of them.
#include "app/choices.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <fstream>

#include "app/process.h"
#include "evaluation/token_loss.h"
#include "gguf/gguf.h"

using namespace smelt;
using namespace smelt::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string file_of(const std::string& contents) {
  const std::string path = scratch().file("tasks");
  std::ofstream(path, std::ios::binary) << contents;
  return path;
}

std::vector<ChoiceTask> tasks_of(const std::string& contents, ChoiceForm form) {
  auto tasks = read_choice_tasks(file_of(contents), form);
  REQUIRE_MESSAGE(tasks.ok(), tasks.error().message);
  return tasks.take();
}

std::string error_of(const std::string& contents, ChoiceForm form) {
  const auto tasks = read_choice_tasks(file_of(contents), form);
  return tasks ? "" : tasks.error().message;
}

std::string number(uint32_t value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }
std::string text(const std::string& value) { return number(static_cast<uint32_t>(value.size())) + value; }
std::string answers(const std::vector<std::string>& texts, size_t right) {
  std::string bytes = number(static_cast<uint32_t>(texts.size()));
  for (const std::string& t : texts) bytes += text(t);
  for (size_t i = 0; i < texts.size(); ++i) bytes += number(i == right);
  return bytes;
}

const std::string kStory = "Once upon a time, there was a little girl named";
const std::string kHellaSwag = kStory + "\n2\nxq zzz\nof of of\nLily.\n@@@\n";
const std::string kMultipleChoice = number(2) + number(12) + number(99) + text(kStory) + answers({"Lily.", "@@@"}, 0) +
                                    answers({"Lily."}, 0) + text(kStory) + answers({"xq zzz", "of of", "Lily."}, 1) +
                                    answers({}, 0);

struct Opened {
  GgufFile file = GgufFile::open(SMELT_SOURCE_DIR "/models/tiny-glm-Q4_K_M.gguf").take();
  Tokenizer tokenizer = Tokenizer::from_gguf(file).take();
  std::unique_ptr<Session> session = Session::open(file, {.threads = 1, .context = 128}, {}).take();
};

// The mean of log p of tokens `first` .. `end` - 1, each after all before it.
double mean_of(Opened& opened, const std::vector<int32_t>& ids, size_t first, size_t end) {
  opened.session->reset();
  double sum = 0;
  const auto add = [&](int64_t index, std::span<const float> logits) {
    const size_t next = static_cast<size_t>(index) + 1;
    if (next >= first && next < end) sum -= negative_log_probability(logits, ids[next]);
  };
  REQUIRE(opened.session->append_all(ids, add).ok());
  return sum / double(end - first);
}

}  // namespace

TEST_CASE("the three forms of files give texts and which of them is right") {
  const auto hellaswag = tasks_of(kHellaSwag + kHellaSwag, ChoiceForm::HellaSwag);
  REQUIRE(hellaswag.size() == 2);
  CHECK(hellaswag[1].texts[2] == kStory + " Lily.");
  CHECK(hellaswag[1].right == 2);

  const auto winogrande = tasks_of(
      "0,Sarah met Maria so _ smiled.,Sarah,Maria,2\r\n7,\"The cup, or _, fell.\",jug,pot,1\n", ChoiceForm::Winogrande);
  REQUIRE(winogrande.size() == 2);
  CHECK(winogrande[0].texts ==
        std::vector<std::string>{"Sarah met Maria so Sarah smiled.", "Sarah met Maria so Maria smiled."});
  CHECK(winogrande[0].right == 1);
  CHECK(winogrande[1].beginnings == std::vector<std::string>{"The cup, or jug", "The cup, or pot"});
  CHECK(winogrande[1].right == 0);

  const auto choice = tasks_of(kMultipleChoice, ChoiceForm::MultipleChoice);
  REQUIRE(choice.size() == 2);
  CHECK(choice[0].texts == std::vector<std::string>{kStory + " Lily.", kStory + " @@@"});
  CHECK(choice[1].texts.size() == 3);
  CHECK(choice[1].right == 1);
}

TEST_CASE("files that are none of these are refused with the number of the task") {
  CHECK(contains(error_of(kHellaSwag + "more\n", ChoiceForm::HellaSwag), "task 2: the file ends"));
  CHECK(contains(error_of("a\nb\nc\nd\ne\nf\n", ChoiceForm::HellaSwag), "task 1: its second line is 'b'"));
  CHECK(contains(error_of("0,a _ b,c,d,3\n", ChoiceForm::Winogrande), "task 1: '0,a _ b"));
  CHECK(contains(error_of("0,a b,c,d,1\n", ChoiceForm::Winogrande), "no _ in 'a b'"));
  CHECK(contains(error_of(number(1) + number(8) + text("q") + answers({"a", "b"}, 5), ChoiceForm::MultipleChoice),
                 "task 1: the file ends"));
  CHECK(contains(
      error_of(number(1) + number(8) + text("q") + answers({"a", "b"}, 5) + answers({}, 0), ChoiceForm::MultipleChoice),
      "none of its answers"));
  for (ChoiceForm form : {ChoiceForm::HellaSwag, ChoiceForm::Winogrande, ChoiceForm::MultipleChoice})
    CHECK(error_of("", form).starts_with("[perplexity] "));
  for (size_t bytes = 4; bytes < kMultipleChoice.size(); ++bytes)
    CHECK(error_of(kMultipleChoice.substr(0, bytes), ChoiceForm::MultipleChoice).starts_with("[perplexity] "));
}

TEST_CASE("scores are those of each text read by itself") {
  Opened opened;
  const ChoiceTask task = tasks_of(kHellaSwag, ChoiceForm::HellaSwag)[0];
  const auto means = score_answers(*opened.session, opened.tokenizer, task, nullptr);
  REQUIRE(means.ok());
  REQUIRE(means->size() == 4);
  std::vector<std::vector<int32_t>> ids;
  for (const std::string& t : task.texts) ids.push_back(opened.tokenizer.encode(t, false));
  size_t shared = 0;
  while (ids[0][shared] == ids[1][shared] && ids[0][shared] == ids[2][shared] && ids[0][shared] == ids[3][shared])
    ++shared;
  for (size_t i = 0; i < ids.size(); ++i)
    CHECK((*means)[i] == doctest::Approx(mean_of(opened, ids[i], shared, ids[i].size())).epsilon(1e-9));
  CHECK(std::max_element(means->begin(), means->end()) - means->begin() == 2);
}

TEST_CASE("of texts with a gap what follows the answer is scored, without the last token") {
  Opened opened;
  const ChoiceTask task = tasks_of("0,Tom gave Lily a ball and _ was happy to play with it all day.,Tom,Lily,1\n",
                                   ChoiceForm::Winogrande)[0];
  const auto means = score_answers(*opened.session, opened.tokenizer, task, nullptr);
  REQUIRE(means.ok());
  for (size_t i = 0; i < 2; ++i) {
    const auto ids = opened.tokenizer.encode(task.texts[i], false);
    const size_t first = opened.tokenizer.encode(task.beginnings[i], false).size();
    CHECK((*means)[i] == doctest::Approx(mean_of(opened, ids, first, ids.size() - 1)).epsilon(1e-9));
  }
}

TEST_CASE("the interval of an accuracy is Wilson's") {
  // Of 10 of 20: (0.5 -+ 0.2007) as tables have it; of all or none it stays within 0 and 1.
  const ChoiceScore::Interval half = ChoiceScore{.done = 20, .right = 10}.interval();
  CHECK(half.low == doctest::Approx(0.2993).epsilon(1e-3));
  CHECK(half.high == doctest::Approx(0.7007).epsilon(1e-3));
  const ChoiceScore::Interval all = ChoiceScore{.done = 5, .right = 5}.interval();
  CHECK(all.high == doctest::Approx(1));
  CHECK(all.low == doctest::Approx(0.5655).epsilon(1e-3));
}

TEST_CASE("perplexity counts right answers of a file") {
  const Outcome done = smelt::test::smelt({"perplexity", "--multiple-choice", file_of(kMultipleChoice)});
  CAPTURE(done.err);
  REQUIRE(done.exit_code == 0);
  CHECK(contains(done.out, "tasks 2\nright 1\naccuracy 0.5000\ninterval_95 "));
  const Outcome one =
      smelt::test::smelt({"perplexity", "--hellaswag", file_of(kHellaSwag + kHellaSwag), "--tasks", "1"});
  CHECK(contains(one.out, "tasks 1\nright 1\n"));
  CHECK(smelt::test::smelt({"perplexity", "--hellaswag", "a", "--winogrande", "b"}).exit_code == 2);
  const Outcome none = smelt::test::smelt({"perplexity", "--winogrande", scratch().file("missing.csv")});
  CHECK(none.exit_code == 1);
  CHECK(contains(none.err, "missing.csv"));
}
