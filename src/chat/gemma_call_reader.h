// Gemma's calls: call:f{k:<|"|>text<|"|>,n:1,l:[true,{...}]}, keys with or without quotes. Made JSON as they come.
#pragma once

#include "chat/call_reader.h"
#include "chat/mark_finder.h"

namespace smelt {

class GemmaCallReader : public CallReader {
 public:
  void take(char byte, Output& out) override;
  std::string end(TextEnd how, Output& out) override;

 private:
  struct Container {
    char close = '}';
    bool has_entries = false;
  };

  void on_quote(Output& out);
  void on_byte(char byte, Output& out);
  void on_head(char byte, Output& out);
  void open(char bracket, Output& out);
  void close(Output& out);
  void begin_key(Output& out);
  void begin_value(Output& out);
  void end_entry(Output& out);
  bool wants_key() const { return containers_.back().close == '}' && !has_key_; }
  bool is_over() const { return calls() > 0 && containers_.empty(); }

  MarkFinder finder_;
  std::string text_;  // the head, or what follows the arguments
  bool has_brace_ = false;
  std::vector<Container> containers_;        // that are open
  bool in_string_ = false, in_key_ = false;  // within quotes
  bool has_key_ = false;                     // of the entry whose value comes next
  bool has_value_ = false;                   // of the entry under way
  std::string bare_;                         // a key or a value without quotes
};

}  // namespace smelt
