// The search over options: its moves, its judge, what it finds and how that is remembered.
#include "engine/tune.h"

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>

#include "base/file.h"
#include "codegen/panel.h"
#include "engine/compile.h"
#include "engine/tune_bench.h"
#include "engine/tune_child.h"
#include "engine/tune_estimate.h"
#include "engine/tune_judge.h"
#include "engine/tune_moves.h"
#include "engine/tuned_options.h"
#include "graph/rules_algebra.h"
#include "runtime/cpu/cpu_device.h"
#include "runtime/devices.h"
#include "runtime/target.h"
#include "support/apart_device.h"
#include "support/judge.h"
#include "support/small_graphs.h"
#include "support/temp_folder.h"

using namespace smelt;
using namespace smelt::test;
using namespace smelt::testing;

namespace {

Ref matvec(int64_t rows = 64) {
  return sink({output(2, linear(input(0, {1, 256}), q4_0(input(1, {rows, 8, 18}, DType::U8))))});
}

Ref attention_graph() {
  const Ref chunks = variable("chunks", 1, 4);
  return sink(
      {output(3, attention(input(0, {2, 32}), input(1, {256, 32}), input(2, {1}, DType::I32), Dim(chunks * 64), 16))});
}

// A small kernel with memory of its own, as a search sees it.
struct Site {
  explicit Site(Ref root, const Variables& variables = {})
      : kernel(kernel_of(root, variables)), memory(kernel.buffers) {
    for (Bytes& b : memory) b.resize(b.size() + 64);
    for (Bytes& b : memory) pointers.push_back(b.data());
    site.name = "kernel";
    site.tree = kernel.tree;
    for (const auto& [name, value] : variables) {
      site.symbol_names.push_back(name);
      site.symbols.push_back(value);
    }
    for (const Bytes& b : kernel.buffers) site.buffers.push_back({static_cast<int64_t>(b.size()), false});
    site.launches = {pointers.data()};
    site.prepare = [this]() -> Status {
      ++prepared;
      return {};
    };
  }

  // To memory that only the device sees.
  void move_to(Device& device) {
    for (size_t i = 0; i < memory.size(); ++i) {
      moved.push_back(DeviceMemory::allocate(device, memory[i].size(), "a test").take());
      REQUIRE(device.upload(moved.back().data(), memory[i]).ok());
      pointers[i] = moved.back().data();
    }
  }

