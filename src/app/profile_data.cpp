#include "app/profile_data.h"

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kFormat = 1;  // of saved profiles

// One list of fields for both directions.
template <class Kernel, class Visit>
void visit_fields(Kernel& k, Visit visit) {
  visit("name", k.name);
  visit("what", k.what);
  visit("lines", k.lines);
  visit("stage", k.stage);
  visit("options", k.options);
  visit("calls", k.calls);
  visit("seconds", k.seconds);
  visit("waiting_seconds", k.waiting);
  visit("workers", k.workers);
  visit("bytes_read", k.read);
  visit("bytes_written", k.written);
  visit("float_ops", k.float_ops);
  visit("int_ops", k.int_ops);
  visit("byte_ops", k.byte_ops);
  visit("uses_unit", k.uses_unit);
  visit("tasks", k.tasks);
  visit("scalar_share", k.scalar_share);
  visit("gather_share", k.gather_share);
  visit("weight_gather_share", k.weight_gather_share);
  visit("weight_passes", k.weight_passes);
  visit("float_passes", k.float_passes);
  visit("remote_share", k.remote_share);
  visit("serial_share", k.serial_share);
  visit("serial_cycles", k.serial_cycles);
  visit("serial_instructions", k.serial_instructions);
  visit("advice", k.advice);
}

template <class Part, class Visit>
void visit_part(Part& p, Visit visit) {
  visit("name", p.name);
  visit("seconds", p.seconds);
  visit("waiting_seconds", p.waiting);
  visit("bytes", p.bytes);
  visit("calls", p.calls);
}

Json json_of(const ProfiledKernel& kernel) {
  Json out;
  visit_fields(kernel, [&](const char* name, const auto& value) { out[name] = value; });
  return out;
}

Json json_of(const std::vector<ProfiledPart>& parts) {
  Json out = Json::array();
  for (const ProfiledPart& part : parts) {
    Json item;
    visit_part(part, [&](const char* name, const auto& value) { item[name] = value; });
    out.push_back(std::move(item));
  }
  return out;
}

// Fields that profiles of earlier versions lack.
bool is_new(std::string_view name) {
  for (std::string_view known :
       {"lines", "waiting_seconds", "weight_gather_share", "float_passes", "serial_share", "serial_cycles",
        "serial_instructions", "byte_ops", "uses_unit", "remote_share", "workers"})
    if (name == known) return true;
  return false;
}

// These throw where a field is missing or of another type; load_profile() catches it.
std::vector<ProfiledPart> parts_from(const Json& json) {
  std::vector<ProfiledPart> out;
  for (const Json& item : json) {
    ProfiledPart& part = out.emplace_back();
    visit_part(part, [&](const char* name, auto& value) {
      if (item.contains(name) || !is_new(name)) item.at(name).get_to(value);
    });
  }
  return out;
}

ProfiledPlan plan_from(const Json& json) {
  ProfiledPlan plan{.name = json.at("name"), .tokens = json.at("tokens"), .runs = json.at("runs")};
  for (const Json& item : json.at("kernels")) {
    ProfiledKernel& kernel = plan.kernels.emplace_back();
    visit_fields(kernel, [&](const char* name, auto& value) {
      if (item.contains(name) || !is_new(name)) item.at(name).get_to(value);
    });
  }
  plan.stages = parts_from(json.at("stages"));
  plan.layers = parts_from(json.at("layers"));
  plan.waiting = json.value("waiting_of_workers", std::vector<double>());
  return plan;
}

Profile profile_from(const Json& json) {
  Profile profile{.model = json.at("model"), .estimated_for = json.value("estimated_for", "")};
  const Json& machine = json.at("machine");
  profile.machine = {.threads = machine.at("threads"),
                     .cores = machine.value("cores", 1),
                     .bytes_per_second = machine.at("bytes_per_second"),
                     .barrier_seconds = machine.at("barrier_seconds")};
  const double most = machine.at("float_ops_per_second");
  // The others are not in profiles saved before they were measured.
  profile.machine.arithmetic = {.threads = profile.machine.threads,
                                .one_thread = machine.value("float_ops_of_one_thread", 0.0),
                                .least = machine.value("float_ops_at_least", most),
                                .most = most,
                                .bytes = machine.value("byte_ops_per_second", 0.0),
                                .unit = machine.value("unit_ops_per_second", 0.0)};
  for (const Json& plan : json.at("plans")) profile.plans.push_back(plan_from(plan));
  return profile;
}

