// libFuzzer target: any bytes as tasks with answers, or as the saved probabilities of a run. The first byte says as
// what. Whatever is read holds what its header promises.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "evaluation/choice_tasks.h"
#include "evaluation/divergence.h"
#include "evaluation/logits_file.h"
#include "fuzz/checks.h"
#include "fuzz/memory_file.h"

using namespace smelt;
using namespace smelt::test;

namespace {

void check_tasks(const std::string& path, ChoiceForm form) {
  const auto tasks = read_choice_tasks(path, form);
  if (!is_read(tasks)) return;
  require(!tasks->empty());
  for (const ChoiceTask& task : *tasks) {
    require(task.right < task.texts.size());
    require(task.beginnings.empty() || task.beginnings.size() == task.texts.size());
    for (size_t i = 0; i < task.beginnings.size(); ++i) require(task.texts[i].starts_with(task.beginnings[i]));
  }
}

void check_logits(const std::string& path) {
  const auto reader = LogitsReader::open(path);
  if (!is_read(reader)) return;
  const LogitsHeader& header = reader->header();
  for (const int32_t token : reader->tokens()) require(token >= 0 && token < header.vocabulary);
  const std::vector<float> other(static_cast<size_t>(header.vocabulary), 0.5f);
  Divergence divergence;
  for (int64_t chunk = 0; chunk < header.chunks; ++chunk)
    for (int64_t i = 0; i < header.positions(); ++i) {
      const std::vector<double> base = reader->log_probabilities(chunk, header.first() + i);
      require(base.size() == other.size());
      divergence.add(base, other);
    }
  require(divergence.positions() == header.chunks * header.positions());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  const MemoryFile file({reinterpret_cast<const char*>(bytes) + 1, size - 1});
  switch (bytes[0] % 4) {
    case 0: check_tasks(file.path(), ChoiceForm::HellaSwag); break;
    case 1: check_tasks(file.path(), ChoiceForm::Winogrande); break;
    case 2: check_tasks(file.path(), ChoiceForm::MultipleChoice); break;
    default: check_logits(file.path());
  }
  return 0;
}