  JudgedKernel kernel;
  std::vector<Bytes> memory;
  std::vector<DeviceMemory> moved;
  std::vector<const void*> pointers;
  TuneSite site;
  int prepared = 0;
};

const Executable* compiled(Device& device, const TuneSite& site, const KernelOpts& opts) {
  const KernelBuilder builder(device, site.symbol_names);
  return builder.build(builder.program(site.tree, site.name, opts)).take();
}

KernelOpts no_opts(Ref tree) { return KernelOpts(tree->src.size()); }

// `machine`: the one that its program is made for.
TunedEntry entry_for(Ref tree, KernelOpts opts, const Machine& machine = {}) {
  const CodegenRequest request{.tree = tree, .name = "k", .machine = machine, .opts = opts};
  return {.kernel = kernel_hash(tree),
          .device = device_text(machine_of(host_target())),
          .compiler = compiler_text(),
          .program = program_hash(generate(request).program),
          .before_us = 12.5,
          .after_us = 10.25,
          .name = "reduce_sum_64",
          .opts = std::move(opts)};
}

struct Complaints {
  std::vector<std::string> all;
  TunedComplaint sink() {
    return [this](const std::string& message) { all.push_back(message); };
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const CpuExecutable does_nothing([](const void* const*, const int64_t*, int64_t, int64_t, std::byte*, int64_t) {});

// Puts the number of workers where the result of matvec() belongs.
const CpuExecutable tells_parts([](const void* const* buffers, const int64_t*, int64_t part, int64_t parts, std::byte*,
                                   int64_t) {
  if (part != 0) return;
  auto* out = static_cast<float*>(const_cast<void*>(buffers[0]));
  for (int i = 0; i < 64; ++i) out[i] = static_cast<float>(parts);
});

}  // namespace

TEST_CASE("every neighbour of the heuristic's options is legal and computes the same") {
  for (const auto& [root, variables] : {std::pair{matvec(16), Variables{}}, {attention_graph(), {{"chunks", 2}}}}) {
    const JudgedKernel kernel = kernel_of(root, variables);
    const Machine machine;
    std::mt19937_64 rng(1);
    for (size_t nest = 0; nest < kernel.tree->src.size(); ++nest) {
      const Refs stores = prepared(kernel.tree, nest);
      const bool local = is_local_nest(kernel.tree->src[nest]);
      KernelOpts opts = no_opts(kernel.tree);
      const std::vector<Opt> start = choose_opts(stores, machine, local);
      for (const std::vector<Opt>& next : neighbours(stores, start, machine, local)) {
        CHECK(next != start);
        opts[nest] = next;
        CHECK_MESSAGE(why_not_opts(kernel.tree, opts, machine) == "", to_string(next));
        if (rng() % 8 == 0) CHECK_MESSAGE(problem_with(kernel, opts) == "", to_string(next));
      }
    }
  }
}

TEST_CASE("no neighbour keeps more on chip than there is") {
  const Dim tokens = Dim(variable("tokens8", 1, 4) * 8);
  const Tensor x = slice(input(0, {32, 256}), 0, 0, tokens), w = q4_0(input(1, {128, 8, 18}, DType::U8));
  const JudgedKernel kernel = kernel_of(sink({output(2, linear(x, w))}), {{"tokens8", 2}});
  const Refs stores = prepared(kernel.tree);
  Machine machine;
  const auto with_panels = [&] {
    const auto all = neighbours(stores, choose_opts(stores, machine, false), machine, false);
    return std::count_if(all.begin(), all.end(), [&](const std::vector<Opt>& next) {
      CHECK_MESSAGE(why_not_opts(kernel.tree, {next}, machine) == "", to_string(next));
      return has_panel(next);
    });
  };
  machine.block_memory_bytes = 1 << 20;
  const auto many = with_panels();
  machine.block_memory_bytes = 24 << 10;  // a panel of 16 rows
  CHECK(with_panels() < many);
}

TEST_CASE("a nest of many threads leaves less on-chip memory to the others of its kernel") {
  const Machine gpu = *known_machine("h100");
  const JudgedKernel kernel = kernel_of(
      sink({output(2, linear(input(0, {64, 512}), input(1, {64, 512}))), output(3, input(0, {64, 512}) * 2.0f)}));
  REQUIRE(kernel.tree->src.size() == 2);
  KernelOpts opts = no_opts(kernel.tree);
  // 64 sums of two warps: 16 KB, and 256 KB where the block has 16 times the threads.
  opts[0] = {upcast("o0", 64), group("r1.1", 64)};
  CHECK(why_not_opts(kernel.tree, opts, gpu) == "");
  opts[1] = {local("o1", 512), local("o0", 2)};
  CHECK(why_not_opts(kernel.tree, opts, gpu) ==
        "it keeps 262144 bytes on chip, more than the 232448 that the memory of a block has for it");
}

TEST_CASE("an option left out leaves the others on the axes they were meant for") {
  const JudgedKernel kernel = kernel_of(sink({output(2, linear(input(0, {1, 64}), input(1, {32, 64})))}));
  const Refs stores = prepared(kernel.tree);
  const auto all = neighbours(stores, {split("o1", 4), group("r1.1", 8), task("o1.0")}, {}, false);
  const std::vector<Opt> without_split{group("r1.1", 8), task("o1")};
  CHECK(std::find(all.begin(), all.end(), without_split) != all.end());
}

TEST_CASE("the heuristic's choice is the first starting point, and none comes twice") {
  const Refs stores = prepared(kernel_of(matvec()).tree);
  const Machine machine;
  const auto starts = starting_points(stores, machine, false);
  REQUIRE(!starts.empty());
  CHECK(starts[0] == choose_opts(stores, machine, false));
  for (size_t i = 0; i < starts.size(); ++i)
    CHECK(std::find(starts.begin() + static_cast<std::ptrdiff_t>(i) + 1, starts.end(), starts[i]) == starts.end());
}

TEST_CASE("the estimate knows that vectors, and enough tasks, are better") {
  const JudgedKernel kernel = kernel_of(matvec(256));
  const Machine machine = machine_of(*named_target("x86-64-v4"));
  const auto seconds = [&](const KernelOpts& opts) {
    const CodegenResult made = generate({.tree = kernel.tree, .name = "k", .machine = machine, .opts = opts});
    return estimate({.program = made.program,
                     .machine = machine,
                     .workers = 2,
                     .tasks = shape_of(kernel.tree, made.opts, machine).tasks})
        .seconds;
  };
  const double chosen = seconds({});
  CHECK(seconds(no_opts(kernel.tree)) > 3 * chosen);
  KernelOpts alone = generate({.tree = kernel.tree, .name = "k", .machine = machine}).opts;
  for (std::vector<Opt>& nest : alone) std::erase_if(nest, [](const Opt& o) { return o.kind == OptKind::Task; });
  CHECK(seconds(alone) > 1.5 * chosen);
}

void judge_kernels(Device& device, const Site& s) {
  const Executable* base = compiled(device, s.site, {});
  auto judge = TuneJudge::make(s.site, base, device);
  REQUIRE_MESSAGE(judge.ok(), judge.error().message);
  CHECK(judge->elements() == 64);
  CHECK(judge->bytes() == 64 * 4);
  CHECK(*judge->problem_with(base, s.site.launches[0]) == "");
  CHECK(*judge->problem_with(compiled(device, s.site, no_opts(s.site.tree)), s.site.launches[0]) == "");
  CHECK(*judge->is_steady(base, s.site.launches[0]));
  CHECK(*judge->problem_with(&does_nothing, s.site.launches[0]) != "");  // what lay there from before does not count
  CHECK(*judge->problem_with(&tells_parts, s.site.launches[0]) != "");
  CHECK_FALSE(*judge->is_steady(&tells_parts, s.site.launches[0]));
  CHECK(*judge->problem_with(base, s.site.launches[0]) == "");
  // A kernel that is wrong before it is tuned is not tuned.
  const auto refused = TuneJudge::make(s.site, &does_nothing, device);
  REQUIRE_FALSE(refused.ok());
  CHECK(has(refused.error().message, "disagrees with the interpreter"));
}

TEST_CASE("the judge takes the same kernel in other forms, and no other kernel") {
  const auto device = open_cpu_device({.threads = 2, .use_cache = false}).take();
  judge_kernels(*device, Site(matvec()));
  ApartDevice apart(open_cpu_device({.threads = 2, .use_cache = false}).take());
  Site s(matvec());
  s.move_to(apart);
  judge_kernels(apart, s);
}

TEST_CASE(
    "a search on a device whose memory the host does not see finds what agrees, and ends where the device fails") {
  for (const auto& [root, variables] : {std::pair{matvec(256), Variables{}}, {attention_graph(), {{"chunks", 2}}}}) {
    ApartDevice device(open_cpu_device({.threads = 2, .use_cache = false}).take());
    Site s(root, variables);
    s.move_to(device);
    const auto outcome = tune_kernel({.site = s.site, .device = device, .limits = {.seconds = 3600, .compiled = 8}});
    REQUIRE_MESSAGE(outcome.ok(), outcome.error().message);
    CHECK(outcome->counts.compiled >= 8);
    CHECK_MESSAGE(outcome->counts.wrong == 0, outcome->wrong.front());
    CHECK(problem_with(s.kernel, outcome->after, device.machine()) == "");
    device.fails = true;
    const auto failed = tune_kernel({.site = s.site, .device = device, .limits = {.seconds = 3600, .compiled = 8}});
    REQUIRE_FALSE(failed.ok());
    CHECK(has(failed.error().message, "the device is gone"));
  }
}

TEST_CASE("cold samples: as many as rounds for each kernel, none after a cancellation") {
  const auto device = open_cpu_device({.threads = 2, .use_cache = false}).take();
  Site s(matvec());
  s.site.bytes_between = 1e12;  // a large model: everything else is driven out
  auto bench = ColdBench::make(s.site, 1000, *device);
  REQUIRE(bench.ok());
  CHECK(bench->bytes_read_between() >= static_cast<size_t>(device->machine().l3_bytes));
  const TimedKernel kernels[] = {{compiled(*device, s.site, {}), s.site.launches}, {&does_nothing, s.site.launches}};
  const auto samples = bench->run(kernels, 3, nullptr).take();
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].size() == 3);
  CHECK(samples[1].size() == 3);
  CHECK(typical_of(samples[0]) > 0);
  const std::atomic<bool> cancelled = true;
  CHECK(bench->run(kernels, 3, &cancelled).take()[0].empty());
}

