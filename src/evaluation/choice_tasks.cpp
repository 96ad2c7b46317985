#include "evaluation/choice_tasks.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/byte_cursor.h"
#include "base/file.h"

namespace smelt {
namespace {

using Tasks = Result<std::vector<ChoiceTask>>;

Error task_error(const std::string& path, size_t number, const std::string& what) {
  return Error{"[perplexity] " + path + ": task " + std::to_string(number) + ": " + what};
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

Tasks read_hellaswag(const std::string& path, const std::string& text) {
  constexpr size_t kLines = 6, kEndings = 4;
  const std::vector<std::string> lines = lines_of(text);
  if (lines.size() % kLines != 0)
    return task_error(path, lines.size() / kLines + 1,
                      "the file ends within it; a task has a text, the number of an ending and four endings");
  std::vector<ChoiceTask> tasks;
  for (size_t at = 0; at < lines.size(); at += kLines) {
    const std::string& number = lines[at + 1];
    if (number.size() != 1 || number[0] < '0' || number[0] > '3')
      return task_error(path, at / kLines + 1, "its second line is '" + number + "' and no number from 0 to 3");
    ChoiceTask& task = tasks.emplace_back();
    task.right = static_cast<size_t>(number[0] - '0');
    for (size_t i = 0; i < kEndings; ++i) task.texts.push_back(lines[at] + " " + lines[at + 2 + i]);
  }
  return tasks;
}

// Fields between commas, of which those in quotes may have some.
std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (char c : line) {
    if (c == '"')
      is_quoted = !is_quoted;
    else if (c == ',' && !is_quoted)
      fields.emplace_back();
    else
      fields.back() += c;
  }
  return fields;
}

Tasks read_winogrande(const std::string& path, const std::string& text) {
  std::vector<ChoiceTask> tasks;
  size_t number = 0;
  for (const std::string& line : lines_of(text)) {
    const std::vector<std::string> fields = fields_of(line);
    ++number;
    if (fields.size() != 5 || (fields[4] != "1" && fields[4] != "2"))
      return task_error(path, number, "'" + line.substr(0, 60) + "' is not number,sentence,answer,answer,1 or 2");
    const size_t gap = fields[1].find('_');
    if (gap == std::string::npos) return task_error(path, number, "there is no _ in '" + fields[1] + "'");
    ChoiceTask& task = tasks.emplace_back();
    task.right = fields[4] == "2";
    for (const std::string& answer : {fields[2], fields[3]}) {
      task.beginnings.push_back(fields[1].substr(0, gap) + answer);
      task.texts.push_back(task.beginnings.back() + fields[1].substr(gap + 1));
    }
  }
  return tasks;
}

std::string text_at(ByteCursor& at) { return std::string(at.bytes(at.number<uint32_t>())); }

struct Answers {
  std::vector<std::string> texts;
  std::vector<uint32_t> labels;
};
Answers read_answers(ByteCursor& at) {
  constexpr uint32_t kMost = 100;
  Answers answers;
  const uint32_t count = at.number<uint32_t>();
  at.ok = at.ok && count <= kMost;
  for (uint32_t i = 0; i < count && at.ok; ++i) answers.texts.push_back(text_at(at));
  for (uint32_t i = 0; i < count && at.ok; ++i) answers.labels.push_back(at.number<uint32_t>());
  return answers;
}

Tasks read_multiple_choice(const std::string& path, const std::string& contents) {
  ByteCursor at{contents};
  const uint32_t count = at.number<uint32_t>();
  at.bytes(size_t{count} * sizeof(uint32_t));  // where each begins: they follow each other
  std::vector<ChoiceTask> tasks;
  for (uint32_t number = 1; number <= count && at.ok; ++number) {
    const std::string question = text_at(at);
    const Answers answers = read_answers(at);
    read_answers(at);
    if (!at.ok) break;
    const auto right = std::find(answers.labels.begin(), answers.labels.end(), 1u);
    if (right == answers.labels.end()) return task_error(path, number, "none of its answers is labelled as right");
    ChoiceTask& task = tasks.emplace_back();
    task.right = static_cast<size_t>(right - answers.labels.begin());
    for (const std::string& answer : answers.texts) task.texts.push_back(question + " " + answer);
  }
  if (!at.ok)
    return task_error(path, tasks.size() + 1, "the file ends within it, or is no file of --multiple-choice tasks");
  return tasks;
}

Tasks read_form(const std::string& path, const std::string& contents, ChoiceForm form) {
  switch (form) {
    case ChoiceForm::HellaSwag: return read_hellaswag(path, contents);
    case ChoiceForm::Winogrande: return read_winogrande(path, contents);
    case ChoiceForm::MultipleChoice: break;
  }
  return read_multiple_choice(path, contents);
}

}  // namespace

Result<std::vector<ChoiceTask>> read_choice_tasks(const std::string& path, ChoiceForm form) {
  SMELT_TRY(contents, read_stream(path));
  SMELT_TRY(tasks, read_form(path, contents, form));
  if (tasks.empty()) return Error{"[perplexity] " + path + ": there are no tasks in it"};
  return tasks;
}

}  // namespace smelt
