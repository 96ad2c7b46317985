// Questions with several answers, of which one is right, in the forms of files that llama-perplexity reads.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace smelt {

struct ChoiceTask {
  std::vector<std::string> texts;  // the question with each of its answers
  size_t right = 0;                // which of them
  // Winogrande, where an answer stands within a text: the texts up to behind it. What follows is scored, as the answers
  // themselves are more or less likely words. Else empty: all that texts do not have in common is scored.
  std::vector<std::string> beginnings = {};
};

enum class ChoiceForm {
  HellaSwag,       // six lines a task: the text, the number of the right ending from 0 on, four endings
  Winogrande,      // a line a task: number,sentence with a _,answer,answer,1 or 2
  MultipleChoice,  // u32 tasks, u32 where each begins, for each: a question; answers with labels, 1 or 0, and again
                   // such of which several are right, which is not used. Texts have a u32 length in front.
};

Result<std::vector<ChoiceTask>> read_choice_tasks(const std::string& path, ChoiceForm form);

}  // namespace smelt
