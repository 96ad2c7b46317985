// `smelt serve` from outside: what it takes and refuses before it listens.
#include <doctest/doctest.h>

#include <fstream>

#include "app/process.h"

using namespace smelt::test;

namespace {

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an address that others reach wants a key") {
  for (const char* host : {"0.0.0.0", "::", "192.168.1.1", "example.org"}) {
    CAPTURE(host);
    const Outcome run = smelt::test::smelt({"serve", "--host", host});
    CHECK(run.exit_code == 1);
    CHECK(contains(run.err, std::string("--host ") + host + ": other machines can reach that"));
  }
  const std::string path = scratch().file("no-keys");
  std::ofstream(path) << "\n \r\n";
  const Outcome empty = smelt::test::smelt({"serve", "--host", "0.0.0.0", "--api-key-file", path});
  CHECK(empty.exit_code == 1);
  CHECK(contains(empty.err, "has no key"));
  CHECK(smelt::test::smelt({"serve", "--port", "65536"}).exit_code == 2);
  CHECK(smelt::test::smelt({"serve", "--api-key", ""}).exit_code == 2);
}

TEST_CASE("drafts are as those of run, but for drawn ones") {
  const Outcome two = smelt::test::smelt({"serve", "--lookup", "--mtp", "2"});
  CHECK(two.exit_code == 1);
  CHECK(contains(two.err, "only one of them can draft"));
  const Outcome headless = smelt::test::smelt({"serve", "--port", "0", "--mtp", "2"});
  CHECK(headless.exit_code == 1);
  CHECK(contains(headless.err, "multi-token prediction"));
  const Outcome none = smelt::test::smelt({"serve", "--port", "0", "-md", "/no/model.gguf"});
  CHECK(none.exit_code == 1);
  CHECK(contains(none.err, "/no/model.gguf"));
  const Outcome drawn = smelt::test::smelt({"serve", "--port", "0", "-md", "/no/model.gguf", "--draft-draw"});
  CHECK(drawn.exit_code == 1);
  CHECK(contains(drawn.err, "--draft-draw: answers of a server"));
}

TEST_CASE("TLS wants a key and a certificate that can be read") {
  const Outcome half = smelt::test::smelt({"serve", "--ssl-key-file", "key.pem"});
  CHECK(half.exit_code == 1);
  CHECK(contains(half.err, "--ssl-key-file and --ssl-cert-file"));
  const Outcome none = smelt::test::smelt({"serve", "--ssl-key-file", "/no/key", "--ssl-cert-file", "/no/cert"});
  CHECK(none.exit_code == 1);
  CHECK(contains(none.err, "/no/cert"));
}

TEST_CASE("flags of llama.cpp's server are taken, or answered by what to do instead") {
  // A word and its value. What is taken leads to the sentence about the address.
  const auto outcome = [](const std::string& words) {
    std::vector<std::string> arguments = {"serve"};
    for (size_t at = 0; at < words.size();) {
      const size_t end = std::min(words.find(' ', at), words.size());
      arguments.push_back(words.substr(at, end - at));
      at = end + 1;
    }
    arguments.insert(arguments.end(), {"--host", "0.0.0.0"});
    return smelt::test::smelt(arguments);
  };
  for (const char* taken : {"-c 512",
                            "-n 5",
                            "--predict 5",
                            "--n-predict -1",
                            "-np 2",
                            "-a name",
                            "--alias name",
                            "-t 1",
                            "-tb 1",
                            "-b 512",
                            "-ub 512",
                            "-fa on",
                            "-cb",
                            "--metrics",
                            "--slots",
                            "--props",
                            "--jinja",
                            "--no-warmup",
                            "--cache-reuse 256",
                            "-ctk f16",
                            "-ctv f16",
                            "--temp 0.5",
                            "--top-k 5",
                            "--top-p 0.5",
                            "--min-p 0.1",
                            "--typical 0.9",
                            "--typical-p 0.9",
                            "--repeat-last-n 64",
                            "--repeat-penalty 1.1",
                            "--presence-penalty 1",
                            "--frequency-penalty 1",
                            "--dry-multiplier 1",
                            "--dry-base 2",
                            "--dry-allowed-length 2",
                            "--dry-penalty-last-n -1",
                            "--dry-sequence-breaker x",
                            "--dynatemp-range 0.5",
                            "--dynatemp-exp 1",
                            "--xtc-probability 0.1",
                            "--xtc-threshold 0.1",
                            "-s 1",
                            "--seed 1",
                            "-l 15+1",
                            "--logit-bias 15-1",
                            "--threads-http 4",
                            "--check-tensors",
                            "--no-mmproj",
                            "--offline",
                            "--log-colors auto",
                            "-lv 3",
                            "-kvu",
                            "--swa-full",
                            "--ctx-checkpoints 4",
                            "-fit on",
                            "--no-escape",
                            "--perf",
                            "--reasoning-format auto",
                            "--chat-template-kwargs {\"enable_thinking\":false}",
                            "--draft 4",
                            "-nr"}) {
    CAPTURE(taken);
    const Outcome run = outcome(taken);
    CAPTURE(run.err);
    CHECK(run.exit_code == 1);
    CHECK(contains(run.err, "other machines can reach that"));
  }
  for (const char* answered : {"-ngl 99",
                               "-sm layer",
                               "-ts 1,1",
                               "-mg 0",
                               "-ot a=CPU",
                               "-cmoe",
                               "-ncmoe 4",
                               "-nkvo",
                               "--mlock",
                               "--no-mmap",
                               "--numa isolate",
                               "-C f",
                               "--prio 2",
                               "--rope-scaling yarn",
                               "--yarn-orig-ctx 4096",
                               "--override-kv a=int:1",
                               "--lora file",
                               "--control-vector file",
                               "-mu url",
                               "-hff file",
                               "-hft token",
                               "-r text",
                               "--grammar text",
                               "-j {}",
                               "--json-schema-file file",
                               "--samplers top_k",
                               "--mirostat 2",
                               "--mirostat-lr 0.1",
                               "--top-nsigma 1",
                               "--context-shift",
                               "--keep 1",
                               "--slot-save-path folder",
                               "--path folder",
                               "--api-prefix /x",
                               "-to 60",
                               "--embedding",
                               "--rerank",
                               "--pooling mean",
                               "--mmproj file",
                               "--chat-template chatml",
                               "--no-jinja",
                               "--reasoning-budget 0",
                               "--no-slots",
                               "--no-webui",
                               "--models-dir folder",
                               "--cache-ram 100",
                               "--ignore-eos",
                               "--spm-infill",
                               "--list-devices",
                               "--prefill-assistant",
                               "--rpc host:1",
                               "--reuse-port"}) {
    CAPTURE(answered);
    const Outcome run = outcome(answered);
    CAPTURE(run.err);
    const std::string words = answered, flag = words.substr(0, words.find(' '));
    CHECK(run.exit_code == 2);
    CHECK(contains(run.err, "smelt: " + flag + ": "));
    CHECK(!contains(run.err, "there is no option"));
  }
  CHECK(smelt::test::smelt({"serve", "--chat-template-kwargs", "[1]"}).exit_code == 2);
}
