#include "server/metrics.h"

#include <cstdio>
#include <utility>

namespace smelt {
namespace {

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}
std::string number(uint64_t value) { return std::to_string(value); }
std::string number(int value) { return std::to_string(value); }

class Page {
 public:
  // `lines`: pairs of labels and a value.
  template <class... Lines>
  void add(const char* name, const char* kind, const char* help, const Lines&... lines) {
    begin(name, kind, help);
    ((text_ += name + std::string(lines.first) + " " + number(lines.second) + "\n"), ...);
  }
  template <class Value>
  void gauge(const char* name, const char* help, Value value) {
    add(name, "gauge", help, std::pair("", value));
  }
  template <class Value>
  void counter(const char* name, const char* help, Value value) {
    add(name, "counter", help, std::pair("", value));
  }
  void histogram(const char* name, const char* help, const Histogram& values) {
    begin(name, "histogram", help);
    text_ += values.text(name);
  }

  const std::string& text() const { return text_; }

 private:
  void begin(const char* name, const char* kind, const char* help) {
    text_ += "# HELP " + std::string(name) + " " + help + "\n# TYPE " + name + " " + kind + "\n";
  }
  std::string text_;
};

}  // namespace

std::string metrics_text(const BackendLoad& load, const BackendCounts& counts, const ServerCounts& ended) {
  Page page;
  page.gauge("vllm:num_requests_running", "Requests that are being computed.", load.running);
  page.gauge("vllm:num_requests_waiting", "Requests in the queue.", load.waiting);
  page.gauge("vllm:kv_cache_usage_perc", "Share of the cache that running requests hold; 1 is all of it.",
             load.cache_use);
  page.counter("vllm:num_preemptions_total", "Requests that gave their place in the cache back for a while.",
               counts.preemptions);
  page.counter("vllm:prompt_tokens_total", "Tokens of prompts.", counts.prompt_tokens);
  page.counter("vllm:generation_tokens_total", "Tokens that were generated.", counts.tokens);
  page.counter("vllm:prefix_cache_queries_total", "Tokens of prompts that were looked for in the cache.",
               counts.prompt_tokens);
  page.counter("vllm:prefix_cache_hits_total", "Tokens of prompts that were found there, and so not computed.",
               counts.cached_tokens);
  page.add("vllm:request_success_total", "counter", "Answers that came to their end.",
           std::pair("{finished_reason=\"stop\"}", ended.stopped), std::pair("{finished_reason=\"length\"}", ended.cut),
           std::pair("{finished_reason=\"abort\"}", ended.cancelled));
  page.histogram("vllm:time_to_first_token_seconds", "From a request to its first token.", counts.first_token);
  page.histogram("vllm:inter_token_latency_seconds", "Between two tokens of an answer.", counts.between_tokens);
  page.histogram("vllm:request_queue_time_seconds", "From a request to the begin of its work.", counts.queued);
  page.histogram("vllm:e2e_request_latency_seconds", "From a request to the end of its answer.", counts.whole);
  page.counter("vllm:spec_decode_num_drafts_total", "Times that tokens were drafted for a text.", counts.drafts);
  page.counter("vllm:spec_decode_num_draft_tokens_total", "Tokens that were drafted.", counts.drafted);
  page.counter("vllm:spec_decode_num_accepted_tokens_total", "Drafted tokens that were right.", counts.accepted);
  page.counter("smelt:http_requests_total", "Requests of any kind.", ended.requests);
  page.counter("smelt:requests_refused_total", "Requests for text that were answered with an error.", ended.refused);
  page.counter("smelt:requests_failed_total", "Answers that an error ended.", ended.failed);
  page.counter("smelt:steps_total", "Steps of the engine.", counts.steps);
  page.counter("smelt:prompt_seconds_total", "Seconds that requests spent on their prompts.", counts.prompt_seconds);
  page.counter("smelt:decode_seconds_total", "Seconds that requests spent on generating.", counts.decode_seconds);
  page.counter("smelt:generating_seconds_total", "Seconds of steps that only generated.", counts.generating_seconds);
  page.counter("smelt:generating_bytes_total", "Bytes of weights that these steps had to read.",
               counts.generating_bytes);
  page.gauge("smelt:memory_bandwidth_bytes", "Bytes a second that the device reads from its memory, as measured.",
             load.bandwidth);
  return page.text();
}

}  // namespace smelt