template <class Field>
double total(const std::vector<ProfiledKernel>& kernels, Field field) {
  double sum = 0;
  for (const ProfiledKernel& k : kernels) sum += field(k);
  return sum;
}

}  // namespace

ArithmeticShare arithmetic_share(const ProfiledKernel& k, const MachineRates& m) {
  if (k.seconds <= 0) return {};
  const char* of_bytes = k.uses_unit ? "unit" : "int8";
  const double rate = k.uses_unit ? m.arithmetic.unit : m.arithmetic.bytes;
  if (k.int_ops > k.float_ops && k.byte_ops <= 0) return {-1, "int"};
  if (k.byte_ops > k.float_ops && rate <= 0) return {-1, of_bytes};
  const double floats = m.arithmetic.most > 0 ? k.float_ops / m.arithmetic.most / k.seconds : 0;
  const double bytes = rate > 0 ? k.byte_ops / rate / k.seconds : 0;
  return bytes > floats ? ArithmeticShare{bytes, of_bytes} : ArithmeticShare{floats, "f32"};
}

double ProfiledPlan::seconds() const {
  return total(kernels, [](const ProfiledKernel& k) { return k.seconds; });
}
double ProfiledPlan::calls() const {
  return total(kernels, [](const ProfiledKernel& k) { return k.calls; });
}
double ProfiledPlan::bytes() const {
  return total(kernels, [](const ProfiledKernel& k) { return k.bytes(); });
}

Json json_of(const Profile& profile) {
  Json out = {{"smelt_profile", kFormat},
              {"model", profile.model},
              {"machine",
               {{"threads", profile.machine.threads},
                {"cores", profile.machine.cores},
                {"bytes_per_second", profile.machine.bytes_per_second},
                {"float_ops_per_second", profile.machine.arithmetic.most},
                {"float_ops_at_least", profile.machine.arithmetic.least},
                {"float_ops_of_one_thread", profile.machine.arithmetic.one_thread},
                {"byte_ops_per_second", profile.machine.arithmetic.bytes},
                {"unit_ops_per_second", profile.machine.arithmetic.unit},
                {"barrier_seconds", profile.machine.barrier_seconds}}},
              {"plans", Json::array()}};
  if (!profile.estimated_for.empty()) out["estimated_for"] = profile.estimated_for;
  for (const ProfiledPlan& plan : profile.plans) {
    Json kernels = Json::array();
    for (const ProfiledKernel& kernel : plan.kernels) kernels.push_back(json_of(kernel));
    out["plans"].push_back({{"name", plan.name},
                            {"tokens", plan.tokens},
                            {"runs", plan.runs},
                            {"seconds", plan.seconds()},
                            {"kernels", std::move(kernels)},
                            {"stages", json_of(plan.stages)},
                            {"layers", json_of(plan.layers)},
                            {"waiting_of_workers", plan.waiting}});
  }
  return out;
}

std::string text_of_profile(const Profile& profile) { return json_of(profile).dump(1) + "\n"; }

Result<Profile> profile_of(const Json& json) {
  const Error wrong{"is not a profile; make one with `smelt profile --json FILE`"};
  if (!json.is_object() || !json.contains("smelt_profile")) return wrong;
  if (json["smelt_profile"] != kFormat) return Error{"was saved by another version of smelt; make it again"};
  try {
    return profile_from(json);
  } catch (const Json::exception&) {
    return wrong;
  }
}

Result<Profile> load_profile(const std::string& path) {
  SMELT_TRY(text, read_file(path));
  auto profile = profile_of(Json::parse(text, nullptr, false));
  if (!profile) return Error{"[profile] " + path + ": " + profile.error().message};
  return profile;
}

}  // namespace smelt
