#include "app/line_editor.h"

#include <histedit.h>

#include <cerrno>
#include <cstdio>

#include "app/interrupt.h"

namespace smelt {
namespace {

constexpr int kHistoryLines = 1000;

}  // namespace

struct LineEditor::State {
  EditLine* editor = nullptr;
  History* history = nullptr;
  HistEvent event = {};
  std::string history_file, prompt;
};

namespace {

char* prompt_of(EditLine* editor) {
  void* state = nullptr;
  el_get(editor, EL_CLIENTDATA, &state);
  return *static_cast<char**>(state);
}

}  // namespace

LineEditor::LineEditor(std::string history_file) : state_(std::make_unique<State>()) {
  interrupted();  // Ctrl-C is asked for below
  state_->history_file = std::move(history_file);
  state_->history = history_init();
  history(state_->history, &state_->event, H_SETSIZE, kHistoryLines);
  if (!state_->history_file.empty()) history(state_->history, &state_->event, H_LOAD, state_->history_file.c_str());
  state_->editor = el_init("smelt", stdin, stdout, stderr);
  el_set(state_->editor, EL_PROMPT, prompt_of);
  el_set(state_->editor, EL_EDITOR, "emacs");
  el_set(state_->editor, EL_HIST, history, state_->history);
  el_source(state_->editor, nullptr);  // the user's ~/.editrc
}

LineEditor::~LineEditor() {
  if (!state_->history_file.empty()) history(state_->history, &state_->event, H_SAVE, state_->history_file.c_str());
  el_end(state_->editor);
  history_end(state_->history);
}

LineEditor::Outcome LineEditor::read(const std::string& prompt, std::string& line) {
  state_->prompt = prompt;
  char* text = state_->prompt.data();
  el_set(state_->editor, EL_CLIENTDATA, &text);
  int count = 0;
  const char* read = el_gets(state_->editor, &count);
  if (was_interrupted()) {
    forget_interrupt();
    el_reset(state_->editor);
    std::fputs("\n", stdout);
    return Outcome::interrupted;
  }
  if (!read || count <= 0) return Outcome::end;
  line.assign(read, static_cast<size_t>(count));
  if (line.find_first_not_of(" \t\n") != line.npos) history(state_->history, &state_->event, H_ENTER, line.c_str());
  if (line.ends_with('\n')) line.pop_back();
  return Outcome::line;
}

}  // namespace smelt
