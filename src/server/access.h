// Who may ask: API keys, and which names and pages a request may come by.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "server/api_error.h"
#include "server/http.h"

namespace smelt {

struct AccessRules {
  std::vector<std::string> api_keys = {};  // empty: whoever reaches the server may ask
  std::string host = {};                   // by which clients may name the server, besides localhost and addresses
};

// Which of the keys a request has, from 1 on; 0 where everybody may ask; nothing where it has none of them.
std::optional<uint64_t> number_of_key(const AccessRules& rules, const HttpRequest& request);

// A page of another site can neither read answers nor ask; a name that was made to mean this machine is no name of it.
// With a key nobody can ask who does not know it. `is_open`: also to those without a key.
std::optional<ApiError> why_refused(const AccessRules& rules, const HttpRequest& request, bool is_open);

}  // namespace smelt