TEST_CASE("kernels that a model launches with weights enough to fill the caches need no other memory") {
  const auto device = open_cpu_device({.threads = 1, .use_cache = false}).take();
  Site s(matvec());
  s.site.bytes_between = 1e12;
  const auto bench = ColdBench::make(s.site, 1e12, *device);
  REQUIRE(bench.ok());
  CHECK(bench->bytes_read_between() == 0);
}

TEST_CASE("what tune_kernel gives has agreed with the reference and is what generate makes") {
  for (const auto& [root, variables] : {std::pair{matvec(256), Variables{}}, {attention_graph(), {{"chunks", 2}}}}) {
    Site s(root, variables);
    // Limits that do not depend on the speed of the machine.
    const auto device = open_device({.threads = 2, .use_cache = false}).take();
    const auto outcome = tune_kernel({.site = s.site, .device = *device, .limits = {.seconds = 3600, .compiled = 20}});
    REQUIRE_MESSAGE(outcome.ok(), outcome.error().message);
    CHECK(outcome->counts.considered >= outcome->counts.compiled);
    CHECK(outcome->counts.compiled >= 20);
    CHECK_MESSAGE(outcome->counts.wrong == 0, outcome->wrong.front());
    CHECK(outcome->before_us > 0);
    CHECK(outcome->after_us <= outcome->before_us);
    CHECK(outcome->improved == (outcome->after_us < 0.98 * outcome->before_us));
    CHECK(s.prepared > 0);
    CHECK(problem_with(s.kernel, outcome->after, device->machine()) == "");
    const CodegenResult made = generate({.tree = s.site.tree,
                                         .name = "other",
                                         .machine = device->machine(),
                                         .symbols = s.site.symbol_names,
                                         .opts = outcome->after});
    CHECK(program_hash(made.program) == outcome->program);
  }
}

