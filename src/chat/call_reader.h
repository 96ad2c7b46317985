// CallReader: reads what stands between the marks that begin and end calls, byte by byte, and gives out each call as it
// comes: first its name, then its arguments in pieces.
#pragma once

#include <memory>
#include <string>

#include "chat/output_parser.h"

namespace smelt {

class CallReader {
 public:
  // None: the style has no calls between marks. REQUIRES: `tools` outlive the reader.
  static std::unique_ptr<CallReader> make(CallStyle style, const nlohmann::ordered_json& tools);
  virtual ~CallReader() = default;

  virtual void take(char byte, Output& out) = 0;
  // Ends what is open, unless it is cut. Gives back what was read and is no call, which is content then.
  virtual std::string end(TextEnd how, Output& out) = 0;
  // Calls that have begun.
  virtual int calls() const { return calls_; }

 protected:
  void begin_call(std::string name, std::string id, Output& out) {
    ++calls_;
    out.begin_call(std::move(name), std::move(id));
  }
  void add_call(std::string name, std::string id, std::string_view arguments, Output& out) {
    begin_call(std::move(name), std::move(id), out);
    out.grow_call(arguments);
    out.end_call();
  }

 private:
  int calls_ = 0;
};

}  // namespace smelt
