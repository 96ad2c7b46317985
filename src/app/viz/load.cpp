#include "app/viz/load.h"

#include "app/profile_data.h"
#include "app/tune_json.h"
#include "app/viz/validate.h"
#include "base/file.h"

namespace smelt {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = uint64_t{256} << 20;

Json empty_recording(Json name, Json device, Json machine, Json threads) {
  Json out = {{"smelt_recording", kRecordingFormat},
              {"name", std::move(name)},
              {"device", std::move(device)},
              {"machine", std::move(machine)},
              {"estimated", false},
              {"threads", std::move(threads)},
              {"strings", {""}}};
  for (const char* key : {"nodes", "kernels", "segments", "plans"}) out[key] = Json::array();
  return out;
}

Result<Json> recording_of_profile(Json profile) {
  if (const auto read = profile_of(profile); !read) return read.error();
  Json out = empty_recording(profile["model"], profile.value("estimated_for", ""), "", profile["machine"]["threads"]);
  out["estimated"] = profile.contains("estimated_for");
  out["profile"] = std::move(profile);
  return out;
}

Result<Json> recording_of_search(const Json& tune) {
  if (tune["smelt_search"] != kSearchFormat)
    return Error{"was saved by another version of smelt; make it again with `smelt tune --json FILE`"};
  const auto field = [&](const char* key) { return tune.value(key, Json()); };
  Json out = empty_recording(field("name"), field("device"), field("machine"), field("threads"));
  out["search"] = field("search");
  return out;
}

bool is_search_alone(const Json& recording) {
  return recording.contains("search") && !recording.contains("profile") && recording["kernels"].empty();
}

}  // namespace

Result<Json> load_recording(const std::string& path) {
  SMELT_TRY(text, read_file(path, kMostBytes));
  Json json = Json::parse(text, nullptr, false);
  const auto wrong = [&](const std::string& what) { return Error{"[viz] " + path + ": " + what}; };
  if (json.is_discarded()) return wrong("is no JSON; make a recording with `smelt viz --json FILE`");
  Result<Json> made = json.is_object() && json.contains("smelt_profile")  ? recording_of_profile(std::move(json))
                      : json.is_object() && json.contains("smelt_search") ? recording_of_search(json)
                                                                          : Result<Json>(std::move(json));
  if (!made) return wrong(made.error().message);
  if (const Status status = check_recording(*made); !status)
    return wrong(status.error().message + "; make a recording with `smelt viz --json FILE`");
  return made;
}

Result<std::vector<Json>> load_recordings(const std::vector<std::string>& paths) {
  std::vector<Json> recordings, searches;
  for (const std::string& path : paths) {
    SMELT_TRY(recording, load_recording(path));
    (is_search_alone(recording) ? searches : recordings).push_back(std::move(recording));
  }
  if (recordings.empty() && !searches.empty()) {
    recordings.push_back(std::move(searches.back()));
    searches.pop_back();
  }
  if (recordings.size() > 2)
    return Error{"[viz] " + std::to_string(recordings.size()) + " recordings: one is shown, or two are compared"};
  for (const Json& search : searches)
    for (Json& recording : recordings)
      for (const Json& kernel : search["search"]) recording["search"].push_back(kernel);
  return recordings;
}

}  // namespace smelt