TEST_CASE("a cancelled search ends at once and still says where it stands") {
  Site s(matvec());
  const std::atomic<bool> cancelled = true;
  const auto device = open_device({.threads = 1, .use_cache = false}).take();
  const auto outcome =
      tune_kernel({.site = s.site, .device = *device, .limits = {.seconds = 60}, .cancel = &cancelled});
  REQUIRE(outcome.ok());
  CHECK(outcome->interrupted);
  CHECK_FALSE(outcome->improved);
  CHECK(outcome->after == outcome->before);
}

TEST_CASE("an outcome comes back from a child whole, and a child that dies is an error") {
  TuneOutcome o{.before = {{local("o1", 16)}, {}},
                .after = {{group("r1", 8), task("o1")}, {}},
                .before_us = 3.5,
                .after_us = 2,
                .program = 0xfedcba9876543210,
                .improved = true,
                .kernel = 0x123456789abcdef0,
                .floor_us = 1,
                .counts = {7, 3, 2, 1},
                .wrong = {"local(o1,2): buffer 1, byte 4"},
                .judged_elements = 12,
                .trials = {{.options = "local(o1,16) | none", .estimate_us = 4, .ratio = 1, .problem = {}},
                           {.options = "none | none",
                            .parent = 0,
                            .generation = 1,
                            .estimate_us = 3.25,
                            .ratio = 0.5,
                            .last_ratio = 0.75,
                            .problem = "buffer 1, byte 4"}},
                .winner = 1};
  const auto back = in_child([&]() -> Result<TuneOutcome> { return o; });
  REQUIRE_MESSAGE(back.ok(), back.error().message);
  CHECK(format_outcome(*back) == format_outcome(o));
  CHECK(back->after == o.after);
  CHECK(back->trials.at(1).options == "none | none");
  CHECK(back->trials.at(1).parent == 0);
  CHECK(back->trials.at(1).ratio == 0.5);
  CHECK(back->trials.at(1).problem == "buffer 1, byte 4");
  CHECK(back->winner == 1);
  CHECK(back->program == o.program);
  CHECK(back->kernel == o.kernel);
  const auto refused = in_child([]() -> Result<TuneOutcome> { return Error{"[tune] no"}; });
  CHECK(refused.error().message == "[tune] no");
  const auto dead = in_child([]() -> Result<TuneOutcome> {
    ::raise(SIGKILL);
    return TuneOutcome{};
  });
  REQUIRE_FALSE(dead.ok());
  CHECK(has(dead.error().message, "Killed"));
  CHECK_FALSE(parse_outcome("before_us 1\n").ok());
}

