#include "server/chat_output.h"

namespace smelt {

ChatOutput::ChatOutput(const ServedModel& model, std::vector<std::string> stops, OutputOptions options)
    : decoder_(model.tokenizer()),
      stop_(std::move(stops)),
      parser_(OutputParser::make(model.format(), std::move(options))) {}

Output ChatOutput::push(std::span<const int32_t> tokens) {
  Output news;
  for (int32_t token : tokens) {
    const Output part = parser_->push(stop_.push(decoder_.push(token)));
    if (!part.reasoning.empty()) ++thought_tokens_;
    news.append(part);
  }
  whole_.append(news);
  return news;
}

Output ChatOutput::finish(Finish reason) {
  Output rest = parser_->push(stop_.push(decoder_.flush()));
  rest.append(parser_->push(stop_.finish()));
  is_cut_ = reason != Finish::Stop || !stop_.found().empty();
  rest.append(parser_->finish(is_cut_ ? TextEnd::cut : TextEnd::complete));
  whole_.append(rest);
  return rest;
}

}  // namespace smelt