// --- the database

TEST_CASE("the hash of a kernel is the same for every length of context, and only that") {
  const auto tree = [](int64_t most, int64_t width) {
    const Ref n = variable("n", 1, most);
    return kernel_of(sink({output(1, input(0, {Dim(n * 4), width}) * 2.0)}), {{"n", 2}}).tree;
  };
  CHECK(tree(8, 16) == tree(64, 16));  // sizes have room
  CHECK(tree(8, 16) != tree(128, 16));
  CHECK(kernel_hash(tree(8, 16)) == kernel_hash(tree(128, 16)));
  CHECK(kernel_hash(tree(8, 16)) != kernel_hash(tree(8, 32)));
}

TEST_CASE("devices differ by what code generation knows of them") {
  CHECK(device_text(machine_of(*named_target("x86-64-v3"))) != device_text(machine_of(*named_target("x86-64-v4"))));
  CHECK(device_text(*known_machine("zen4")) == "zen4/64/32/x86/vnni/64/64/yes/yes");
  CHECK(device_text(*known_machine("h100")) != device_text(*known_machine("m3-max")));
  CHECK(compiler_text().starts_with("3-llvm-"));
}

TEST_CASE("an entry comes back from its line, and a changed line does not") {
  const TunedEntry e = entry_for(kernel_of(matvec()).tree, {{local("o1", 16), task("o1.0")}});
  const std::string line = format_entry(e);
  const auto back = parse_tuned_entry(line);
  REQUIRE_MESSAGE(back.ok(), back.error().message);
  CHECK(format_entry(*back) == line);
  CHECK(back->opts == e.opts);
  for (size_t at = 0; at < line.size(); ++at) {
    std::string changed = line;
    changed[at] = changed[at] == '1' ? '2' : '1';
    CHECK_FALSE(parse_tuned_entry(changed).ok());
    CHECK_FALSE(parse_tuned_entry(line.substr(0, at)).ok());
  }
  const KernelOpts nests{{}, {local("o1", 16)}, {}};
  CHECK(to_string(nests) == "none | local(o1,16) | none");
  CHECK(*parse_kernel_opts("none | local(o1,16) | none") == nests);
  CHECK_FALSE(parse_kernel_opts("none | ").ok());
}

TEST_CASE("the database keeps one entry a kernel, and what is damaged is told and goes") {
  TempFolder folder;
  const std::string path = folder / "tuned.txt";
  Complaints complaints;
  CHECK(read_tuned(path, complaints.sink()).empty());
  TunedEntry a = entry_for(kernel_of(matvec(16)).tree, {{task("o1")}}),
             b = entry_for(kernel_of(matvec(32)).tree, {{task("o1")}});
  REQUIRE(remember_tuned(path, std::vector{a, b}).ok());
  a.after_us = 1;
  REQUIRE(remember_tuned(path, {&a, 1}).ok());
  auto all = read_tuned(path, complaints.sink());
  REQUIRE(all.size() == 2);
  CHECK(format_entry(all[0]) == format_entry(b));
  CHECK(format_entry(all[1]) == format_entry(a));
  CHECK(complaints.all.empty());

  std::string text = *read_file(path);
  text[text.find("reduce_sum")] = 'R';
  text += "half of a li";
  REQUIRE(publish_file(path, text).ok());
  CHECK(read_tuned(path, complaints.sink()).size() == 1);
  REQUIRE(complaints.all.size() == 2);
  CHECK(has(complaints.all[0], "line 2: it does not have its checksum"));
  CHECK(has(complaints.all[1], "line 4"));

  REQUIRE(forget_tuned(path, {&a, 1}).ok());
  CHECK(read_tuned(path, complaints.sink()).empty());
  CHECK(complaints.all.size() == 2);
  for (const auto& file : std::filesystem::directory_iterator(folder.path()))
    CHECK(file.path().filename().string().starts_with("tuned.txt"));
}

TEST_CASE("a database that cannot be written is an error that names it") {
  TempFolder folder;
  const TunedEntry e = entry_for(kernel_of(matvec()).tree, {{task("o1")}});
  const Status s = remember_tuned(folder / "missing/tuned.txt", {&e, 1});
  REQUIRE_FALSE(s.ok());
  CHECK(has(s.error().message, "missing"));
  // A database that cannot be locked is not written.
  std::filesystem::create_directory(folder / "tuned.txt.lock");
  const Status unlocked = remember_tuned(folder / "tuned.txt", {&e, 1});
  REQUIRE(!unlocked.ok());
  CHECK(unlocked.error().message.find("tuned.txt.lock: cannot be locked") != std::string::npos);
  CHECK(!std::filesystem::exists(folder / "tuned.txt"));
}

TEST_CASE("tuned options are used, but only where they still stand") {
  const Ref tree = kernel_of(matvec()).tree;
  const CodegenRequest request{.tree = tree, .name = "k"};
  const TunedEntry good = entry_for(tree, {{upcast("o1", 2), task("o1.0")}});
  Complaints complaints;
  {
    TunedOptions tuned({&good, 1}, machine_of(host_target()), complaints.sink());
    REQUIRE(tuned.find(tree));
    const auto made = tuned.generate(request);
    REQUIRE(made);
    CHECK(made->opts == good.opts);
    CHECK_FALSE(tuned.generate({.tree = kernel_of(matvec(32)).tree, .name = "k"}));
    CHECK(complaints.all.empty());
  }
  for (const char* change : {"device", "compiler"}) {
    TunedEntry other = good;
    (change == std::string("device") ? other.device : other.compiler) += "x";
    TunedOptions tuned({&other, 1}, machine_of(host_target()), complaints.sink());
    CHECK(tuned.size() == 0);
  }
  {
    TunedEntry illegal = good;
    illegal.opts = {{upcast("o1", 7)}};
    TunedOptions tuned({&illegal, 1}, machine_of(host_target()), complaints.sink());
    CHECK_FALSE(tuned.generate(request));
    CHECK_FALSE(tuned.generate(request));
    REQUIRE(complaints.all.size() == 1);
    CHECK(has(complaints.all[0], "upcast: 7 does not divide axis o1 of 64"));
  }
  {
    TunedEntry outdated = good;
    outdated.program ^= 1;  // code generation makes something else of these options now
    TunedOptions tuned({&outdated, 1}, machine_of(host_target()), complaints.sink());
    CHECK_FALSE(tuned.generate(request));
    CHECK(complaints.all.size() == 1);
    tuned.report_outdated();
    tuned.report_outdated();
    REQUIRE(complaints.all.size() == 2);
    CHECK(has(complaints.all[1], "1 kernel was tuned by a version of smelt that made other code"));
  }
}

TEST_CASE("the compiler takes tuned options instead of the heuristic's") {
  const auto device = open_cpu_device({.threads = 1, .use_cache = false}).take();
  const Ref root = matvec(), tree = make_schedule(root, device->machine()).kernels[0].tree;
  const TunedEntry entry = entry_for(tree, {{upcast("o1", 2), task("o1.0")}}, device->machine());
  Compiler plain(*device, {}), tuned(*device, {});
  tuned.use_tuned(TunedOptions({&entry, 1}, device->machine(), {}));
  plain.add_segment(root);
  tuned.add_segment(root);
  REQUIRE(tuned.finish().ok());
  CHECK(tuned.kernel(0).opts == entry.opts);
  CHECK(plain.kernel(0).opts != entry.opts);
  CHECK(bool(tuned.kernel(0).executable));
}
